// Decodes replies of Chat Completions servers: the frames of a stream, or a whole body. `reply-reader.ts` reads the
// content; this file decides when a reply has ended.
//
// Invariants
//   1. The protocol's end is a `finish_reason` (E1). Most servers send usage in a later chunk, and some send more
//      chunks in between, so `message_completed` is emitted when usage is known too, at `[DONE]`, or at the end of the
//      stream, whichever comes first. Some compatible servers send no `finish_reason`: their reply ends at `[DONE]`,
//      with the finish reason `null` and its usage (fixtures/wire/openai-chat/done-without-end).
//   2. A frame that is no JSON interrupts the reply (damaged-frame.ts).
//   3. After `message_completed` only usage is read.
//   4. Values that cannot be stored are dropped before anything else is read, also from raw chunks (`dropUnstorable`).

import type { Json, JsonObject, ModelEvent, Usage } from "../../model/internal.ts";
import type { Decoder, Frame, WireContext } from "../codec.ts";

import { adapterFailure, parseJson, streamFailure } from "../../model/internal.ts";
import { damagedFrame, isDamagedFrame } from "../damaged-frame.ts";
import { asObject, objectsAt } from "../fields.ts";
import { findServerError, chatFailure, unwrapList } from "./finish-usage-errors.ts";
import { ChatReader } from "./reply-reader.ts";
import { dropUnstorable } from "./storable-body.ts";

/** Creates the decoder of one stream. */
export function decoder(context: WireContext): Decoder {
  const reader = new ChatReader(context);
  const counts = { understood: 0, opaque: 0, unknown: 0 };
  let isTerminated = false;

  function finish(): readonly ModelEvent[] {
    isTerminated = true;
    return reader.complete();
  }

  function readFrame({ event, data }: Frame): readonly ModelEvent[] {
    if (data.trim() === "[DONE]") {
      counts.understood += 1;
      return reader.hasStarted && !isTerminated ? finish() : [];
    }
    const parsed = parseJson(data);
    if (parsed === null) {
      if (isTerminated || !isDamagedFrame({ event, data })) {
        counts.unknown += 1;
        return event === "error" && !isTerminated ? fail(data, null) : [];
      }
      isTerminated = true;
      const error = damagedFrame({ event, data }, context, counts.understood + counts.opaque + counts.unknown);
      return [...usageEvents(reader.usage), { type: "error", error }];
    }
    const body = dropUnstorable(parsed.value);
    const raw: readonly ModelEvent[] = context.rawChunks ? [{ type: "raw_chunk", chunk: body }] : [];
    return [...raw, ...readBody(body, event)];
  }

  function readBody(body: Json, event: string | null): readonly ModelEvent[] {
    const chunk = asObject(unwrapList(body));
    if (findServerError(body) !== null || (event === "error" && chunk !== null)) {
      counts.understood += 1;
      return isTerminated ? [] : fail(body, chunk);
    }
    if (chunk === null) {
      counts.unknown += 1;
      return [];
    }
    if (isTerminated) {
      const usage = reader.readUsage(chunk);
      counts[usage === null && chunk["choices"] === undefined ? "unknown" : "understood"] += 1;
      return usage === null ? [] : [{ type: "usage", usage }];
    }
    const { events, eventClass } = reader.read(chunk);
    counts[eventClass] += 1;
    return reader.hasEnded && reader.usage !== null ? [...events, ...finish()] : events;
  }

  /** Ends the stream with an error. Its chunk may report the usage of what was generated before (OpenRouter). */
  function fail(body: Json, chunk: JsonObject | null): readonly ModelEvent[] {
    isTerminated = true;
    const usage = (chunk === null ? null : reader.readUsage(chunk)) ?? reader.usage;
    const error = chatFailure({ status: null, body, requestId: null, retryAfterMs: null }, context);
    return [...usageEvents(usage), { type: "error", error }];
  }

  return {
    counts,
    push: (frames) => frames.flatMap(readFrame),
    end: () => {
      if (isTerminated) return [];
      if (reader.hasEnded) return finish();
      isTerminated = true;
      const { provider } = context.route;
      const message = `${provider}: the stream ended before a finish_reason was received`;
      return [
        ...usageEvents(reader.usage),
        { type: "error", error: streamFailure("interrupted", { provider, message }) },
      ];
    },
  };
}

/** Decodes a whole body. */
export function decodeReply(receivedBody: Json, context: WireContext): readonly ModelEvent[] {
  const body = dropUnstorable(receivedBody);
  const raw: readonly ModelEvent[] = context.rawChunks ? [{ type: "raw_chunk", chunk: body }] : [];
  const errorResponse = { status: null, body, requestId: null, retryAfterMs: null };
  if (findServerError(body) !== null) return [...raw, { type: "error", error: chatFailure(errorResponse, context) }];
  const reply = asObject(unwrapList(body));
  if (objectsAt(reply, "choices").length === 0 || reply === null) {
    const { provider } = context.route;
    const error = adapterFailure("malformed_response", {
      provider,
      message: `${provider}: the response body has no choices`,
      raw: JSON.stringify(body),
    });
    return [...raw, { type: "error", error }];
  }
  const reader = new ChatReader(context);
  const { events } = reader.read(reply, true);
  return [...raw, ...events.filter(isNotDelta), ...reader.complete()];
}

function usageEvents(usage: Usage | null): readonly ModelEvent[] {
  return usage === null ? [] : [{ type: "usage", usage }];
}

function isNotDelta({ type }: ModelEvent): boolean {
  return type !== "text_delta" && type !== "reasoning_delta" && type !== "tool_call_delta";
}
