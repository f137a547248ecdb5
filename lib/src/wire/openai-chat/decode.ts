// Reads what Chat Completions servers answer: the frames of a stream, or a whole body.
//
// Rules:
//   1. The protocol's own end is a `finish_reason`. The reply is completed when its usage is known too, at `[DONE]`, or when the stream is over,
//      whatever comes first: usage stands behind the end on most servers, and some say more in between. `[DONE]` alone ends nothing.
//   2. Frames that are no JSON are passed over.
//   3. After the end only usage is heard.
//   4. What the model has no room for is left out before anything else is read, from raw chunks too.

import type { Json, ModelEvent } from "../../model/internal.ts";
import type { Decoder, Frame, WireContext } from "../codec.ts";

import { adapterFailure, parseJson, streamFailure } from "../../model/internal.ts";
import { asObject, objectsAt } from "../fields.ts";
import { held } from "./bounds.ts";
import { ChatReader } from "./reader.ts";
import { errorIn, failureOf, firstOf } from "./words.ts";

/** Reads a stream. */
export function decoder(context: WireContext): Decoder {
  const reader = new ChatReader(context);
  const heard = { understood: 0, opaque: 0, unknown: 0 };
  let isOver = false;

  function finish(): readonly ModelEvent[] {
    isOver = true;
    return reader.complete();
  }

  function pushed({ event, data }: Frame): readonly ModelEvent[] {
    if (data.trim() === "[DONE]") {
      heard.understood += 1;
      return reader.hasEnded && !isOver ? finish() : [];
    }
    const parsed = parseJson(data);
    if (parsed === null) {
      heard.unknown += 1;
      return [];
    }
    const body = held(parsed.value);
    const raw: readonly ModelEvent[] = context.rawChunks ? [{ type: "raw_chunk", chunk: body }] : [];
    return [...raw, ...read(body, event)];
  }

  function read(body: Json, event: string | null): readonly ModelEvent[] {
    const chunk = asObject(firstOf(body));
    if (errorIn(body) !== null || (event === "error" && chunk !== null)) {
      heard.understood += 1;
      return isOver ? [] : failed(body);
    }
    if (chunk === null) {
      heard.unknown += 1;
      return [];
    }
    if (isOver) {
      const usage = reader.readUsage(chunk);
      heard[usage === null && chunk["choices"] === undefined ? "unknown" : "understood"] += 1;
      return usage === null ? [] : [{ type: "usage", usage }];
    }
    const { events, heard: how } = reader.read(chunk);
    heard[how] += 1;
    return reader.hasEnded && reader.usage !== null ? [...events, ...finish()] : events;
  }

  function failed(body: Json): readonly ModelEvent[] {
    isOver = true;
    return [{ type: "error", error: failureOf({ status: null, body, requestId: null, retryAfterMs: null }, context) }];
  }

  return {
    heard,
    push: (frames) => frames.flatMap(pushed),
    end: () => {
      if (isOver) return [];
      if (reader.hasEnded) return finish();
      isOver = true;
      const { provider } = context.route;
      const message = `${provider}: the stream ended before the reply did`;
      return [{ type: "error", error: streamFailure("interrupted", { provider, message }) }];
    },
  };
}

/** Reads a whole body. */
export function decodeReply(given: Json, context: WireContext): readonly ModelEvent[] {
  const body = held(given);
  const raw: readonly ModelEvent[] = context.rawChunks ? [{ type: "raw_chunk", chunk: body }] : [];
  const answer = { status: null, body, requestId: null, retryAfterMs: null };
  if (errorIn(body) !== null) return [...raw, { type: "error", error: failureOf(answer, context) }];
  const reply = asObject(firstOf(body));
  if (objectsAt(reply, "choices").length === 0 || reply === null) {
    const { provider } = context.route;
    const error = adapterFailure("malformed_response", {
      provider,
      message: `${provider}: the answer holds no reply`,
      raw: JSON.stringify(body),
    });
    return [...raw, { type: "error", error }];
  }
  const reader = new ChatReader(context);
  const { events } = reader.read(reply);
  return [...raw, ...events.filter(isNoDelta), ...reader.complete()];
}

function isNoDelta({ type }: ModelEvent): boolean {
  return type !== "text_delta" && type !== "reasoning_delta" && type !== "tool_call_delta";
}
