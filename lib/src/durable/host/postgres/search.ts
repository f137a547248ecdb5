// The search index of messages (option `search`): a `tsvector` for each row of `entries`.
//
// Objects
//   `<prefix>search`                 the words of each message. `words` is `NULL` until they are known. `id` grows with
//                                    each version of a message
//   `<prefix>search_state`           one row: up to which key the messages that existed when the index was created have
//                                    a row in `search`
//   `<prefix>search_add`             a trigger function: adds the row of a message that a process without the option
//                                    has written, without words
//   `<prefix>write_search_<digest>` writes a batch and the words of its messages: one round trip, one transaction
//
// Words
//   This library splits texts into words (`message-words.ts`) and passes them to `array_to_tsvector`, without a text
//   search configuration: the result is that of `simple`, but neither the locale of the database nor the parser of
//   Postgres (which has tokens for hosts, URLs and tags) matters, and no extension for diacritics is needed. The first
//   20,000 characters of a message are less than 200 KB of words; the limit of a `tsvector` is 1 MB. The tenant is one
//   more word, so the index finds the messages of a tenant that contain a word that other tenants use often. It begins
//   with `/`, which no word of a message does.
//
// Deletion
//   A foreign key with `ON DELETE CASCADE`. A trigger could miss a row in a serializable transaction, whose snapshot
//   may be older than the row.
//
// Steps
//   Messages without words are indexed by `step`, a bounded number at a time. Its statements are transactions of their
//   own, and none of them waits for a row while it holds another one: they skip locked rows or give up. So a step
//   cannot cause a deadlock with a writer. A message that was written again since the step has read it has another
//   `id`, and stays without words until the next step.
//
// Invariant: a statement that searches names the tenant, and finds no message of another one.

import type { Batch, Put, StorageHit, StorageSearch } from "../../rows/internal.ts";
import type { SearchResult } from "../shared/search-steps.ts";
import type { PostgresConnection } from "./client.ts";
import type { Database } from "./database.ts";
import type { Names } from "./statements.ts";

import { createHash } from "node:crypto";

import { foldedWords, largeTextsOf, maxIndexedLength, wordsOfEntry } from "../../rows/internal.ts";
import { searchWith } from "../shared/search-steps.ts";
import { escapeText, unescapeText } from "../shared/text-escaping.ts";
import { textColumn } from "./schema.ts";
import { key, vectorSql } from "./search-schema.ts";
import { qualified } from "./statements.ts";

/** How many messages a step indexes. */
const messagesPerStep = 50;

/**
 * How many of the newest messages of the tenant are searched one by one, before the index is used. Words that are in
 * most messages are found there.
 */
const newestMessages = 1000;

/**
 * The messages of a batch with their words, as JSON; `null`: the batch has none. A message whose large text is not in
 * the batch gets its words by a later step.
 */
export function messageRecords({ puts }: Batch): string | null {
  // Of several puts with the same key the last one counts.
  const messages = new Map(puts.filter(({ table }) => table === "entries").map((put) => [rowName(put), put]));
  if (messages.size === 0) return null;
  const large = new Map(puts.filter(({ table }) => table === "large").map((put) => [rowName(put), put.value]));
  const records = Array.from(messages.values(), ({ key: [tenant = "", session = "", position = 0], value }) => {
    const words = wordsOfEntry(value, (digest) => large.get(JSON.stringify([tenant, session, digest])));
    const [k1, k2] = [escapeText(String(tenant)), escapeText(String(session))];
    return { k1, k2, k3: position, words: words === null ? null : lexemes(String(tenant), words) };
  });
  return JSON.stringify(records);
}

function rowName({ key: parts }: Put): string {
  return JSON.stringify(parts);
}

/** The entries of a `tsvector`. */
function lexemes(tenant: string, words: readonly string[]): readonly string[] {
  return [tenantWord(tenant), ...words];
}

/** The tenant as a word. */
function tenantWord(tenant: string): string {
  return `/${createHash("sha256").update(escapeText(tenant)).digest("hex").slice(0, 32)}`;
}

