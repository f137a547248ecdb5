// Claims inbox input for a checkpoint of a turn (Q11). The claim and the delivery are two writes: the claim marks the
// rows with the lease epoch, and the commit of the checkpoint removes them (`settleInputs`).

import type { CheckpointDelivery } from "../../core/kernel/internal.ts";
import type { Check, HostStorage, KeyPart, Row } from "../rows/storage.ts";
import type { InboxEntry } from "../rows/values.ts";
import type { LeaseHolder } from "./lease-holder.ts";

import { claimable, maxClaimedInputs, deliveryOf, inboxPut } from "../rows/inbox.ts";
import { keyOf } from "../rows/session-key.ts";
import { readValue } from "../rows/stored.ts";

/**
 * Claims up to `maxClaimedInputs` inputs, in order, and returns them as a delivery. A claim is void under another lease
 * epoch, so no input is lost if the process crashes before the delivery is committed.
 */
export async function claimInputs(
  storage: HostStorage,
  holder: LeaseHolder,
  turn: string,
): Promise<CheckpointDelivery> {
  for (;;) {
    const { epoch } = holder;
    const claims = (await claimableRows(storage, holder, epoch, turn)).map(({ row, entry }) => ({
      row,
      claimed: { ...entry, state: "claimed", turn, epoch } satisfies InboxEntry,
    }));
    if (claims.length === 0) return deliveryOf(turn, []);
    const written = await holder.write({
      checks: claims.map(({ row }): Check => ({ table: "inbox", key: row.key, tag: row.tag })),
      removals: [],
      puts: claims.map(({ row, claimed }) => inboxPut(row.key, row.tag + 1, claimed)),
    });
    if (written.ok && holder.epoch === epoch)
      return deliveryOf(
        turn,
        claims.map(({ claimed }) => claimed),
      );
    // Read and claim again: an input was withdrawn between the read and the write, or the lease was claimed again for
    // the write (Q18) and the claims name the epoch before, which makes them void.
  }
}

/** The first `maxClaimedInputs` inputs that can be claimed. Reads in pages, because queued input may precede them. */
async function claimableRows(
  storage: HostStorage,
  holder: LeaseHolder,
  epoch: number,
  turn: string,
): Promise<readonly { readonly row: Row; readonly entry: InboxEntry }[]> {
  const found: { readonly row: Row; readonly entry: InboxEntry }[] = [];
  const query = { table: "inbox", prefix: keyOf(holder.key), limit: maxClaimedInputs } as const;
  for (let after: KeyPart | undefined; ;) {
    const [rows = []] = await holder.whenFree(() => storage.read([after === undefined ? query : { ...query, after }]));
    const entries = rows.map((row) => ({ row, entry: readValue("inbox", row) }));
    found.push(...entries.filter(({ entry }) => claimable(entry, epoch, turn)));
    if (found.length >= maxClaimedInputs || rows.length < maxClaimedInputs) return found.slice(0, maxClaimedInputs);
    after = rows.at(-1)?.key.at(-1);
  }
}
