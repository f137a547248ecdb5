// The conversation of a child agent: the arguments of the call in which it ran, its replies, and its calls with their
// results. It is shown in place of the conversation of the session while a child turn is selected.

import type { SessionRoute } from "../route.ts";
import type { ChildEntry, KnownEntries, Transcript } from "./child-messages.ts";
import type { Message } from "everturn";
import type { TurnCall } from "everturn/advanced";
import type { ReactNode } from "react";

import { useEffect, useMemo, useState } from "react";

import { useConnection } from "../data/connection.tsx";
import { useQuery } from "../data/query.ts";
import { count } from "../parts/format.ts";
import { visibleJson, visibleName } from "../parts/text.ts";
import { navigate, sessionRoute } from "../route.ts";
import { selectEffect } from "../selection.ts";
import { Button } from "../shell/button.tsx";
import { Link } from "../shell/link.tsx";
import { JsonText } from "../text/json-view.tsx";
import { useTurnData } from "../timeline/turn-data.ts";
import { isInnerTurn } from "../timeline/turns.ts";
import { parentTurn, readTranscript } from "./child-messages.ts";
import { FailureCard } from "./failure-card.tsx";
import { MessageRow } from "./message-row.tsx";
import { callKey, unanswered } from "./session-store.ts";

/** How many rows of the journal of a child are read at first, and with each "Show more". */
const pageSize = 60;

const noWaiting = new Map();

export function ChildTranscript({
  route,
  turnId,
}: {
  readonly route: SessionRoute;
  readonly turnId: string;
}): ReactNode {
  const { sessionId } = route;
  const { inspector } = useConnection();
  const [size, setSize] = useState(pageSize);
  const known = useMemo((): KnownEntries => new Map(), [inspector, sessionId, turnId]);
  const { data, error, refresh } = useQuery(`transcript ${sessionId} ${turnId} ${size}`, async () =>
    readTranscript(inspector, sessionId, turnId, size, known),
  );
  // The reader of the timeline notices new rows.
  const { timeline } = useTurnData(sessionId, turnId);
  const rows = timeline?.effects.length ?? null;
  const status = timeline?.turn.status ?? null;
  useEffect(() => {
    if (rows !== null) refresh();
  }, [rows, status, refresh]);
  const parent = parentTurn(turnId);
  const back = sessionRoute(sessionId, { turnId: parent, effect: data?.call?.ordinal ?? null });
  return (
    <div className="talk-frame child-talk">
      <p className="past">
        Child agent{data?.call === undefined || data.call === null ? "" : ` of the call ${visibleName(data.call.name)}`}
        <Link to={back} className="btn small">
          {isInnerTurn(parent) ? "Back to the agent that called it" : "Back to the conversation"}
        </Link>
      </p>
      <div className="talk" tabIndex={0} role="group" aria-label="Messages of the child agent">
        {data === null ? (
          <p className="loading" role="status">
            {error === null ? "Loading…" : `The child agent cannot be read: ${error.message}`}
          </p>
        ) : (
          <Entries
            transcript={data}
            selected={route.effect}
            turnId={turnId}
            select={(entry) => selectEffect(route, entry.turnId, entry.ordinal)}
            selectCall={(ordinal, ofTurn) => navigate(sessionRoute(sessionId, { turnId: ofTurn, effect: ordinal }))}
            more={() => setSize((before) => before + pageSize)}
          />
        )}
      </div>
    </div>
  );
}

function Entries({
  transcript: { call, entries, times, running, rest, isOpen },
  selected,
  turnId,
  select,
  selectCall,
  more,
}: {
  readonly transcript: Transcript;
  readonly selected: number | null;
  readonly turnId: string;
  readonly select: (entry: ChildEntry) => void;
  readonly selectCall: (ordinal: number, turnId: string) => void;
  readonly more: () => void;
}): ReactNode {
  const messages = useMemo(() => messagesOf(entries), [entries]);
  const state = useMemo(() => ({ messages, calls: runningCalls(messages, running) }), [messages, running]);
  const chosen = entries.findIndex((entry) => entry.ordinal === selected && entry.turnId === turnId);
  const answer = messages.get(chosen);
  const selectedCall = answer?.role === "tool" ? answer.toolCallId : null;
  const reply = selectedCall === null ? chosen : replyOf(messages, chosen, selectedCall);
  return (
    <>
      {call !== null && (
        <article className="msg user" aria-label="Arguments of the call">
          <div className="who">{visibleName(call.name)}</div>
          <div className="msg-body">
            <JsonText value={visibleJson(call.arguments)} />
          </div>
        </article>
      )}
      {entries.map((entry, index) =>
        entry.type === "failure" ? (
          <FailureCard key={index} title="failure" failure={entry.failure} />
        ) : entry.message.role === "tool" ? null : (
          <MessageRow
            key={index}
            index={index}
            message={entry.message}
            state={state}
            waiting={noWaiting}
            times={times}
            isSelected={index === reply}
            selectedCall={selectedCall}
            isCommitted={false}
            select={(_, toolCallId) => {
              const result = toolCallId === null ? undefined : resultOf(entries, index, toolCallId);
              if (result === undefined) select(entry);
              else selectCall(result.ordinal, result.turnId);
            }}
          />
        ),
      )}
      {isOpen && (
        <p className="muted" role="status">
          {running.length > 0
            ? "The child agent waits for its tools."
            : "The child agent calls its model. A reply is shown once it is recorded."}
        </p>
      )}
      {!isOpen && entries.length === 0 && <p className="muted">No reply was recorded.</p>}
      {rest > 0 && <Button onClick={more}>Show more ({count(rest)} rows)</Button>}
    </>
  );
}

function messagesOf(entries: readonly ChildEntry[]): ReadonlyMap<number, Message> {
  return new Map(entries.flatMap((entry, index) => (entry.type === "message" ? [[index, entry.message]] : [])));
}

/** The calls of the newest reply that run. */
function runningCalls(
  messages: ReadonlyMap<number, Message>,
  running: readonly string[],
): ReadonlyMap<string, TurnCall> {
  const [index, reply] = [...messages].findLast(([, { role }]) => role === "assistant") ?? [];
  if (index === undefined || reply?.role !== "assistant") return new Map();
  const calls = reply.toolCalls.filter(({ id }) => running.includes(id));
  return new Map(calls.map(({ id, name }) => [callKey(index, id), { ...unanswered, id, name, state: "running" }]));
}

/** The entry that answers a call of the reply at `index`. Later replies may have calls of the same ids. */
function resultOf(entries: readonly ChildEntry[], index: number, toolCallId: string): ChildEntry | undefined {
  const after = entries.slice(index + 1);
  const next = after.findIndex((entry) => entry.type === "message" && entry.message.role === "assistant");
  return after
    .slice(0, next === -1 ? after.length : next)
    .find(
      (entry) => entry.type === "message" && entry.message.role === "tool" && entry.message.toolCallId === toolCallId,
    );
}

/** The index of the reply that made the call which the message at `index` answers. */
function replyOf(messages: ReadonlyMap<number, Message>, index: number, toolCallId: string): number {
  for (let before = index - 1; before >= 0; before -= 1) {
    const message = messages.get(before);
    if (message?.role === "assistant" && message.toolCalls.some(({ id }) => id === toolCallId)) return before;
  }
  return index;
}
