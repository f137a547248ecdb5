// Chooses the tenant that the page shows, for callers that reach all of them.

import type { ReactNode } from "react";

import { useConnection } from "../data/connection.tsx";
import { useQuery } from "../data/query.ts";
import { visibleName } from "../parts/text.ts";
import { hrefOf, useRoute } from "../route.ts";

/** More tenants are reached by the address of the page. */
const maxTenants = 200;

export function TenantSwitch(): ReactNode {
  const { inspector, server } = useConnection();
  const route = useRoute();
  const { data, refresh } = useQuery(server.tenants ? "tenants" : null, (signal) =>
    inspector.tenants({ limit: maxTenants, signal }),
  );
  if (data === null) return null;
  const names = new Set(["", server.tenant, ...data.items]);
  if (names.size === 1) return null;
  // A session belongs to one tenant.
  const kept = route.view === "waiting" || route.view === "overview" ? route : ({ view: "sessions" } as const);
  return (
    <select
      className="select small"
      aria-label="Tenant"
      title="The tenant whose sessions are shown"
      value={server.tenant}
      onFocus={refresh}
      onChange={(event) => location.assign(hrefOf(kept, event.target.value))}
    >
      {[...names].map((name) => (
        <option key={name} value={name}>
          {tenantName(name)}
        </option>
      ))}
      {data.next !== null && <option disabled>others: ?tenant=NAME in the address</option>}
    </select>
  );
}

export function tenantName(name: string): string {
  return name === "" ? "default tenant" : visibleName(name);
}
