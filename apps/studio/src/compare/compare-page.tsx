// Two sessions side by side, for a fork and its original: what they share is one line, then each shows where it went.

import type { Message } from "./comparison.ts";
import type { ReactNode } from "react";

import { useConnection } from "../data/connection.tsx";
import { useQuery } from "../data/query.ts";
import { count } from "../parts/format.ts";
import { sessionRoute } from "../route.ts";
import { Link } from "../shell/link.tsx";
import { useTitle } from "../shell/title.ts";
import "../overview/overview.css";
import "../styles/conversation.css";
import { Markdown } from "../text/markdown.tsx";
import { compareMessages, maxCompared, readMessages, textOf } from "./comparison.ts";
import "./compare.css";

export function ComparePage({ left, right }: { readonly left: string; readonly right: string }): ReactNode {
  useTitle("Compare");
  const { client } = useConnection();
  const read = (id: string) => async (signal: AbortSignal) => readMessages(client, id, signal);
  const ofLeft = useQuery(left === "" ? null : `compare:${left}`, read(left), { everyMs: 3000 });
  const ofRight = useQuery(right === "" ? null : `compare:${right}`, read(right), { everyMs: 3000 });
  const error = ofLeft.error ?? ofRight.error;
  const comparison = ofLeft.data !== null && ofRight.data !== null ? compareMessages(ofLeft.data, ofRight.data) : null;
  return (
    <div className="dashboard">
      <div className="dashboard-bar">
        <h1>Compare</h1>
        {comparison !== null && <span className="muted tnum">{sharedText(comparison.shared)}</span>}
      </div>
      {left === "" || right === "" ? (
        <p className="muted pad">
          Choose two sessions: select two in the list of sessions, or fork a message and compare the fork with its
          original.
        </p>
      ) : null}
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
            <Markdown text={cut(textOf(message))} />
          ) : (
            <p dir="auto">{cut(textOf(message))}</p>
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
