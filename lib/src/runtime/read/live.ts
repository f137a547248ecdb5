// What is only worth seeing now: the deltas of a reply that is not settled, tools that started, retries. Kept for as long as the step it belongs
// to is open, so that somebody who comes late, or lost the connection, gets the rest and nothing twice. Nobody is waited for: readers take
// what they want when they want it.

import type { AssistantMessage, TurnEvent } from "../../model/internal.ts";
import type { LiveOrigin } from "../../run/internal.ts";
import type { PieceItem } from "../rows/values.ts";

/** One thing that was heard: of which try at which effect, and, if it is text, of which part of the reply and from where on. */
export type LiveItem = PieceItem & { readonly effectId: string; readonly epoch: number; readonly n: number };

/** Most things that are not text which are kept for late readers. */
const mostItems = 4096;

/** What has been heard since the last commit. */
export class LiveTail {
  /** The event it comes behind. */
  after: number;
  #items: LiveItem[] = [];
  /** The place of the first item that is still there. */
  #first = 0;
  #parts = new Parts();
  #origin: LiveOrigin | null = null;

  constructor(after: number) {
    this.after = after;
  }

  /** The newest try that was heard of for that effect; 1 when none was. */
  attemptOf(effectId: string): number {
    return this.#origin?.effectId === effectId ? this.#origin.attempt.n : 1;
  }

  /** The try that was heard of last; `null`: none was. */
  get lastAttempt(): { readonly effectId: string; readonly epoch: number; readonly n: number } | null {
    return this.#origin === null ? null : { effectId: this.#origin.effectId, ...this.#origin.attempt };
  }

