// What needs a person: sessions that wait for an answer, and parked turns, which no process continues by itself.

import type { SessionSummary } from "../data/types.ts";
import type { ReactNode } from "react";

import { useState } from "react";

import { useConnection } from "../data/connection.tsx";
import { useQuery } from "../data/query.ts";
import { ago } from "../parts/format.ts";
import { sessionRoute, waitingRoute } from "../route.ts";
import { statusOf, summaryOfCall, titleOf } from "../sessions/session-label.ts";
import { Button } from "../shell/button.tsx";
import { Link } from "../shell/link.tsx";
import { notify } from "../shell/toasts.tsx";

/** How many waiting calls of a session are named. */
const maxCalls = 5;
/** How many sessions each list of the overview shows. */
const maxListed = 8;
/** How many parked turns are listed. */
const maxParked = 100;
const waitingOnly = { status: "waiting" } as const;
const parkedOnly = { status: "parked" } as const;

/** The newest sessions that wait for a person. All of them are in the inbox. */
export function WaitingSessions(): ReactNode {
  const { client } = useConnection();
  const { data, error } = useQuery("waiting", (signal) => client.list({ limit: maxListed, signal, ...waitingOnly }), {
    live: true,
  });
  return (
    <section className="panel">
      <h2>Waits for a person</h2>
      {error !== null && <p className="bad">The sessions could not be read: {error.message}</p>}
      {data?.items.length === 0 && <p className="muted">Nothing waits. Approvals and questions appear here.</p>}
      <ul className="attention">
        {data?.items.map((session) => (
          <li key={session.id}>
            <SessionLink session={session} />
            {session.pendingToolCalls
              .filter(({ decision }) => decision === null)
              .slice(0, maxCalls)
              .map((call) => (
                <p key={call.id} className="waiting-call mono">
                  <Link to={waitingRoute({ sessionId: session.id, call: call.id })}>
                    <bdi>{summaryOfCall(call)}</bdi>
                  </Link>
                </p>
              ))}
          </li>
        ))}
      </ul>
      {data !== null && data.items.length > 0 && <Link to={waitingRoute()}>All that wait</Link>}
    </section>
  );
}

/** Parked turns. `hidesIfNone`: nothing is shown while there are none. */
export function ParkedTurns({ hidesIfNone = false }: { readonly hidesIfNone?: boolean }): ReactNode {
  const { client } = useConnection();
  const { data, error, refresh } = useQuery(
    "parked",
    (signal) => client.list({ limit: maxParked, signal, ...parkedOnly }),
    {
      live: true,
    },
  );
  if (hidesIfNone && error === null && (data === null || data.items.length === 0)) return null;
  return (
    <section className="panel">
      <h2>Parked turns</h2>
      {error !== null && <p className="bad">The sessions could not be read: {error.message}</p>}
      {data?.items.length === 0 && (
        <p className="muted">
          None. A turn is parked when no process can continue it, for example after five takeovers.
        </p>
      )}
      <ul className="attention">
        {data?.items.map((session) => (
          <li key={session.id}>
            <SessionLink session={session} />
            <Recover sessionId={session.id} onDone={refresh} />
          </li>
        ))}
      </ul>
      {(data?.next ?? null) !== null && <p className="muted">The newest {maxParked} are shown.</p>}
    </section>
  );
}

function SessionLink({ session }: { readonly session: SessionSummary }): ReactNode {
  const { kind, text } = statusOf(session);
  return (
    <Link to={sessionRoute(session.id)} className="attention-row">
      <bdi className="title">{titleOf(session)}</bdi>
      <span className={`status ${kind}`}>{text}</span>
      <span className="tnum muted">{ago(session.changedAt, Date.now())}</span>
    </Link>
  );
}

/** Restarts the open step of a parked turn, or ends the turn. */
function Recover({ sessionId, onDone }: { readonly sessionId: string; readonly onDone: () => void }): ReactNode {
  const { client } = useConnection();
  const [isBusy, setIsBusy] = useState(false);
  const [failure, setFailure] = useState<string | null>(null);
  const recover = async (options: { readonly from?: "step" }): Promise<void> => {
    setIsBusy(true);
    try {
      const { mayRunTwice } = await client.recover(sessionId, options);
      if (mayRunTwice.length > 0) notify(`May run twice: ${mayRunTwice.join(", ")}`);
      setFailure(null);
      onDone();
    } catch (error) {
      setFailure(error instanceof Error ? error.message : String(error));
    } finally {
      setIsBusy(false);
    }
  };
  return (
    <div className="actions">
      <Button title="Restarts the step that was open" disabled={isBusy} onClick={() => void recover({ from: "step" })}>
        Recover
      </Button>
      <Button
        look="quiet"
        title="Ends the turn as failed. Calls without a result are answered as cancelled"
        disabled={isBusy}
        onClick={() => void recover({})}
      >
        End the turn
      </Button>
      {failure !== null && (
        <span className="bad" role="alert">
          {failure}
        </span>
      )}
    </div>
  );
}
