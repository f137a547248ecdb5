import { describe, expect, test } from "vitest";

import { effectOf } from "../../test/turn-fixture.ts";
import { entryOf, parentTurn } from "./child-messages.ts";

const detail = (response: Parameters<typeof entryOf>[2]["item"]) => ({
  ordinal: 1,
  effect: null,
  item: { type: "response", response },
  epoch: 1,
  attempt: 1,
  timing: null,
  records: [],
});
const failure = { type: "runtime_error", reason: "storage_failed", message: "no disk", cause: null } as never;

describe("the messages of a child agent", () => {
  test("are the replies of its model calls and the results of its tools", () => {
    const reply = { type: "model_replied", reply: { message: { role: "assistant", content: "Hello", toolCalls: [] } } };
    const result = { type: "tool_returned", outcome: { type: "success", value: 1 }, content: "1", ranArguments: null };
    const [first] = entryOf("t/0", effectOf(1, "model", 0, [0, 1]), detail(reply));
    expect(first).toMatchObject({ type: "message", turnId: "t/0", ordinal: 1, message: { content: "Hello" } });
    const [second] = entryOf("t/0", effectOf(2, "tool", 0, [0, 1], { toolCallId: "c1" }), detail(result));
    expect(second).toMatchObject({ message: { role: "tool", toolCallId: "c1", content: "1", status: "success" } });
  });

  test("show a failed result with its code, and a failure without a message", () => {
    const denied = {
      type: "tool_returned",
      outcome: { type: "failure", failure: { code: "denied" } },
      content: "no",
      ranArguments: null,
    };
    const [entry] = entryOf(
      "t/0",
      effectOf(1, "tool", 0, [0, 1], { toolCallId: "c1", state: "failed" }),
      detail(denied),
    );
    expect(entry).toMatchObject({ message: { status: "failure", code: "denied" } });
    const failed = effectOf(1, "model", 0, [0, 1], { state: "failed", failure });
    expect(entryOf("t/0", failed, detail({ type: "model_failed" }))).toEqual([
      { type: "failure", turnId: "t/0", ordinal: 1, failure },
    ]);
    expect(entryOf("t/0", effectOf(1, "model", 0, [0, 1]), detail({ type: "unknown" }))).toEqual([]);
  });

  test("belong to a turn inside another one, whose id begins with that of the call", () => {
    expect(parentTurn("turn-1/0/tool/1/child/1/0/0")).toBe("turn-1");
    expect(parentTurn("turn-1/0/tool/1/child/1/0/0/2/tool/0/child/1/0/1")).toBe("turn-1/0/tool/1/child/1/0/0");
  });
});
