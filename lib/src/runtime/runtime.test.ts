// The options of `runtime`, and that callers cannot change stored data through the values they get.

import { engine, fake, tool } from "everturn";
import { describe, expect, test } from "vitest";

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
