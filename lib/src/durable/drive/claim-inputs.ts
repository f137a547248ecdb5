// Claims inbox input for the checkpoints of a turn (Q11). The claim and the delivery are two writes: the claim marks
// the rows with the lease epoch, and the commit of the checkpoint removes them (`settleInputs`).
//
// A checkpoint that finds nothing costs no read. The row of the session in `inboxes` counts the inputs that the session
// has ever received. Once a claim has taken everything up to a count, `assumeEmpty` answers the next checkpoint without
// reading, and the batch that records its answer checks the count. If the count has changed, the storage refuses the
// batch, and the committer claims what has arrived (turn-committer.ts, "Merged checkpoints").

import type { CheckpointDelivery } from "../../core/kernel/internal.ts";
import type { Check, HostStorage, KeyPart, Row } from "../rows/storage.ts";
import type { InboxEntry } from "../rows/values.ts";
import type { LeaseHolder } from "./lease-holder.ts";

import { claimable, maxClaimedInputs, deliveryOf, inboxPut } from "../rows/inbox.ts";
import { keyOf } from "../rows/session-key.ts";
import { readValue } from "../rows/stored.ts";

/** An input that can be claimed, and its row. */
type Claimable = { readonly row: Row; readonly entry: InboxEntry };

/** The claims of one turn that this process drives. */
export class InboxClaims {
  readonly #storage: HostStorage;
  readonly #holder: LeaseHolder;
  readonly #turn: string;
  /** The check of the count up to which the turn has claimed all input; `null`: not known. */
  #claimedAll: Check | null = null;

  constructor(storage: HostStorage, holder: LeaseHolder, turn: string) {
    this.#storage = storage;
    this.#holder = holder;
    this.#turn = turn;
  }

  /**
   * The check under which a checkpoint may be answered with no input and without a read; `null`: the inbox must be
   * read.
   */
  get emptyCheck(): Check | null {
    return this.#claimedAll;
  }

  /**
   * Claims up to `maxClaimedInputs` inputs, in order, and returns them as a delivery. A claim is void under another
   * lease epoch, so no input is lost if the process crashes before the delivery is committed.
   */
  async claim(): Promise<CheckpointDelivery> {
    for (;;) {
      const { epoch } = this.#holder;
      const { claimed, count } = await this.#claimable(epoch);
      this.#claimedAll =
        claimed.length < maxClaimedInputs ? { table: "inboxes", key: keyOf(this.#holder.key), tag: count } : null;
      const claims = claimed.map(({ row, entry }) => ({
        row,
        claimed: { ...entry, state: "claimed", turn: this.#turn, epoch } satisfies InboxEntry,
      }));
      if (claims.length === 0) return deliveryOf(this.#turn, []);
      const written = await this.#holder.write({
        checks: claims.map(({ row }): Check => ({ table: "inbox", key: row.key, tag: row.tag })),
        removals: [],
        puts: claims.map(({ row, claimed }) => inboxPut(row.key, row.tag + 1, claimed)),
      });
      if (written.ok && this.#holder.epoch === epoch)
        return deliveryOf(
          this.#turn,
          claims.map(({ claimed }) => claimed),
        );
      // Read and claim again: an input was withdrawn between the read and the write, or the lease was claimed again for
      // the write (Q18) and the claims name the epoch before, which makes them void.
    }
  }

  /**
   * The first `maxClaimedInputs` inputs that can be claimed, and the count of the inbox before they were read. Reads in
   * pages, because queued input may precede them.
   */
  async #claimable(epoch: number): Promise<{ readonly claimed: readonly Claimable[]; readonly count: number | null }> {
    const key = keyOf(this.#holder.key);
    const counts = { table: "inboxes", prefix: key } as const;
    const query = { table: "inbox", prefix: key, limit: maxClaimedInputs } as const;
    const found: Claimable[] = [];
    let count: number | null = null;
    for (let after: KeyPart | undefined; ;) {
      const queries = after === undefined ? [query, counts] : [{ ...query, after }];
      const [rows = [], [countRow] = []] = await this.#holder.whenFree(() => this.#storage.read(queries));
      if (after === undefined) count = countRow?.tag ?? null;
      const entries = rows.map((row) => ({ row, entry: readValue("inbox", row) }));
      found.push(...entries.filter(({ entry }) => claimable(entry, epoch, this.#turn)));
      if (found.length >= maxClaimedInputs || rows.length < maxClaimedInputs)
        return { claimed: found.slice(0, maxClaimedInputs), count };
      after = rows.at(-1)?.key.at(-1);
    }
  }
}
