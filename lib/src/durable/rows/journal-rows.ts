// Rows of the journal (the write-ahead log of a turn) and of records inside effects (Q2). A journal row is written
// once, by the commit that accepts its item, and never changed.

import type { Json } from "../../core/model/internal.ts";
import type { Key, Put } from "./storage.ts";
import type { JournalRow } from "./values.ts";

import { writeValue } from "./stored.ts";

/** The journal row of a turn at an ordinal, counted from 1. `turn` is the key of the turn. */
export function journalPut(turn: Key, ordinal: number, row: JournalRow): Put {
  return { table: "journal", key: [...turn, ordinal], tag: 0, value: writeValue("journal", row) };
}

/** A record inside an effect, for example an attempt or a start mark. */
export function recordPut(turn: Key, effectId: string, name: string, value: Json): Put {
  return { table: "records", key: [...turn, effectId, name], tag: 0, value: writeValue("records", value) };
}

/** The key of a record in maps of this process. `JSON.parse` of it returns the effect id and the name. */
export function recordName(effectId: string, name: string): string {
  return JSON.stringify([effectId, name]);
}
