// What needs a person: sessions that wait for an answer, and parked turns, which no process continues by itself.

import type { SessionSummary } from "../data/types.ts";
import type { ReactNode } from "react";

import { useState } from "react";

import { useConnection } from "../data/connection.tsx";
import { useQuery } from "../data/query.ts";
import { ago } from "../parts/format.ts";
import { sessionRoute } from "../route.ts";
import { statusOf, summaryOfCall, titleOf } from "../sessions/session-label.ts";
import { Button } from "../shell/button.tsx";
import { Link } from "../shell/link.tsx";
import { notify } from "../shell/toasts.tsx";

/** How many waiting calls of a session are named. */
const maxCalls = 5;
const waitingOnly = { status: "waiting" } as const;
const parkedOnly = { status: "parked" } as const;

/** Both lists. `limit`: how many sessions each shows. */
export function Attention({ limit = 8 }: { readonly limit?: number }): ReactNode {
  const { client } = useConnection();
  const waiting = useQuery(`waiting:${limit}`, (signal) => client.list({ limit, signal, ...waitingOnly }), {
    live: true,
  });
  const parked = useQuery(`parked:${limit}`, (signal) => client.list({ limit, signal, ...parkedOnly }), {
    live: true,
  });
  return (
    <>
      <section className="panel">
        <h2>Waits for a person</h2>
        {waiting.error !== null && <p className="bad">The sessions could not be read: {waiting.error.message}</p>}
        {waiting.data?.items.length === 0 && (
          <p className="muted">Nothing waits. Approvals and questions appear here.</p>
        )}
        <ul className="attention">
          {waiting.data?.items.map((session) => (
            <li key={session.id}>
              <SessionLink session={session} />
              {session.pendingToolCalls
                .filter(({ decision }) => decision === null)
                .slice(0, maxCalls)
                .map((call) => (
                  <p key={call.id} className="waiting-call mono">
                    <bdi>{summaryOfCall(call)}</bdi>
                  </p>
                ))}
            </li>
          ))}
        </ul>
        {(waiting.data?.next ?? null) !== null && <Link to={{ view: "waiting" }}>All that wait</Link>}
      </section>
      <section className="panel">
        <h2>Parked turns</h2>
        {parked.error !== null && <p className="bad">The sessions could not be read: {parked.error.message}</p>}
        {parked.data?.items.length === 0 && (
          <p className="muted">
            None. A turn is parked when no process can continue it, for example after five takeovers.
          </p>
        )}
        <ul className="attention">
          {parked.data?.items.map((session) => (
            <li key={session.id}>
              <SessionLink session={session} />
              <Recover sessionId={session.id} onDone={parked.refresh} />
            </li>
          ))}
        </ul>
      </section>
    </>
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
