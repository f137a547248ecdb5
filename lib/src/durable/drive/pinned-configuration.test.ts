// The configuration that a turn is pinned to: a deploy changes the next turn and not the open one.

import { engine, fake } from "everturn";
import { memoryStorage } from "everturn/runtime";
import { describe, expect, test } from "vitest";

import { says, sessionsOf, toolCall, workTool } from "../../../test/runtime/sessions.ts";

describe("a deploy while a turn is open", () => {
  test.each([
    ["budgets", { budgets: { steps: 1 } }],
    ["toolTimeout", { toolTimeout: 1 }],
    ["maxToolResultLength", { maxToolResultLength: 1 }],
    ["onToolError", { onToolError: "halt" }],
    ["structuredFinalize", { structuredFinalize: true }],
  ] as const)("does not apply %s of the new engine to the open turn", async (_, options) => {
    const host = memoryStorage();
    const before = engine({ adapter: fake({ scripts: [] }), model: "fake:m", tools: [workTool(() => "a result")] });
    const accepts = sessionsOf(before, { host, drive: false });
    const turn = await accepts.start("go", { id: "s" });
    const adapter = fake({ scripts: [[toolCall("work")], [says("done")]] });
    const after = engine({ adapter, model: "fake:m", tools: [workTool(() => "a result")], options });
    await sessionsOf(after, { host }).recover();
    expect(await turn.result).toMatchObject({ text: "done", haltedReason: "completed" });
    const toolMessage = (await accepts.get("s"))?.session.thread.messages[2];
    expect(toolMessage?.content).toBe("a result");
  });
});
