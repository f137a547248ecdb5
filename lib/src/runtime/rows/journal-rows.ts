// Rows of the journal, and records inside effects (Q2).

import type { Json } from "../../model/internal.ts";
import type { Key, Put } from "./storage.ts";
import type { JournalRow } from "./values.ts";

import { writeValue } from "./stored.ts";

export function journalPut(turn: Key, ordinal: number, row: JournalRow): Put {
  return { table: "journal", key: [...turn, ordinal], tag: 0, value: writeValue("journal", row) };
}

export function recordPut(turn: Key, effectId: string, name: string, value: Json): Put {
  return { table: "records", key: [...turn, effectId, name], tag: 0, value: writeValue("records", value) };
}

/** The name of a record in maps of this process. */
export function recordName(effectId: string, name: string): string {
  return JSON.stringify([effectId, name]);
}
