// A terminal of pipes: what is typed into it, and what the demo makes of it.

import { once } from "node:events";
import { PassThrough } from "node:stream";

import { afterEach, describe, expect, test, vi } from "vitest";

import { writtenTo } from "../../test/written.ts";
import { Person } from "./person.ts";
import { Screen } from "./screen.ts";

/** Long enough for whoever types at once, and for nobody to wait for. */
const patience = { firstKeyMs: 20_000, nextKeyMs: 20_000 };

function atTerminal(timings: { readonly firstKeyMs: number; readonly nextKeyMs: number }) {
  const [input, out] = [new PassThrough(), new PassThrough()];
  const stop = new AbortController();
  const screen = new Screen({ out, colour: false, columns: () => 80, elapsed: () => 0 });
  const interrupt = () => stop.abort();
  const person = new Person({ terminal: { input, out }, screen, signal: stop.signal, interrupt, ...timings });
  return { person, input, stop, written: () => writtenTo(out) };
}

afterEach(() => vi.useRealTimers());

describe("who answers", () => {
  test("somebody who types is heard", async () => {
    const { person, input } = atTerminal(patience);
    const answer = person.answer("customer", "To the card.");
    input.write("Store credit\r");
    expect(await answer).toEqual({ value: "Store credit", by: "person" });
  });

  test("for somebody who does not, the demo answers and says so", async () => {
    const { person, written } = atTerminal({ firstKeyMs: 1, nextKeyMs: 1 });
    expect(await person.answer("customer", "To the card.")).toEqual({ value: "To the card.", by: "demo" });
    expect(await person.consent("shop")).toEqual({ value: true, by: "demo" });
    expect(written()).toMatch(/To the card\. \(said by the demo\)[^]*approved \(by the demo\)/);
  });

  test("a key buys time: who has begun is not answered for", async () => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    const { person, input } = atTerminal({ firstKeyMs: 50, nextKeyMs: 1000 });
    const answer = person.answer("customer", "To the card.");
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
  ] as const)("%j decides by one key", async ([keys, value]) => {
    const { person, input } = atTerminal(patience);
    const consent = person.consent("shop");
    input.write(keys);
    expect(await consent).toEqual({ value, by: "person" });
  });

  test("Ctrl-C interrupts, and consents to nothing", async () => {
    const asking = atTerminal(patience);
    const consent = asking.person.consent("shop");
    asking.input.write("\u0003");
    expect((await consent).value).toBe(false);
    expect(asking.stop.signal.aborted).toBe(true);

    const typing = atTerminal(patience);
    const answer = typing.person.answer("customer", "To the card.");
    typing.input.write("\u0003");
    await answer;
    expect(typing.stop.signal.aborted).toBe(true);
  });
});
