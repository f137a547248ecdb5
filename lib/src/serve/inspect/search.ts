// `search`: finds messages by words of their texts and by the names of the tools that they call. The storage has the
// index (`HostStorage.search`); this file splits the query into words, reads the messages that were found, and shows
// the text around the match.
//
// Some texts cannot be found, and a search does not tell whether they contain its words: texts of exceptions of tools,
// which HTTP callers may not read, and what the redaction hook of the program replaces. So the storage is asked for
// more messages than the search returns.
//
// The query has no syntax. It is split at everything that is no letter, digit or mark, so no text can be a syntax error
// of the storage.

import type { Message, SearchHit } from "../../core/model/internal.ts";
import type { SessionChoice } from "../../durable/internal.ts";
import type { InspectionContext } from "./context.ts";

import { redacted } from "../../core/engine/internal.ts";
import { MisuseError, raisedToolReasons, RuntimeError } from "../../core/model/internal.ts";
import {
  foldedWords,
  foldWord,
  keyOf,
  maxIndexedLength,
  readableHead,
  readValue,
  sessionSummary,
  wordPattern,
} from "../../durable/internal.ts";

/** Options of `search` of an {@link Inspection}. */
export type SearchOptions = {
  /** The largest number of messages, from 1 to 100. Default: 20. */
  readonly limit?: number;
} & SessionChoice;

/** The largest `limit`, and how many messages the storage is asked for. */
const maxLimit = 100;

/** How many characters and words of a query count. */
const maxQueryLength = 1000;
const maxWords = 16;
/** The length of an excerpt, and how much of it is before the first match, in characters. */
const excerptLength = 240;
const excerptBefore = 60;
/** How many messages are read at a time. */
const messagesPerRead = 16;

/** Messages of the tenant that contain all words of a text. */
export async function search(
  { storage, tenant }: InspectionContext,
  text: string,
  { limit = 20, where }: SearchOptions = {},
): Promise<readonly SearchHit[]> {
  if (typeof text !== "string") throw new MisuseError("invalid_argument", "search: the query must be a text");
  if (!Number.isSafeInteger(limit) || limit < 1 || limit > maxLimit) {
    throw new MisuseError("invalid_argument", "search: limit must be a whole number from 1 to 100", {
      path: ["limit"],
    });
  }
  if (storage.search === undefined) {
    throw new RuntimeError("not_found", {
      message:
        "the storage has no search index; sqliteStorage and postgresStorage offer one with their option search: true",
    });
  }
  const words = wordsOf(text);
  if (words.length === 0) return [];
  const found = await storage.search({ tenant, words, limit: maxLimit });
  const hits: { readonly hit: SearchHit; readonly changedAt: number }[] = [];
  for (let start = 0; start < found.length && hits.length < limit; start += messagesPerRead) {
    const page = found.slice(start, start + messagesPerRead);
    const rows = await storage.read(
      page.flatMap(({ session, position }) => [
        { table: "sessions", prefix: keyOf({ tenant, session }) } as const,
        { table: "entries", prefix: [...keyOf({ tenant, session }), position] } as const,
      ]),
    );
    for (const [index, { session, position }] of page.entries()) {
      const [headRow, row] = [rows[2 * index]?.[0], rows[2 * index + 1]?.[0]];
      const head = headRow === undefined ? null : readableHead(headRow);
      // The session was deleted since the search, or its row cannot be read.
      if (row === undefined || head === null || head.deleted || position >= head.length) continue;
      const message = readValue("entries", row);
      const found = sessionSummary(head, headRow?.tag ?? 0, null);
      const excerpt = isRaised(message) ? null : excerptOf(message, words);
      if (excerpt === null || hits.length === limit) continue;
      if (where !== undefined && !(await where(found))) continue;
      const hit = { sessionId: session, title: found.title, position, role: message.role };
      hits.push({ hit: { ...hit, ...excerpt }, changedAt: head.changedAt });
    }
  }
  return hits
    .toSorted((left, right) => right.changedAt - left.changedAt || right.hit.position - left.hit.position)
    .map(({ hit }) => hit);
}

/** The words of a query, without case and diacritics, each once. */
function wordsOf(query: string): readonly string[] {
  return foldedWords(query.slice(0, maxQueryLength)).slice(0, maxWords);
}

/** Returns whether the content of a message is the text of an exception that a tool threw. */
function isRaised(message: Message): boolean {
  return message.role === "tool" && message.status === "failure" && raisedToolReasons.has(message.code ?? "");
}

/**
 * The text around the first match, and the places of all matches in it. The last word of the query may be the beginning
 * of a word. `null`: the redacted text does not contain all words. The text is redacted before it is cut: the hook does
 * not recognise a part of a number.
 */
function excerptOf(message: Message, words: readonly string[]): Pick<SearchHit, "excerpt" | "matches"> | null {
  const names = message.role === "assistant" ? message.toolCalls.map(({ name }) => name) : [];
  const whole = [textsIn(message).join(" ").slice(0, maxIndexedLength), ...names].join(" ").trim();
  const text = redacted(whole, "message");
  if (text !== whole && !containsAll(text, words)) return null;
  const last = words.at(-1) ?? "";
  let [start, end] = [0, boundary(text, excerptLength)];
  const matches: (readonly [number, number])[] = [];
  // Words after the excerpt are not examined: a message may consist of matches.
  for (const { 0: found, index: place } of text.matchAll(wordPattern)) {
    if (matches.length > 0 && place + found.length > end) break;
    const folded = foldWord(found);
    if (!words.includes(folded) && !folded.startsWith(last)) continue;
    if (matches.length === 0) {
      start = boundary(text, Math.max(0, place - excerptBefore));
      end = boundary(text, start + excerptLength);
    }
    if (place + found.length <= end) matches.push([place - start, place - start + found.length]);
    else break;
  }
  return { excerpt: text.slice(start, end), matches };
}

function containsAll(text: string, words: readonly string[]): boolean {
  const found = foldedWords(text);
  const last = words.at(-1) ?? "";
  return words.slice(0, -1).every((word) => found.includes(word)) && found.some((word) => word.startsWith(last));
}

/** The place, or the one before it if the place is inside of a surrogate pair. */
function boundary(text: string, place: number): number {
  const code = text.charCodeAt(place);
  return code >= 0xdc00 && code <= 0xdfff && place > 0 ? place - 1 : place;
}

/** The content of a message, or the texts of its parts. */
function textsIn({ content }: Message): readonly string[] {
  return typeof content === "string" ? [content] : content.flatMap((part) => ("text" in part ? [part.text] : []));
}
