// Which lanes of a queue have work that is due (`rows/work.ts`). The rows of a queue are ordered by lane and time, so a
// visit has to find the lanes first, and most of them may have rows of later times only: turns that are being driven
// are due when their leases expire.
//
// Theory of operation
//   `Lanes` remembers the time of the earliest row of every lane of a queue. From the first listing on, it reads the
//   earliest rows of stale lanes, in one read, so its cost depends on the lanes that have due work or were written to,
//   not on the number of lanes. A lane is stale when the storage reports a write to the index for one of its sessions,
//   and when it was visited. A write that the storage cannot describe, for instance one of another process to an SQLite
//   file, makes the memory incomplete: the lanes are listed again. Reports of writes are hints, so the memory is also
//   given up every `maxAgeMs`.
//
// Limit: with several processes over one SQLite file a visit of turns after a write of another process reads one page
// for each tenant that has open turns, or one page for 64 of them if they have few each. `work.ts` rests nine times as
// long as such a visit took, up to one second.

import type { HostStorage, Row } from "../rows/storage.ts";
import type { TableName } from "../rows/tables.ts";
import type { WorkReason } from "../rows/work.ts";

import { laneOf, lanesOf } from "../rows/work.ts";

/** How long the memory is relied on, in milliseconds, without listing the lanes. */
const maxAgeMs = 30_000;

/** How many rows are read at a time to find lanes. */
const pageSize = 64;

/** The lanes of one queue. */
type QueueLanes = {
  /** The time of the earliest row, by lane. Complete, except for stale lanes. */
  readonly earliest: Map<string, number>;
  readonly stale: Set<string>;
  readonly since: number;
};

type LanesStorage = Pick<HostStorage, "read" | "watch">;

/** The lanes of the queues of one reason. */
export class Lanes {
  readonly #storage: LanesStorage;
  readonly #reason: WorkReason;
  readonly #queues = new Map<string, QueueLanes>();
  /** Counts the writes that the storage could not describe. */
  #unknownWrites = 0;
  /** Lanes that were written to while lanes are listed. */
  readonly #writtenTo = new Set<string>();
  readonly #unwatch: () => void;

  constructor(storage: LanesStorage, reason: WorkReason) {
    this.#storage = storage;
    this.#reason = reason;
    this.#unwatch = storage.watch((sessions, tables) => this.#written(sessions, tables));
  }

  stop(): void {
    this.#unwatch();
  }

  /** The lanes of a queue that have rows due at `horizon`, in order. */
  async dueAt(queue: string, horizon: number): Promise<readonly string[]> {
    const known = this.#queues.get(queue);
    const isKnown = known !== undefined && horizon < known.since + maxAgeMs;
    const earliest = isKnown ? await this.#refreshed(queue, known) : await this.#listed(queue, horizon);
    return [...earliest].flatMap(([lane, at]) => (at <= horizon ? [lane] : [])).toSorted();
  }

  /** Marks a lane that was visited: its rows have moved. */
  visited(queue: string, lane: string): void {
    this.#queues.get(queue)?.stale.add(lane);
  }

  /** The earliest rows by lane, after those of stale lanes were read. */
  async #refreshed(queue: string, { earliest, stale }: QueueLanes): Promise<ReadonlyMap<string, number>> {
    const lanes = [...stale];
    if (lanes.length === 0) return earliest;
    // Before the read: a write during the read makes its lane stale again.
    stale.clear();
    const rows = await this.#earliestOf(queue, lanes).catch((error: unknown) => {
      this.#queues.delete(queue);
      throw error;
    });
    for (const [index, lane] of lanes.entries()) {
      const row = rows[index]?.[0];
      if (row === undefined) earliest.delete(lane);
      else earliest.set(lane, Number(row.key[3]));
    }
    return earliest;
  }

  /** Lists the lanes of a queue. They are remembered unless a write in between could not be described. */
  async #listed(queue: string, horizon: number): Promise<ReadonlyMap<string, number>> {
    const before = this.#unknownWrites;
    this.#queues.delete(queue);
    this.#writtenTo.clear();
    const rows = await this.#earliestRows(queue);
    const earliest = new Map<string, number>();
    for (const { key } of rows) {
      const lane = String(key[2]);
      if (!earliest.has(lane)) earliest.set(lane, Number(key[3]));
    }
    if (this.#unknownWrites === before) {
      this.#queues.set(queue, { earliest, stale: new Set(this.#writtenTo), since: horizon });
    }
    return earliest;
  }

  /**
   * Rows of a queue among which are the earliest ones of every lane. Most queues have less than a page of rows. Of a
   * longer one with known lanes the earliest row of each is read, otherwise its lanes are found by a skip scan.
   */
  async #earliestRows(queue: string): Promise<readonly Row[]> {
    const lanes = lanesOf(this.#reason);
    const all: Row[] = [];
    const query = { table: "work", prefix: [this.#reason, queue], limit: pageSize } as const;
    for (let after: string | undefined; ;) {
      const [rows = []] = await this.#storage.read([after === undefined ? query : { ...query, after }]);
      const last = rows.at(-1);
      all.push(...rows);
      if (last === undefined || rows.length < pageSize) return all;
      if (lanes !== null) return (await this.#earliestOf(queue, lanes)).flat();
      after = String(last.key[2]);
    }
  }

  #earliestOf(queue: string, lanes: readonly string[]): Promise<readonly (readonly Row[])[]> {
    return this.#storage.read(
      lanes.map((lane) => ({ table: "work", prefix: [this.#reason, queue, lane], limit: 1 }) as const),
    );
  }

  #written(sessions?: ReadonlySet<string>, tables?: ReadonlySet<TableName>): void {
    if (tables !== undefined && !tables.has("work")) return;
    // Not described: the write of another process, or of a storage that does not name the sessions of the index.
    if (sessions === undefined || sessions.size === 0) {
      this.#unknownWrites += 1;
      this.#queues.clear();
      return;
    }
    for (const name of sessions) {
      const [tenant = ""]: readonly string[] = JSON.parse(name);
      const lane = laneOf(this.#reason, tenant);
      this.#writtenTo.add(lane);
      for (const { stale } of this.#queues.values()) stale.add(lane);
    }
  }
}
