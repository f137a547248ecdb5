// The row of the audit log for an exported turn. An export only reads, so the row has a batch of its own, which is
// written before anything is returned.

import type { VerbContext } from "../drive/context.ts";

import { actorOf } from "../drive/context.ts";
import { find } from "../drive/session-rows.ts";
import { auditRow } from "../rows/audit.ts";

/** Records that a turn was exported, with the digest of the history. Rejects with `not_found`. */
export async function recordExport(context: VerbContext, id: string, turnId: string): Promise<void> {
  const { key, head } = await find(context, id);
  const fact = { action: "export", actor: actorOf(context), tenant: key.tenant } as const;
  const { storage, clock } = context;
  await storage.write(auditRow({ ...fact, sessionId: id, target: turnId, digest: head.digest }, clock.now()));
}
