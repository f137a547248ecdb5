// The selected call of the inbox: what the session is about, who may answer, and the form of the answer.

import type { SessionView } from "../data/types.ts";
import type { WaitingRoute } from "../route.ts";
import type { WaitingItem } from "./waiting-items.ts";
import type { ReactNode } from "react";

import { messageText } from "everturn";
import { useMemo } from "react";

import { PendingCard } from "../conversation/pending-form.tsx";
import { WaitingSessionProvider } from "../conversation/waiting-session.ts";
import { useConnection } from "../data/connection.tsx";
import { useQuery } from "../data/query.ts";
import { ago, dateTime } from "../parts/format.ts";
import { beginning, visibleName } from "../parts/text.ts";
import { sessionRoute } from "../route.ts";
import { pathOf, titleOf } from "../sessions/session-label.ts";
import { Link } from "../shell/link.tsx";
import { whoMayAnswer } from "./waiting-items.ts";

/** How many of the newest messages are read, to show what was asked for. */
const readMessages = 6;
const maxExcerpt = 600;

export function SelectedCall({
  sessionId,
  callId,
  listed,
  back,
  next,
  now,
  reload,
}: {
  readonly sessionId: string;
  readonly callId: string;
  /** The call in the list; `null`: its page is not loaded, or it no longer waits. */
  readonly listed: WaitingItem | null;
  readonly back: WaitingRoute;
  /** The call to continue with; `null`: there is no other one. */
  readonly next: WaitingItem | null;
  readonly now: number;
  /** Reads the list again. */
  readonly reload: () => void;
}): ReactNode {
  const { client } = useConnection();
  const { data, error, isLoading, refresh } = useQuery(
    `inbox:${sessionId}`,
    async (signal) => ({ view: await client.get(sessionId, { messages: readMessages, signal }) }),
    { live: true },
  );
  const view = data?.view ?? null;
  const engine = view?.engine ?? null;
  const session = useMemo(
    () => ({
      sessionId,
      engine,
      composed: null,
      read: () => {
        refresh();
        reload();
      },
    }),
    [sessionId, engine, refresh, reload],
  );
  // While a turn is open nothing waits: it runs the calls that were decided.
  const pending =
    view === null || view.openTurn !== null
      ? null
      : (view.session.pendingToolCalls.find(({ id, decision }) => id === callId && decision === null) ?? null);
  return (
    <div className="inbox-call">
      <Link to={back} className="btn inbox-back">
        ← All that wait
      </Link>
      {error !== null && (
        <p className="error-text" role="alert">
          The session could not be read: {error.message}
        </p>
      )}
      {data === null && error === null && (
        <p className="loading" role="status">
          Loading…
        </p>
      )}
      {view !== null && <Head view={view} listed={listed} now={now} />}
      {pending !== null && (
        <WaitingSessionProvider value={session}>
          <PendingCard pending={pending} />
        </WaitingSessionProvider>
      )}
      {data !== null && pending === null && !isLoading && (
        <div className="inbox-done" role="status">
          <p>
            <b>This call no longer waits.</b>{" "}
            {view === null ? "There is no such session." : view.openTurn === null ? "" : "Its turn runs."}
          </p>
          <div className="actions">
            {next !== null && (
              <Link className="btn" to={{ ...back, sessionId: next.session.id, call: next.call.id }}>
                Next: <bdi>{next.call.reason === "question" ? "question" : pathOf(next.call.shown)}</bdi>
              </Link>
            )}
            {view !== null && (
              <Link className="btn" to={sessionRoute(sessionId)}>
                Open the session
              </Link>
            )}
          </div>
        </div>
      )}
    </div>
  );
}

/** The session of the call, and what its user has asked for. */
function Head({
  view,
  listed,
  now,
}: {
  readonly view: SessionView;
  readonly listed: WaitingItem | null;
  readonly now: number;
}): ReactNode {
  const { session } = view;
  const id = session.id ?? "";
  const asked = session.thread.messages.findLast(({ role }) => role === "user");
  const title = listed === null ? titleOf({ id, metadata: session.metadata }) : titleOf(listed.session);
  const askedText = asked === undefined ? "" : visibleName(messageText(asked));
  return (
    <>
      <h2 className="visually-hidden">{title}</h2>
      <dl className="inbox-facts">
        <div>
          <dt>Session</dt>
          <dd>
            <Link to={sessionRoute(id)}>
              <bdi>{title}</bdi>
            </Link>
          </dd>
        </div>
        {askedText !== "" && askedText !== title && (
          <div>
            <dt>Asked</dt>
            <dd>
              <bdi>{askedText.length > maxExcerpt ? `${beginning(askedText, maxExcerpt)}…` : askedText}</bdi>
            </dd>
          </div>
        )}
        {listed !== null && (
          <>
            <div>
              <dt>Waits</dt>
              <dd className="tnum">
                {ago(listed.session.changedAt, now)}, since {dateTime(listed.session.changedAt)}
              </dd>
            </div>
            <div>
              <dt>
                {listed.call.reason === "approval" || listed.call.reason === "outcome_unknown"
                  ? "May decide"
                  : "May answer"}
              </dt>
              <dd>{whoMayAnswer(listed)}</dd>
            </div>
          </>
        )}
      </dl>
    </>
  );
}
