// A turn as it was found in the store.

import type { CancelEvidence, Json } from "../../model/internal.ts";
import type { SessionKey } from "../context.ts";
import type { HostStorage, Key, Row } from "../rows/storage.ts";
import type { JournalRow, SessionHead, TurnProgress, TurnStart } from "../rows/stored.ts";

import { keyOf } from "../context.ts";
import { readValue } from "../rows/stored.ts";

/** A turn as it was found. */
export type Loaded = {
  readonly head: SessionHead;
  readonly version: number;
  readonly start: TurnStart;
  readonly progress: TurnProgress;
  readonly commits: number;
  readonly rows: readonly JournalRow[];
  readonly records: ReadonlyMap<string, Json>;
  /** Somebody wants it to stop. */
  readonly cancel: CancelEvidence | null;
};

/** Reads a turn. `null`: it is not open any more. */
export async function loadTurn(storage: HostStorage, key: SessionKey, turn: string): Promise<Loaded | null> {
  const at: Key = [...keyOf(key), turn];
  const [heads = [], starts = [], turns = [], records = [], cancels = [], journal = []] = await storage.read([
    { table: "sessions", prefix: keyOf(key) },
    { table: "starts", prefix: at },
    { table: "turns", prefix: at },
    { table: "records", prefix: at },
    { table: "cancels", prefix: at },
    { table: "journal", prefix: at },
  ]);
  const [headRow, startRow, turnRow, cancelRow] = [heads[0], starts[0], turns[0], cancels[0]];
  if (headRow === undefined || startRow === undefined || turnRow === undefined) return null;
  const head = readValue("sessions", headRow);
  const progress = readValue("turns", turnRow);
  if (head.turn !== turn || progress.status === "ended" || progress.status === "parked") return null;
  return {
    head,
    version: headRow.tag,
    start: readValue("starts", startRow),
    progress,
    commits: turnRow.tag,
    rows: journal.map((row) => readValue("journal", row)),
    records: new Map(records.map((row) => [recordName(row), readValue("records", row)])),
    cancel: cancelRow === undefined ? null : readValue("cancels", cancelRow).evidence,
  };
}

function recordName({ key }: Row): string {
  return JSON.stringify([key[3], key[4]]);
}
