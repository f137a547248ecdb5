// Where a request begins after a provider has compacted the conversation itself: at the newest reply with a compaction
// item of the model of the turn. Codecs leave out what is before it (core/wire/compacted-history.ts), so it is no part
// of an estimate.
//
// Each message is looked at once: the positions belong to the array that all versions of a list share (H5).

import type { Message, ModelName } from "../../model/internal.ts";
import type { SharedList } from "./shared-list.ts";

import { compactionItem } from "../../model/internal.ts";

type Found = { scanned: number; readonly items: { readonly position: number; readonly model: string }[] };

const foundItems = new WeakMap<readonly Message[], Found>();

/**
 * The position of the newest reply with which the provider of the model has replaced the messages before it; 0: there
 * is none. The endpoint is not compared: it is not known here, and a wrong estimate is corrected by the next count.
 */
export function compactedByProvider({ entries, length }: SharedList<Message>, model: ModelName | null): number {
  const found = foundItems.get(entries) ?? { scanned: 0, items: [] };
  foundItems.set(entries, found);
  for (; found.scanned < length; found.scanned += 1) {
    const message = entries[found.scanned];
    const item = message === undefined ? null : compactionItem(message);
    if (item !== null) found.items.push({ position: found.scanned, model: item.provider.model });
  }
  const name = nameOf(model);
  const newest = found.items.findLast((item) => item.position < length && isModel(name, item.model));
  return newest?.position ?? 0;
}

/** Has the provider of the model replaced the messages before this one by an item in it? */
export function isCompactedFor(message: Message, model: ModelName | null): boolean {
  const item = compactionItem(message);
  return item !== null && isModel(nameOf(model), item.provider.model);
}

function nameOf(model: ModelName | null): string | null {
  return (typeof model === "string" ? model : model?.id) ?? null;
}

/** Does the name of a turn mean the model of a route? `openai:gpt-x` is the model `gpt-x` of one provider of several. */
function isModel(name: string | null, model: string): boolean {
  return name === null || name === model || name.endsWith(`:${model}`);
}
