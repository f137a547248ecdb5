// The commands of operators: sessions of all tenants, stored keys, repair, and the audit log; and how soon a revoked
// key stops working in three processes.

import type { PostgresServer } from "../../../lib/test/postgres-server.ts";
import type { Place } from "./harness.ts";

import { writeFileSync } from "node:fs";
import { join } from "node:path";

import { engine, fake, tool } from "everturn";
import { runtime } from "everturn/runtime";
import { sqliteStorage } from "everturn/sqlite";
import { afterAll, afterEach, beforeEach, describe, expect, test } from "vitest";

import { startPostgres } from "../../../lib/test/postgres-server.ts";
import { createPlace, ended, says } from "./harness.ts";
import { hasTmux, Tmux } from "./tmux.ts";

let place: Place;
let database: string;
const places: Place[] = [];
beforeEach(() => {
  place = createPlace();
  places.push(place);
  database = join(place.folder, "sessions.db");
});
afterEach(() => {
  for (const { remove } of places.splice(0)) remove();
});

const run = (...argv: readonly string[]) => place.run([...argv, "--database", database, "--no-config"]);

/** Sessions of two tenants and of the one without a name, one of which waits for an approval. */
async function fill(): Promise<void> {
  const pay = tool({
    name: "pay",
    description: "Pays.",
    schema: { type: "object" },
    needsApproval: true,
    handler: () => "paid",
  });
  const host = sqliteStorage({ path: database });
  const text = [{ type: "text", text: "Hello!" } as const];
  const agent = engine({ adapter: fake({ scripts: [text, text, text] }), model: "fake:m" });
  const paying = engine({
    adapter: fake({ script: [{ type: "tool_call", id: "c1", name: "pay", arguments: { euros: 5 } }] }),
    model: "fake:m",
    tools: [pay],
  });
  const sessions = runtime({ host, engines: { default: agent, paying } });
  await (
    await sessions.start("one", { id: "plain" })
  ).result;
  const [shop, bank] = [sessions.tenant("shop"), sessions.tenant("bank")];
  await (
    await shop.calledBy("ada").start("two", { id: "a1", metadata: { case: 17 } })
  ).result;
  await (
    await shop.calledBy("bob").start("three", { id: "pending", engine: "paying" })
  ).result;
  await (
    await bank.calledBy("ada").start("four", { id: "a1" })
  ).result;
  await sessions.close();
  await host.close();
}

const idsOf = (json: string): readonly string[] => {
  const { items }: { readonly items: readonly { readonly tenant: string; readonly id: string }[] } = JSON.parse(json);
  return items.map(({ tenant, id }) => `${tenant}/${id}`).toSorted();
};

test("sessions of all tenants are listed, by tenant, status, user, engine and metadata", async () => {
  await fill();
  expect((await run("sessions")).stdout).toMatch(/TENANT +ID[^]*bank +a1[^]*shop +pending +awaiting_tools \(pay\)/);
  const list = async (...flags: readonly string[]) => idsOf((await run("sessions", "--json", ...flags)).stdout);
  expect(await list()).toEqual(["/plain", "bank/a1", "shop/a1", "shop/pending"]);
  expect(await list("--tenant", "shop")).toEqual(["shop/a1", "shop/pending"]);
  expect(await list("--tenant", "")).toEqual(["/plain"]);
  expect(await list("--status", "waiting")).toEqual(["shop/pending"]);
  expect(await list("--owner", "ada")).toEqual(["bank/a1", "shop/a1"]);
  expect(await list("--of-engine", "paying")).toEqual(["shop/pending"]);
  expect(await list("--metadata", "case=17")).toEqual(["shop/a1"]);
  expect((await run("sessions", "--limit", "2")).stderr).toContain("there are more");
});

test("show and replay find a session in any tenant, and ask for the tenant if there are several", async () => {
  await fill();
  const shown = await run("show", "pend");
  expect(shown.stdout).toMatch(/^session pending of tenant shop/);
  expect(shown.stdout).toMatch(/approve: everturn run --session pending --tenant shop --approve [0-9a-f]/);
  const several = await run("show", "a1");
  expect([several.code, several.stderr]).toEqual([
    2,
    'everturn: sessions of the tenant bank and the tenant shop are called "a1": --tenant names one\n',
  ]);
  expect((await run("show", "a1", "--tenant", "bank")).stdout).toContain("of tenant bank");
  expect((await run("show", "pending", "--tenant", "bank")).code).toBe(2);
  expect((await run("replay", "a1", "--tenant", "shop")).stdout).toContain("identical to the record");
  expect((await run("replay", "pending")).code).toBe(0);
});

