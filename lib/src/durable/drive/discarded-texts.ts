// Keeps the text of attempts at a model call that were thrown away: readers saw it arrive, and it is in no reply. It is
// stored as a record of the effect, in the batch that settles the effect, for people who look at the turn later. No
// replay reads it.
//
//   discarded/<epoch>/<n>   the text of attempt n under that lease epoch
//
// Where the text comes from: attempts of this process are in its live tail; those of a process that crashed are in the
// table `pieces`, as far as that process had written them. Both are removed by the commit that settles the effect.

import type { Json, JsonObject } from "../../core/model/internal.ts";
import type { LiveItem } from "../read/live.ts";
import type { HostStorage, Key, Put } from "../rows/storage.ts";

import { deltaText } from "../../core/model/internal.ts";
import { isPlainObject } from "../../core/model/parse/reading.ts";
import { piecesBefore } from "../read/pieces.ts";
import { recordPut } from "../rows/journal-rows.ts";
import { readValue } from "../rows/stored.ts";

/** An attempt at an effect. */
type AttemptId = Pick<LiveItem, "effectId" | "epoch" | "n">;

/** The text of an attempt: its beginning, and the number of characters in all. */
export type DiscardedText = { readonly text: string; readonly length: number };

/** How many characters of the text of an attempt are kept, and how many characters of pieces are read for it. */
const maxText = 4000;
const maxRead = 1_000_000;

/**
 * The records of the discarded attempts among live items. `settled`: the attempt whose result is recorded; `null`: none
 * is.
 */
export function discardedPuts(at: Key, items: readonly LiveItem[], settled: AttemptId | null): readonly Put[] {
  const texts = new Map<string, AttemptId & { text: string; length: number }>();
  for (const { effectId, epoch, n, event } of items) {
    const added = deltaText(event);
    const isSettled = settled?.effectId === effectId && settled.epoch === epoch && settled.n === n;
    if (added?.kind !== "text" || isSettled) continue;
    const key = JSON.stringify([effectId, epoch, n]);
    const discarded = texts.get(key) ?? { effectId, epoch, n, text: "", length: 0 };
    texts.set(key, discarded);
    discarded.length += added.delta.length;
    if (discarded.text.length < maxText) discarded.text = (discarded.text + added.delta).slice(0, maxText);
  }
  return [...texts.values()].map(({ effectId, epoch, n, text, length }) => {
    // A surrogate pair is not split.
    const record: JsonObject = { text: text.replace(/[\uD800-\uDBFF]$/, ""), length };
    return recordPut(at, effectId, `discarded/${epoch}/${n}`, record);
  });
}

/** The live items that processes before this epoch have left in the storage. */
export async function itemsLeftBefore(storage: HostStorage, at: Key, epoch: number): Promise<readonly LiveItem[]> {
  const [rows = []] = await storage.read([{ ...piecesBefore(at, epoch), maxLength: maxRead }]);
  return rows.flatMap((row) => {
    const { effectId, epoch: ofEpoch, n, items } = readValue("pieces", row);
    return items.map((item) => ({ ...item, effectId, epoch: ofEpoch, n }));
  });
}

/** Reads a record of {@link discardedPuts}; `null`: it has another name or shape. */
export function readDiscarded(
  name: string,
  record: Json,
): (DiscardedText & { readonly epoch: number; readonly n: number }) | null {
  const [, epoch, n] = /^discarded\/(\d+)\/(\d+)$/.exec(name) ?? [];
  if (epoch === undefined || n === undefined || !isPlainObject(record)) return null;
  const { text, length } = record;
  if (typeof text !== "string" || typeof length !== "number") return null;
  return { epoch: Number(epoch), n: Number(n), text, length };
}
