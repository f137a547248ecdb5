// Rows that several parts write.

import type { Json } from "../model/index.ts";
import type { Key, Put } from "./storage.ts";
import type { JournalRow } from "./stored.ts";

import { writeValue } from "./stored.ts";

export function recordPut(at: Key, effectId: string, name: string, value: Json): Put {
  return { table: "records", key: [...at, effectId, name], tag: 0, value: writeValue("records", value) };
}

export function journalPut(at: Key, ordinal: number, row: JournalRow): Put {
  return { table: "journal", key: [...at, ordinal], tag: 0, value: writeValue("journal", row) };
}
