// The audit log: rows for decisions, cancels, deletions and exports, in the batch of the act. And the life of
// completion tokens.

import { engine, fake, tool } from "everturn";
import { memoryStorage, runtime } from "everturn/runtime";
import { handClock } from "everturn/testing";
import { expect, test } from "vitest";

import { counting, worker, World } from "../../test/runtime/world.ts";

const pay = tool({
  name: "pay",
  description: "Pays.",
  schema: { type: "object" },
  needsApproval: true,
  handler: () => "paid",
});

function world() {
  const clock = handClock();
  const agent = engine({
    adapter: fake({
      scripts: [
        [{ type: "tool_call", id: "c1", name: "pay", arguments: { secret: "of ada" } }],
        [{ type: "text", text: "Done." }],
      ],
    }),
    model: "fake:m",
    tools: [pay],
    clock,
  });
  const host = memoryStorage({ clock });
  return { clock, host, sessions: runtime({ host, engines: { default: agent }, clock }).tenant("shop") };
}

async function waiting() {
  const made = world();
  await (
    await made.sessions.calledBy("ada").start("pay", { id: "s1" })
  ).result;
  const call = (await made.sessions.get("s1"))?.session.pendingToolCalls[0];
  if (call === undefined) throw new Error("nothing waits");
  return { ...made, call };
}

test("a decision is recorded with who decided and the digest of the call", async () => {
  const { sessions, call } = await waiting();
  const decided = await sessions.actedBy("mia").decide("s1", "c1", { type: "approve", digest: call.digest });
  await decided.result;
  const { items } = await sessions.audit();
  expect(items).toMatchObject([
    { action: "approve", actor: "mia", tenant: "shop", sessionId: "s1", target: "c1", digest: call.digest },
  ]);
  expect(JSON.stringify(items)).not.toContain("of ada");
});

test("a decision that is refused leaves no row, and one that is repeated leaves one", async () => {
  const { sessions, call } = await waiting();
  await expect(sessions.decide("s1", "c1", { type: "approve", digest: "another" })).rejects.toThrow();
  expect((await sessions.audit()).items).toEqual([]);
  const deny = { type: "deny", digest: call.digest, by: "Mia" } as const;
  for (let count = 0; count < 2; count += 1) await (await sessions.decide("s1", "c1", deny, { key: "k" })).result;
  expect((await sessions.audit()).items).toMatchObject([{ action: "deny", actor: "Mia" }]);
});

test("a cancel, an export and a deletion are recorded; the rows outlive the session and the tenant", async () => {
  const { sessions } = await waiting();
  const turnId = (await sessions.get("s1"))?.session.lastRun?.turnId ?? "";
  await sessions.actedBy("ops").exported("s1", turnId);
  expect(await sessions.deleteAll({ owner: "bob" })).toBe(0);
  expect(await sessions.actedBy("ops").deleteAll({ owner: "ada" })).toBe(1);
  expect(await sessions.get("s1")).toBeNull();
  expect((await sessions.audit({ session: "s1" })).items).toMatchObject([
    { action: "delete", actor: "ops", digest: expect.any(String) },
    { action: "export", actor: "ops", target: turnId },
  ]);
});

test("a cancel is recorded once", async () => {
  const { sessions, host } = world();
  const idle = engine({ adapter: fake({ script: [] }), model: "fake:m" });
  const accepting = runtime({ host, engines: { default: idle }, drive: false }).tenant("shop");
  const turn = await accepting.start("hi", { id: "s1" });
  for (let count = 0; count < 2; count += 1) await accepting.actedBy("ops").cancel("s1", { waitMs: 0 });
  expect((await sessions.audit()).items).toMatchObject([{ action: "cancel", actor: "ops", target: turn.turnId }]);
});

test("a message that interrupts a turn is recorded as its cancel", async () => {
  const { sessions, host } = world();
  const idle = engine({ adapter: fake({ script: [] }), model: "fake:m" });
  const accepting = runtime({ host, engines: { default: idle }, drive: false }).tenant("shop");
  const turn = await accepting.start("hi", { id: "s1" });
  const interrupt = { whenBusy: "interrupt", key: "k" } as const;
  for (let count = 0; count < 2; count += 1) await accepting.calledBy("ada").reply("s1", "stop", interrupt);
  await accepting.calledBy("ada").reply("s1", "stop", { whenBusy: "interrupt" });
  expect((await sessions.audit()).items).toMatchObject([{ action: "cancel", actor: "ada", target: turn.turnId }]);
});

test.each(["step", undefined] as const)("a parked turn that is recovered (from: %s) is recorded", async (from) => {
  const stored = new World();
  const look = counting("look", { replay: "safe" });
  const of = stored.engine(worker("look"), { tools: [look.tool] });
  const first = stored.process(of, { diesAfter: (_, count) => count === 4 });
  const { turnId } = await first.start("hi", { id: "s1" });
  await first.died;
  await stored.leaseRunsOut();
  const second = stored.process(of, { maxTakeovers: 1, onTurnFailure: () => undefined });
  await second.recover();
  expect((await second.audit()).items).toEqual([]);
  await second.actedBy("ops").recover("s1", from === undefined ? {} : { from });
  expect((await second.audit()).items).toMatchObject([
    { action: "recover", actor: "ops", sessionId: "s1", target: turnId },
  ]);
});

test("a completion token expires, and names its call", async () => {
  const { sessions, clock } = await waiting();
  const [short, long] = [await sessions.token("s1", "c1", { ttlMs: 60_000 }), await sessions.token("s1", "c1")];
  await clock.advance(60_000);
  const call = { tenant: "shop", sessionId: "s1", toolCallId: "c1" };
  expect(await sessions.complete(short, { type: "approve" })).toEqual({ type: "expired", ...call });
  await clock.advance(6 * 24 * 3_600_000);
  expect(await sessions.complete(long, { type: "approve" })).toMatchObject({ type: "completed", ...call });
  expect(await sessions.complete(long, { type: "approve" })).toEqual({ type: "already_completed", ...call });
  expect((await sessions.audit()).items).toMatchObject([{ action: "approve", actor: "token", target: "c1" }]);
});

test.each([0, -1, Number.NaN, 11 * 365 * 86_400_000])("a token is not made for %d milliseconds", async (ttlMs) => {
  const { sessions } = await waiting();
  await expect(sessions.token("s1", "c1", { ttlMs })).rejects.toThrow(/ttlMs/);
});
