// Pages of rows in the order of their keys.

import type { HostStorage, Key, Query, Row } from "../rows/storage.ts";
import type { WorkReason } from "../rows/work.ts";

/** What to read: the rows of a table that begin with a prefix, at most `limit`; `before` as in a query. */
type PageQuery = Pick<Query, "table" | "prefix" | "before"> & { readonly limit: number };

/** The next rows after the one with the key `after`; `null`: the first ones. */
export async function rowsAfter(storage: HostStorage, query: PageQuery, after: Key | null): Promise<readonly Row[]> {
  return (await storage.read(queriesAfter(query, after))).flat().slice(0, query.limit);
}

/**
 * A bound applies to one part of the key, so the rows after a key are those with its first parts, then those with fewer
 * of them.
 */
function queriesAfter(query: PageQuery, after: Key | null): readonly Query[] {
  if (after === null) return [query];
  const { table, prefix, limit } = query;
  const depths = Array.from({ length: after.length - prefix.length }, (_, index) => after.length - 1 - index);
  return depths.flatMap((depth): readonly Query[] => {
    const bound = after[depth];
    if (bound === undefined) return [];
    if (depth === prefix.length) return [{ ...query, after: bound }];
    return [{ table, prefix: after.slice(0, depth), after: bound, limit }];
  });
}

/** A page of rows, and the key after which the next one begins; `null` after the last page. */
export type WorkPage = { readonly rows: readonly Row[]; readonly next: Key | null };

/** The rows of some queues of the index of work after a key, in the order of the index, whatever their time is. */
export async function pageOfQueues(
  storage: HostStorage,
  reason: WorkReason,
  queues: readonly string[],
  after: Key | null,
  limit: number,
): Promise<WorkPage> {
  const from = after === null ? "" : String(after[1]);
  const queries = queues.toSorted().flatMap((queue): readonly Query[] => {
    if (queue < from) return [];
    return queriesAfter({ table: "work", prefix: [reason, queue], limit }, queue === from ? after : null);
  });
  const rows = queries.length === 0 ? [] : (await storage.read(queries)).flat().slice(0, limit);
  const last = rows.at(-1);
  return { rows, next: last === undefined || rows.length < limit ? null : last.key };
}
