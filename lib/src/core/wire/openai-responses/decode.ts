// Decodes replies of the OpenAI Responses API: streams of events, and whole responses.
//
// Theory of operation
//   response.created / queued / in_progress    id and model of the response
//   response.output_item.added                 a new item, by `output_index`
//   response.<part>.delta / .done              text, refusal, reasoning and arguments of an item
//   response.output_item.done                  the complete item; its deltas are no longer needed
//   response.completed / incomplete            the complete response; items without `done` are completed from it
//   response.failed / cancelled, error         the failure
//   Deltas only give delta events. The message is built at the end from the complete items, by the code that reads a
//   whole response (`endingEvents`).
//
// Invariants
//   1. An event belongs to the item of its `item_id`; if that id is new (some servers change it with every event), to
//      the item of its `output_index`. Indexes may have gaps and may repeat. An item that arrives again, by its id or
//      as the same call at the same index, changes nothing, so no call is made twice.
//   2. Items may start and end in any order (fixtures/wire/openai-responses/out-of-order). The message lists them by
//      `output_index`. Events of calls are emitted in that order too: a call that starts before an item of a lower
//      index holds its events.
//   3. The message is read from complete items, never from deltas (W3). An item without `output_item.done` is taken
//      from the last event, or assembled from its deltas.
//   4. A frame that is no JSON interrupts the reply (damaged-frame.ts): its delta is lost to readers, and servers exist
//      whose last event does not repeat the items.
//   5. A background response outlives its connection. Events are numbered (`sequence_number`); after `reattach`, events
//      with a number that was read before are skipped. `complete` ends the reply with the complete response.

import type { Json, JsonObject, ModelEvent } from "../../model/internal.ts";
import type { Frame, ResumableDecoder, WireContext } from "../codec.ts";
import type { Treatment } from "./item-events.ts";
import type { Status } from "./items.ts";

import { adapterFailure, parseJson, streamFailure } from "../../model/internal.ts";
import { damagedFrame, isDamagedFrame } from "../damaged-frame.ts";
import { asObject, countAt, flagAt, objectAt, objectsAt, omitNullish, textAt } from "../fields.ts";
import { rawChunk, ReplyBuilder } from "../reply-builder.ts";
import { readItemEvent } from "./item-events.ts";
import { endingEvents, readItem, responseFailure, statusOf, storedReasoningIndex } from "./items.ts";
import { StreamedItems } from "./streamed-items.ts";

/** Decodes a whole response. */
export function decodeReply(body: Json, context: WireContext): readonly ModelEvent[] {
  const response = asObject(body);
  const raw: readonly ModelEvent[] = context.rawChunks ? [rawChunk(body)] : [];
  if (response === null || !isReply(response)) return [...raw, failureEvent(body, context)];
  try {
    const builder = new ReplyBuilder(context);
    const items = objectsAt(response, "output");
    const reasoningAt = storedReasoningIndex(response, items);
    const events = items.flatMap((item, at) => readItem(builder, item, `${at}`, at > reasoningAt));
    return [...raw, builder.messageStarted(), ...events, ...endingEvents(statusOf(response), response, items, context)];
  } catch (cause) {
    return [...raw, { type: "error", error: malformedEvent(cause, context) }];
  }
}

/** Is the body a response: does it have a list `output`, or a `status`? */
function isReply(response: JsonObject): boolean {
  return Array.isArray(response["output"]) || textAt(response, "status") !== null;
}

/** The failure of a body that is not a response: the error it holds, or `malformed_response`. */
function failureEvent(body: Json, context: WireContext): ModelEvent {
  // xAI sends the error as text: `{ code, error }`.
  const isError = (asObject(body)?.["error"] ?? null) !== null;
  const { provider } = context.route;
  return {
    type: "error",
    error: isError ? responseFailure(body, context) : adapterFailure("malformed_response", { provider }),
  };
}

/** Creates the decoder of one stream. It can be continued over several connections (`ResumableDecoder`). */
export function decoder(context: WireContext): ResumableDecoder {
  return new ResponseDecoder(context);
}

// A decoder is an object of functions, which callers may take apart: they are properties, bound to the decoder.
class ResponseDecoder implements ResumableDecoder {
  readonly counts = { understood: 0, opaque: 0, unknown: 0 };
  readonly #context: WireContext;
  readonly #builder: ReplyBuilder;
  readonly #items: StreamedItems;
  #isTerminated = false;
  #responseId: string | null = null;
  #model: string | null = null;
  /** The number of the last event that was read, and the highest number that a new connection may repeat. */
  #sequence: number | null = null;
  #repeatedUpTo: number | null = null;

  constructor(context: WireContext) {
    this.#context = context;
    this.#builder = new ReplyBuilder(context);
    this.#items = new StreamedItems(this.#builder);
  }

  readonly push = (frames: readonly Frame[]): readonly ModelEvent[] => {
    const out: ModelEvent[] = [];
    for (const frame of frames) {
      try {
        this.#readFrame(frame, out);
      } catch (cause) {
        this.#terminate({ type: "error", error: malformedEvent(cause, this.#context) }, out);
      }
    }
    return out;
  };