  /** Takes events in, and gives them back as they are kept. */
  add(events: readonly TurnEvent[], of: LiveOrigin): readonly LiveItem[] {
    if (this.#origin === null || !isSameTry(this.#origin, of)) this.#parts = new Parts();
    this.#origin = of;
    const { effectId, attempt } = of;
    const items = events.map((event): LiveItem => ({ effectId, ...attempt, ...this.#parts.place(event), event }));
    for (const item of items) this.#items.push(item);
    if (this.#items.length > 2 * mostItems) this.#shrink();
    return items;
  }

  /** What is there from a place on, and the place behind it. */
  from(place: number): { readonly items: readonly LiveItem[]; readonly next: number } {
    const next = this.#first + this.#items.length;
    if (place >= next) return { items: [], next };
    return { items: this.#items.slice(Math.max(0, place - this.#first)), next };
  }

  /** What was heard has been settled: it is told by entries now. */
  clear(after: number): void {
    this.#first += this.#items.length;
    this.#items = [];
    this.after = after;
  }

  /** Text is run together, and kept; of the rest the oldest is let go. */
  #shrink(): void {
    let kept = runTogether(this.#items);
    if (kept.length > mostItems) {
      const others = kept.filter(({ part }) => part === null);
      const recent = new Set(others.slice(-mostItems / 2));
      kept = runTogether(kept.filter((item) => item.part !== null || recent.has(item)));
    }
    const isMixed = kept.length > mostItems;
    if (isMixed) kept = partByPart(kept);
    // Places only ever grow: those who have read everything have read what is run together too. Where the order is another one, all of it is new.
    this.#first += this.#items.length - (isMixed ? 0 : kept.length);
    this.#items = kept;
  }
}

function isSameTry(left: LiveOrigin, right: LiveOrigin): boolean {
  const [a, b] = [left.attempt, right.attempt];
  return left.effectId === right.effectId && a.epoch === b.epoch && a.n === b.n;
}

/**
 * Names the parts of a reply by what they are and their order, and knows how long each is by now. They are told apart as in the message they
 * become: by their ids, and without ids by what they follow.
 */
class Parts {
  readonly #names = new Map<string, string>();
  readonly #counts = new Map<string, number>();
  readonly #lengths = new Map<string, number>();
  #block = "";

  place(event: TurnEvent): Pick<PieceItem, "part" | "offset"> {
    const text = textOf(event);
    if (text === null) return { part: null, offset: 0 };
    const block = `${text.kind}:${text.id ?? ""}`;
    const goesOn = text.id !== null || this.#block === block;
    // Arguments of calls come between blocks, and end none.
    if (text.kind !== "call") this.#block = block;
    let part = goesOn ? this.#names.get(block) : undefined;
    if (part === undefined) {
      const count = this.#counts.get(text.kind) ?? 0;
      this.#counts.set(text.kind, count + 1);
      part = `${text.kind}/${count}`;
      this.#names.set(block, part);
    }
    const offset = this.#lengths.get(part) ?? 0;
    this.#lengths.set(part, offset + text.delta.length);
    return { part, offset };
  }
}

/** What is missing of a reply to somebody who has read so much of each of its parts. */
export function missingTexts(
  { content }: AssistantMessage,
  read: ReadonlyMap<string, number>,
): readonly { readonly part: string; readonly offset: number; readonly text: string }[] {
  if (typeof content === "string") {
    // All its text is one, whatever blocks it came in.
    const known = [...read].filter(([part]) => part.startsWith("text/"));
    const [part, offset] = known.at(-1) ?? ["text/0", 0];
    const text = content.slice(known.reduce((sum, [, length]) => sum + length, 0));
    return text === "" ? [] : [{ part, offset, text }];
  }
  const counts = { text: 0, reasoning: 0 };
  return content.flatMap((one) => {
    // What was encrypted, or says nothing, was never heard.
    if ((one.type !== "text" && one.type !== "reasoning") || one.text === "") return [];
    const part = `${one.type}/${counts[one.type]}`;
    counts[one.type] += 1;
    const offset = read.get(part) ?? 0;
    const text = one.text.slice(offset);
    return text === "" ? [] : [{ part, offset, text }];
  });
}

/** The text an event adds to a reply, and to which block; `null` when it adds none. */
export function textOf(
  event: TurnEvent,
): { readonly kind: "text" | "reasoning" | "call"; readonly id: string | null; readonly delta: string } | null {
  switch (event.type) {
    case "text_delta":
      return { kind: "text", id: event.id, delta: event.delta };
    case "reasoning_delta":
      return { kind: "reasoning", id: event.id, delta: event.delta };
    case "tool_call_delta":
      return { kind: "call", id: event.id, delta: event.argumentsDelta };
    default:
      return null;
  }
}

/** The event with other text. */
export function withText(event: TurnEvent, delta: string): TurnEvent {
  switch (event.type) {
    case "text_delta":
    case "reasoning_delta":
      return { ...event, delta };
    case "tool_call_delta":
      return { ...event, argumentsDelta: delta };
    default:
      return event;
  }
}

/** The same with all that was said of a part at the place where it began. */
function partByPart(items: readonly LiveItem[]): LiveItem[] {
  const parts = new Map<string, LiveItem[]>();
  for (const [index, item] of items.entries()) {
    const { effectId, epoch, n, part } = item;
    const name = part === null ? `${index}` : JSON.stringify([effectId, epoch, n, part]);
    const known = parts.get(name);
    if (known === undefined) parts.set(name, [item]);
    else known.push(item);
  }
  return runTogether([...parts.values()].flat());
}

/** The same with neighbouring deltas of one part made one. */
export function runTogether(items: readonly LiveItem[]): LiveItem[] {
  const merged: LiveItem[] = [];
  for (const item of items) {
    const last = merged.at(-1);
    const [before, more] = [last === undefined ? null : textOf(last.event), textOf(item.event)];
    const goesOn =
      last !== undefined &&
      before !== null &&
      more !== null &&
      last.part === item.part &&
      last.effectId === item.effectId &&
      last.epoch === item.epoch &&
      last.n === item.n;
    if (goesOn) merged[merged.length - 1] = { ...last, event: withText(last.event, before.delta + more.delta) };
    else merged.push(item);
  }
  return merged;
}
