// The processes that drive turns, and the sessions that each of them holds.

import type { ReactNode } from "react";

import { useConnection } from "../data/connection.tsx";
import { useQuery } from "../data/query.ts";
import { count, duration } from "../parts/format.ts";
import { sessionRoute } from "../route.ts";
import { Link } from "../shell/link.tsx";

export function Workers(): ReactNode {
  const { inspector, server } = useConnection();
  const { data, error } = useQuery("workers", (signal) => inspector.workers({ signal }), { everyMs: 3000 });
  const now = Date.now();
  return (
    <section className="panel">
      <h2>Workers</h2>
      {error !== null && <p className="bad">The workers could not be read: {error.message}</p>}
      {data !== null && data.length === 0 && (
        <p className="muted">No turn runs now. A process appears here while it drives a turn.</p>
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
            {leases.map(({ tenant, sessionId, turnId, expiresAt }) => (
              <li key={JSON.stringify([tenant, sessionId])}>
                {tenant === server.tenant ? (
                  <Link to={sessionRoute(sessionId, { turnId })}>
                    <bdi>{sessionId}</bdi>
                  </Link>
                ) : (
                  <bdi>{`${tenant}/${sessionId}`}</bdi>
                )}
                <span className="spacer" />
                <span className="tnum muted">
                  {expiresAt > now ? `lease for ${duration(expiresAt - now)}` : "lease expired"}
                </span>
              </li>
            ))}
          </ul>
        </details>
      ))}
    </section>
  );
}
