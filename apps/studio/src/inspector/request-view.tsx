// The request of a model call: as it was sent to the provider, as the library has it, and what is new since the step
// before. It is not stored, so the server rebuilds it and compares it with the recorded digests.

import type { JsonObject } from "everturn";
import type { TimelineEffect, RequestView as Request } from "everturn/advanced";
import type { ReactNode } from "react";

import { useState } from "react";

import { WindowBar } from "../context/window-bar.tsx";
import { useConnection } from "../data/connection.tsx";
import { useQuery } from "../data/query.ts";
import { count } from "../parts/format.ts";
import { Button, Toggle } from "../shell/button.tsx";
import { JsonTree } from "./json-tree.tsx";
import { requestChanges } from "./request-changes.ts";

/** Whether an effect is a call of a model. */
export function callsModel({ kind }: TimelineEffect): boolean {
  return kind === "model" || kind === "compaction";
}

const forms = [
  { name: "sent", label: "As sent" },
  { name: "changes", label: "Since the step before" },
  { name: "request", label: "Before encoding" },
] as const;

export function RequestView({
  sessionId,
  turnId,
  effects,
  effect,
}: {
  readonly sessionId: string;
  readonly turnId: string;
  /** The rows of the turn. */
  readonly effects: readonly TimelineEffect[];
  readonly effect: TimelineEffect;
}): ReactNode {
  const [form, setForm] = useState<(typeof forms)[number]["name"]>("sent");
  const earlier = effects.findLast((other) => other.kind === "model" && other.ordinal < effect.ordinal) ?? null;
  const { data, error } = useRequest(sessionId, turnId, effect.ordinal);
  if (data === null) {
    return (
      <p className="insp-empty">{error === null ? "Loading…" : `The request cannot be rebuilt: ${error.message}`}</p>
    );
  }
  return (
    <div className="insp-request">
      <WindowBar window={data.window} />
      <Comparison request={data} />
      <div className="insp-forms" role="group" aria-label="Form of the request">
        {forms.map(({ name, label }) =>
          name === "changes" && earlier === null ? null : (
            <Toggle key={name} isOn={form === name} onClick={() => setForm(name)}>
              {label}
            </Toggle>
          ),
        )}
      </div>
      {form === "changes" && earlier !== null ? (
        <Changes sessionId={sessionId} turnId={turnId} earlier={earlier} request={data.request} />
      ) : form === "request" ? (
        <JsonTree label="Request" value={data.request} />
      ) : data.sent === null ? (
        <p className="insp-empty">
          The engine of the turn is not in this process, or its adapter sends no HTTP request.
        </p>
      ) : (
        <>
          <p className="mono insp-path">POST {data.sent.path}</p>
          <JsonTree label="Request" value={data.sent.body} />
        </>
      )}
    </div>
  );
}

/** Whether the rebuilt request is the recorded one. */
function Comparison({ request: { differences } }: { readonly request: Request }): ReactNode {
  if (differences.length === 0) {
    return (
      <p className="muted">
        <span className="tag tool">same digests</span> Rebuilt from the pinned configuration and the history.
      </p>
    );
  }
  return (
    <p role="alert">
      <span className="tag crash">differs from the recorded call</span> The request was another one:{" "}
      <span className="mono">{differences.join(", ")}</span> changed since, by other code or changed data.
    </p>
  );
}

function Changes({
  sessionId,
  turnId,
  earlier,
  request,
}: {
  readonly sessionId: string;
  readonly turnId: string;
  readonly earlier: TimelineEffect;
  readonly request: JsonObject;
}): ReactNode {
  const { data, error } = useRequest(sessionId, turnId, earlier.ordinal);
  if (data === null) {
    return <p className="insp-empty">{error === null ? "Loading…" : `Step ${earlier.step + 1}: ${error.message}`}</p>;
  }
  const { kept, removed, added, fields } = requestChanges(data.request, request);
  return (
    <>
      <p className="muted">
        The first {count(kept)} messages are those of step {earlier.step + 1}.
        {removed.length + added.length + fields.length === 0 && " Nothing else is new."}
      </p>
      {removed.length > 0 && (
        <section className="insp-removed">
          <h3>No longer sent: {count(removed.length)}</h3>
          <JsonTree label="Removed messages" value={removed} />
        </section>
      )}
      {added.length > 0 && (
        <section className="insp-added">
          <h3>New messages: {count(added.length)}</h3>
          <JsonTree label="New messages" value={added} />
        </section>
      )}
      {fields.map(({ name, before, after }) => (
        <section key={name}>
          <h3>{name}</h3>
          <JsonTree label={name} value={{ before, after }} />
        </section>
      ))}
    </>
  );
}

/**
 * What fills the context window in the newest recorded call of a turn. The server reads the session to rebuild the
 * request, so it is asked only when the reader wants to see it.
 */
export function TurnWindow({
  sessionId,
  turnId,
  effects,
}: {
  readonly sessionId: string;
  readonly turnId: string;
  readonly effects: readonly TimelineEffect[];
}): ReactNode {
  const [isShown, setShown] = useState(false);
  const call = effects.findLast(({ kind, state }) => kind === "model" && state !== "superseded");
  if (call === undefined) return null;
  return isShown ? (
    <CallWindow sessionId={sessionId} turnId={turnId} ordinal={call.ordinal} />
  ) : (
    <div>
      <Button onClick={() => setShown(true)}>Show what fills the context window</Button>
    </div>
  );
}

function CallWindow({
  sessionId,
  turnId,
  ordinal,
}: {
  readonly sessionId: string;
  readonly turnId: string;
  readonly ordinal: number;
}): ReactNode {
  const { data, error } = useRequest(sessionId, turnId, ordinal);
  if (data !== null) return <WindowBar window={data.window} />;
  return (
    <p className="muted" role="status">
      {error === null ? "Loading…" : `The request cannot be rebuilt: ${error.message}`}
    </p>
  );
}

function useRequest(sessionId: string, turnId: string, ordinal: number) {
  const { inspector } = useConnection();
  return useQuery(`request ${sessionId} ${turnId} ${ordinal}`, (signal) =>
    inspector.request(sessionId, turnId, ordinal, { signal }),
  );
}
