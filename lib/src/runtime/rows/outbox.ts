// Where the log of events is not in the store, a crash may come between a commit and its being told. What belongs to a turn that goes on is told
// when the turn is replayed. Nobody replays one that has ended: its last events are kept in the store until they are in the log.

import type { Host } from "../context.ts";
import type { HostStorage, Key, Put, Removal, Row } from "./storage.ts";

import { nothing } from "./changes.ts";
import { readValue } from "./stored.ts";

/** Does the log stand apart from the store? */
export function isApart({ store, events }: Host): boolean {
  return store !== events;
}

/** Tells what was left untold: of one session, or, with an empty key, of all. Whoever tells something newer does this first. */
export async function tellLeft(host: Host, key: Key): Promise<void> {
  if (!isApart(host)) return;
  const [rows = []] = await host.store.read([{ table: "untold", prefix: key }]);
  if (rows.length === 0) return;
  const removals = rows.map(piecesOf);
  const puts = rows.map(({ key: at, tag, value }): Put => ({ table: "events", key: at, tag, value }));
  await host.events.write({ checks: [], removals, puts });
  await forget(host.store, rows);
}

/** What has been told need not be kept. */
export async function forget(store: HostStorage, told: readonly Pick<Row, "key">[]): Promise<void> {
  if (told.length === 0) return;
  await store.write({ ...nothing, removals: told.map(({ key }) => ({ table: "untold", prefix: key })) });
}

/** What was heard of a turn that has ended is told by its entries. */
function piecesOf(row: Row): Removal {
  return { table: "pieces", prefix: [...row.key.slice(0, 2), readValue("untold", row).turn] };
}
