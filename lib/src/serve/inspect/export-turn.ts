// Exports a turn as one JSON value, whole or in parts. `replayTurn` runs it again offline.

import type { Message } from "../../core/model/internal.ts";
import type { HostStorage, JournalRow, Key, Row, TurnRecord } from "../../durable/internal.ts";
import type { InspectionContext } from "./context.ts";

import { orThrow, RuntimeError, storedVersion } from "../../core/model/internal.ts";
import { readPinned } from "../../core/run/internal.ts";
import { keyOf, pageLength, readOne, readValue, rowLength, turnKey } from "../../durable/internal.ts";
import { readHead } from "./context.ts";

/**
 * A part of a turn record. The first part has all but the two lists, which follow in pages: the messages, then the
 * rows.
 */
export type TurnRecordPart =
  | { readonly type: "fields"; readonly record: TurnRecord }
  | { readonly type: "history"; readonly items: readonly Message[] }
  | { readonly type: "rows"; readonly items: readonly JournalRow[] };

/**
 * Exports a turn: the given one, the open one, or the one that ended last. An open turn is exported up to its last
 * commit.
 */
export async function exportTurn(context: InspectionContext, id: string, turnId?: string): Promise<TurnRecord> {
  const [history, rows]: [Message[], JournalRow[]] = [[], []];
  let record: TurnRecord | null = null;
  for await (const part of exportParts(context, id, turnId)) {
    if (part.type === "fields") record = part.record;
    else if (part.type === "history") history.push(...part.items);
    else rows.push(...part.items);
  }
  if (record === null) throw new Error("the first part of a turn record is missing");
  return { ...record, data: { ...record.data, history, rows } };
}

/**
 * Exports a turn in parts. A page of messages or rows has about `pageLength` characters, or one item that is longer,
 * and is read when it is asked for. So a record of any length is written to a file or a response with the memory of one
 * page. Rejects with `not_found` if the session or the journal is removed before all pages are read.
 */
export async function* exportParts(
  context: InspectionContext,
  id: string,
  turnId?: string,
): AsyncGenerator<TurnRecordPart, void> {
  const { key, head } = await readHead(context, id);
  const turn = turnId ?? head.turn ?? head.lastTurn;
  const { storage } = context;
  const at = turnKey(key, turn ?? "");
  const [starts = [], turns = [], lastRows = []] = await storage.read([
    { table: "starts", prefix: at },
    { table: "turns", prefix: at },
    { table: "journal", prefix: at, reverse: true, limit: 1 },
  ]);
  const [startRow, turnRow] = [starts[0], turns[0]];
  if (turn === null || startRow === undefined || turnRow === undefined) {
    throw new RuntimeError("not_found", {
      message: `session ${JSON.stringify(id)} has no turn ${JSON.stringify(turn)}`,
    });
  }
  const start = readValue("starts", startRow);
  const contents = await readOne(storage, { table: "contents", prefix: [key.tenant, start.pinned] });
  if (contents === null) {
    throw new RuntimeError("corrupt_row", {
      message: `the pinned configuration of turn ${turn} is not in the storage; it is removed some time after the retention time`,
    });
  }
  const data = {
    sessionId: id,
    turnId: turn,
    history: [],
    protocolEvents: head.session.protocolEvents.slice(0, start.protocolEvents),
    start,
    pinned: orThrow(readPinned(readValue("contents", contents))),
    context: start.context ?? head.session.context,
    rows: [],
    end: readValue("turns", turnRow).end,
  };
  yield { type: "fields", record: { everturn: "turn_record", version: storedVersion, data } };
  for await (const rows of pages(storage, "entries", keyOf(key), { first: 0, last: start.base - 1 })) {
    yield { type: "history", items: rows.map((row) => readValue("entries", row)) };
  }
  // Rows that an open turn commits from here on are not part of the record: its result would be missing.
  const last = Number(lastRows[0]?.key.at(-1) ?? 0);
  for await (const rows of pages(storage, "journal", at, { first: 1, last })) {
    yield { type: "rows", items: rows.map((row) => readValue("journal", row)) };
  }
}

/**
 * The rows of a table whose last key parts are the numbers from `first` to `last`, in pages. Throws if one of them is
 * missing: it was removed meanwhile.
 */
async function* pages(
  storage: HostStorage,
  table: "entries" | "journal",
  prefix: Key,
  { first, last }: { readonly first: number; readonly last: number },
): AsyncGenerator<readonly Row[], void> {
  let next = first;
  // A storage looks at all rows within the limit to find where a page ends, so the limit is what a page is expected to
  // hold.
  let limit = 16;
  while (next <= last) {
    const query = { table, prefix, after: next - 1, before: last + 1, limit, maxLength: pageLength };
    const [rows = []] = await storage.read([query]);
    const isComplete = rows.length > 0 && rows.every(({ key }, index) => key.at(-1) === next + index);
    if (!isComplete) {
      const message = `row ${next} of the turn is not in the table ${table}: the session or its journal was removed while the record was read`;
      throw new RuntimeError("not_found", { message });
    }
    next += rows.length;
    const length = rows.reduce((sum, row) => sum + rowLength(row), 0);
    limit = Math.min(Math.ceil((pageLength / (length + 1)) * rows.length), 256);
    yield rows;
  }
}
