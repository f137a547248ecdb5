// Claims the input that waits in the inbox for a checkpoint of a turn (Q11).

import type { CheckpointDelivery } from "../../kernel/internal.ts";
import type { SessionKey } from "../rows/session-key.ts";
import type { Check, HostStorage } from "../rows/storage.ts";
import type { InboxEntry } from "../rows/values.ts";

import { claimable, claimedInputs, deliveryOf, inboxPut } from "../rows/inbox.ts";
import { keyOf } from "../rows/session-key.ts";
import { readValue } from "../rows/stored.ts";

/** The holder of a session's lease. */
export type Holder = {
  readonly key: SessionKey;
  readonly epoch: number;
  /** The check that fences writes of a process that lost the lease. */
  readonly fence: () => Check;
  /** Stops the turn, and returns the error to throw. */
  readonly lost: () => Error;
};

/** Claims up to `claimedInputs` inputs, in order. A claim is void when the lease changes hands, so no input is lost with the process. */
export async function claimInputs(storage: HostStorage, holder: Holder, turn: string): Promise<CheckpointDelivery> {
  const { key, epoch, fence, lost } = holder;
  for (;;) {
    const [rows = []] = await storage.read([{ table: "inbox", prefix: keyOf(key), limit: claimedInputs }]);
    const free = rows
      .map((row) => ({ row, entry: readValue("inbox", row) }))
      .filter(({ entry }) => claimable(entry, epoch))
      .map(({ row, entry }) => ({ row, claimed: { ...entry, state: "claimed", turn, epoch } satisfies InboxEntry }));
    if (free.length === 0) return deliveryOf(turn, []);
    const written = await storage.write({
      checks: [fence(), ...free.map(({ row }): Check => ({ table: "inbox", key: row.key, tag: row.tag }))],
      removals: [],
      puts: free.map(({ row, claimed }) => inboxPut(row.key, row.tag + 1, claimed)),
    });
    if (written.ok)
      return deliveryOf(
        turn,
        free.map(({ claimed }) => claimed),
      );
    if (written.check === 0) throw lost();
    // An input was withdrawn in between: read again.
  }
}
