// The item of a reply with which a provider replaces the messages before it: a `compaction` block of Anthropic's
// Messages API, or a `compaction` item of OpenAI's Responses API. It is an opaque part like any other, and goes back
// unchanged to its own provider, endpoint and model only.

import type { Json, JsonObject } from "../parse/json.ts";
import type { Message } from "./message.ts";
import type { OpaquePart } from "./part.ts";

import { isJsonArray } from "../parse/json.ts";

// Each message is searched once, because every request looks at all of them.
const items = new WeakMap<Message, OpaquePart | null>();

/** The newest compaction item of a message; `null`: it has none. An item without content replaces nothing. */
export function compactionItem(message: Message): OpaquePart | null {
  const known = items.get(message);
  if (known !== undefined) return known;
  const item = newestItem(message);
  items.set(message, item);
  return item;
}

function newestItem({ role, content }: Message): OpaquePart | null {
  if (role !== "assistant" || typeof content === "string") return null;
  for (const part of content.toReversed()) {
    if (part.type === "opaque" && part.kind === "compaction" && hasContent(part.provider.data)) return part;
  }
  return null;
}

/** Anthropic returns a block without content if it could make no summary. */
function hasContent(data: Json): boolean {
  if (typeof data !== "object" || data === null || isJsonArray(data)) return false;
  const { content, encrypted_content: encrypted }: JsonObject = data;
  return [content, encrypted].some((text) => typeof text === "string" && text !== "");
}
