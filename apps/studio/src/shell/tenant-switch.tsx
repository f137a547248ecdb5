// Chooses the tenant that the page shows, for callers that reach all of them.

import type { Route } from "../route.ts";
import type { ReactNode } from "react";

import { useConnection } from "../data/connection.tsx";
import { useQuery } from "../data/query.ts";
import { visibleName } from "../parts/text.ts";
import { hrefOf, useRoute, waitingRoute } from "../route.ts";

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
  const kept = ofOtherTenant(route);
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

/** What of a route another tenant has: a session belongs to one tenant. */
function ofOtherTenant(route: Route): Route {
  if (route.view === "overview") return route;
  if (route.view === "waiting") return waitingRoute({ engine: route.engine, reason: route.reason });
  return { view: "sessions" };
}

export function tenantName(name: string): string {
  return name === "" ? "default tenant" : visibleName(name);
}
