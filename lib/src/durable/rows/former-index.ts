// The rows of the index of work as the release before wrote them, in one table for each reason. Until a database is
// finalized, processes of that release read these tables only, so every row of `work` is written there, too
// (`format.ts`), and rows that only they have written are copied (`work/import-former.ts`).

import type { Key, Put, Removal, Row } from "./storage.ts";
import type { FormerTable } from "./tables.ts";
import type { WorkItem } from "./work.ts";

import { workItem, workPut } from "./work.ts";

/** The row of a former table that says the same as a row of `work`; `null`: there was none. */
function formerOf(key: Key): { readonly table: FormerTable; readonly key: Key } | null {
  const [reason] = key;
  switch (reason) {
    case "turn": {
      const { queue, key: session, at } = workItem("turn", { key });
      return { table: "due", key: [queue, session.tenant, at, session.session] };
    }
    case "limit": {
      const { queue, key: session, at } = workItem("limit", { key });
      return { table: "waiting", key: [queue, session.tenant, at, session.session] };
    }
    case "deadline": {
      const { key: session, at, item } = workItem("deadline", { key });
      return { table: "deadlines", key: [at, session.tenant, session.session, item] };
    }
    default:
      // The release before has a row for the end of a retention time, and only if one is set.
      return null;
  }
}

/** The put of a former table for one of `work`, with its value in the format of that release. */
export function formerPuts({ table, key, ...rest }: Put): readonly Put[] {
  const former = table === "work" ? formerOf(key) : null;
  return former === null ? [] : [{ ...rest, ...former }];
}

/** The removal in a former table for one in `work`. Rows of `work` are removed by their complete keys. */
export function formerRemovals({ table, prefix }: Removal): readonly Removal[] {
  const former = table === "work" ? formerOf(prefix) : null;
  return former === null ? [] : [{ table: former.table, prefix: former.key }];
}

/** The row of `work` for a row of a former table that no other row of its session describes. */
export function workPutOf(table: Exclude<FormerTable, "due">, row: Pick<Row, "key" | "tag" | "value">): Put {
  return workPut(itemOf(table, row.key), row);
}

function itemOf(table: Exclude<FormerTable, "due">, key: Key): WorkItem {
  if (table === "waiting") {
    const [scope = "", tenant = "", since = 0, session = ""] = key;
    const at = { key: { tenant: String(tenant), session: String(session) }, at: Number(since) };
    return { reason: "limit", queue: String(scope), ...at, item: "" };
  }
  const [time = 0, tenant = "", session = "", item = ""] = key;
  const at = { key: { tenant: String(tenant), session: String(session) }, at: Number(time), item: String(item) };
  return table === "deadlines"
    ? { reason: "deadline", queue: "", ...at }
    : { reason: "retention", queue: "turns", ...at };
}
