// Lists the processes that drive turns, as the leases of open turns show them, and this process if it runs a worker. Of
// other processes those without a lease are not listed: nothing about them is stored.

import type { LeaseView, WorkerView } from "../../core/model/internal.ts";
import type { InspectionContext } from "./context.ts";

import { epochOf, readValue } from "../../durable/internal.ts";

/** How many open turns are examined. */
const maxTurns = 10_000;

/** How many open turns are read at a time. */
const turnsPerRead = 500;

/** How many leases are listed for one process. */
const maxLeases = 100;

/** The processes that hold leases on open turns, of all tenants. At most 10,000 open turns are examined. */
export async function listWorkers({ storage, owner, places }: InspectionContext): Promise<readonly WorkerView[]> {
  const byOwner = new Map<string, { leases: LeaseView[]; turns: number }>();
  let from: { readonly tenant: string; readonly session: string } | null = null;
  for (let examined = 0; examined < maxTurns;) {
    const page: Awaited<ReturnType<typeof openTurns>> = await openTurns(storage, from);
    const leases = await storage.read(page.map(({ key }) => ({ table: "leases", prefix: key }) as const));
    for (const [index, row] of page.entries()) {
      const lease = leases[index]?.[0];
      if (lease === undefined || (lease.remainingMs ?? 0) <= 0) continue;
      const holder = readValue("leases", lease);
      if (holder.released) continue;
      const worker = byOwner.get(holder.owner) ?? { leases: [], turns: 0 };
      byOwner.set(holder.owner, worker);
      worker.turns += 1;
      if (worker.leases.length >= maxLeases) continue;
      worker.leases.push({
        tenant: String(row.key[0]),
        sessionId: String(row.key[1]),
        turnId: readValue("open", row).turn,
        epoch: epochOf(lease.tag),
        expiresAt: lease.expires ?? 0,
        since: holder.since,
        tookOverFrom: holder.tookOverFrom,
      });
    }
    examined += page.length;
    const last = page.at(-1);
    if (last === undefined || page.length < turnsPerRead) break;
    from = { tenant: String(last.key[0]), session: String(last.key[1]) };
  }
  const self = owner === null ? null : owner();
  const ownPlaces = places();
  if (self !== null && ownPlaces !== null && !byOwner.has(self)) byOwner.set(self, { leases: [], turns: 0 });
  return Array.from(byOwner, ([name, { leases, turns }]) => {
    const isSelf = name === self;
    return { owner: name, self: isSelf, leases, turns, places: isSelf ? ownPlaces : null };
  });
}

/** Open turns in the order of their keys, after a session. */
async function openTurns(
  storage: InspectionContext["storage"],
  from: { readonly tenant: string; readonly session: string } | null,
) {
  const query = { table: "open", limit: turnsPerRead } as const;
  if (from === null) return (await storage.read([{ ...query, prefix: [] }]))[0] ?? [];
  const [sameTenant = [], laterTenants = []] = await storage.read([
    { ...query, prefix: [from.tenant], after: from.session },
    { ...query, prefix: [], after: from.tenant },
  ]);
  return [...sameTenant, ...laterTenants].slice(0, turnsPerRead);
}
