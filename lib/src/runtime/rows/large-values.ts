// Stores large texts once. A reply is part of several rows: the message, the journal row, the events that report it, the turn and the session row. Without this file a
// reply of 40 MB was a database of 520 MB.
//
// `withLargeValues` wraps the storage of a runtime. When a row is written, each text in its value of `minLength` characters or more is replaced by a reference, and
// stored in the table `large` under its digest, once for each session. When a row is read, its references are resolved with one more read. Rows without such
// texts, which is nearly all of them, cost a comparison of lengths.
//
// The form of a row with references is `large:` and then JSON: the value with empty texts in place of the large ones, and the path and digest of each. Other values begin
// with `{` or are empty. The texts of a session are removed with the session.

import type { Json } from "../../model/internal.ts";
import type { Batch, HostStorage, Key, Put, Row } from "./storage.ts";
import type { TableName } from "./tables.ts";

import { isJsonArray } from "../../model/internal.ts";
import { sha256 } from "./digest.ts";
import { tablesOfSession } from "./tables.ts";

/** The length in characters from which a text is stored apart. */
const minLength = 65_536;

const marker = "large:";

type Reference = { readonly path: readonly (string | number)[]; readonly digest: string };
type Extracted = { readonly data: Json; readonly references: readonly Reference[] };

/** Tables of this process's sessions whose values may hold large texts. */
const eligible: ReadonlySet<TableName> = new Set<TableName>(
  [...tablesOfSession, "sessions" as const].filter((table) => table !== "large" && table !== "pieces"),
);

export function withLargeValues(storage: HostStorage): HostStorage {
  return {
    name: storage.name,
    durability: storage.durability,
    read: async (queries) => resolved(storage, await storage.read(queries)),
    write: async (batch) => storage.write(batch.puts.some(isLarge) ? await extracted(batch) : batch),
    watch: (changed) => storage.watch(changed),
  };
}

function isLarge({ table, value }: Put): boolean {
  return value.length >= minLength && eligible.has(table);
}

async function extracted(batch: Batch): Promise<Batch> {
  const texts = new Map<string, Put>();
  const puts = await Promise.all(batch.puts.map((put) => (isLarge(put) ? withReferences(put, texts) : put)));
  return { ...batch, puts: [...puts, ...texts.values()] };
}

async function withReferences(put: Put, texts: Map<string, Put>): Promise<Put> {
  const [tenant = "", session = ""] = put.key;
  const found: { readonly path: Reference["path"]; readonly text: string }[] = [];
  const data = withoutTexts(JSON.parse(put.value), [], found);
  if (found.length === 0) return put;
  const references = await Promise.all(
    found.map(async ({ path, text }): Promise<Reference> => {
      const digest = await sha256(text);
      const key = [tenant, session, digest];
      texts.set(JSON.stringify(key), { table: "large", key, tag: 0, value: text });
      return { path, digest };
    }),
  );
  return { ...put, value: `${marker}${JSON.stringify({ data, references } satisfies Extracted)}` };
}

/** The value with empty texts in place of the large ones, which are collected. */
function withoutTexts(value: Json, path: Reference["path"], found: { path: Reference["path"]; text: string }[]): Json {
  if (typeof value === "string") {
    if (value.length < minLength) return value;
    found.push({ path, text: value });
    return "";
  }
  if (isJsonArray(value)) return value.map((item, index) => withoutTexts(item, [...path, index], found));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, item]) => [name, withoutTexts(item, [...path, name], found)]),
  );
}

/** Resolves references. A row whose text is missing stays as it is: whoever reads its value finds it corrupt, and other rows of the read are not affected. */
async function resolved(
  storage: HostStorage,
  found: readonly (readonly Row[])[],
): Promise<readonly (readonly Row[])[]> {
  if (!found.some((rows) => rows.some(hasReferences))) return found;
  const parsed = new Map<Row, Extracted>();
  const wanted = new Map<string, Key>();
  for (const row of found.flat().filter(hasReferences)) {
    const value = extractedIn(row);
    if (value === null) continue;
    parsed.set(row, value);
    for (const { digest } of value.references) {
      const key = [...row.key.slice(0, 2), digest];
      wanted.set(JSON.stringify(key), key);
    }
  }
  const keys = [...wanted];
  const texts = await storage.read(keys.map(([, prefix]) => ({ table: "large", prefix }) as const));
  const textOf = new Map(keys.map(([name], index) => [name, texts[index]?.[0]?.value]));
  return found.map((rows) =>
    rows.map((row) => {
      const value = parsed.get(row);
      return value === undefined ? row : { ...row, value: withTexts(row, value, textOf) ?? row.value };
    }),
  );
}

/** Does the row have references that are not resolved? After a read through `withLargeValues`: a text is missing, or the row is damaged. */
export function hasReferences({ value }: Pick<Row, "value">): boolean {
  return value.startsWith(marker);
}

/** The references of a row; `null`: the row is damaged. */
function extractedIn({ value }: Row): Extracted | null {
  try {
    const extracted: Extracted = JSON.parse(value.slice(marker.length));
    return extracted;
  } catch {
    return null;
  }
}

/** The value with its texts; `null`: one is missing. */
function withTexts(
  row: Row,
  { data, references }: Extracted,
  textOf: ReadonlyMap<string, string | undefined>,
): string | null {
  let whole = data;
  for (const { path, digest } of references) {
    const text = textOf.get(JSON.stringify([...row.key.slice(0, 2), digest]));
    if (text === undefined) return null;
    whole = put(whole, path, text);
  }
  return JSON.stringify(whole);
}

/** The value with a text at a path. Only the containers on the path are copied. */
function put(value: Json, [first, ...rest]: Reference["path"], text: string): Json {
  if (first === undefined) return text;
  if (isJsonArray(value)) return value.with(Number(first), put(value[Number(first)] ?? null, rest, text));
  if (typeof value !== "object" || value === null) return value;
  return { ...value, [first]: put(Object.hasOwn(value, first) ? (value[first] ?? null) : null, rest, text) };
}