test("sessions of a user and of a tenant are deleted with their keys, and the audit log keeps who did it", async () => {
  await fill();
  const created = await run("keys", "create", "ada", "--tenant", "shop", "--scope", "read", "--expires", "30d");
  expect([created.code, created.stdout]).toEqual([0, expect.stringMatching(/^evk_[0-9a-f]{16}_[0-9a-f]{64}\n$/)]);
  expect((await run("keys")).stdout).toMatch(/ada +shop +read +all +expires in 29d/);
  expect((await run("sessions", "delete", "--owner", "ada")).code).toBe(2);
  const deleted = await run("sessions", "delete", "--tenant", "shop", "--owner", "ada");
  expect(deleted.stderr).toBe("deleted 1 session, revoked 1 key\n");
  expect(idsOf((await run("sessions", "--json")).stdout)).toEqual(["/plain", "bank/a1", "shop/pending"]);
  expect((await run("sessions", "delete", "a1")).stderr).toBe("deleted a1\n");
  await run("sessions", "delete", "--tenant", "shop", "--all");
  expect(idsOf((await run("sessions", "--json")).stdout)).toEqual(["/plain"]);
  const { items } = JSON.parse((await run("audit", "--json")).stdout);
  expect(items).toMatchObject([
    { action: "delete", tenant: "shop", sessionId: "pending" },
    { action: "delete", tenant: "bank", sessionId: "a1" },
    { action: "key_revoke", tenant: "shop" },
    { action: "delete", tenant: "shop", sessionId: "a1", actor: expect.stringMatching(/^command of /) },
    { action: "key_create", tenant: "shop" },
  ]);
  const exported = await run("audit", "--export", "-", "--tenant", "bank");
  expect(
    exported.stdout
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line)),
  ).toMatchObject([{ action: "delete" }]);
});

test("keys are rotated and revoked, and wrong flags are refused", async () => {
  await run("keys", "create", "ops", "--operator", "--context", '{"team":1}');
  const { items } = JSON.parse((await run("keys", "--json")).stdout);
  expect(items).toMatchObject([{ name: "ops", tenant: null, operator: true, context: { team: 1 } }]);
  const rotated = JSON.parse((await run("keys", "rotate", items[0].id, "--json")).stdout);
  expect(rotated.key).toMatchObject({ name: "ops", operator: true });
  expect((await run("keys", "revoke", rotated.key.id)).stderr).toBe(`revoked ${rotated.key.id}\n`);
  const states = JSON.parse((await run("keys", "--json")).stdout).items.map(({ state }: { state: string }) => state);
  expect(states).toEqual(["revoked", "revoked"]);
  expect((await run("keys", "revoke", "no-such-key")).code).toBe(2);
  for (const flags of [
    ["--scope", "all"],
    ["--scope", "admin"],
    ["--expires", "soon"],
    ["--context", "1"],
  ])
    expect((await run("keys", "create", "x", ...flags)).code).toBe(2);
});

test("a turn that no process drives is cancelled", async () => {
  const host = sqliteStorage({ path: database });
  const idle = engine({ adapter: fake({ script: [] }), model: "fake:m" });
  const sessions = runtime({ host, engines: { gone: idle, default: idle }, drive: false });
  await sessions.tenant("shop").start("hi", { id: "stuck", engine: "gone" });
  await sessions.close();
  await host.close();
  const open = await run("recover", "stuck");
  expect([open.code, open.stderr]).toEqual([1, expect.stringContaining("everturn cancel stuck --tenant shop ends it")]);
  expect(await run("cancel", "stuck", "--reason", "no engine")).toMatchObject({
    code: 0,
    stderr: "the turn is cancelled\n",
  });
  expect((await run("cancel", "stuck")).code).toBe(1);
  expect((await run("audit", "--session", "stuck")).stdout).toMatch(/cancel +command of/);
});

