// Workers: drive turns that no process drives, end waits whose deadline has passed, and remove journals whose retention time is over.

import type { VerbContext } from "../context.ts";
import type { OpenCursor } from "./restore-due.ts";

import { MisuseError } from "../../model/internal.ts";
import { ChangeSignal } from "../change-signal.ts";
import { collectUnused } from "./collect.ts";
import { DueTenants } from "./due-tenants.ts";
import { pickUpDue } from "./due.ts";
import { expire } from "./expire.ts";
import { restoreDue } from "./restore-due.ts";
import { removeRetained } from "./retention.ts";

/** The longest time between two polls, and the shortest rest between two that a write caused, in milliseconds. */
const pollMs = 1000;
const minRestMs = 20;
/** A worker rests this many times as long as a poll took that claimed nothing, within those bounds, so that polling never takes most of its time. */
const restFactor = 9;
/** How often deadlines and retained journals are looked at, in milliseconds. */
const upkeepMs = 250;
/** How often unused rows are collected and missing rows of the index restored, in milliseconds. */
const collectMs = 60_000;
/** How many rows of the index one poll claims or moves, and how many pages it reads, at most. A poll also ends after `upkeepMs`. */
const pollRows = 256;
const pollPages = 64;

const failedPoll = { driven: 0, isCutOff: false };

/** Drives turns until the signal aborts: those of processes that died, and those that were only accepted. */
export async function work(
  context: VerbContext,
  { concurrency = 16, signal }: { readonly concurrency?: number; readonly signal: AbortSignal },
): Promise<void> {
  const { clock, storage, turns } = context;
  if (!(signal instanceof AbortSignal) || !(concurrency >= 1)) {
    throw new MisuseError("invalid_argument", "work: pass a signal that ends it, and a concurrency of 1 or more");
  }
  const changes = new ChangeSignal(storage, null, ["due", "deadlines", "retained"]);
  // A freed place is filled at once: a turn that ends interrupts the wait and the rest.
  let hasFreed = false;
  let rest = new AbortController();
  const wake = () => {
    changes.notify();
    rest.abort();
  };
  const stop = turns.onFree(() => {
    hasFreed = true;
    wake();
  });
  signal.addEventListener("abort", wake);
  const tenants = new DueTenants(storage);
  let upkeepAt = Number.NEGATIVE_INFINITY;
  let collectAt = Number.NEGATIVE_INFINITY;
  let openCursor: OpenCursor = null;
  try {
    while (!signal.aborted && !turns.closing) {
      changes.clear();
      hasFreed = false;
      rest = new AbortController();
      const from = clock.now();
      // The budget keeps a long backlog from delaying the upkeep after the poll.
      const budget = { rows: pollRows, pages: pollPages, until: from + upkeepMs };
      const { driven, isCutOff } = await pickUpDue(context, {
        limit: concurrency,
        patient: true,
        budget,
        tenants,
      }).catch(() => failedPoll);
      const polledAt = clock.now();
      if (polledAt >= upkeepAt + upkeepMs) {
        upkeepAt = polledAt;
        await expire(context).catch(() => 0);
        await removeRetained(context).catch(() => 0);
      }
      if (polledAt >= collectAt + collectMs) {
        collectAt = polledAt;
        await collectUnused(context).catch(() => undefined);
        openCursor = await restoreDue(context, openCursor).catch(() => null);
      }
      // The time of a poll that claimed turns is no overhead of polling.
      const overheadMs = driven > 0 ? 0 : clock.now() - from;
      const restMs = Math.min(pollMs, Math.max(minRestMs, restFactor * overheadMs));
      if (signal.aborted || turns.closing) return;
      if (!isCutOff) {
        const timer = new AbortController();
        await Promise.race([changes.changed(), clock.sleep(pollMs, timer.signal).catch(() => undefined)]);
        timer.abort();
      }
      // A poll that was cut off continues at once if a turn has ended meanwhile. Turns that only fail do not keep the worker busy.
      if (!hasFreed) await clock.sleep(restMs, rest.signal).catch(() => undefined);
    }
  } finally {
    stop();
    changes.stop();
    tenants.stop();
    signal.removeEventListener("abort", wake);
  }
}
