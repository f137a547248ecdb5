// Claims the input that waits in the inbox for a checkpoint of a turn (Q11).

import type { CheckpointDelivery } from "../../kernel/internal.ts";
import type { Check, HostStorage } from "../rows/storage.ts";
import type { InboxEntry } from "../rows/values.ts";
import type { LeaseHolder } from "./lease-holder.ts";

import { claimable, maxClaimedInputs, deliveryOf, inboxPut } from "../rows/inbox.ts";
import { keyOf } from "../rows/session-key.ts";
import { readValue } from "../rows/stored.ts";

/** Claims up to `maxClaimedInputs` inputs, in order. A claim is void when the lease changes hands, so no input is lost with the process. */
export async function claimInputs(
  storage: HostStorage,
  holder: LeaseHolder,
  turn: string,
): Promise<CheckpointDelivery> {
  const { key } = holder;
  for (;;) {
    const { epoch } = holder;
    const query = { table: "inbox", prefix: keyOf(key), limit: maxClaimedInputs } as const;
    const [rows = []] = await holder.whenFree(() => storage.read([query]));
    const free = rows
      .map((row) => ({ row, entry: readValue("inbox", row) }))
      .filter(({ entry }) => claimable(entry, epoch))
      .map(({ row, entry }) => ({ row, claimed: { ...entry, state: "claimed", turn, epoch } satisfies InboxEntry }));
    if (free.length === 0) return deliveryOf(turn, []);
    const written = await holder.write({
      checks: free.map(({ row }): Check => ({ table: "inbox", key: row.key, tag: row.tag })),
      removals: [],
      puts: free.map(({ row, claimed }) => inboxPut(row.key, row.tag + 1, claimed)),
    });
    if (written.ok && holder.epoch === epoch)
      return deliveryOf(
        turn,
        free.map(({ claimed }) => claimed),
      );
    // An input was withdrawn in between; or the lease was claimed again for the write (Q18), and the claims name the epoch before it, which is void. Both are
    // read and claimed again.
  }
}
