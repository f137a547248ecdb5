// The rows that make a turn open: its row in `open`, from which processes claim it, and its row in the index of work
// (`work.ts`), by the time when a worker examines it. A turn that waits for a limit has no row in the index.

import type { Changes } from "./batch.ts";
import type { SessionKey } from "./session-key.ts";
import type { Check, Put, Removal } from "./storage.ts";
import type { OpenTurn } from "./values.ts";
import type { WorkItem } from "./work.ts";

import { limitRemovals } from "./limits.ts";
import { keyOf } from "./session-key.ts";
import { writeValue } from "./stored.ts";
import { workKey, workPut, workRemoval } from "./work.ts";

/**
 * The rows that make a turn open: its row in `open`, and its row in the index of work unless it waits for a limit.
 */
export function openTurnPuts(key: SessionKey, open: OpenTurn): readonly Put[] {
  return open.limit?.type === "waiting" ? [openPut(key, open)] : [openPut(key, open), duePut(key, open)];
}

function openPut(key: SessionKey, open: OpenTurn): Put {
  return { table: "open", key: keyOf(key), tag: 0, value: writeValue("open", open) };
}

/** What the key of a turn in the index of work is made of. */
type DueTurn = Pick<OpenTurn, "engine" | "due">;

/** The row of an open turn in the index of work. */
export function duePut(key: SessionKey, open: DueTurn): Put {
  return workPut(dueItem(key, open));
}

/** The removal of that row. */
export function dueRemoval(key: SessionKey, open: DueTurn): Removal {
  return workRemoval(dueItem(key, open));
}

function dueItem(key: SessionKey, { engine, due }: DueTurn): WorkItem {
  return { reason: "turn", queue: engine, key, at: due, item: "" };
}

/** The removals that close a turn. Its slots are released, or its place among the turns that wait for a limit. */
export function closedTurnRemovals(key: SessionKey, turn: DueTurn & Pick<OpenTurn, "limit">): readonly Removal[] {
  return [{ table: "open", prefix: keyOf(key) }, dueRemoval(key, turn), ...limitRemovals(key, turn.limit)];
}

/**
 * Moves an open turn to another time in the index of work. Refused if no turn is open: the answer to the commit
 * that ended the turn may have been lost, and an ended turn must not be opened again.
 */
export function moveDue(key: SessionKey, open: OpenTurn, later: number): Changes {
  const moved = { ...open, due: later };
  return {
    checks: [isOpen(key)],
    removals: later === open.due ? [] : [dueRemoval(key, open)],
    puts: [openPut(key, moved), duePut(key, moved)],
  };
}

/**
 * Moves an open turn without a claim. Refused if its row in the index is not the one that was read: another process has
 * moved the turn, and a second move from the old time would leave the turn with a row that differs from it.
 */
export function moveIndexedDue(key: SessionKey, open: OpenTurn, later: number): Changes {
  const moved = moveDue(key, open, later);
  return { ...moved, checks: [...moved.checks, hasDueRow(key, open)] };
}

/** The index of work has the row of this open turn. */
export function hasDueRow(key: SessionKey, open: DueTurn): Check {
  return { table: "work", key: workKey(dueItem(key, open)), tag: 0 };
}

/** A turn of the session is open. */
function isOpen(key: SessionKey): Check {
  return { table: "open", key: keyOf(key), tag: 0 };
}

/** Takes an open turn out of the turns that are due: it waits for a limit. */
export function removeDue(key: SessionKey, open: OpenTurn): Changes {
  return {
    checks: [isOpen(key)],
    removals: [dueRemoval(key, open)],
    puts: [openPut(key, open)],
  };
}
