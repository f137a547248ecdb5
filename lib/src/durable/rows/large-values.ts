// Content-addressed storage of large texts. A reply is part of several rows: the message, the journal row, the events
// that report it, the turn row and the session row. Without deduplication a reply of 40 MB made a database of 520 MB.
//
// Theory of operation
//   `withLargeValues` wraps the storage of a runtime.
//   write   each text of `minLength` characters or more in a value is replaced by a reference, and stored in the table
//           `large` under its SHA-256 digest, once for each session, in the same batch. Rows without such texts, which
//           is nearly all of them, cost one comparison of lengths.
//   read    references are resolved with one more read of the storage, or with one for each row if the query limits the
//           length of its rows: the texts count, and those beyond the limit are not read. Texts are never changed, so
//           the second read sees what the first one referred to, unless the session was deleted in between. A resolved
//           row (`ResolvedRow`) keeps its value parsed: `readValue` takes it as it is. Rendering and parsing a value of
//           some megabytes as JSON takes tens of milliseconds, in which the process answers no other request. The texts
//           that were read last are cached (`TextCache`), so many readers of one reply share one copy.
//   A row with references has the form `large:` and then JSON: the value with empty texts in place of the large ones,
//   and the path and digest of each. Other values begin with `{` or are empty, so the two forms cannot be confused. The
//   texts of a session are removed with the session.

import type { Json } from "../../core/model/internal.ts";
import type { Batch, HostStorage, Key, Put, Query, Row } from "./storage.ts";
import type { TableName } from "./tables.ts";

import { isJsonArray } from "../../core/model/internal.ts";
import { sha256 } from "./digest.ts";
import { tablesOfSession } from "./tables.ts";

/** Texts of this many UTF-16 code units or more are stored in `large`. */
const minLength = 16_384;

/** The texts that are cached, in characters together. */
const cachedLength = 8 * 1_048_576;

/** The prefix of values that contain references. */
const marker = "large:";

/** Where a large text belongs in the value, and the digest it is stored under. */
type Reference = { readonly path: readonly (string | number)[]; readonly digest: string };
type Extracted = { readonly data: Json; readonly references: readonly Reference[] };

/**
 * Tables whose values may hold large texts: their keys begin with tenant and session. Pieces are removed within seconds
 * and stay whole.
 */
const eligible: ReadonlySet<TableName> = new Set<TableName>(
  [...tablesOfSession, "sessions" as const].filter((table) => table !== "large" && table !== "pieces"),
);

/** A row whose references are resolved. */
class ResolvedRow implements Row {
  readonly key: Key;
  readonly tag: number;
  readonly expires: number | null;
  readonly remainingMs: number | null;
  /** The value with its texts, parsed. */
  readonly parsed: Json;
  /**
   * The length of the value with its texts, in characters. Approximate: the texts are counted as they are, and not as
   * JSON.
   */
  readonly length: number;

  constructor({ key, tag, expires, remainingMs }: Row, parsed: Json, length: number) {
    this.key = key;
    this.tag = tag;
    this.expires = expires;
    this.remainingMs = remainingMs;
    this.parsed = parsed;
    this.length = length;
  }

  /** Rendered at each access. */
  get value(): string {
    return JSON.stringify(this.parsed);
  }
}

/** The length of the value of a row with its large texts, in characters. Approximate if it has some. */
export function rowLength(row: Row): number {
  return row instanceof ResolvedRow ? row.length : row.value.length;
}

/** The value of a row as JSON, parsed. Throws `SyntaxError` if it is not JSON. */
export function parsedValue(row: Row): unknown {
  return row instanceof ResolvedRow ? row.parsed : JSON.parse(row.value);
}

/**
 * The large texts that were read last, by their keys. Texts never change, so a cached one is valid as long as a row
 * refers to it.
 */
class TextCache {
  readonly #texts = new Map<string, string>();
  #length = 0;

