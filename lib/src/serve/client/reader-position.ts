// The position of a reader in the events of a session, across connections. It provides the cursor to resume after, and
// drops events that were shown before: the server delivers at least once, and this class makes the display
// exactly-once.
//
// A cursor names the last stored event and, within the open reply, how much of each text was read. Three kinds of
// events follow:
//   stored events (with a sequence)       dropped if the sequence is not greater than the last one
//   text deltas (live, with an offset)    never repeated: the server resumes at the offsets of the cursor
//   other live events (tool progress)     not covered by the cursor; the server repeats those of the open step to a
//                                         reader that reconnects. They have no id, so this class compares their
//                                         content: an event that was shown n times before the reconnection is dropped
//                                         the first n times after it
//
// Invariants
//   1. No event is returned twice, whatever connection delivers it. Two equal live events that really happened twice
//      are both shown.
//   2. The memory is bounded by `maxRememberedEvents` live events of one step; a stored event or a `step_reset` clears
//      it.

import type { RuntimeEvent } from "../../core/model/internal.ts";
import type { Frame } from "./frames.ts";

import { ClientError } from "./errors.ts";

/**
 * The number of live events of a step that are remembered. A server keeps fewer, so none that it can repeat is
 * forgotten.
 */
const maxRememberedEvents = 16_384;

export class ReaderPosition {
  #cursor: string | null;
  #sequence: number | null = null;
  /** Live events other than text deltas that were shown since the last stored event, as canonical JSON. */
  #shownLiveEvents: string[] = [];
  /** How often each of them may be repeated by the current connection. */
  #expectedRepeats = new Map<string, number>();

  constructor(cursor: string | null) {
    this.#cursor = cursor;
  }

  /** The cursor to resume after; `null`: from the start. */
  get cursor(): string | null {
    return this.#cursor;
  }

  /** A new connection starts: the server may repeat every live event of the open step once. */
  reconnected(): void {
    this.#expectedRepeats = new Map();
    for (const eventJson of this.#shownLiveEvents)
      this.#expectedRepeats.set(eventJson, (this.#expectedRepeats.get(eventJson) ?? 0) + 1);
  }

  /** The event of a frame, and advances the cursor; `null` if the event was shown before. */
  accept({ id, data }: Frame): RuntimeEvent | null {
    const received = parseFrameData<Omit<RuntimeEvent, "cursor">>(data);
    const isNew = received.sequence === null ? this.#isNewLiveEvent(received) : this.#isNextSequence(received.sequence);
    if (!isNew) return null;
    this.#cursor = id ?? this.#cursor;
    return { cursor: this.#cursor ?? "", ...received };
  }

  #isNextSequence(sequence: number): boolean {
    if (this.#sequence !== null && sequence <= this.#sequence) return false;
    this.#sequence = sequence;
    this.#forgetLiveEvents();
    return true;
  }

  #isNewLiveEvent({ delta, event }: Omit<RuntimeEvent, "cursor">): boolean {
    if (delta !== null) return true;
    if (event.type === "step_reset") {
      this.#forgetLiveEvents();
      return true;
    }
    const eventJson = canonicalJson(event);
    const repeats = this.#expectedRepeats.get(eventJson) ?? 0;
    if (repeats > 0) {
      this.#expectedRepeats.set(eventJson, repeats - 1);
      return false;
    }
    if (this.#shownLiveEvents.length < maxRememberedEvents) this.#shownLiveEvents.push(eventJson);
    return true;
  }

  #forgetLiveEvents(): void {
    this.#shownLiveEvents = [];
    this.#expectedRepeats.clear();
  }
}

/**
 * JSON with sorted keys: the process that drives a turn and one that reads it from the storage may order the fields
 * differently.
 */
function canonicalJson(value: unknown): string {
  return JSON.stringify(value, (_, part: unknown) =>
    typeof part === "object" && part !== null && !Array.isArray(part)
      ? Object.fromEntries(Object.entries(part).sort(([left], [right]) => (left < right ? -1 : 1)))
      : part,
  );
}

/** Parses the data of a frame. That it is JSON is checked; that it has the type of the API is trusted. */
export function parseFrameData<T>(data: string): T {
  try {
    const value: T = JSON.parse(data);
    return value;
  } catch {
    throw new ClientError("unexpected_answer", `a frame is not JSON: ${JSON.stringify(data.slice(0, 200))}`);
  }
}
