// Limits the size of a reply (`limits.reply`): a faulty or hostile server could otherwise stream text until the process
// has no memory left. A reply is held several times, as text, events and JSON, so that it takes about 30 times its
// size.
//
// Text, reasoning and arguments count. Images and files do not: one event and one body have limits of their own
// (`limits.line`, `limits.body`).

import type { ModelEvent } from "../model/internal.ts";

import { assistant, streamFailure } from "../model/internal.ts";

/** Counts the characters of one reply. */
export class ReplyLimit {
  readonly #limit: number;
  readonly #provider: string;
  #streamed = 0;
  #completed = 0;
  #hasStarted = false;
  /** The reply is longer than the limit: the events that `accept` has returned end it. */
  isExceeded = false;

  /** `limit`: in characters. */
  constructor(limit: number, provider: string) {
    this.#limit = limit;
    this.#provider = provider;
  }

  /** The batch, or the events that end a reply which is too long: the failure `malformed_event`. */
  accept(batch: readonly ModelEvent[]): readonly ModelEvent[] {
    for (const event of batch) {
      this.#streamed += deltaSize(event);
      this.#completed += completedSize(event);
    }
    // A whole reply has no deltas.
    if (Math.max(this.#streamed, this.#completed) <= this.#limit) {
      this.#hasStarted ||= batch.length > 0;
      return batch;
    }
    this.isExceeded = true;
    const message = `${this.#provider} sent a reply of more than ${this.#limit} characters; set limits.reply of the adapter to accept longer ones`;
    const error = streamFailure("malformed_event", { provider: this.#provider, message });
    const started: readonly ModelEvent[] = this.#hasStarted
      ? []
      : [{ type: "message_started", message: assistant("") }];
    const usage = batch.filter(({ type }) => type === "usage" || type === "warning");
    return [...started, ...usage, { type: "error", error }];
  }
}

function deltaSize(event: ModelEvent): number {
  if (event.type === "text_delta" || event.type === "reasoning_delta") return event.delta.length;
  return event.type === "tool_call_delta" ? event.argumentsDelta.length : 0;
}

function completedSize(event: ModelEvent): number {
  if (event.type === "text_completed" || event.type === "reasoning_completed") return event.text.length;
  if (event.type !== "tool_call_completed") return 0;
  return (event.rawArguments ?? JSON.stringify(event.arguments)).length;
}
