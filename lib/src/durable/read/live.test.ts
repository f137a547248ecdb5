// The live tail: all text of the open attempt in bounded memory, and the newest other events.

import type { LiveItem } from "./live.ts";
import type { AssistantMessage, TurnEvent } from "everturn";

import { assistant, textPart } from "everturn";
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";

import { deltaText, missingTexts, reasoningPart } from "../../core/model/internal.ts";
import { LiveTail, mergeDeltas } from "./live.ts";

const of = { effectId: "t/0/model", attempt: { epoch: 1, n: 1 } };
const text = (delta: string, id: string | null = null): TurnEvent => ({ type: "text_delta", id, delta });
const thought = (delta: string, id: string | null = null): TurnEvent => ({ type: "reasoning_delta", id, delta });
const args = (id: string, argumentsDelta: string): TurnEvent => ({ type: "tool_call_delta", id, argumentsDelta });
const raw: TurnEvent = { type: "raw_chunk", chunk: null };

/** The text of each part, assembled by offsets. Throws if there is a gap. */
function parts(items: readonly LiveItem[]): { readonly [part: string]: string } {
  const known: Record<string, string> = {};
  for (const { part, offset, event } of items) {
    if (part === null) continue;
    const before = known[part] ?? "";
    if (offset > before.length) throw new Error(`${part} has a hole before ${offset}`);
    known[part] = before + (deltaText(event)?.delta ?? "").slice(before.length - offset);
  }
  return known;
}

describe("the live tail", () => {
  test("merges thousands of deltas and keeps all of their text", () => {
    const tail = new LiveTail(0);
    let whole = "";
    let most = 0;
    for (let index = 0; index < 100_000; index += 1) {
      whole += `${index} `;
      tail.add([text(`${index} `)], of);
      if (index % 1000 === 0) most = Math.max(most, tail.from(0).items.length);
    }
    expect(most).toBeLessThanOrEqual(8192);
    expect(parts(tail.from(0).items)).toEqual({ "text/0": whole });
  });

  test("drops the oldest events without text first", () => {
    const tail = new LiveTail(0);
    for (let index = 0; index < 20_000; index += 1) tail.add([text("a"), { type: "raw_chunk", chunk: index }], of);
    const { items } = tail.from(0);
    expect(items.length).toBeLessThanOrEqual(8192);
    expect(parts(items)).toEqual({ "text/0": "a".repeat(20_000) });
    expect(items.at(-1)?.event).toEqual({ type: "raw_chunk", chunk: 19_999 });
  });

  test("merges parts that alternate, and a concurrent reader misses nothing", () => {
    const tail = new LiveTail(0);
    const read: LiveItem[] = [];
    let place = 0;
    for (let index = 0; index < 30_000; index += 1) {
      tail.add([text("a", "x"), text("b", "y"), args("c", "1"), raw], of);
      if (index % 700 !== 699) continue;
      const { items, next } = tail.from(place);
      read.push(...items);
      place = next;
      expect(tail.from(0).items.length).toBeLessThanOrEqual(8192);
    }
    read.push(...tail.from(place).items);
    const whole = { "text/0": "a".repeat(30_000), "text/1": "b".repeat(30_000), "call/0": "1".repeat(30_000) };
    expect(parts(read)).toEqual(whole);
    expect(parts(tail.from(0).items)).toEqual(whole);
  });

  test("is empty after a commit", () => {
    const tail = new LiveTail(3);
    tail.add([text("a")], of);
    const { next } = tail.from(0);
    tail.clear(5);
    expect(tail).toMatchObject({ after: 5 });
    expect(tail.from(0)).toEqual({ items: [], next });
    tail.add([text("b")], { ...of, effectId: "t/1/model" });
    expect(tail.from(next).items).toMatchObject([{ part: "text/0", offset: 0, effectId: "t/1/model" }]);
  });

  test("restarts part numbers and offsets with another attempt", () => {
    const tail = new LiveTail(0);
    tail.add([text("abc")], of);
    const second = { ...of, attempt: { epoch: 1, n: 2 } };
    tail.add([text("x")], second);
    expect(tail.from(0).items).toMatchObject([
      { n: 1, offset: 0 },
      { n: 2, offset: 0 },
    ]);
    expect([tail.attemptOf(of.effectId), tail.attemptOf("another")]).toEqual([2, 1]);
  });
});

test("merging deltas changes no text", () => {
  const event = fc.oneof(
    fc.tuple(fc.constantFrom("a", "bc", ""), fc.constantFrom(null, "x", "y")).map(([delta, id]) => text(delta, id)),
    fc.constantFrom("h", "m").map((delta) => thought(delta)),
    fc.constantFrom("{", "}").map((delta) => args("c", delta)),
    fc.constant(raw),
  );
  fc.assert(
    fc.property(fc.array(event, { maxLength: 30 }), (events) => {
      const items = new LiveTail(0).add(events, of);
      expect(parts(mergeDeltas(items))).toEqual(parts(items));
      expect(mergeDeltas(items).filter(({ part }) => part === null)).toHaveLength(
        events.filter(({ type }) => type === "raw_chunk").length,
      );
    }),
  );
});

describe("the missing text of a reply", () => {
  /** The message that these events produce. */
  const messages: readonly (readonly [string, readonly TurnEvent[], AssistantMessage])[] = [
    ["plain text", [text("One, "), text("two.")], assistant("One, two.")],
    ["plain text in blocks", [text("One, ", "a"), text("two.", "b")], assistant("One, two.")],
    [
      "reasoning and text without ids",
      [thought("Hm. "), text("One, "), thought("Hm? "), text("two.")],
      assistant([reasoningPart("Hm. "), textPart("One, "), reasoningPart("Hm? "), textPart("two.")]),
    ],
    [
      "alternating blocks with ids",
      [text("One", "a"), text("Two", "b"), text(", ", "a"), text(". ", "b")],
      assistant([textPart("One, "), textPart("Two. ")]),
    ],
    ["text around a call", [text("One, "), args("c", "{}"), text("two.")], assistant("One, two.")],
    ["a thought that was not shown", [text("One.")], assistant([reasoningPart(""), textPart("One.")])],
  ];
  test.each(messages)("is the rest after any delta: %s", (_, events, message) => {
    const items = new LiveTail(0).add(events, of);
    const whole = parts(items.filter(({ part }) => part?.startsWith("call/") !== true));
    for (let count = 1; count <= items.length; count += 1) {
      const before = parts(items.slice(0, count));
      const read = new Map(Object.entries(before).map(([part, text]) => [part, text.length]));
      const missing = missingTexts(message, read);
      const after: Record<string, string> = { ...before };
      for (const { part, offset, text: added } of missing) {
        expect(offset).toBe((after[part] ?? "").length);
        after[part] = (after[part] ?? "") + added;
      }
      const joined = (of: { readonly [part: string]: string }, kind: string) =>
        Object.entries(of)
          .filter(([part]) => part.startsWith(kind))
          .map(([, text]) => text)
          .join("");
      expect(joined(after, "text/")).toBe(joined(whole, "text/"));
      expect(joined(after, "reasoning/")).toBe(joined(whole, "reasoning/"));
    }
  });
});