test("a compaction is requested, shown and undone", async () => {
  const host = sqliteStorage({ path: database });
  const scripts = ["Hello.", "Ada said hello.", "I know."].map((text) => [{ type: "text", text } as const]);
  const agent = engine({ adapter: fake({ scripts }), model: "fake:m", contextPolicy: { window: 32_000 } });
  const sessions = runtime({ host, engines: { long: agent } });
  await (
    await sessions.start("Hello, I am Ada.", { id: "long", engine: "long" })
  ).result;
  expect((await run("compact", "long", "--undo")).stderr).toContain("session long has no frame");
  expect(await run("compact", "lon", "--keep", "names")).toMatchObject({
    code: 0,
    stderr: "the next turn of session long begins with a summary; everturn compact long --undo withdraws it\n",
  });
  expect((await run("show", "long")).stdout).toContain("the next turn begins with a summary of the older messages");
  await (
    await sessions.reply("long", "Who am I?")
  ).result;
  await sessions.close();
  await host.close();
  expect((await run("show", "long")).stdout).toContain(
    "requests have a summary in place of the first 2 messages: Ada said hello.",
  );
  expect((await run("compact", "long", "--undo")).stderr).toBe(
    "undone: the next request has all messages of session long\n",
  );
  expect((await run("audit", "--session", "long")).stdout).toMatch(
    /undo_compaction +command of[\s\S]*compact +command of/,
  );
});

test("an operator finds, explains and repairs a stuck turn of a tenant with the command alone", async () => {
  const tools = join(place.folder, "tools.mjs");
  // A tool that ends its process, and the tool after the deploy that repairs it.
  const toolFile = (body: string): void =>
    writeFileSync(
      tools,
      `import { tool } from ${JSON.stringify(new URL("../../../lib/dist/index.js", import.meta.url).href)};
export const book = tool({
  name: "book",
  description: "Books a parcel.",
  schema: { type: "object", properties: {} },
  replay: "safe",
  handler: () => ${body},
});`,
    );
  toolFile('process.kill(process.pid, "SIGKILL")');
  const config = join(place.folder, "everturn.config.mjs");
  writeFileSync(config, "export default { runtime: { maxTakeovers: 1 } };");
  const flags = ["--database", database, "--config", config, "--tools", tools];
  const order = ["run", "--no-stdin", "--session", "order-17", "--tenant", "shop", "Please use book for order 17."];
  const died = await ended(place.start([...order, ...flags]));
  expect(died, died.stderr).toMatchObject({ signal: "SIGKILL" });
  // A worker takes the turn over, and parks it: its process has ended without a result.
  const worker = (): ReturnType<Place["start"]> => place.start(["work", ...flags]);
  const parking = worker();
  const list = async (...more: readonly string[]) => (await run("sessions", ...more)).stdout;
  await expect.poll(() => list("--status", "parked"), { timeout: 60_000 }).toMatch(/shop +order-17 +parked/);
  parking.kill("SIGTERM");
  const transcript = [
    await list("--status", "parked"),
    (await run("show", "order-17")).stdout,
    (toolFile('"booked"'), (await run("recover", "order-17", "--from-step")).stderr),
  ];
  const repaired = worker();
  await expect.poll(() => list("--tenant", "shop"), { timeout: 60_000 }).toMatch(/order-17 +completed/);
  repaired.kill("SIGTERM");
  transcript.push(await list("--tenant", "shop"), (await run("show", "order-17")).stdout);
  const [, explained, recovered, , after] = transcript;
  expect(explained).toMatch(/parked: takeover_limit: .*blocked in the call "book" of step 1;/);
  expect(explained).toContain("restart its step: everturn recover order-17 --tenant shop --from-step");
  expect(recovered).toMatch(/goes on with its step: a worker drives it/);
  expect(after).toMatch(/book/);
}, 120_000);

