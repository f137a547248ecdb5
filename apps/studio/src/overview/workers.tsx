// The processes that drive turns, and the sessions that each of them holds.

import type { ReactNode } from "react";

import { useConnection } from "../data/connection.tsx";
import { useQuery } from "../data/query.ts";
import { ago, count, duration } from "../parts/format.ts";
import { visibleName } from "../parts/text.ts";
import { hrefOf, sessionRoute } from "../route.ts";
import { queueText } from "../sessions/queue.ts";
import { useSessionCounts } from "../sessions/waiting-count.ts";
import { Link } from "../shell/link.tsx";
import { tenantName } from "../shell/tenant-switch.tsx";

export function Workers(): ReactNode {
  const { inspector, server } = useConnection();
  const { data, error } = useQuery("workers", (signal) => inspector.workers({ signal }), { live: true });
  const counts = useSessionCounts();
  const queue = counts?.queue ?? null;
  const now = Date.now();
  return (
    <section className="panel">
      <h2>Workers</h2>
      {error !== null && <p className="bad">The workers could not be read: {error.message}</p>}
      {data !== null && data.length === 0 && (
        <p className="muted">No worker drives a turn now. A process is listed here while it holds the lease of one.</p>
      )}
      {queue !== null && (
        <p className={queue.turns === 0 ? "muted" : "queue"}>
          {server.tenants && `Tenant ${tenantName(server.tenant)}: `}
          {queueText(queue)}
          {counts?.running.text.endsWith("+") === true && " Only the newest open turns are counted."}
          {queue.since !== null && (
            <span className="tnum"> The oldest has waited for {duration(now - queue.since)}.</span>
          )}
        </p>
      )}
      {data?.map(({ owner, self, turns, leases }) => (
        <details key={owner} className="worker">
          <summary>
            <span className="mono">{owner}</span>
            {self && <span className="tag">this server</span>}
            <span className="spacer" />
            <span className="tnum">{turns === 1 ? "1 turn" : `${count(turns)} turns`}</span>
          </summary>
          <ul>
            {leases.map(({ tenant, sessionId, turnId, expiresAt, since, tookOverFrom }) => (
              <li key={JSON.stringify([tenant, sessionId])}>
                {tenant === server.tenant ? (
                  <Link to={sessionRoute(sessionId, { turnId })}>
                    <bdi>{sessionId}</bdi>
                  </Link>
                ) : server.tenants ? (
                  <a href={hrefOf(sessionRoute(sessionId, { turnId }), tenant)}>
                    <bdi>{`${tenant}/${sessionId}`}</bdi>
                  </a>
                ) : (
                  <bdi>{`${tenant}/${sessionId}`}</bdi>
                )}
                <span className="spacer" />
                <span className="tnum muted">
                  {[
                    ...(since === null ? [] : [`taken ${ago(since, now)}`]),
                    ...(tookOverFrom === null ? [] : [`from ${visibleName(tookOverFrom)}, which died or was blocked`]),
                    expiresAt > now ? `lease for ${duration(expiresAt - now)}` : "lease expired",
                  ].join(" · ")}
                </span>
              </li>
            ))}
          </ul>
        </details>
      ))}
    </section>
  );
}