/**
 * A search as a `tsquery`; `null`: it has no words. The quotes make each word a string; nothing in it is an operator.
 */
function queryOf({ tenant, words }: StorageSearch): string | null {
  const folded = words.flatMap((word) => foldedWords(word));
  if (folded.length === 0) return null;
  return `${[tenantWord(tenant), ...folded].map((word) => `'${word}'`).join(" & ")}:*`;
}

/** The index of one storage. */
export class SearchIndex {
  readonly #names: Names;
  readonly #database: Database;
  readonly #readOnly: boolean;
  /** All messages that existed when the index was created have a row in it. */
  #isFilled = false;
  /** A step has found no message without words. Processes without the option may have written some since. */
  #isComplete = false;
  /** The step that runs after a write. */
  #step: Promise<unknown> | null = null;
  /** Searches, after it has indexed messages without words for at most a second. */
  readonly search: (search: StorageSearch) => Promise<readonly StorageHit[]>;

  constructor(database: Database, names: Names, readOnly: boolean) {
    this.#database = database;
    this.#names = names;
    this.#readOnly = readOnly;
    this.search = searchWith((search) => this.#searchOnce(search));
  }

  /** Indexes some messages without words after a write, if there may be any. The write does not wait for it. */
  indexSoon(): void {
    if (this.#isComplete || this.#step !== null) return;
    this.#step = this.#tryStep().finally(() => (this.#step = null));
  }

  /** Waits for the step that runs. */
  async close(): Promise<void> {
    this.#isComplete = true;
    await this.#step;
  }

  async #searchOnce(search: StorageSearch): Promise<SearchResult> {
    const isComplete = this.#readOnly || (await this.#tryStep());
    const hits = await this.#database.run("read", (connection) => this.#find(connection, search));
    return { hits, isComplete };
  }

  /** Runs a step. Does not fail: the next one continues. */
  async #tryStep(): Promise<boolean> {
    try {
      const isComplete = await this.#database.run("read", (connection) => this.#indexSome(connection));
      if (isComplete) this.#isComplete = true;
      return isComplete;
    } catch {
      return false;
    }
  }

  /** The messages that contain all words, newest first. The last word may be the beginning of one. */
  async #find(connection: PostgresConnection, search: StorageSearch): Promise<readonly StorageHit[]> {
    const query = queryOf(search);
    if (query === null) return [];
    const table = qualified(this.#names, "search");
    const values = [escapeText(search.tenant), query, String(search.limit)];
    const newest = `SELECT * FROM ${table} WHERE "tenant" = $1 ORDER BY "id" DESC LIMIT ${newestMessages}`;
    const first = await connection.query({ text: newestMatches(newest), values });
    if (first.rows.length >= search.limit) return first.rows.map(hitOf);
    // OFFSET: the limit does not lead the planner to read the messages of the tenant from the newest to the oldest.
    const indexed = `SELECT * FROM ${table} WHERE "tenant" = $1 AND "words" @@ $2::text::tsquery OFFSET 0`;
    const all = await connection.query({ text: newestMatches(indexed), values });
    return all.rows.map(hitOf);
  }

  /** Indexes some messages that have no words yet. Returns whether none is left. */
  async #indexSome(connection: PostgresConnection): Promise<boolean> {
    if (!this.#isFilled) this.#isFilled = await this.#addRows(connection);
    const hasIndexedAll = await this.#addWords(connection);
    return this.#isFilled && hasIndexedAll;
  }

