// Two sessions side by side, for a fork and its original: what they share is one line, then each shows where it went.

import type { SessionSummary } from "../data/types.ts";
import type { Message } from "./comparison.ts";
import type { EverturnClient } from "everturn/client";
import type { ReactNode } from "react";

import { useConnection } from "../data/connection.tsx";
import { useQuery } from "../data/query.ts";
import { count } from "../parts/format.ts";
import { beginning, visibleName } from "../parts/text.ts";
import { navigate, sessionRoute } from "../route.ts";
import { titleOf } from "../sessions/session-label.ts";
import { Link } from "../shell/link.tsx";
import { useTitle } from "../shell/title.ts";
import "../overview/overview.css";
import "../styles/conversation.css";
import { Markdown } from "../text/markdown.tsx";
import { choicesFor } from "./choices.ts";
import { compareMessages, maxCompared, readMessages, messageText } from "./comparison.ts";
import "./compare.css";

export function ComparePage({ left, right }: { readonly left: string; readonly right: string }): ReactNode {
  useTitle("Compare");
  const { client } = useConnection();
  const read = (id: string) => async (signal: AbortSignal) => readMessages(client, id, signal);
  const ofLeft = useQuery(left === "" ? null : `compare:${left}`, read(left), { live: true });
  const ofRight = useQuery(right === "" ? null : `compare:${right}`, read(right), { live: true });
  const error = ofLeft.error ?? ofRight.error;
  const comparison = ofLeft.data !== null && ofRight.data !== null ? compareMessages(ofLeft.data, ofRight.data) : null;
  return (
    <div className="dashboard">
      <div className="dashboard-bar">
        <h1>Compare</h1>
        {comparison !== null && <span className="muted tnum">{sharedText(comparison.shared)}</span>}
      </div>
      <div className="compare-sides">
        <Picker
          label="Left session"
          chosen={left}
          other={right}
          choose={(id) => navigate({ view: "compare", left: id, right }, { replace: true })}
        />
        <Picker
          label="Right session"
          chosen={right}
          other={left}
          choose={(id) => navigate({ view: "compare", left, right: id }, { replace: true })}
        />
      </div>
      {(left === "" || right === "") && <p className="muted pad">Choose two sessions.</p>}
      {error !== null && (
        <p className="notice bad" role="alert">
          The sessions could not be read: {error.message}
        </p>
      )}
      {comparison !== null && (
        <div className="compare-sides">
          <Side id={left} shared={comparison.shared} messages={comparison.left} />
          <Side id={right} shared={comparison.shared} messages={comparison.right} />
        </div>
      )}
    </div>
  );
}

/** How many of the newest sessions can be chosen. */
const maxChoices = 200;

function Picker({
  label,
  chosen,
  other,
  choose,
}: {
  readonly label: string;
  readonly chosen: string;
  /** The session on the other side. */
  readonly other: string;
  readonly choose: (id: string) => void;
}): ReactNode {
  const { client } = useConnection();
  const sessions = useQuery("compare:sessions", (signal) => readSessions(client, signal), { live: true });
  const { related, others } = choicesFor(sessions.data ?? [], other);
  const isListed = [...related, ...others].some(({ id }) => id === chosen);
  return (
    <select
      className="select"
      aria-label={label}
      value={chosen}
      onChange={(event) => {
        if (event.target.value !== "") choose(event.target.value);
      }}
    >
      {chosen === "" && <option value="">Choose a session</option>}
      {chosen !== "" && !isListed && <option value={chosen}>{visibleName(chosen)}</option>}
      {related.length > 0 && <optgroup label="Forks and their original">{related.map(choice)}</optgroup>}
      {others.length > 0 && <optgroup label="Sessions">{others.map(choice)}</optgroup>}
    </select>
  );
}

function choice(session: SessionSummary): ReactNode {
  const { id, forkedFrom } = session;
  // The title comes first: a narrow list shows only the beginning.
  const title = titleOf(session);
  const parts = [
    shortened(title, 60),
    forkedFrom === null ? null : `fork at message ${count(forkedFrom.at)}`,
    title === id ? null : shortened(id, 16),
  ];
  return (
    <option key={id} value={id} title={visibleName(id)}>
      {visibleName(parts.filter((part) => part !== null).join(" · "))}
    </option>
  );
}

function shortened(text: string, length: number): string {
  return text.length <= length ? text : `${beginning(text, length - 1)}…`;
}

async function readSessions(client: EverturnClient, signal: AbortSignal): Promise<readonly SessionSummary[]> {
  const sessions: SessionSummary[] = [];
  let after: string | null = null;
  do {
    const page: Awaited<ReturnType<EverturnClient["list"]>> = await client.list({
      signal,
      limit: 100,
      ...(after === null ? {} : { after }),
    });
    sessions.push(...page.items);
    after = page.next;
  } while (after !== null && sessions.length < maxChoices);
  return sessions;
}

function Side({
  id,
  shared,
  messages,
}: {
  readonly id: string;
  readonly shared: number;
  readonly messages: readonly Message[];
}): ReactNode {
  const { client } = useConnection();
  const usage = useQuery(`usage:${id}`, (signal) => client.usage(id, { signal }));
  const tokens = (usage.data?.total.inputTokens ?? 0) + (usage.data?.total.outputTokens ?? 0);
  return (
    <section className="panel">
      <div className="compare-head">
        <Link to={sessionRoute(id)}>
          <bdi>{id}</bdi>
        </Link>
        <span className="spacer" />
        <span className="muted tnum">{usage.data === null ? "" : `${count(tokens)} tokens`}</span>
      </div>
      {messages.length === 0 && <p className="muted">Nothing after the shared messages.</p>}
      {messages.map((message, index) => (
        <article key={shared + index} className="compare-message">
          <Link to={sessionRoute(id, { message: shared + index })} className="who">
            {message.role}
          </Link>
          {message.role === "assistant" ? (
            <Markdown text={cut(messageText(message))} />
          ) : (
            <p dir="auto">{cut(messageText(message))}</p>
          )}
        </article>
      ))}
      {shared + messages.length >= maxCompared && (
        <p className="muted">Only the first {count(maxCompared)} messages are compared.</p>
      )}
    </section>
  );
}

function sharedText(shared: number): string {
  if (shared === 0) return "they share no message";
  return shared === 1 ? "the first message is the same" : `the first ${count(shared)} messages are the same`;
}

/** A long text is cut; the session shows all of it. */
function cut(text: string): string {
  return text.length <= 4000 ? text : `${text.slice(0, 4000)}… (${count(text.length)} characters)`;
}
