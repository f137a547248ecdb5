// A database with every kind of work that a release can leave: open, waiting, parked and queued turns, turns over a
// limit, a deadline, and turns that ended before and after a retention time was set. Only public names are used, so the
// script also runs in the checkout of an older release.

import type { HostStorage, RuntimeOptions } from "everturn/runtime";

import { createHash } from "node:crypto";

import { engine, fake, tool } from "everturn";
import { runtime } from "everturn/runtime";

/** The tenant whose turns have a limit of one at a time. */
export const limitedTenant = "limited";
export const limits = { perTenant: { concurrency: 1 } } as const;

/** How long the sessions of the museum wait for an approval with a deadline, in milliseconds. */
const deadlineMs = 200;

/**
 * A process. A message that names a tool makes the model call it. `pay` has to be approved, and `work` never returns
 * with `hangs`.
 */
export function museumProcess(
  host: HostStorage,
  { hangs = false, ...options }: Partial<RuntimeOptions> & { readonly hangs?: boolean } = {},
) {
  const schema = { type: "object" } as const;
  const work = tool({
    name: "work",
    description: "Works.",
    schema,
    replay: "safe",
    handler: () => (hangs ? new Promise<string>(() => undefined) : "worked"),
  });
  const pay = tool({ name: "pay", description: "Pays.", schema, needsApproval: true, handler: () => "paid" });
  const adapter = {
    provider: "fake",
    stream: (...[request, call]: Parameters<ReturnType<typeof fake>["stream"]>) => {
      const last = request.messages.at(-1);
      const text = typeof last?.content === "string" ? last.content : "";
      const script =
        last?.role === "user" && (text === "work" || text === "pay")
          ? ([{ type: "tool_call", id: "c1", name: text, arguments: {} }] as const)
          : ([{ type: "text", text: "Done." }] as const);
      return fake({ script }).stream(request, call);
    },
  };
  const engines = { default: engine({ adapter, model: "fake:m", tools: [work, pay] }) };
  return runtime({ host, engines, live: false, ...options });
}

/** A storage for a process that can be killed: then it reads and writes nothing more, and its leases expire. */
export function killable(host: HostStorage) {
  let isOver = false;
  const stopped = new Promise<never>(() => undefined);
  const storage: HostStorage = {
    ...host,
    read: (queries) => (isOver ? stopped : host.read(queries)),
    write: (batch) => (isOver ? stopped : host.write(batch)),
  };
  const kill = async () => {
    isOver = true;
    const leases = (await host.read([{ table: "leases", prefix: [] }])).flat();
    const puts = leases.map(({ key, tag, value }) => ({ table: "leases", key, tag, value, ttlMs: 0 }) as const);
    await host.write({ checks: [], removals: [], puts });
  };
  return { storage, kill };
}

/** Leaves the sessions in a new database. */
export async function leave(host: HostStorage): Promise<void> {
  await (
    await museumProcess(host).start("hi", { id: "ended" })
  ).result;
  const { storage, kill } = killable(host);
  const first = museumProcess(storage, { hangs: true, retentionMs: 500 });
  await (
    await first.start("hi", { id: "ended with retention" })
  ).result;
  await (
    await first.start("pay", { id: "waiting" })
  ).result;
  await (
    await first.start("pay", { id: "waiting with a deadline", waits: { approval: { afterMs: deadlineMs } } })
  ).result;
  await first.start("work", { id: "parked" });
  await first.start("work", { id: "open" });
  await museumProcess(host, { drive: false }).send("open", "hi", { key: "queued", whenBusy: "queue" });
  await museumProcess(host, { drive: false }).start("hi", { id: "accepted" });
  const limited = museumProcess(storage, { hangs: true, limits }).tenant(limitedTenant);
  for (const id of ["limited", "over the limit", "over the limit, too"]) await limited.start("work", { id });
  // Their models have replied, and their tools run.
  for (const id of ["open", "parked"]) await until(async () => (await rowsOf(host, id)).length > 0);
  await kill();
  await park(host);
}

/** Parks the turn of the session: the stored effect is another one, as after an incompatible deploy. */
async function park(host: HostStorage): Promise<void> {
  const row = (await rowsOf(host, "parked")).at(-1);
  if (row === undefined) throw new Error("the session has no journal");
  const { version, data } = JSON.parse(row.value);
  const effect: string = data.effect.replace('"useTools":true', '"useTools":false');
  if (effect === data.effect) throw new Error("the recorded effect did not change");
  const hash = createHash("sha256").update(effect).digest("hex");
  const value = JSON.stringify({ version, data: { ...data, effect, hash } });
  await host.write({ checks: [], removals: [], puts: [{ ...row, table: "journal", value }] });
  const { storage, kill } = killable(host);
  const sessions = museumProcess(storage);
  await sessions.recover("parked");
  await until(async () => (await sessions.get("parked"))?.openTurn?.status === "parked");
  await kill();
}

async function rowsOf(host: HostStorage, id: string) {
  return (await host.read([{ table: "journal", prefix: ["", id] }])).flat();
}

/** Waits until a condition is true. */
async function until(condition: () => Promise<boolean>): Promise<void> {
  for (let round = 0; round < 600; round += 1) {
    if (await condition()) return;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error("the database did not get into its state within 30 seconds");
}
