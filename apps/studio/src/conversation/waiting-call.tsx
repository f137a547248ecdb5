// What a waiting call is: the tool that runs, what the tool does, whether it is safe to run twice, and all its
// arguments.

import type { PendingCall, ShownCall } from "../data/types.ts";
import type { JsonObject } from "everturn";
import type { ToolView } from "everturn/advanced";
import type { ReactNode } from "react";

import { useMemo, useRef } from "react";

import { useEngines } from "../data/engines.ts";
import { newDraft } from "../forms/form-draft.ts";
import { SchemaForm } from "../forms/schema-fields.tsx";
import { fieldsOf, fieldsOfValue, hiddenFields, isSameJson } from "../forms/schema-form.ts";
import { visibleJson } from "../parts/text.ts";
import { pathOf } from "../sessions/session-label.ts";
import { Button } from "../shell/button.tsx";
import { JsonText } from "../text/json-view.tsx";
import { formKey, useFormDraft } from "./form-drafts.ts";
import { useWaitingSession } from "./waiting-session.ts";

/**
 * The tool that runs, with its schema; `null`: the engine is not known, or has no such tool; `undefined`: it is being
 * read. A tool of a child agent is not known: the engine of the session may have another tool of its name. The first
 * value is kept, because another schema would replace the inputs of a form that is edited.
 */
export function useTool({ name, parents }: ShownCall): ToolView | null | undefined {
  const { engine } = useWaitingSession();
  const engines = useEngines();
  const own = engines.data?.find((other) => other.name === engine);
  const isRead = engines.data !== null || engines.error !== null;
  const tool = parents.length > 0 ? null : (own?.tools.find((other) => other.name === name) ?? null);
  const first = useRef<ToolView | null | undefined>(undefined);
  if (first.current === undefined && (isRead || parents.length > 0)) first.current = tool;
  return first.current;
}

/** What a tool does, and whether it is safe to run twice, for the head of an approval. */
export function ToolNote({ pending: { shown } }: { readonly pending: PendingCall }): ReactNode {
  const tool = useTool(shown);
  return (
    <span className="tool-note" title={tool?.description}>
      {tool !== null && tool !== undefined && <span dir="auto">{tool.description}</span>}
      <b>{replayText(shown)}</b>
    </span>
  );
}

/**
 * The arguments of a call as an object, for a form. A text of the model that is no JSON object is shown as one field.
 */
export function argumentsOf({ shown, rawArguments }: PendingCall): JsonObject {
  return shown.arguments ?? (rawArguments === null ? {} : { "arguments, not a JSON object": rawArguments });
}

/**
 * The call has changed since it was shown here: how, and what it was. The reader says that they have looked at it as it
 * is now.
 */
export function ChangedCall({
  before,
  after,
  review,
}: {
  readonly before: PendingCall;
  readonly after: PendingCall;
  /** `null`: the call as it is now is being read. */
  readonly review: (() => void) | null;
}): ReactNode {
  return (
    <div className="changed-call" role="alert">
      <p>
        <b>The call has changed</b> since it was shown here
        {review === null ? ". Your decision was not recorded." : `: ${changesOf(before, after)}.`}
      </p>
      {review === null ? (
        <p className="muted">Reading the session again…</p>
      ) : (
        <>
          <details open>
            <summary>What was shown before</summary>
            <p>{pathOf(before.shown)}</p>
            <JsonText value={visibleJson(argumentsOf(before))} />
          </details>
          <p className="muted">Look at it below. Then:</p>
          <Button look="small" onClick={review}>
            Decide about the call as it is now
          </Button>
        </>
      )}
    </div>
  );
}

/** The parts of a call that differ, in words. */
function changesOf({ shown: before }: PendingCall, { shown: after }: PendingCall): string {
  const parts = [
    ...(before.name === after.name ? [] : ["the tool"]),
    ...(isSameJson(before.parents, after.parents) ? [] : ["the tools around it"]),
    ...(isSameJson(before.arguments, after.arguments) ? [] : ["the arguments"]),
    ...(before.replay === after.replay ? [] : ["whether it is safe to run twice"]),
  ];
  return parts.length === 0 ? "it is another call with the same arguments" : parts.join(", ");
}

/**
 * All arguments of a call, to be read, and whether all of them are shown: long values are not before the reader asks
 * for them.
 */
export function useCallArguments(pending: PendingCall): {
  readonly view: ReactNode;
  readonly isComplete: boolean;
} {
  const tool = useTool(pending.shown);
  const { sessionId } = useWaitingSession();
  const value = useMemo(() => argumentsOf(pending), [pending]);
  const [draft, change] = useFormDraft(`${formKey(sessionId, pending)} read`, newDraft(value));
  const fields = useMemo(
    () => (tool === null || tool === undefined ? null : fieldsOf(tool.inputSchema, value)) ?? fieldsOfValue(value),
    [tool, value],
  );
  const view =
    fields.length === 0 ? (
      <p className="muted">The call has no arguments.</p>
    ) : (
      <SchemaForm fields={fields} draft={draft} original={value} change={change} isReadOnly />
    );
  return { view, isComplete: hiddenFields(fields, value, draft.revealed).length === 0 };
}

/** Whether the tool may be run again after a crash in the middle of the call. */
function replayText({ replay }: ShownCall): string {
  switch (replay) {
    case "safe":
      return "safe to run twice";
    case "never":
    case "ask":
      return "not safe to run twice";
    case null:
      return "not known whether it is safe to run twice";
  }
}
