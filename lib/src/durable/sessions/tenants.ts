// Tenants as a whole: which have sessions, and the deletion of all sessions of one, or of one of its users.

import type { Page } from "../../core/model/internal.ts";
import type { VerbContext } from "../drive/context.ts";

import { RuntimeError } from "../../core/model/internal.ts";
import { ownerLabel } from "../rows/session-write.ts";
import { deleteSession } from "./delete.ts";

/** Options of `tenants`. */
export type TenantPageOptions = {
  /** The largest number of names. Default: 100. */
  readonly limit?: number;
  /** The cursor `next` of the previous page. */
  readonly after?: string;
};

/** The names of the tenants that have sessions, in order. One short read for each. */
export async function listTenants(
  { storage }: VerbContext,
  { limit = 100, after }: TenantPageOptions = {},
): Promise<Page<string>> {
  const items: string[] = [];
  for (let from = after; items.length < limit;) {
    const [rows = []]: Awaited<ReturnType<typeof storage.read>> = await storage.read([
      { table: "recent", prefix: [], limit: 1, ...(from === undefined ? {} : { after: from }) },
    ]);
    const name = rows[0]?.key[0];
    if (name === undefined) return { items, next: null };
    from = String(name);
    items.push(from);
  }
  return { items, next: items.at(-1) ?? null };
}

/**
 * Deletes all sessions of the tenant, or those that belong to one caller, also sessions whose rows cannot be read, and
 * returns their number. Sessions that are started meanwhile are deleted too.
 */
export async function deleteAllSessions(
  context: VerbContext,
  { owner }: { readonly owner?: string } = {},
): Promise<number> {
  const { tenant, storage } = context;
  const index =
    owner === undefined
      ? ({ table: "recent", prefix: [tenant] } as const)
      : ({ table: "attention", prefix: [tenant, ownerLabel(owner)] } as const);
  let count = 0;
  // Rows of an index that belong to no session.
  const stale = new Set<string>();
  for (;;) {
    const [rows = []] = await storage.read([{ ...index, limit: sessionsPerRead + stale.size }]);
    const ids = rows.map(({ key }) => String(key.at(-1))).filter((id) => !stale.has(id));
    if (ids.length === 0) return count;
    for (const id of ids) {
      if (await deleteSession(context, id).then(() => true, falseIfNotFound)) count += 1;
      else stale.add(id);
    }
  }
}

const sessionsPerRead = 100;

function falseIfNotFound(error: unknown): false {
  if (error instanceof RuntimeError && error.reason === "not_found") return false;
  throw error;
}