  readonly position = (): { readonly responseId: string; readonly sequence: number | null } | null => {
    return this.#responseId === null ? null : { responseId: this.#responseId, sequence: this.#sequence };
  };

  readonly reattach = (): void => {
    this.#repeatedUpTo = this.#sequence;
  };

  readonly complete = (body: Json): readonly ModelEvent[] => {
    if (this.#isTerminated) return [];
    const out: ModelEvent[] = this.#context.rawChunks ? [rawChunk(body)] : [];
    try {
      this.#completeFrom(body, out);
    } catch (cause) {
      out.push({ type: "error", error: malformedEvent(cause, this.#context) });
    }
    this.#isTerminated = true;
    return out;
  };

  readonly end = (): readonly ModelEvent[] => {
    const out: ModelEvent[] = [];
    const { provider } = this.#context.route;
    if (!this.#isTerminated) this.#terminate({ type: "error", error: streamFailure("interrupted", { provider }) }, out);
    return out;
  };

  /** Reads one frame. The type is in the data; servers that omit it there send it as the SSE event name. */
  #readFrame({ event: eventName, data }: Frame, out: ModelEvent[]): void {
    const parsed = parseJson(data);
    const event = parsed === null ? null : asObject(parsed.value);
    const number = countAt(event, "sequence_number");
    if (number !== null && this.#repeatedUpTo !== null && number <= this.#repeatedUpTo) return;
    this.#sequence = number ?? this.#sequence;
    if (parsed !== null && this.#context.rawChunks) out.push(rawChunk(parsed.value));
    if (this.#isTerminated) return;
    const { counts } = this;
    const type = textAt(event, "type") ?? eventName;
    if (parsed === null && eventName === "error") return this.#fail({ error: { message: data } }, out);
    if (parsed === null && isDamagedFrame({ event: eventName, data })) {
      const framesRead = counts.understood + counts.opaque + counts.unknown;
      const error = damagedFrame({ event: eventName, data }, this.#context, framesRead);
      return this.#terminate({ type: "error", error }, out);
    }
    if (event === null) counts[data === "[DONE]" ? "understood" : "unknown"] += 1;
    else if (type !== null) counts[this.#readEvent(type, event, out)] += 1;
    else if (objectAt(event, "error") === null) counts.unknown += 1;
    else counts[this.#readEvent("error", event, out)] += 1;
  }

  /** Reads one event and returns how it was treated. */
  #readEvent(type: string, event: JsonObject, out: ModelEvent[]): Treatment {
    const response = objectAt(event, "response") ?? {};
    switch (type) {
      case "response.created":
      case "response.queued":
      case "response.in_progress":
        this.#responseId = textAt(response, "id") ?? this.#responseId;
        this.#model = textAt(response, "model") ?? this.#model;
        this.#items.store = flagAt(response, "store") ?? this.#items.store;
        this.#items.start(out);
        return "understood";
      case "response.completed":
      case "response.incomplete":
        this.#endReply(statusOf(response, type === "response.completed" ? "completed" : "incomplete"), response, out);
        return "understood";
      case "response.failed":
      case "response.cancelled": {
        const status = type === "response.failed" ? "failed" : "cancelled";
        out.push(...endingEvents(status, { ...response, status }, [], this.#context));
        this.#isTerminated = true;
        return "understood";
      }
      case "error":
      case "response.error":
        this.#fail(event, out);
        return "understood";
      default:
        return readItemEvent(this.#items, this.#builder, type, event, out);
    }
  }

  /**
   * Ends the reply: completes open items from the complete response, adds items that no event has announced, and emits
   * the message.
   */
  #endReply(status: Status, response: JsonObject, out: ModelEvent[]): void {
    this.#items.start(out);
    // Calls keep the ids under which they were emitted.
    const { items, ids } = this.#items.end(objectsAt(response, "output"), status, out);
    const known = {
      id: textAt(response, "id") ?? this.#responseId,
      model: textAt(response, "model") ?? this.#model,
      store: flagAt(response, "store") ?? this.#items.store,
    };
    out.push(...endingEvents(status, { ...response, ...omitNullish(known) }, items, this.#context, ids));
    this.#isTerminated = true;
  }

  /** Ends the reply with a complete response. */
  #completeFrom(body: Json, out: ModelEvent[]): void {
    const response = asObject(body);
    this.#items.start(out);
    this.#items.emitsMissingDeltas = true;
    if (response === null || !isReply(response)) return void out.push(failureEvent(body, this.#context));
    const status = statusOf(response);
    if (status === "completed" || status === "incomplete") this.#endReply(status, response, out);
    else out.push(...endingEvents(status, response, [], this.#context));
  }

  /** Ends the stream with the error of an event. */
  #fail(event: JsonObject, out: ModelEvent[]): void {
    this.#terminate({ type: "error", error: responseFailure(event, this.#context) }, out);
  }

  #terminate(event: ModelEvent, out: ModelEvent[]): void {
    out.push(event);
    this.#isTerminated = true;
  }
}

/** The failure of an event that can be read but not stored, because a value is nested too deep or too large. */
function malformedEvent(cause: unknown, { route }: WireContext) {
  return streamFailure("malformed_event", { provider: route.provider, cause });
}
