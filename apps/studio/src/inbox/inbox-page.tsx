// The inbox: the calls and questions of all sessions that wait for a person, and the form that answers the selected one.
//
// Theory of operation
//   The list has the summaries of the sessions that wait, newest first, in pages. They contain the calls with their
//   arguments, so a page of the list is one request. The session of the selected call is read by its id, which the
//   address has: a link to a call works whether its row is loaded or not. Both are read again when sessions have
//   changed (pulse.ts).
//
// Invariants
//   1. The form on the screen changes only by a selection of the reader. A call that others answer leaves a note in its
//      place, so a press meant for one call never meets the form of another.
//   2. The form is the one of the conversation, with its rules about what is shown and sent (approval-form.tsx).

import type { WaitingRoute } from "../route.ts";
import type { WaitingItem } from "./waiting-items.ts";
import type { ReactNode } from "react";

import { useMemo, useRef } from "react";

import { ParkedTurns } from "../overview/attention.tsx";
import { ago, dateTime } from "../parts/format.ts";
import { exactName, visibleName } from "../parts/text.ts";
import { navigate, waitingRoute } from "../route.ts";
import { EngineChoice } from "../sessions/engine-choice.tsx";
import { pathOf, reasonText, titleOf } from "../sessions/session-label.ts";
import { useNow, useSessions } from "../sessions/use-sessions.ts";
import { Button, Toggle } from "../shell/button.tsx";
import { Link } from "../shell/link.tsx";
import { useTitle } from "../shell/title.ts";
import { SelectedCall } from "./selected-call.tsx";
import { argumentsText, nextItem, reasons, waitingItems } from "./waiting-items.ts";
import "../overview/overview.css";
import "../styles/conversation.css";
import "./inbox.css";

export function InboxPage({ route }: { readonly route: WaitingRoute }): ReactNode {
  useTitle("Waiting");
  const { sessionId, call, engine, reason } = route;
  const scroller = useRef<HTMLDivElement>(null);
  const { loaded, error, loadMore, showUnseen, reload } = useSessions({ status: "waiting", engine, scroller });
  const items = useMemo(() => waitingItems(loaded?.items ?? [], reason), [loaded, reason]);
  const now = useNow();
  const isSelected = sessionId !== null && call !== null;
  return (
    <div className={isSelected ? "inbox has-selection" : "inbox"}>
      <section className="inbox-list" aria-label="Waiting calls" ref={scroller}>
        <div className="filters" role="group" aria-label="Filter">
          <h1>Waiting</h1>
          <Toggle isOn={reason === null} onClick={() => navigate(waitingRoute({ engine }))}>
            All
          </Toggle>
          {reasons.map((name) => (
            <Toggle key={name} isOn={reason === name} onClick={() => navigate(waitingRoute({ engine, reason: name }))}>
              {reasonNames[name]}
            </Toggle>
          ))}
          <EngineChoice engine={engine} change={(next) => navigate(waitingRoute({ engine: next, reason }))} />
        </div>
        {loaded !== null && loaded.unseen.length > 0 && (
          <button type="button" className="unseen" onClick={showUnseen}>
            ↑ {loaded.unseen.length === 1 ? "1 more session waits" : `${loaded.unseen.length} more sessions wait`}
          </button>
        )}
        {error !== null && loaded === null && (
          <p className="inbox-note error-text" role="alert">
            The sessions could not be read: {error.message}
          </p>
        )}
        {loaded === null && error === null && (
          <p className="loading" role="status">
            Loading…
          </p>
        )}
        {loaded !== null && items.length === 0 && (
          <p className="inbox-note muted">
            {reason === null && engine === null
              ? "Nothing waits. Approvals and questions of all sessions appear here."
              : "Nothing that waits matches the filter."}
          </p>
        )}
        <ul>
          {items.map((item) => (
            <li key={JSON.stringify([item.session.id, item.call.id])}>
              <Row
                item={item}
                route={route}
                isSelected={item.session.id === sessionId && item.call.id === call}
                now={now}
              />
            </li>
          ))}
        </ul>
        {loaded !== null && loaded.next !== null && (
          <p className="inbox-note">
            <Button onClick={loadMore}>Show more</Button>
          </p>
        )}
        <ParkedTurns hidesIfNone />
      </section>
      <section className="inbox-detail" aria-label="Selected call">
        {sessionId !== null && call !== null ? (
          <SelectedCall
            key={JSON.stringify([sessionId, call])}
            sessionId={sessionId}
            callId={call}
            listed={items.find((item) => item.session.id === sessionId && item.call.id === call) ?? null}
            back={waitingRoute({ engine, reason })}
            next={nextItem(items, { sessionId, call })}
            now={now}
            reload={reload}
          />
        ) : (
          <p className="muted inbox-hint">Select a call to see all its arguments and to answer it.</p>
        )}
      </section>
    </div>
  );
}

const reasonNames = {
  approval: "Approvals",
  question: "Questions",
  manual: "Manual tools",
  outcome_unknown: "Unknown outcome",
} as const;

/** What waits, with which arguments, in which session, since when. */
function Row({
  item: { session, call },
  route,
  isSelected,
  now,
}: {
  readonly item: WaitingItem;
  readonly route: WaitingRoute;
  readonly isSelected: boolean;
  readonly now: number;
}): ReactNode {
  const isQuestion = call.reason === "question";
  return (
    <Link
      to={{ ...route, sessionId: session.id, call: call.id }}
      className="inbox-row"
      aria-current={isSelected ? "true" : undefined}
    >
      <span className="row">
        <bdi className="title mono">{isQuestion ? "question" : pathOf(call.shown)}</bdi>
        {!isQuestion && <span className="tag wait">{reasonText(call)}</span>}
        <span className="tnum muted" title={`since ${dateTime(session.changedAt)}`}>
          {ago(session.changedAt, now)}
        </span>
      </span>
      <bdi className={isQuestion ? "inbox-arguments" : "inbox-arguments mono"}>
        {isQuestion ? visibleName(call.question ?? "") : argumentsText(call)}
      </bdi>
      <span className="sub">
        <bdi>{titleOf(session)}</bdi>
        {session.startedBy.length > 0 && <span>by {session.startedBy.map(exactName).join(", ")}</span>}
        {session.engine !== null && <span>{session.engine}</span>}
      </span>
    </Link>
  );
}
