// The check before a deploy: open turns are replayed against the engines of a program, and nothing is performed or
// written.

import type { Engine, JsonObject, Tool } from "everturn";
import type { HostStorage, OpenTurnReplay } from "everturn/runtime";

import { agentTool, engine, fake, tool } from "everturn";
import { memoryStorage, replayOpenTurns, runtime } from "everturn/runtime";
import { describe, expect, test } from "vitest";

import { latch, says, toolCall } from "../../../test/runtime/sessions.ts";
import { sha256 } from "../rows/digest.ts";
import { readValue, writeValue } from "../rows/stored.ts";

async function check(
  host: HostStorage,
  engines: { readonly [name: string]: Engine },
): Promise<readonly OpenTurnReplay[]> {
  const found: OpenTurnReplay[] = [];
  for await (const report of replayOpenTurns({ host, engines })) found.push(report);
  return found;
}

const named = (name: string, handler: () => string | Promise<string>): Tool =>
  tool({ name, description: "Works.", schema: { type: "object" }, replay: "safe", handler });

/**
 * A storage whose session `s1` has an open turn: a recorded reply, a recorded call of `first`, and an open call of
 * `second`.
 */
async function openTurn(tenant = ""): Promise<HostStorage> {
  const host = memoryStorage();
  const started = latch();
  const never = new Promise<string>(() => undefined);
  const second = named("second", () => {
    started.open();
    return never;
  });
  const adapter = fake({ scripts: [[toolCall("first")], [toolCall("second")]] });
  const agent = engine({ adapter, model: "fake:m", tools: [named("first", () => "ok"), second] });
  const sessions = runtime({ host, engines: { default: agent } });
  await sessions.tenant(tenant).start("go", { id: "s1" });
  await started.passed;
  await sessions.close({ graceMs: 0 });
  return host;
}

/** An engine whose adapter and tools fail the test if they are called. */
function newCode(tools: readonly string[], options: Engine["options"] = {}): Engine {
  const refuse = (): never => {
    throw new Error("a replay must not perform anything");
  };
  return engine({
    adapter: { provider: "fake", stream: refuse },
    model: "fake:other",
    instructions: "changed",
    tools: tools.map((name) => named(name, refuse)),
    options: { hooks: { beforeStep: refuse, afterStep: refuse, afterTurn: refuse }, haltWhen: refuse, ...options },
  });
}

/** A storage that records writes. */
function recording(host: HostStorage): { readonly storage: HostStorage; readonly writes: unknown[] } {
  const writes: unknown[] = [];
  const storage: HostStorage = {
    ...host,
    write: (batch) => {
      writes.push(batch);
      return host.write(batch);
    },
  };
  return { storage, writes };
}

describe("replayOpenTurns", () => {
  test("reports a turn that the code can continue, and neither performs nor writes anything", async () => {
    const { storage, writes } = recording(await openTurn("acme"));
    const found = await check(storage, { default: newCode(["first", "second"]) });
    expect(found).toEqual([
      {
        tenant: "acme",
        sessionId: "s1",
        turnId: expect.stringMatching(/^turn-/),
        engine: "default",
        status: "same",
        rows: expect.any(Number),
        paths: [],
        missing: [],
        message: null,
      },
    ]);
    expect(found[0]?.rows).toBeGreaterThanOrEqual(3);
    expect(writes).toEqual([]);
  });

  test("reports a turn whose recorded effects differ from those of the code, by path", async () => {
    const host = await openTurn();
    const [rows = []] = await host.read([{ table: "journal", prefix: [] }]);
    for (const row of rows) {
      const recorded = readValue("journal", row);
      if (recorded.effect === null || !recorded.effect.includes('"type":"call_tool"')) continue;
      const effect = recorded.effect.replace('"type":"call_tool"', '"extra":1,"type":"call_tool"');
      const value = writeValue("journal", { ...recorded, effect, hash: await sha256(effect) });
      await host.write({ checks: [], removals: [], puts: [{ table: "journal", key: row.key, tag: row.tag, value }] });
    }
    const [found] = await check(host, { default: newCode(["first", "second"]) });
    expect(found).toMatchObject({
      status: "diverged",
      paths: ["extra"],
      message: expect.stringMatching(/^row \d+ of the journal/),
    });
  });

  test("reports engines, tools and executors that the turn has and the code has not", async () => {
    const host = await openTurn();
    const statuses = async (engines: { readonly [name: string]: Engine }) =>
      (await check(host, engines)).map(({ status, missing }) => [status, ...missing]);
    expect(await statuses({ renamed: newCode([]) })).toEqual([["missing", "engine default"]]);
    expect(await statuses({ default: newCode(["second"]) })).toEqual([["missing", "tool first"]]);
    const executor = { name: "none", version: "1", language: "js", run: () => new Promise<never>(() => undefined) };
    const coding = { ...newCode(["first", "second"]), protocol: { type: "code", executor } as const };
    await runtime({ host, engines: { default: coding }, drive: false }).start("go", { id: "s2" });
    expect(await statuses({ default: newCode(["first", "second"]) })).toEqual([["same"], ["missing", "code executor"]]);
  });

  test("reports a turn that cannot be read, and continues with the others", async () => {
    const host = await openTurn();
    const agent = newCode(["first", "second"]);
    await runtime({ host, engines: { default: agent }, drive: false }).start("hi", { id: "s2" });
    const [row] = (await host.read([{ table: "starts", prefix: ["", "s1"] }]))[0] ?? [];
    if (row === undefined) throw new Error("there is no start row");
    await host.write({ checks: [], removals: [], puts: [{ table: "starts", key: row.key, tag: row.tag, value: "{" }] });
    expect((await check(host, { default: agent })).map(({ sessionId, status }) => [sessionId, status])).toEqual([
      ["s1", "unreadable"],
      ["s2", "same"],
    ]);
  });

  test("reads all pages, and leaves ended turns out", async () => {
    const host = memoryStorage();
    const agent = engine({ adapter: fake({ script: [says("done")] }), model: "fake:m" });
    const accepting = runtime({ host, engines: { default: agent }, drive: false });
    for (let index = 0; index < 130; index += 1) {
      await accepting.tenant(`t${index % 3}`).start("hi", { id: `s${index}` });
    }
    await runtime({ host, engines: { default: agent } })
      .tenant("t0")
      .start("hi", { id: "ended" })
      .then(({ result }) => result);
    const found = await check(host, { default: agent });
    expect([found.length, new Set(found.map(({ sessionId }) => sessionId)).size]).toEqual([130, 130]);
    expect(found.some(({ sessionId }) => sessionId === "ended")).toBe(false);
  });

  test("rejects if the storage fails", async () => {
    const host: HostStorage = { ...memoryStorage(), read: () => Promise.reject(new Error("no disk")) };
    await expect(check(host, { default: newCode([]) })).rejects.toThrow("no disk");
  });
});

