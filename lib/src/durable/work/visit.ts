// Visits the index of work (`rows/work.ts`): the one search for something to do. Workers, `sweep`, `recover` and
// `drive` use it for every reason. A visit reads a few rows, whatever the backlog is.
//
// Order of a visit
//   The queues are served round robin, beginning after the queue that was served last. Within a queue the lanes are
//   served round robin too, beginning after the lane that was served last; lanes whose rows are all due later are not
//   visited (`lanes.ts`). A few rows of a lane are handled (`share`) before the next lane is served. Rounds are
//   repeated until a round finds nothing to do. The rows of a lane are read page by page. Processes begin at a random
//   place of a page, so that they do not all handle the same rows. When this process may handle no row of a page, a
//   cursor moves to the next page; the number of rows that it skips is not limited.
//
// Invariants
//   1. A visit sees the rows that were due when it began, so it ends although work is added meanwhile.
//   2. A visit with a budget ends when the budget is spent; `isCutOff` reports it, and the next visit continues. So a
//      backlog of one reason does not delay the others (`work.ts`).
//   3. A row that cannot be read or handled affects its own session only, and the error is reported.

import type { Clock } from "../../core/clock/clock.ts";
import type { RuntimeContext } from "../drive/context.ts";
import type { HostStorage, Key, Query, Row } from "../rows/storage.ts";
import type { WorkItem, WorkReason } from "../rows/work.ts";

import { isEverturnError, MisuseError } from "../../core/model/internal.ts";
import { workItem } from "../rows/work.ts";
import { Lanes } from "./lanes.ts";
import { rowsAfter } from "./pages.ts";

/** How many due rows of a lane are read at a time. */
const pageSize = 64;

/** How many rows are skipped for a while at most. Others are examined again by the next visit. */
const maxSkipped = 10_000;

/**
 * What happened to a row: `taken`: this process does its work. `done`: it was removed or moved. `seen`: this visit does
 * not examine it again. `left`: other processes may do it; this process skips it for a while.
 */
export type Handled = "taken" | "done" | "seen" | "left";

/** How a process does the work of one reason. */
export type WorkKind = {
  readonly reason: WorkReason;
  /** The queues that this process serves. */
  readonly queues: readonly string[];
  /** How many rows of a lane are handled before the next one of so many due lanes is served. */
  readonly share: (lanes: number) => number;
  /** For how long a row that was left is skipped, in milliseconds. */
  readonly retryMs: number;
  /** May this process take another row? */
  readonly hasPlace: () => boolean;
  /** Selects the rows that `handle` needs. They are read for several items at once. */
  readonly queriesFor: (item: WorkItem) => readonly Query[];
  readonly handle: (item: WorkItem, row: Row, stored: readonly (readonly Row[])[]) => Promise<Handled>;
  /**
   * Receives errors of a visit that is repeated: an error of one row, which is skipped for a while, and an error of the
   * storage, which ends the visit of a lane. `null`: the visit rejects with errors of the storage, and rows with an
   * error are skipped.
   */
  readonly onError: ((error: unknown) => void) | null;
};

/** How much one visit may do. */
export type Budget = {
  /** Rows that are handled. */
  readonly rows: number;
  /** Pages that are read. */
  readonly pages: number;
  /** When it ends, in milliseconds. */
  readonly until: number;
};

/** What a visit found. */
export type Visit = {
  /** How many rows this process has taken. */
  readonly taken: number;
  /** How many rows were handled: taken, moved or removed. */
  readonly handled: number;
  /** The budget was spent before all due rows were examined. */
  readonly isCutOff: boolean;
};

/** How many rows of a lane a worker handles before the next lane is served. */
export const workerShare = (): number => 8;

/** The rows of one reason, and what a process remembers of them between visits. */
export class WorkIndex {
  readonly #storage: HostStorage;
  readonly #clock: Clock;
  /** The queue that was served last. */
  #queue: string | null = null;
  /** The lane that was served last, by queue. */
  readonly #served = new Map<string, string>();
  /** Rows that this process leaves to others for a while, by name, and until when. Others see them. */
  readonly #skipped = new Map<string, number>();
  /** Where the next visit continues, by queue and lane, if the last one was cut off between two pages. */
  #cursors: ReadonlyMap<string, Key> = new Map();

  constructor(storage: HostStorage, clock: Clock) {
    this.#storage = storage;
    this.#clock = clock;
  }

