// Frames of a stream whose data is no JSON. All APIs send JSON in every frame, so such a frame is the rest of one that
// a proxy damaged, or one that the end of the connection cut. Without its content the reply is not what the model
// wrote: if the deltas of a call `{"amount":189}` lose one frame, the joined text can still be JSON (`{"amount":1}`). A
// reply with a damaged frame therefore fails as `interrupted`, which is retryable, on every API.
//
// Frames that servers send without JSON on purpose are no damage: blank data, `[DONE]`, and keep-alives that are events
// instead of SSE comments.

import type { Failure } from "../model/internal.ts";
import type { Frame, WireContext } from "./codec.ts";

import { parseJson, streamFailure } from "../model/internal.ts";

/** Data of frames without content: none, the end mark of OpenAI, keep-alives. */
const withoutContent = /^(?:|\[DONE\]|:?\s*(?:ping|keep-?alive|heartbeat))$/i;
/** Names of events without content. */
const keepAliveEvents = /^(?:ping|keep-?alive|heartbeat)$/i;

/**
 * Is the frame damaged: is its data no JSON, although only JSON is sent in its place? An `error` event may hold text.
 */
export function isDamagedFrame({ event, data }: Frame): boolean {
  if (withoutContent.test(data.trim()) || event === "error" || (event !== null && keepAliveEvents.test(event)))
    return false;
  return parseJson(data) === null;
}

/** The failure of a reply with a damaged frame. `eventIndex`: how many frames were read before it. */
export function damagedFrame({ data }: Frame, { route }: WireContext, eventIndex: number | null = null): Failure {
  const { provider } = route;
  const message = `${provider}: an event of the stream is damaged: its ${data.length} characters are no JSON. The reply is incomplete; send the request again`;
  return streamFailure("interrupted", { provider, message, raw: data.slice(0, 500), eventIndex });
}
