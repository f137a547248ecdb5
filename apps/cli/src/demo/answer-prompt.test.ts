// AnswerPrompt on a simulated terminal made of pipes.

import { once } from "node:events";
import { PassThrough } from "node:stream";

import { afterEach, describe, expect, test, vi } from "vitest";

import { writtenTo } from "../../test/written.ts";
import { AnswerPrompt } from "./answer-prompt.ts";
import { Screen } from "./screen.ts";

/** Timeouts that never expire in a test. */
const longTimeouts = { firstKeyMs: 20_000, nextKeyMs: 20_000 };

function atTerminal(timings: { readonly firstKeyMs: number; readonly nextKeyMs: number }) {
  const [input, out] = [new PassThrough(), new PassThrough()];
  const stop = new AbortController();
  const screen = new Screen({ out, colour: false, columns: () => 80, elapsed: () => 0 });
  const interrupt = () => stop.abort();
  const prompt = new AnswerPrompt({ terminal: { input, out }, screen, signal: stop.signal, interrupt, ...timings });
  return { prompt, input, stop, written: () => writtenTo(out) };
}

afterEach(() => vi.useRealTimers());

describe("AnswerPrompt", () => {
  test("returns the typed answer", async () => {
    const { prompt, input } = atTerminal(longTimeouts);
    const answer = prompt.askText("customer", "To the card.");
    input.write("Store credit\r");
    expect(await answer).toEqual({ value: "Store credit", by: "person" });
  });

  test("answers in place of the user after the timeout, and prints that it did", async () => {
    const { prompt, written } = atTerminal({ firstKeyMs: 1, nextKeyMs: 1 });
    expect(await prompt.askText("customer", "To the card.")).toEqual({ value: "To the card.", by: "demo" });
    expect(await prompt.askApproval("shop")).toEqual({ value: true, by: "demo" });
    expect(written()).toMatch(/To the card\. \(answered by the demo\)[^]*approved \(by the demo\)/);
  });

  test("extends the timeout with each key", async () => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    const { prompt, input } = atTerminal({ firstKeyMs: 50, nextKeyMs: 1000 });
    const answer = prompt.askText("customer", "To the card.");
    const pressed = once(input, "keypress");
    input.write("S");
    await pressed;
    vi.advanceTimersByTime(999);
    input.write("ave it\r");
    expect(await answer).toEqual({ value: "Save it", by: "person" });
  });

  test.for([
    ["y", true],
    ["n", false],
    ["xn", false],
  ] as const)("the keys %j decide an approval", async ([keys, value]) => {
    const { prompt, input } = atTerminal(longTimeouts);
    const approval = prompt.askApproval("shop");
    input.write(keys);
    expect(await approval).toEqual({ value, by: "person" });
  });

  test("Ctrl-C interrupts and does not approve", async () => {
    const asking = atTerminal(longTimeouts);
    const approval = asking.prompt.askApproval("shop");
    asking.input.write("\u0003");
    expect((await approval).value).toBe(false);
    expect(asking.stop.signal.aborted).toBe(true);

    const typing = atTerminal(longTimeouts);
    const answer = typing.prompt.askText("customer", "To the card.");
    typing.input.write("\u0003");
    await answer;
    expect(typing.stop.signal.aborted).toBe(true);
  });
});
