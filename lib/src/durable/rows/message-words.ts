// The words by which messages are found: of stored messages, for storages that have an index of words
// (`HostStorage.search`), and of queries. Both use the same functions, so a query and an index cannot disagree about
// case, diacritics or the end of a word.

import type { Json } from "../../core/model/internal.ts";

import { isJsonArray } from "../../core/model/internal.ts";
import { extractedIn, hasReferences, withTextAt } from "./large-values.ts";

/** How many characters of a message are indexed. */
export const maxIndexedLength = 20_000;

/** The length of a word in an index and in a query, in characters. Longer words are cut off. */
const maxWordLength = 64;

/** A run of letters, digits and marks. */
export const wordPattern = /[\p{L}\p{N}\p{M}]+/gu;

/** A word without case and diacritics. */
export function foldWord(word: string): string {
  return word.normalize("NFD").replaceAll(/\p{M}/gu, "").toLowerCase();
}

/** The words of a text, without case and diacritics, each once. They contain no lone surrogate. */
export function foldedWords(text: string): readonly string[] {
  const words = Array.from(text.matchAll(wordPattern), ([word]) => cut(foldWord(word)));
  return [...new Set(words)].filter((word) => word !== "");
}

/** Cuts a word off, in front of a surrogate pair rather than in it. */
function cut(word: string): string {
  if (word.length <= maxWordLength) return word;
  const code = word.charCodeAt(maxWordLength - 1);
  return word.slice(0, code >= 0xd800 && code <= 0xdbff ? maxWordLength - 1 : maxWordLength);
}

/** The digests of the large texts that a row of `entries` refers to. */
export function largeTextsOf(value: string): readonly string[] {
  if (!hasReferences({ value })) return [];
  return extractedIn({ value })?.references.map(({ digest }) => digest) ?? [];
}

/**
 * The words of a row of `entries`, of the first `maxIndexedLength` characters of the names of the tools that it calls
 * and of its texts. `largeText` returns the
 * beginning of a large text by its digest. `null`: a large text is missing. A value that cannot be read has no words.
 */
export function wordsOfEntry(
  value: string,
  largeText: (digest: string) => string | undefined,
): readonly string[] | null {
  try {
    let stored: Json = null;
    if (hasReferences({ value })) {
      const extracted = extractedIn({ value });
      stored = extracted?.data ?? null;
      for (const { path, digest } of extracted?.references ?? []) {
        const text = largeText(digest);
        if (text === undefined) return null;
        stored = withTextAt(stored, path, text.slice(0, maxIndexedLength));
      }
    } else {
      stored = JSON.parse(value);
    }
    const message = fieldOf(stored, "data");
    const text = [...toolNames(fieldOf(message, "toolCalls")), contentText(fieldOf(message, "content"))].join(" ");
    return foldedWords(text.slice(0, maxIndexedLength));
  } catch {
    return [];
  }
}

/** The names of the tools that a message calls. */
function toolNames(calls: Json): readonly string[] {
  return isJsonArray(calls)
    ? calls.map((call) => fieldOf(call, "name")).filter((name) => typeof name === "string")
    : [];
}

/** The content of a message, or the texts of its parts. */
function contentText(content: Json): string {
  if (typeof content === "string") return content;
  if (!isJsonArray(content)) return "";
  return content
    .map((part) => fieldOf(part, "text"))
    .filter((text) => typeof text === "string")
    .join(" ");
}

function fieldOf(value: Json, name: string): Json {
  if (typeof value !== "object" || value === null || isJsonArray(value)) return null;
  return Object.hasOwn(value, name) ? (value[name] ?? null) : null;
}
