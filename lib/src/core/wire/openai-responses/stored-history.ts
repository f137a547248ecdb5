// Conversations that the provider stores: the options `conversation` and `previous_response_id` name messages that the
// provider has already. The API appends the input of a request to them, and refuses items that it has ("Duplicate item
// found with id"), so only what is new may be sent.
//
// A reply that is stored (`store: true`), or that answers a request with such an option, carries a mark: an opaque part
// with the id of the response, its `previous_response_id`, its conversation and `store`, from the body of the response.
// The encoder follows the marks from the option of the caller to the newest reply that the provider has, and sends what
// follows it. Marks are those of the server, not of the model: another model (a fallback) continues the same
// conversation. If no reply has the named id, the caller continues a response that is not in the messages, and all of
// them are sent.

import type { JsonObject, Message, ProviderRoute } from "../../model/internal.ts";
import type { ReplyBuilder } from "../reply-builder.ts";

import { opaquePart, replayFor } from "../../model/internal.ts";
import { asObject, flagAt, objectAt, omitNullish, textAt } from "../fields.ts";

/** The kind of the opaque part with the mark. */
export const storedReplyKind = "stored_response";

/** Adds the mark to a reply whose response is stored, or belongs to a stored conversation. */
export function markStoredReply(builder: ReplyBuilder, response: JsonObject): void {
  const conversation = textAt(objectAt(response, "conversation"), "id");
  const previous = textAt(response, "previous_response_id");
  const store = flagAt(response, "store");
  if (conversation === null && previous === null && store !== true) return;
  const mark = { response_id: textAt(response, "id"), previous_response_id: previous, conversation };
  const data = omitNullish({ ...mark, store });
  builder.part(opaquePart(storedReplyKind, builder.replayData(data)));
}

/** What the provider has of a history. */
export type StoredHistory = {
  /** The number of messages that are not sent: up to the newest stored reply. */
  readonly count: number;
  /** The response that the request continues, in place of the one that the caller named; `null`: the caller's. */
  readonly previousResponseId: string | null;
};

/** Finds what the provider has of a history, by the options of the caller. */
export function storedHistory(
  messages: readonly Message[],
  options: JsonObject,
  route: ProviderRoute,
): StoredHistory | null {
  const conversation = textAt(options, "conversation") ?? textAt(objectAt(options, "conversation"), "id");
  const named = textAt(options, "previous_response_id");
  if (conversation === null && named === null) return null;
  let count = 0;
  let newest = named;
  for (const [at, message] of messages.entries()) {
    const mark = markOf(message, route);
    if (mark === null) continue;
    const id = textAt(mark, "response_id");
    if (conversation !== null) {
      if (textAt(mark, "conversation") === conversation) count = at + 1;
    } else if (id === newest) {
      count = at + 1;
    } else if (textAt(mark, "previous_response_id") === newest && flagAt(mark, "store") === true) {
      newest = id;
      count = at + 1;
    }
  }
  return { count, previousResponseId: newest === named ? null : newest };
}

/** The mark of a reply of this server, by any model; `null`: the message has none. */
function markOf(message: Message, route: ProviderRoute): JsonObject | null {
  if (message.role !== "assistant" || typeof message.content === "string") return null;
  for (const part of message.content) {
    if (part.type !== "opaque" || part.kind !== storedReplyKind) continue;
    const verdict = replayFor(part.provider, { ...route, model: part.provider?.model ?? route.model });
    if (verdict.type === "replay") return asObject(verdict.data);
  }
  return null;
}
