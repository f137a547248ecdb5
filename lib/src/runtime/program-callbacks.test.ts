// Functions of the program that a turn calls: hooks and `onCheckpoint`.

import { engine, fake, tool } from "everturn";
import { describe, expect, test } from "vitest";

import { says, sessionsOf, toolCall, workTool } from "../../test/runtime/sessions.ts";

describe("callbacks of the program", () => {
  test("an afterStep hook that throws ends the turn with callback_failed, and no further model call is made", async () => {
    const adapter = fake({ scripts: [[toolCall("work")], [says("never")], [says("again")]] });
    const hooks = {
      afterStep: () => {
        throw new Error("no");
      },
    };
    const sessions = sessionsOf(engine({ adapter, tools: [workTool(() => "ok")], options: { hooks } }));
    const end = await (await sessions.start("go", { id: "s" })).result;
    expect(end).toMatchObject({ haltedReason: "error", failure: { reason: "callback_failed" } });
    expect(adapter.calls).toHaveLength(1);
    expect(await sessions.recover("s")).toMatchObject({ usable: true });
  });

  test("onCheckpoint is called for the turn and for the child turns of its tools", async () => {
    const asked: string[] = [];
    const onCheckpoint = ({ checkpoint }: { readonly checkpoint: string }) => {
      asked.push(checkpoint);
      return null;
    };
    const inner = engine({ adapter: fake({ scripts: [[says("inner")]] }), options: { onCheckpoint } });
    const delegate = tool({
      name: "work",
      description: "Delegates.",
      schema: { type: "object" },
      replay: "safe",
      handler: async (_, { runChild }) => (await runChild(inner, "do it")).haltedReason,
    });
    const adapter = fake({ scripts: [[toolCall("work")], [says("done")]] });
    await (
      await sessionsOf(engine({ adapter, tools: [delegate], options: { onCheckpoint } })).start("go")
    ).result;
    expect(asked).toEqual(["before_completion", "after_work", "before_completion"]);
  });
});