  get(name: string): string | undefined {
    const text = this.#texts.get(name);
    if (text === undefined) return undefined;
    // The texts are in the order of their last use.
    this.#texts.delete(name);
    this.#texts.set(name, text);
    return text;
  }

  keep(name: string, text: string): void {
    if (text.length > cachedLength || this.#texts.has(name)) return;
    this.#texts.set(name, text);
    this.#length += text.length;
    for (const [oldest, { length }] of this.#texts) {
      if (this.#length <= cachedLength) return;
      this.#texts.delete(oldest);
      this.#length -= length;
    }
  }

  clear(): void {
    this.#texts.clear();
    this.#length = 0;
  }
}

/** The storage that texts are read from, and the texts that were read last. */
type TextSource = { readonly storage: HostStorage; readonly cache: TextCache };

/** Wraps a storage: large texts are extracted on write and resolved on read. */
export function withLargeValues(storage: HostStorage): HostStorage {
  const source = { storage, cache: new TextCache() };
  return {
    name: storage.name,
    durability: storage.durability,
    ...(storage.liveness === undefined ? {} : { liveness: storage.liveness }),
    read: async (queries) => resolved(source, queries, await storage.read(queries)),
    write: async (batch) => {
      const written = await storage.write(batch.puts.some(isLarge) ? await extracted(batch) : batch);
      // A session was deleted: its texts must not stay in memory.
      if (batch.removals.some(({ table }) => table === "large")) source.cache.clear();
      return written;
    },
    watch: (changed) => storage.watch(changed),
    ...(storage.sizes === undefined ? {} : { sizes: storage.sizes }),
    ...(storage.search === undefined ? {} : { search: storage.search }),
  };
}

function isLarge({ table, value }: Put): boolean {
  return value.length >= minLength && eligible.has(table);
}

async function extracted(batch: Batch): Promise<Batch> {
  const texts = new Map<string, Put>();
  const puts = await Promise.all(batch.puts.map((put) => (isLarge(put) ? withReferences(put, texts) : put)));
  // The texts first: a storage that searches indexes them with the rows that refer to them.
  return { ...batch, puts: [...texts.values(), ...puts] };
}

async function withReferences(put: Put, texts: Map<string, Put>): Promise<Put> {
  const [tenant = "", session = ""] = put.key;
  const largeTexts: { readonly path: Reference["path"]; readonly text: string }[] = [];
  const data = withoutTexts(JSON.parse(put.value), [], largeTexts);
  if (largeTexts.length === 0) return put;
  const references = await Promise.all(
    largeTexts.map(async ({ path, text }): Promise<Reference> => {
      const digest = await sha256(text);
      const key = [tenant, session, digest];
      texts.set(JSON.stringify(key), { table: "large", key, tag: 0, value: text });
      return { path, digest };
    }),
  );
  return { ...put, value: `${marker}${JSON.stringify({ data, references } satisfies Extracted)}` };
}

/** Returns the value with empty texts in place of the large ones, and appends the large ones to `largeTexts`. */
function withoutTexts(
  value: Json,
  path: Reference["path"],
  largeTexts: { path: Reference["path"]; text: string }[],
): Json {
  if (typeof value === "string") {
    if (value.length < minLength) return value;
    largeTexts.push({ path, text: value });
    return "";
  }
  if (isJsonArray(value)) return value.map((item, index) => withoutTexts(item, [...path, index], largeTexts));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, item]) => [name, withoutTexts(item, [...path, name], largeTexts)]),
  );
}

/**
 * Resolves references. A row whose text is missing keeps its references: `readValue` then rejects it as `corrupt_row`,
 * and the other rows of the read are not affected.
 */
