// `sweep`: what a worker does besides driving turns, once: applies deadlines, removes expired journals and unreferenced rows, restores the index of due work,
// and lists the sessions that are due. For deployments without a worker loop: a cron job calls `sweep` and passes each listed session to `drive`.

import type { VerbContext } from "../context.ts";
import type { OpenCursor } from "./restore-due.ts";

import { MisuseError } from "../../model/internal.ts";
import { collectUnused } from "./collect.ts";
import { listDue } from "./due.ts";
import { listEnded } from "./ended-processes.ts";
import { expire } from "./expire.ts";
import { restoreDue } from "./restore-due.ts";
import { removeRetained } from "./retention.ts";

/** Options of `sweep` of a {@link Runtime}: how many due sessions it lists. */
export type SweepOptions = {
  /** The largest number of due sessions that are listed. Default: 256. */
  readonly limit?: number;
};

/** What `sweep` found and did. */
export type Swept = {
  /** Sessions with a turn that is due and that no process drives. `drive` continues each. */
  readonly due: readonly { readonly tenant: string; readonly sessionId: string }[];
  /** The number of deadlines that were applied. */
  readonly expired: number;
  /** The number of entries of ended turns whose retention time was over. */
  readonly removed: number;
};

/** Where the passes over open turns continue, by runtime. */
const cursors = new WeakMap<VerbContext["turns"], { restore: OpenCursor; ended: OpenCursor; lines: string | null }>();

/** One pass. */
export async function sweep(context: VerbContext, { limit = 256 }: SweepOptions = {}): Promise<Swept> {
  if (!Number.isSafeInteger(limit) || limit < 1) {
    throw new MisuseError("invalid_argument", "sweep: limit must be a whole number of 1 or more", { path: ["limit"] });
  }
  const at = cursors.get(context.turns) ?? { restore: null, ended: null, lines: null };
  cursors.set(context.turns, at);
  const expired = await expire(context);
  const removed = await removeRetained(context);
  await collectUnused(context);
  at.restore = await restoreDue(context, at.restore);
  at.lines = await context.turns.serveAllWaiting(at.lines, { onlyWakes: true });
  const due = await listDue(context, limit);
  const ended = await listEnded(context, at.ended);
  at.ended = ended.next;
  const keys = new Map([...due, ...ended.keys].map((key) => [JSON.stringify([key.tenant, key.session]), key]));
  return {
    due: Array.from(keys.values(), ({ tenant, session }) => ({ tenant, sessionId: session })).slice(0, limit),
    expired,
    removed,
  };
}
