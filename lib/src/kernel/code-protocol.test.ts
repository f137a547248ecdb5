// The code protocol as stories.

import { codeProtocol, historyMessages, pendingEffects, projectRequest } from "everturn/kernel";
import { messageText, toolCall, user } from "everturn/model";
import { describe, expect, test } from "vitest";

import { config, delivered, input, replied, result, says, transcript } from "../../test/turns.ts";

const coding = config({}, { protocolDriver: codeProtocol() });
const cell = (code: string) => says(`Let me see.\n\`\`\`javascript\n${code}\n\`\`\``);
const finished = (
  id: string,
  rest: { observations?: readonly string[]; error?: string | null; finish?: { value: number } | null } = {},
) => ({ type: "code_finished", id, observations: [], error: null, finish: null, ...rest }) as const;
const lines = (...story: Parameters<typeof transcript>) => transcript(...story).lines;

describe("[lash 46] cells", () => {
  test("run, what they print goes back, and words without a cell end the turn", () => {
    const { lines: told, turn } = transcript(coding, input(), [
      replied("t/0/model", cell("print(1 + 1)")),
      finished("t/0/code/0", { observations: ["2"] }),
      delivered("t/1/after_work"),
      replied("t/1/model", says("It is 2.")),
      delivered("t/1/before_completion"),
    ]);
    expect(told).toEqual([
      "! progress 0: user",
      "> 0/model",
      "< model_replied 0/model",
      "! progress 0: assistant",
      "> 0/code/0",
      "< code_finished 0/code/0",
      "! progress 1: system | step",
      "> 1/after_work",
      "< checkpoint_delivered 1/after_work",
      "> 1/model",
      "< model_replied 1/model",
      "! progress 1: assistant | step",
      "> 1/before_completion",
      "< checkpoint_delivered 1/before_completion",
      "= assistant_message",
    ]);
    expect(historyMessages(turn.history)[2]).toMatchObject({ content: [{ text: "2", kind: "output" }] });
  });

  test("get no native tools, and are handed out as they were written", () => {
    const { turn } = transcript(coding, input(), []);
    expect(projectRequest(coding, turn)).toMatchObject({ tools: [], toolChoice: "none" });
    const running = transcript(coding, input(), [replied("t/0/model", cell("a\n\nb"))]).turn;
    expect(pendingEffects(running)).toEqual([
      { type: "run_code", id: "t/0/code/0", language: "javascript", cellId: "t/0/cell", code: "a\n\nb", answers: 0 },
    ]);
  });

  test("call tools as effects of their own, and run again with the answers", () => {
    const asks = (id: string, ...names: readonly string[]) =>
      ({
        type: "code_calls",
        id,
        calls: names.map((name, index) => toolCall({ id: `k${index}`, name, arguments: {} })),
      }) as const;
    const told = lines(coding, input(), [
      replied("t/0/model", cell("weather()")),
      asks("t/0/code/0", "weather", "clock"),
      result("t/0/tool/1", "noon"),
      result("t/0/tool/0", "sunny"),
      asks("t/0/code/2", "weather"),
      result("t/0/tool/2", "rain"),
      finished("t/0/code/3", { finish: { value: 42 } }),
      delivered("t/0/before_completion"),
    ]);
    expect(told.filter((line) => line.startsWith(">") || line.startsWith("="))).toEqual([
      "> 0/model",
      "> 0/code/0",
      "> 0/tool/0, 0/tool/1",
      "> 0/tool/0",
      "> 0/code/2",
      "> 0/tool/2",
      "> 0/code/3",
      "> 0/before_completion",
      "= final_value",
    ]);
  });

  test("that fail, or print an error, are told to the model", () => {
    for (const end of [
      { type: "code_failed", id: "t/0/code/0", message: "boom" } as const,
      finished("t/0/code/0", { error: "boom" }),
    ]) {
      const { turn } = transcript(coding, input(), [replied("t/0/model", cell("x")), end]);
      expect(historyMessages(turn.history).at(-1)).toMatchObject({ content: [{ text: "boom", kind: "error" }] });
    }
  });

  test("in a crowd are not run, and cells of another language are not cells", () => {
    const two = says("```javascript\na\n```\n```\nb\n```");
    const crowd = transcript(coding, input(), [replied("t/0/model", two)]);
    expect(crowd.lines.at(-1)).toBe("> 1/after_work");
    expect(historyMessages(crowd.turn.history).map(messageText).at(-1)).toContain("One cell a reply: this one had 2");
    const other = says("Run this:\n```sh\nls\n```");
    expect(lines(coding, input(), [replied("t/0/model", other)]).at(-1)).toBe("> 0/before_completion");
  });

  test("that wait end the turn with an error that says so: cells cannot wait yet", () => {
    const waits = { type: "tool_waits", id: "t/0/tool/0", reason: "approval", opts: {} } as const;
    const asks = {
      type: "code_calls",
      id: "t/0/code/0",
      calls: [toolCall({ id: "k", name: "weather", arguments: {} })],
    } as const;
    const { turn } = transcript(coding, input(), [replied("t/0/model", cell("weather()")), asks, waits]);
    expect(turn.phase).toMatchObject({ ending: { outcome: { failure: { reason: "code_failed" } } } });
  });
});

describe("endings", () => {
  test("words are not enough where a value is wanted", () => {
    const strict = config({}, { protocolDriver: codeProtocol({ requireFinish: true }), maxTurns: 1 });
    const story = [replied("t/0/model", says("It is 2.")), delivered("t/1/after_work")];
    expect(lines(strict, input(), story).at(-1)).toBe("= max_turns");
  });

  test("nothing at all is an error, and a cut reply completes without running its cell", () => {
    expect(lines(coding, input(), [replied("t/0/model", says(" "))]).at(-1)).toBe("= provider_error");
    const cut = { ...cell("x"), finishReason: "length" } as const;
    expect(lines(coding, input({ messages: [user("hi")] }), [replied("t/0/model", cut)]).at(-1)).toBe(
      "> 0/before_completion",
    );
  });
});