async function resolved(
  source: TextSource,
  queries: readonly Query[],
  results: readonly (readonly Row[])[],
): Promise<readonly (readonly Row[])[]> {
  if (!results.some((rows) => rows.some(hasReferences))) return results;
  const limited = queries.some(({ maxLength }) => maxLength !== undefined);
  if (!limited) return resolvedAtOnce(source, results);
  return Promise.all(
    results.map(async (rows, index) => {
      const { maxLength } = queries[index] ?? {};
      if (maxLength !== undefined) return resolvedOneByOne(source, rows, maxLength);
      const [all = rows] = await resolvedAtOnce(source, [rows]);
      return all;
    }),
  );
}

/**
 * Resolves rows in order, until their values are longer than `maxLength` characters together. The first row is returned
 * in any case.
 */
async function resolvedOneByOne(source: TextSource, rows: readonly Row[], maxLength: number): Promise<readonly Row[]> {
  const withTexts: Row[] = [];
  let length = 0;
  for (const row of rows) {
    const [[resolvedRow = row] = []] = hasReferences(row) ? await resolvedAtOnce(source, [[row]]) : [];
    length += rowLength(resolvedRow);
    if (withTexts.length > 0 && length > maxLength) break;
    withTexts.push(resolvedRow);
  }
  return withTexts;
}

/** Resolves the references of all rows with one read. */
async function resolvedAtOnce(
  { storage, cache }: TextSource,
  results: readonly (readonly Row[])[],
): Promise<readonly (readonly Row[])[]> {
  const parsed = new Map<Row, Extracted>();
  const textKeys = new Map<string, Key>();
  for (const row of results.flat().filter(hasReferences)) {
    const value = extractedIn(row);
    if (value === null) continue;
    parsed.set(row, value);
    for (const { digest } of value.references) {
      const key = [...row.key.slice(0, 2), digest];
      textKeys.set(JSON.stringify(key), key);
    }
  }
  const textsByDigest = new Map<string, string>();
  const uncached = [...textKeys].filter(([name]) => {
    const text = cache.get(name);
    if (text !== undefined) textsByDigest.set(name, text);
    return text === undefined;
  });
  const texts =
    uncached.length === 0
      ? []
      : await storage.read(uncached.map(([, prefix]) => ({ table: "large", prefix }) as const));
  for (const [index, [name]] of uncached.entries()) {
    const text = texts[index]?.[0]?.value;
    if (text === undefined) continue;
    textsByDigest.set(name, text);
    cache.keep(name, text);
  }
  return results.map((rows) =>
    rows.map((row) => {
      const value = parsed.get(row);
      return value === undefined ? row : withTexts(row, value, textsByDigest);
    }),
  );
}

/**
 * Returns whether a row has unresolved references. After a read through `withLargeValues` that means a missing text or
 * a damaged row.
 */
export function hasReferences({ value }: Pick<Row, "value">): boolean {
  return value.startsWith(marker);
}

/** Parses a row with references; `null`: the row is damaged. */
export function extractedIn({ value }: Pick<Row, "value">): Extracted | null {
  try {
    const extracted: Extracted = JSON.parse(value.slice(marker.length));
    return extracted;
  } catch {
    return null;
  }
}

/** Returns the row with its texts, or as it is if a text is missing. */
function withTexts(row: Row, { data, references }: Extracted, textsByDigest: ReadonlyMap<string, string>): Row {
  let [value, length] = [data, row.value.length];
  for (const { path, digest } of references) {
    const text = textsByDigest.get(JSON.stringify([...row.key.slice(0, 2), digest]));
    if (text === undefined) return row;
    value = withTextAt(value, path, text);
    length += text.length;
  }
  return new ResolvedRow(row, value, length);
}

/** Returns the value with a text at a path. Copies only the containers on the path. */
export function withTextAt(value: Json, [first, ...rest]: Reference["path"], text: string): Json {
  if (first === undefined) return text;
  if (isJsonArray(value)) return value.with(Number(first), withTextAt(value[Number(first)] ?? null, rest, text));
  if (typeof value !== "object" || value === null) return value;
  return { ...value, [first]: withTextAt(Object.hasOwn(value, first) ? (value[first] ?? null) : null, rest, text) };
}
