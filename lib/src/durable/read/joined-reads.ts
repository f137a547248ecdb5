// Joins the reads of many readers into few. A notification of a storage wakes all readers whose sessions were written,
// at the same time; each would send a read of its own. Reads that begin in the same microtask, or while the microtasks
// before it run, become one read of the storage with all their queries, of up to `maxJoined` readers. A reader that is
// alone waits for one microtask, which costs no time.

import type { HostStorage, Query, Row } from "../rows/storage.ts";

import { isEverturnError } from "../../core/model/internal.ts";

/** How many readers share one read. */
const maxJoined = 64;

type Rows = readonly (readonly Row[])[];

/** A read that has not been sent yet. */
type PendingRead = {
  readonly queries: readonly Query[];
  readonly resolve: (rows: Rows) => void;
  readonly reject: (error: unknown) => void;
};

export class JoinedReads {
  readonly #storage: Pick<HostStorage, "read">;
  #pending: PendingRead[] = [];

  constructor(storage: Pick<HostStorage, "read">) {
    this.#storage = storage;
  }

  /** As `HostStorage.read`. The queries of one call are answered from one snapshot. */
  readonly read = (queries: readonly Query[]): Promise<Rows> =>
    new Promise((resolve, reject) => {
      if (this.#pending.length === 0) queueMicrotask(() => this.#send());
      this.#pending.push({ queries, resolve, reject });
    });

  #send(): void {
    const pending = this.#pending;
    this.#pending = [];
    for (let from = 0; from < pending.length; from += maxJoined) {
      void this.#readTogether(pending.slice(from, from + maxJoined));
    }
  }

  /** Never rejects. */
  async #readTogether(reads: readonly PendingRead[]): Promise<void> {
    try {
      const rows = await this.#storage.read(reads.flatMap(({ queries }) => queries));
      let from = 0;
      for (const { queries, resolve } of reads) {
        resolve(rows.slice(from, from + queries.length));
        from += queries.length;
      }
    } catch (error) {
      // A row that cannot be read concerns its own session only.
      if (reads.length > 1 && isEverturnError(error) && error.reason === "corrupt_row") {
        for (const read of reads) void this.#readTogether([read]);
      } else for (const { reject } of reads) reject(error);
    }
  }
}
