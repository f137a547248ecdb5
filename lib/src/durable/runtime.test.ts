// The options of `runtime`, and that callers cannot change stored data through the values they get.

import type { CodeExecutor } from "everturn/advanced";

import { engine, fake, tool } from "everturn";
import { memoryStorage, runtime } from "everturn/runtime";
import { describe, expect, test } from "vitest";

import { handModel } from "../../test/hand-model.ts";
import { says, sessionsOf, toolCall } from "../../test/runtime/sessions.ts";

describe("invalid options", () => {
  const of = engine({ adapter: fake({ scripts: [] }) });
  test.each([
    ["retentionMs", { retentionMs: Number.NaN }],
    ["retentionMs", { retentionMs: -1 }],
    ["lease", { lease: { ttlMs: 1e300, renewMs: 1 } }],
    ["lease", { lease: { ttlMs: 10, renewMs: 5 } }],
    ["lease", { lease: { ttlMs: Number.NaN } }],
  ])("%s: %j throws MisuseError when the runtime is built", (name, options) => {
    expect(() => sessionsOf(of, options)).toThrow(expect.objectContaining({ name: "MisuseError", path: [name] }));
  });

  test("recover rejects a value of from other than step", async () => {
    const sessions = sessionsOf(engine({ adapter: fake({ scripts: [[says("one")]] }) }));
    await (
      await sessions.start("go", { id: "s" })
    ).result;
    const wrong: { readonly from?: "step" } = JSON.parse('{"from":"start"}');
    await expect(sessions.recover("s", wrong)).rejects.toThrow(/from must be "step", not start/);
  });
});

describe("a turn in its first model call", () => {
  test("is reported as running, and a turn that no process drives as queued", async () => {
    const model = handModel();
    const host = memoryStorage();
    const engines = { default: engine({ adapter: model, model: "hand:m" }) };
    const accepting = runtime({ host, engines, drive: false });
    const turn = await accepting.start("go", { id: "s" });
    expect((await accepting.get("s"))?.openTurn).toMatchObject({ turnId: turn.turnId, status: "queued" });
    const other = await accepting.start("go", { id: "other" });
    await accepting.cancel("other", { waitMs: 0 });
    expect((await accepting.list()).items.map(({ id, turnStatus }) => [id, turnStatus])).toContainEqual([
      "s",
      "queued",
    ]);
    const driving = runtime({ host, engines });
    await driving.recover();
    const call = await model.call(1);
    expect((await other.result).haltedReason).toBe("cancelled");
    for (const sessions of [accepting, driving]) {
      expect((await sessions.get("s"))?.openTurn).toMatchObject({ status: "running", step: 0 });
      const listed = Object.fromEntries((await sessions.list()).items.map(({ id, turnStatus }) => [id, turnStatus]));
      expect(listed).toEqual({ s: "running", other: null });
    }
    call.finish();
    expect((await turn.result).session).toMatchObject({ status: "completed", turnId: null, turnStatus: null });
    expect((await driving.get("s"))?.openTurn).toBeNull();
    await driving.close();
  });

  test("that is cancelled has the received text as its result", async () => {
    const model = handModel();
    const look = tool({ name: "look", description: "Looks.", schema: { type: "object" }, handler: () => "seen" });
    const sessions = sessionsOf(engine({ adapter: model, model: "hand:m", tools: [look] }));
    const turn = await sessions.start("go", { id: "s" });
    (await model.call(1)).callTool("look");
    await (await model.call(2)).say("Half an ans");
    expect(await sessions.cancel("s")).toBe("cancelled");
    expect(await turn.result).toMatchObject({ text: "Half an ans", haltedReason: "cancelled" });
    const next = await sessions.reply("s", "again");
    await model.call(3);
    await sessions.cancel("s");
    expect(await next.result).toMatchObject({ text: "", haltedReason: "cancelled" });
  });
});

describe("values that callers receive", () => {
  test("a tool handler cannot change the context of the session", async () => {
    const change = tool({
      name: "work",
      description: "Changes its context.",
      schema: { type: "object" },
      handler: (_, { context }) => Reflect.set(context, "n", 2),
    });
    const adapter = fake({ scripts: [[toolCall("work")], [says("done")]] });
    const sessions = sessionsOf(engine({ adapter, tools: [change] }));
    await (
      await sessions.start("go", { id: "s", context: { n: 1 } })
    ).result;
    expect((await sessions.get("s"))?.session).toMatchObject({ context: { n: 1 } });
    expect((await sessions.get("s"))?.session.thread.messages[2]?.content).toBe("false");
  });

  test("a message returned by get cannot be changed for the next turn", async () => {
    const adapter = fake({ scripts: [[says("one")], [says("two")]] });
    const sessions = sessionsOf(engine({ adapter, model: "fake:m" }));
    await (
      await sessions.start("go", { id: "s" })
    ).result;
    const [message] = (await sessions.get("s"))?.session.thread.messages ?? [];
    expect(Reflect.set(message ?? {}, "content", "changed")).toBe(false);
    await (
      await sessions.reply("s", "more")
    ).result;
    expect(JSON.stringify(adapter.calls[1]?.request.messages)).not.toContain("changed");
  });
});

test("a code executor is told the tenant of each cell, also of a child turn", async () => {
  const tenants: (string | undefined)[] = [];
  const executor: CodeExecutor = {
    name: "recording",
    version: "1",
    language: "js",
    run: async ({ tenant }) => {
      tenants.push(tenant);
      return { type: "finished", observations: [], error: null, finish: { type: "value", value: 1 } };
    },
  };
  const coder = () =>
    engine({
      adapter: fake({ scripts: [[says("```js\nfinish(1)\n```")]] }),
      model: "fake:m",
      protocol: { type: "code", executor },
    });
  const delegate = tool({
    name: "delegate",
    description: "Lets another engine work.",
    schema: { type: "object" },
    handler: async (_, { runChild }) => (await runChild(coder(), "go")).haltedReason,
  });
  const parent = engine({ adapter: fake({ scripts: [[toolCall("delegate")], [says("done")]] }), tools: [delegate] });
  const sessions = runtime({ host: memoryStorage(), engines: { default: coder(), parent } });
  await (
    await sessions.tenant("ada").start("go")
  ).result;
  await (
    await sessions.tenant("bob").start("go", { engine: "parent" })
  ).result;
  expect(tenants).toEqual(["ada", "bob"]);
});
