// A reader of the simulator: follows the events of a session, disconnects at random, and continues at any process with
// its cursor. It checks that stored events come once, in order and without a gap, and that the deltas of a reply add up
// to the reply (Q7).

import type { RuntimeEvent, TurnEvent } from "../../core/model/internal.ts";
import type { Observer } from "./observer.ts";

import { messageText } from "../../core/model/internal.ts";

/** Checks the events that one reader received, over all its connections. */
export class ReaderCheck {
  /** The cursor of the newest event; `null`: none was received. */
  cursor: string | null = null;
  /** The number of the newest stored event. */
  sequence = 0;
  readonly #observer: Observer;
  readonly #session: string;
  #parts = new Map<string, string>();
  #attempt = "";

  constructor(observer: Observer, session: string) {
    this.#observer = observer;
    this.#session = session;
  }

  /** Accepts the next event. */
  take({ sequence, delta, event, cursor }: RuntimeEvent): void {
    this.cursor = cursor;
    if (sequence !== null) this.#stored(sequence, event);
    else if (event.type === "step_reset") this.#parts = new Map();
    else if (delta !== null) this.#delta(delta, event);
  }

  #stored(sequence: number, event: TurnEvent): void {
    if (sequence !== this.sequence + 1) this.#violation(`event ${sequence} follows event ${this.sequence}`);
    this.sequence = sequence;
    this.#observer.received(this.#session, sequence, event.type);
    if (event.type === "message_completed" && this.#parts.size > 0) {
      const received = [...this.#parts].reduce(
        (all, [part, text]) => (part.startsWith("text/") ? all + text : all),
        "",
      );
      const reply = messageText(event.message);
      if (received !== reply)
        this.#violation(`the deltas are ${JSON.stringify(received)}, the reply is ${JSON.stringify(reply)}`);
    }
    this.#parts = new Map();
  }

  #delta({ attempt, part, offset }: NonNullable<RuntimeEvent["delta"]>, event: TurnEvent): void {
    const of = `${attempt.epoch}.${attempt.n}`;
    if (this.#parts.size > 0 && of !== this.#attempt) {
      this.#violation(`attempt ${of} follows attempt ${this.#attempt} without a reset`);
    }
    this.#attempt = of;
    const received = this.#parts.get(part) ?? "";
    if (offset !== received.length) {
      this.#violation(`a delta of ${part} begins at ${offset} after ${received.length} characters`);
    }
    this.#parts.set(part, received + deltaText(event));
  }

  #violation(text: string): void {
    if (!this.#observer.of(this.#session).wasDeleted)
      this.#observer.violation(`Q7: a reader of ${this.#session}: ${text}`);
  }
}

function deltaText(event: TurnEvent): string {
  if (event.type === "text_delta" || event.type === "reasoning_delta") return event.delta;
  return event.type === "tool_call_delta" ? event.argumentsDelta : "";
}
