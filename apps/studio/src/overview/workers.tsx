// The processes that drive turns, and the sessions that each of them holds. The server that answers knows whether it runs
// a worker, so it is listed while it is idle, too. Nothing is stored about other processes that are idle.

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
      {data !== null && (
        <p className="muted">
          {data.every(({ turns }) => turns === 0) && "No process drives a turn now. "}
          Other processes than this server are listed while they hold the lease of a turn, and not while they are idle.
        </p>
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
      {data?.map(({ owner, self, turns, places, leases }) => (
        <details key={owner} className="worker">
          <summary>
            <span className="mono">{owner}</span>
            {self && <span className="tag">this server</span>}
            <span className="spacer" />
            {turns === 0 && <span className="tag">idle</span>}
            <span className="tnum">{turnsText(turns, places)}</span>
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

/** `2 turns`; with the number of places, if it is known: `2 of 16 turns`. */
function turnsText(turns: number, places: number | null): string {
  if (places !== null) return `${count(turns)} of ${count(places)} turns`;
  return turns === 1 ? "1 turn" : `${count(turns)} turns`;
}
