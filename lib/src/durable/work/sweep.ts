// `sweep`: what a worker does besides driving turns, once: applies deadlines, removes expired journals and unreferenced
// rows, folds rollups, and lists the sessions that are due. For deployments without a
// worker loop: a cron job calls `sweep` and passes each listed session to `drive`.

import type { VerbContext } from "../drive/context.ts";
import type { Key } from "../rows/storage.ts";

import { MisuseError } from "../../core/model/internal.ts";
import { nameOf } from "../rows/session-key.ts";
import { collectUnused } from "./collect.ts";
import { deadlines } from "./expire.ts";
import { foldRollups } from "./fold-rollups.ts";
import { importFormer } from "./import-former.ts";
import { listDue } from "./list-due.ts";
import { examinePage } from "./open-turns.ts";
import { expiring } from "./retention.ts";
import { visitOnce } from "./visit.ts";

/** Options of `sweep` of a {@link Runtime}: how many due sessions it lists, and from where on. */
export type SweepOptions = {
  /** The largest number of due sessions that are listed. Default: 256. */
  readonly limit?: number;
  /** The cursor `next` of the sweep before this one. Default: none, which lists the first sessions. */
  readonly after?: string | null;
};

/** What `sweep` found and did. */
export type Swept = {
  /**
   * Sessions with a turn that is due and that no process drives. `drive` continues each. A later page may list a
   * session again.
   */
  readonly due: readonly { readonly tenant: string; readonly sessionId: string }[];
  /** There may be more due sessions: `sweep({ after: next })` lists others. `null`: all were listed. */
  readonly next: string | null;
  /** The number of deadlines that were applied. */
  readonly expired: number;
  /** The number of turns and sessions whose retention time was over, and that were removed or examined. */
  readonly removed: number;
};

/** How many open turns are examined for a process that has ended, at most. */
const maxEnded = 64;

/** Where the passes over open turns continue, by runtime. */
const cursors = new WeakMap<VerbContext["turns"], { open: Key | null; lines: string | null }>();

/** One pass. */
export async function sweep(context: VerbContext, { limit = 256, after = null }: SweepOptions = {}): Promise<Swept> {
  if (!Number.isSafeInteger(limit) || limit < 1) {
    throw new MisuseError("invalid_argument", "sweep: limit must be a whole number of 1 or more", { path: ["limit"] });
  }
  const at = cursors.get(context.turns) ?? { open: null, lines: null };
  cursors.set(context.turns, at);
  const now = await context.clock.latest();
  const expired = await visitOnce(context, deadlines(context, null), now);
  let removed = 0;
  for (const { kind, horizon } of expiring(context, now, null))
    removed += (await visitOnce(context, kind, horizon)).handled;
  await collectUnused(context);
  await foldRollups(context);
  await importFormer(context.storage, now);
  at.lines = await context.turns.serveAllWaiting(at.lines, { onlyWakes: true });
  // Turns of ended processes get a part of the places; the index leads to them, too, when their leases expire.
  const places = Math.min(maxEnded, Math.floor(limit / 4));
  const ended = places === 0 ? { keys: [], next: at.open } : await examinePage(context, at.open, places);
  at.open = ended.next;
  const page = await listDue(context, limit - ended.keys.length, after);
  const keys = new Map([...page.keys, ...ended.keys].map((key) => [nameOf(key), key]));
  return {
    due: Array.from(keys.values(), ({ tenant, session }) => ({ tenant, sessionId: session })),
    next: page.next,
    expired: expired.handled,
    removed,
  };
}
