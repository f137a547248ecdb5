// Estimates the tokens of texts and messages, for what the provider has not counted yet.
//
// A token has about four ASCII characters; other characters count as one token each, which is too many for most scripts
// and not too few for any. The estimate of a session is multiplied by the ratio of its newest counted request
// (`ContextWindow.ratio`), so a constant error does not matter. Base64 data is not counted by its length: an image or a
// file has a fixed estimate.

import type { Message } from "../../model/internal.ts";

/** The estimate of one image or file, in tokens. */
const mediaTokens = 1_500;

/** What a message costs besides its texts: role, separators, ids. */
export const messageTokens = 4;

/** The estimated tokens of a text. */
function textTokens(text: string): number {
  let other = 0;
  for (let index = 0; index < text.length; index += 1) if (text.charCodeAt(index) > 127) other += 1;
  return Math.ceil((text.length - other) / 4) + other;
}

/** Calls `add` with each text of a value that is part of a prompt. Returns the tokens of what is no text. */
export function visitTexts(value: unknown, add: (text: string) => void): number {
  if (typeof value === "string") {
    add(value);
    return 0;
  }
  if (typeof value === "number" || typeof value === "boolean") return 1;
  if (typeof value !== "object" || value === null) return 0;
  if ("type" in value && (value.type === "image" || value.type === "file")) return mediaTokens;
  const isList = Array.isArray(value);
  let sum = 0;
  for (const [name, item] of Object.entries(value)) {
    if (!isList) add(name);
    sum += visitTexts(item, add);
  }
  return sum;
}

const estimates = new WeakMap<object, number>();

/** The estimated tokens of a message of a request. Each message is counted once. */
export function estimateMessage(message: Message): number {
  const known = estimates.get(message);
  if (known !== undefined) return known;
  const estimate = messageTokens + promptOf(message).reduce<number>((sum, part) => sum + valueTokens(part), 0);
  estimates.set(message, estimate);
  return estimate;
}

/** The parts of a message that are part of a prompt. */
export function promptOf(message: Message): readonly unknown[] {
  return message.role === "assistant" ? [message.content, message.toolCalls] : [message.content];
}

/** The estimated tokens of all texts in a value, cached by its identity. */
export function estimateValue(value: object): number {
  const known = estimates.get(value);
  if (known !== undefined) return known;
  const estimate = valueTokens(value);
  estimates.set(value, estimate);
  return estimate;
}

function valueTokens(value: unknown): number {
  let ofTexts = 0;
  const others = visitTexts(value, (text) => {
    ofTexts += textTokens(text);
  });
  return ofTexts + others;
}