describe("waiting calls", () => {
  const schema = { type: "object", properties: { euros: { type: "number" } }, required: ["euros"] } as const;
  const asks = (name: string, closed: JsonObject = schema): Tool =>
    tool({ name, description: "Pays.", schema: closed, needsApproval: true, handler: () => "paid" });
  const coding = (...tools: readonly Tool[]) => engine({ adapter: fake({ script: [] }), model: "fake:m", tools });

  /** A storage with sessions of two tenants that wait for `refund`. */
  async function waiting(count = 1): Promise<HostStorage> {
    const host = memoryStorage();
    const script = [{ type: "tool_call", id: "c1", name: "refund", arguments: { euros: 5 } }] as const;
    const scripts = Array.from({ length: count }, () => script);
    const agent = engine({ adapter: fake({ scripts }), model: "fake:m", tools: [asks("refund")] });
    const sessions = runtime({ host, engines: { default: agent } });
    for (let index = 0; index < count; index += 1) {
      const tenant = sessions.tenant(index % 2 === 0 ? "acme" : "globex");
      await (
        await tenant.start("Refund it.", { id: `s${index}` })
      ).result;
    }
    await sessions.close();
    return host;
  }

  test("are reported if the code can run them, and if their tool, their engine or their schema has changed", async () => {
    const { storage, writes } = recording(await waiting());
    const facts = { tenant: "acme", sessionId: "s0", engine: "default", waitingCall: { id: "c1", name: "refund" } };
    const cases: readonly (readonly [{ readonly [name: string]: Engine }, object])[] = [
      [{ default: coding(asks("refund")) }, { status: "same", missing: [], message: null }],
      [{ default: coding(asks("refund_order")) }, { status: "missing", missing: ["tool refund"] }],
      [{ other: coding(asks("refund")) }, { status: "missing", missing: ["engine default"] }],
      [
        { default: coding(asks("refund", { ...schema, required: ["cents"] })) },
        { status: "invalid_arguments", message: expect.stringContaining("refund") },
      ],
    ];
    for (const [engines, expected] of cases) {
      expect(await check(storage, engines)).toMatchObject([{ ...facts, ...expected }]);
    }
    expect(writes).toEqual([]);
  });

  test("of a child agent are checked with the tools of the agent", async () => {
    const host = memoryStorage();
    const boss = (tools: readonly Tool[]) => {
      const script = [{ type: "tool_call", id: "c2", name: "refund", arguments: { euros: 5 } }] as const;
      const inner = engine({ adapter: fake({ script }), model: "fake:m", tools });
      const desk = agentTool({ name: "desk", description: "Works.", engine: inner });
      const call = [{ type: "tool_call", id: "c1", name: "desk", arguments: { task: "x" } }] as const;
      return engine({ adapter: fake({ script: call }), model: "fake:m", tools: [desk] });
    };
    const sessions = runtime({ host, engines: { default: boss([asks("refund")]) } });
    await (
      await sessions.start("Refund it.", { id: "s1" })
    ).result;
    await sessions.close();
    const call = { waitingCall: { id: "c1", name: "refund", parents: ["desk"] } };
    expect(await check(host, { default: boss([asks("refund")]) })).toMatchObject([{ ...call, status: "same" }]);
    expect(await check(host, { default: boss([]) })).toMatchObject([{ ...call, missing: ["tool refund"] }]);
  });

  test("of many sessions are read in pages", async () => {
    const found = await check(await waiting(150), { default: coding() });
    expect(new Set(found.map(({ tenant, sessionId }) => `${tenant}/${sessionId}`)).size).toBe(150);
    expect(found).toHaveLength(150);
  });

  test("that are answered are not reported", async () => {
    const host = await waiting();
    const sessions = runtime({ host, engines: { default: coding(asks("refund")) } });
    await sessions.tenant("acme").decide("s0", "c1", { type: "deny" }, { continue: false });
    await sessions.close();
    expect(await check(host, { default: coding() })).toEqual([]);
  });
});
