// Checks the guarantees of event readers over the events that were read: stored events come exactly once and in order;
// the deltas of a reply come exactly once, without a gap, and add up to the reply; after a reset the text starts again
// from nothing.

import type { TurnEvent } from "everturn";
import type { RuntimeEvent } from "everturn/runtime";

import { messageText } from "everturn";

/** The events that were read, and the text of each reply as its deltas add up. */
export type Reading = {
  readonly entries: readonly TurnEvent[];
  readonly sequences: readonly number[];
  /** The sum of the deltas of each completed reply; `null` if only the stored event was read. */
  readonly heard: readonly (string | null)[];
  /** The texts of the completed replies. */
  readonly replies: readonly string[];
  readonly resets: number;
  /** The text of the reply that is open. */
  readonly open: string;
};

/** Collects events one by one. Throws if an event is duplicated, late, or leaves a gap. */
export class Readings {
  readonly entries: TurnEvent[] = [];
  readonly sequences: number[] = [];
  readonly heard: (string | null)[] = [];
  readonly replies: string[] = [];
  resets = 0;
  #parts = new Map<string, string>();
  #attempt = "";

  /** The text of the reply that is open. */
  get open(): string {
    return [...this.#parts].reduce((all, [part, text]) => (part.startsWith("text/") ? all + text : all), "");
  }

  take({ sequence, delta, event }: RuntimeEvent): void {
    if (sequence !== null) {
      this.#entry(sequence, event);
    } else if (event.type === "step_reset") {
      this.#parts = new Map();
      this.resets += 1;
    } else if (delta !== null) {
      this.#addDelta(delta, deltaText(event));
    }
  }

  #entry(sequence: number, event: TurnEvent): void {
    const last = this.sequences.at(-1);
    if (last !== undefined && sequence !== last + 1) throw new Error(`event ${sequence} follows event ${last}`);
    this.sequences.push(sequence);
    this.entries.push(event);
    if (event.type === "message_completed") {
      const whole = messageText(event.message);
      const heard = this.#parts.size > 0 ? this.open : null;
      if (heard !== null && heard !== whole) {
        throw new Error(`the deltas are ${JSON.stringify(heard)}, but the reply is ${JSON.stringify(whole)}`);
      }
      this.heard.push(heard);
      this.replies.push(whole);
    }
    this.#parts = new Map();
  }

  #addDelta({ attempt, part, offset }: NonNullable<RuntimeEvent["delta"]>, text: string): void {
    const of = `${attempt.epoch}.${attempt.n}`;
    if (this.#parts.size > 0 && of !== this.#attempt) {
      throw new Error(`attempt ${of} follows attempt ${this.#attempt} without a reset`);
    }
    this.#attempt = of;
    const received = this.#parts.get(part) ?? "";
    if (offset !== received.length) {
      throw new Error(`the delta of ${part} starts at ${offset}, but ${received.length} characters were received`);
    }
    this.#parts.set(part, received + text);
  }
}

/** Collects a list of events. */
export function reading(events: readonly RuntimeEvent[]): Reading {
  const all = new Readings();
  for (const event of events) all.take(event);
  const { entries, sequences, heard, replies, resets, open } = all;
  return { entries, sequences, heard, replies, resets, open };
}

function deltaText(event: TurnEvent): string {
  switch (event.type) {
    case "text_delta":
    case "reasoning_delta":
      return event.delta;
    case "tool_call_delta":
      return event.argumentsDelta;
    default:
      throw new Error(`${event.type} has no text`);
  }
}

/** Reads to the end. */
export async function readAll(events: AsyncIterable<RuntimeEvent>): Promise<readonly RuntimeEvent[]> {
  const read: RuntimeEvent[] = [];
  for await (const event of events) read.push(event);
  return read;
}

/** Reads until the condition is true, including the event that makes it true, and stops reading. */
export async function readUntil(
  events: AsyncIterable<RuntimeEvent>,
  isLast: (event: RuntimeEvent, all: readonly RuntimeEvent[]) => boolean,
): Promise<readonly RuntimeEvent[]> {
  const read: RuntimeEvent[] = [];
  for await (const event of events) {
    read.push(event);
    if (isLast(event, read)) break;
  }
  return read;
}

/** A condition for {@link readUntil}: the deltas of the open reply add up to this text. */
export function hasHeard(text: string) {
  return (_: RuntimeEvent, all: readonly RuntimeEvent[]): boolean => reading(all).open === text;
}