describe("a revoked key", () => {
  let postgres: PostgresServer | null = null;
  afterAll(async () => postgres?.close());

  test.each(["SQLite", "Postgres"])(
    "stops working within a second in three processes on %s",
    async (driver) => {
      if (driver === "Postgres") {
        postgres = await startPostgres();
        database = await postgres.createDatabase();
      }
      const flags = ["--database", database, "--no-config"];
      const [, id = ""] = /^evk_([0-9a-f]+)_/.exec((await run("keys", "create", "spare")).stdout) ?? [];
      const token = (await run("keys", "create", "ada", "--tenant", "shop")).stdout.trim();
      const key = /^evk_([0-9a-f]+)_/.exec(token)?.[1] ?? "";
      const ready = Array.from({ length: 3 }, () => {
        const server = place.start(["serve", "--port", "0", ...flags], { EVERTURN_TOKEN: "the-token-of-the-operator" });
        return says(server.stdout, /listens on (http:\S+)/);
      });
      const urls = (await Promise.all(ready)).map((text) => /listens on (http:\S+)/.exec(text)?.[1] ?? "");
      const headers = { authorization: `Bearer ${token}` };
      const statuses = () => Promise.all(urls.map(async (url) => (await fetch(`${url}/sessions`, { headers })).status));
      expect(await statuses()).toEqual([200, 200, 200]);
      const body = JSON.stringify({ input: "hi", id: "s1" });
      const json = { ...headers, "content-type": "application/json", prefer: "wait=20" };
      expect((await fetch(`${urls[0]}/sessions`, { method: "POST", headers: json, body })).status).toBe(200);
      const streams = await Promise.all(urls.map((url) => fetch(`${url}/sessions/s1/events`, { headers })));
      expect(streams.map(({ status }) => status)).toEqual([200, 200, 200]);
      const ended = Promise.all(streams.map((stream) => stream.text()));
      // Another key has no influence.
      await run("keys", "revoke", id);
      expect(await statuses()).toEqual([200, 200, 200]);
      await run("keys", "revoke", key);
      const revokedAt = performance.now();
      expect(await statuses()).toEqual([401, 401, 401]);
      const requestMs = performance.now() - revokedAt;
      await ended;
      const streamMs = performance.now() - revokedAt;
      // The keys of open requests are read twice a second. A busy machine delays the timers as it delays requests.
      expect(streamMs).toBeLessThan(1500 + 20 * requestMs);
    },
    120_000,
  );
});

test("run acts in a tenant, and the commands that it suggests name it", async () => {
  const send = (...argv: readonly string[]) => run("run", "--no-stdin", "--model", "offline:demo", ...argv);
  const waits = await send("--session", "s1", "--tenant", "shop", "use launch");
  expect(waits.stderr).toMatch(/approve: everturn run --session s1 --tenant shop --approve [0-9a-f]/);
  expect(waits.stderr).toContain("deny: everturn run --session s1 --tenant shop --deny");
  const refused = await send("--session", "s1", "--tenant", "shop", "hello");
  expect([refused.code, refused.stderr]).toEqual([
    2,
    expect.stringMatching(/everturn show s1 --tenant shop prints.*everturn chat --session s1 --tenant shop asks/),
  ]);
  expect((await send("--session", "s1", "--tenant", "shop", "--deny")).code).toBe(0);
  expect(idsOf((await run("sessions", "--json")).stdout)).toEqual(["shop/s1"]);
});

describe.skipIf(!hasTmux)("chat in a real terminal (skipped without tmux)", () => {
  const tmux = new Tmux();
  afterAll(() => tmux.end());

  test("acts in the tenant, and the command that continues it names the tenant", async () => {
    await fill();
    const { folder } = place;
    const flags = ["--model", "offline:demo", "--database", database, "--no-config"];
    const environment = { EVERTURN_OFFLINE_PACE: "0" };
    const chatIn = async (...more: readonly string[]) => {
      const pane = tmux.open(["chat", "--tenant", "shop", ...flags, ...more], { folder, width: 200, environment });
      await pane.until(/everturn chat · offline:demo[^]*\n›$/);
      return pane;
    };
    const first = await chatIn();
    first.say("good morning");
    await first.until(/You said: good morning[^]* in, [^]*\n›$/);
    first.say("/sessions");
    const listed = await first.until(/pending[^]*\n›$/);
    expect(listed).not.toContain("plain");
    first.press("C-d");
    const left = await first.until(/exit code 0/);
    const [, id = ""] = /everturn chat --session (\S+) --tenant shop/.exec(left) ?? [];
    expect(id).toMatch(/^session-/);
    // The session that changed last in the tenant, although another tenant has a newer one.
    expect((await run("run", "--no-stdin", "--model", "offline:demo", "--tenant", "bank", "hello")).code).toBe(0);
    const again = await chatIn("--continue");
    expect(await again.until(/› good morning[^]*\n›$/)).toContain(`Session ${id}`);
    again.press("C-d");
    await again.until(/exit code 0/);
    expect(idsOf((await run("sessions", "--json", "--tenant", "shop")).stdout)).toContain(`shop/${id}`);
  });
});
