// The check before a deploy: open turns are replayed against the engines of a program, and nothing is performed or written.

import type { Engine, Tool } from "everturn";
import type { HostStorage, OpenTurnReplay } from "everturn/runtime";

import { engine, fake, tool } from "everturn";
import { memoryStorage } from "everturn/host/memory";
import { replayOpenTurns, runtime } from "everturn/runtime";
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

/** A storage whose session `s1` has an open turn: a recorded reply, a recorded call of `first`, and an open call of `second`. */
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