  /** Adds rows for messages that are older than the index. Returns whether none is left. */
  async #addRows(connection: PostgresConnection): Promise<boolean> {
    const [search, state, entries] = ["search", "search_state", "entries"].map((name) => qualified(this.#names, name));
    const text = `WITH at AS (SELECT * FROM ${state} WHERE NOT "complete" FOR UPDATE SKIP LOCKED),
      page AS (
        SELECT e.* FROM at CROSS JOIN LATERAL (
          SELECT e."tenant", e."session", e."position" FROM ${entries} e
          WHERE (e."tenant", e."session", e."position") > (at."tenant", at."session", at."position")
          ORDER BY e."tenant", e."session", e."position" LIMIT ${messagesPerStep} FOR KEY SHARE OF e NOWAIT
        ) e
      ),
      added AS (INSERT INTO ${search} (${key}) SELECT ${key} FROM page ON CONFLICT (${key}) DO NOTHING),
      last AS (SELECT * FROM page ORDER BY "tenant" DESC, "session" DESC, "position" DESC LIMIT 1),
      moved AS (
        UPDATE ${state} s SET
          "tenant" = coalesce((SELECT "tenant" FROM last), s."tenant"),
          "session" = coalesce((SELECT "session" FROM last), s."session"),
          "position" = coalesce((SELECT "position" FROM last), s."position"),
          "complete" = NOT EXISTS (SELECT 1 FROM last)
        FROM at WHERE s."one" = at."one" RETURNING s."complete"
      )
      SELECT coalesce((SELECT "complete" FROM moved), (SELECT "complete" FROM ${state}))::text AS complete`;
    const { rows } = await connection.query({ text, values: [] });
    return textColumn(rows[0], "complete") === "true";
  }

  /** Adds the words of messages that have none. Returns whether none is left. */
  async #addWords(connection: PostgresConnection): Promise<boolean> {
    const [search, entries, large] = ["search", "entries", "large"].map((name) => qualified(this.#names, name));
    const missing = await connection.query({
      text: `SELECT s."id"::text AS id, s."tenant", s."session", e."value" FROM ${search} s JOIN ${entries} e USING (${key}) WHERE s."words" IS NULL ORDER BY s."id" LIMIT ${messagesPerStep}`,
      values: [],
    });
    if (missing.rows.length === 0) return true;
    const messages = missing.rows.map((row) => {
      const column = (name: string) => textColumn(row, name) ?? "";
      return { id: column("id"), k1: column("tenant"), k2: column("session"), value: unescapeText(column("value")) };
    });
    const references = messages.flatMap(({ k1, k2, value }) => largeTextsOf(value).map((k3) => ({ k1, k2, k3 })));
    const texts = new Map<string, string>();
    if (references.length > 0) {
      const { rows } = await connection.query({
        text: `SELECT DISTINCT r.k1, r.k2, r.k3, left(l."value", ${2 * maxIndexedLength}) AS value FROM jsonb_to_recordset($1::text::jsonb) AS r(k1 text, k2 text, k3 text) JOIN ${large} l ON l."tenant" = r.k1 AND l."session" = r.k2 AND l."digest" = r.k3`,
        values: [JSON.stringify(references)],
      });
      for (const row of rows) {
        const name = JSON.stringify(["k1", "k2", "k3"].map((column) => textColumn(row, column)));
        texts.set(name, unescapeText(textColumn(row, "value") ?? ""));
      }
    }
    const records = messages.map(({ id, k1, k2, value }) => {
      // A text that is missing here was lost: the message has no words.
      const words = wordsOfEntry(value, (digest) => texts.get(JSON.stringify([k1, k2, digest]))) ?? [];
      return { id, words: lexemes(unescapeText(k1), words) };
    });
    await connection.query({
      text: `WITH r AS (SELECT * FROM jsonb_to_recordset($1::text::jsonb) AS r(id bigint, words jsonb)),
        free AS (SELECT s."id" FROM ${search} s WHERE s."words" IS NULL AND s."id" IN (SELECT id FROM r) FOR UPDATE SKIP LOCKED)
        UPDATE ${search} s SET "words" = ${vectorSql} FROM r, free WHERE s."words" IS NULL AND s."id" = free."id" AND r.id = free."id"`,
      values: [JSON.stringify(records)],
    });
    return false;
  }
}

/** Selects the newest messages of a selection that contain the words. */
function newestMatches(selection: string): string {
  return `SELECT "session", "position"::text AS position FROM (${selection}) t WHERE "words" @@ $2::text::tsquery ORDER BY "id" DESC LIMIT $3::text::bigint`;
}

function hitOf(row: unknown): StorageHit {
  return { session: unescapeText(textColumn(row, "session") ?? ""), position: Number(textColumn(row, "position")) };
}