  /** Handles rows that are due at `horizon` until no place or no row is left, or the budget is spent. */
  async visit(kind: WorkKind, lanes: Lanes, horizon: number, budget: Budget | null = null): Promise<Visit> {
    for (const [name, until] of this.#skipped) if (until <= horizon) this.#skipped.delete(name);
    const pass: Pass = {
      kind,
      lanes,
      horizon,
      budget: { ...(budget ?? { rows: Infinity, pages: Infinity, until: Infinity }) },
      seen: new Set(),
      cursors: new Map(this.#cursors),
      taken: 0,
      handled: 0,
    };
    this.#cursors = new Map();
    while (await this.#serveQueues(pass));
    const isCutOff = this.#isSpent(pass);
    if (isCutOff) this.#cursors = pass.cursors;
    return { taken: pass.taken, handled: pass.handled, isCutOff };
  }

  #isSpent({ budget }: Pass): boolean {
    return budget.rows <= 0 || budget.pages <= 0 || this.#clock.now() >= budget.until;
  }

  #mayContinue(pass: Pass): boolean {
    return pass.kind.hasPlace() && !this.#isSpent(pass);
  }

  /** One round: serves every queue once. Returns whether another round may find more. */
  async #serveQueues(pass: Pass): Promise<boolean> {
    const { queues } = pass.kind;
    const first = this.#queue === null ? 0 : queues.indexOf(this.#queue) + 1;
    let hasProgress = false;
    for (const queue of [...queues.slice(first), ...queues.slice(0, first)]) {
      if (!this.#mayContinue(pass)) return false;
      if (await this.#serveQueue(pass, queue)) hasProgress = true;
    }
    return hasProgress && this.#mayContinue(pass);
  }

  /** Serves every lane with due rows once, beginning after the one that was served last. */
  async #serveQueue(pass: Pass, queue: string): Promise<boolean> {
    const due = await pass.lanes.dueAt(queue, pass.horizon);
    const last = this.#served.get(queue);
    const next = last === undefined ? 0 : due.findIndex((lane) => lane > last);
    const first = Math.max(0, next);
    let hasProgress = false;
    const share = pass.kind.share(due.length);
    for (const lane of [...due.slice(first), ...due.slice(0, first)]) {
      if (!this.#mayContinue(pass)) return false;
      this.#queue = queue;
      this.#served.set(queue, lane);
      pass.lanes.visited(queue, lane);
      if (await this.#serveLane(pass, queue, lane, share)) hasProgress = true;
    }
    return hasProgress;
  }

  /** Handles a few due rows of one lane. Returns whether another visit of it may find more. */
  async #serveLane(pass: Pass, queue: string, lane: string, share: number): Promise<boolean> {
    const { kind, budget } = pass;
    const due = await this.#nextRows(pass, queue, lane);
    const first = Math.floor(this.#clock.random() * (Math.max(0, due.length - share) + 1));
    const rows = due.slice(first, first + share);
    if (rows.length === 0) return false;
    const items = rows.map((row) => workItem(kind.reason, row));
    const queries = items.map((item) => kind.queriesFor(item));
    const stored = await this.#readAll(queries.flat());
    let read = 0;
    for (const [index, row] of rows.entries()) {
      if (!this.#mayContinue(pass)) return false;
      budget.rows -= 1;
      const count = queries[index]?.length ?? 0;
      const item = items[index] ?? workItem(kind.reason, row);
      try {
        this.#note(pass, row, await kind.handle(item, row, stored.slice(read, read + count)));
      } catch (error) {
        if (isOfRow(error)) this.#note(pass, row, "left");
        else if (kind.onError === null) throw error;
        kind.onError?.(error);
        if (!isOfRow(error)) return false;
      }
      read += count;
    }
    return true;
  }

  async #readAll(queries: readonly Query[]): Promise<readonly (readonly Row[])[]> {
    return queries.length === 0 ? [] : this.#storage.read(queries);
  }

  #note(pass: Pass, row: Row, handled: Handled): void {
    const name = rowName(row);
    switch (handled) {
      case "taken":
        pass.taken += 1;
        pass.handled += 1;
        return;
      case "done":
        pass.handled += 1;
        return;
      case "seen":
        pass.seen.add(name);
        return;
      case "left":
        pass.seen.add(name);
        if (this.#skipped.size < maxSkipped) this.#skipped.set(name, pass.horizon + pass.kind.retryMs);
    }
  }

  /** The due rows of the first page of a lane that has rows for this process. The cursor stays at that page. */
  async #nextRows(
    { kind, seen, cursors, budget, horizon }: Pass,
    queue: string,
    lane: string,
  ): Promise<readonly Row[]> {
    const name = JSON.stringify([queue, lane]);
    const prefix = [kind.reason, queue, lane];
    while (budget.pages > 0) {
      budget.pages -= 1;
      const query = { table: "work", prefix, before: horizon + 1, limit: pageSize } as const;
      const page = await rowsAfter(this.#storage, query, cursors.get(name) ?? null);
      const rows = page.filter((row) => !this.#skipped.has(rowName(row)) && !seen.has(rowName(row)));
      if (rows.length > 0) return rows;
      const last = page.at(-1);
      if (last === undefined || page.length < pageSize) break;
      cursors.set(name, last.key);
    }
    return [];
  }
}

/** The state of one visit. */
type Pass = {
  readonly kind: WorkKind;
  readonly lanes: Lanes;
  /** Rows that are due later are not examined. */
  readonly horizon: number;
  readonly budget: { rows: number; pages: number; readonly until: number };
  /** Rows that this visit does not examine again, by name. */
  readonly seen: Set<string>;
  readonly cursors: Map<string, Key>;
  taken: number;
  handled: number;
};

/** Handles all rows of a reason that are due, once: for callers that are no worker. */
export async function visitOnce(
  context: Pick<RuntimeContext, "storage" | "clock">,
  kind: WorkKind,
  horizon: number,
): Promise<Visit> {
  const lanes = new Lanes(context.storage, kind.reason);
  try {
    return await new WorkIndex(context.storage, context.clock).visit(kind, lanes, horizon);
  } finally {
    lanes.stop();
  }
}

function rowName({ key }: Row): string {
  return JSON.stringify(key);
}

/** Whether an error concerns one row only, for example one that cannot be read. Other errors are the storage's. */
export function isOfRow(error: unknown): boolean {
  return error instanceof MisuseError || (isEverturnError(error) && !storageReasons.has(error.reason));
}

const storageReasons: ReadonlySet<string> = new Set(["storage_busy", "storage_failed", "storage_full"]);
