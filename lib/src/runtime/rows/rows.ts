// Rows that several parts write.

import type { Json } from "../../model/internal.ts";
import type { RuntimeContext } from "../context.ts";
import type { Key, Put } from "./storage.ts";
import type { JournalRow } from "./stored.ts";

import { writeValue } from "./stored.ts";

export function recordPut(at: Key, effectId: string, name: string, value: Json): Put {
  return { table: "records", key: [...at, effectId, name], tag: 0, value: writeValue("records", value) };
}

export function journalPut(at: Key, ordinal: number, row: JournalRow): Put {
  return { table: "journal", key: [...at, ordinal], tag: 0, value: writeValue("journal", row) };
}

/** When the journal of a turn that has ended may go; nothing where it is kept for ever. */
export function retainedPuts(
  { retentionMs }: Pick<RuntimeContext, "retentionMs">,
  at: Key,
  now: number,
): readonly Put[] {
  if (retentionMs === null) return [];
  return [{ table: "retained", key: [Math.ceil(now + retentionMs), ...at], tag: 0, value: "" }];
}
