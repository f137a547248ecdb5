// The form of an approval: all arguments of the call, with fields to edit them, and the buttons that approve or deny.
//
// Invariants
//   1. A decision is the press of a button of this form, or ⌘⏎ in one of its fields. No shortcut of the page decides.
//   2. What is approved is shown: the button is disabled while a long value is not shown completely, while a text
//      cannot be read and while a value is wrong, and the reasons are beside it.

import type { Decision, PendingCall } from "../data/types.ts";
import type { KeyboardEvent, ReactNode } from "react";

import { useEffect, useMemo, useRef } from "react";

import { isEdited, newDraft, obstaclesOf } from "../forms/form-draft.ts";
import { JsonForm, SchemaForm } from "../forms/schema-fields.tsx";
import { fieldsOf, fieldsOfValue, isSameJson } from "../forms/schema-form.ts";
import { pathOf } from "../sessions/session-label.ts";
import { Button } from "../shell/button.tsx";
import { withModifier } from "../shell/keyboard.ts";
import { formKey, useFormDraft, useReasonDraft } from "./form-drafts.ts";
import { argumentsOf, useTool } from "./waiting-call.tsx";
import { useWaitingSession } from "./waiting-session.ts";

export function ApprovalForm({
  pending,
  isBlocked,
  decide,
}: {
  readonly pending: PendingCall;
  /** A decision is being sent, or the reader has not looked at the call as it is now. */
  readonly isBlocked: boolean;
  readonly decide: (decision: Decision) => void;
}): ReactNode {
  const tool = useTool(pending.shown);
  const { sessionId } = useWaitingSession();
  const original = useMemo(() => argumentsOf(pending), [pending]);
  // The server accepts no other arguments for a call of a child agent.
  const isReadOnly = pending.shown.parents.length > 0 || pending.shown.arguments === null;
  const [draft, change] = useFormDraft(formKey(sessionId, pending), newDraft(original));
  const [{ reason }, setReason] = useReasonDraft(formKey(sessionId, pending), { reason: null });
  const deny = useRef<HTMLButtonElement>(null);
  /** Whether the reader has opened the reason in this form, and not in one that was removed meanwhile. */
  const wasOpened = useRef(false);
  const fields = useMemo(() => {
    const ofSchema = tool === null || tool === undefined ? null : fieldsOf(tool.inputSchema, original);
    return isReadOnly ? (ofSchema ?? fieldsOfValue(original)) : ofSchema;
  }, [tool, original, isReadOnly]);
  const obstacles = obstaclesOf(draft, fields, original);
  const hasEdits = isEdited(draft, original);
  // The focus returns from the reason to the button that opened it.
  const isDenying = reason !== null;
  const isBack = useRef(false);
  useEffect(() => {
    if (!isDenying && isBack.current) deny.current?.focus();
    isBack.current = false;
  }, [isDenying]);
  const approve = (): void => {
    if (isBlocked || obstacles.length > 0 || reason !== null) return;
    decide(isSameJson(draft.value, original) ? { type: "approve" } : { type: "approve", arguments: draft.value });
  };
  const press = (event: KeyboardEvent): void => {
    if (event.key !== "Enter" || event.repeat || !(event.metaKey || event.ctrlKey)) return;
    // On a button, for example that of the denial, the keys press the button.
    if (!(event.target instanceof Element) || !event.target.matches("textarea, input, select")) return;
    event.preventDefault();
    approve();
  };
  if (tool === undefined) {
    return (
      <p className="loading" role="status">
        Loading…
      </p>
    );
  }
  return (
    <div className="body" onKeyDown={press}>
      {fields === null ? (
        <JsonForm draft={draft} original={original} change={change} />
      ) : (
        <SchemaForm fields={fields} draft={draft} original={original} change={change} isReadOnly={isReadOnly} />
      )}
      {reason === null ? (
        <>
          {/* The head of a long form is out of view where the buttons are. */}
          <p className="runs">
            An approval runs <b>{pathOf(pending.shown)}</b>
          </p>
          <div className="actions">
            <Button look="primary" disabled={isBlocked || obstacles.length > 0} onClick={approve}>
              {hasEdits ? "Approve edited" : "Approve"}
            </Button>
            <Button
              ref={deny}
              disabled={isBlocked}
              onClick={() => {
                wasOpened.current = true;
                setReason({ reason: "" });
              }}
            >
              Deny with reason…
            </Button>
            {hasEdits && (
              <Button look="quiet" onClick={() => change({ ...draft, value: original, unread: {} })}>
                Reset
              </Button>
            )}
            <span className="spacer" />
            <span className="kbd">{withModifier("⏎")}</span>
          </div>
          {obstacles.length > 0 && (
            <p className="error-text obstacles" role="status">
              Cannot be approved yet: {obstacles.join(" ")}
            </p>
          )}
        </>
      ) : (
        <Denial
          reason={reason}
          takesFocus={wasOpened.current}
          change={(next) => {
            isBack.current = next === null;
            setReason({ reason: next });
          }}
          isBlocked={isBlocked}
          deny={() => decide(reason.trim() === "" ? { type: "deny" } : { type: "deny", reason: reason.trim() })}
        />
      )}
    </div>
  );
}

function Denial({
  reason,
  takesFocus,
  change,
  isBlocked,
  deny,
}: {
  readonly reason: string;
  readonly takesFocus: boolean;
  readonly change: (reason: string | null) => void;
  readonly isBlocked: boolean;
  readonly deny: () => void;
}): ReactNode {
  const input = useRef<HTMLInputElement>(null);
  useEffect(() => {
    if (takesFocus) input.current?.focus();
    // Only when it is opened.
  }, []);
  return (
    <div className="actions">
      <input
        ref={input}
        className="input grow"
        dir="auto"
        aria-label="Reason, which the model reads"
        placeholder="Reason, which the model reads"
        value={reason}
        onChange={(event) => change(event.target.value)}
        onKeyDown={(event) => {
          if (event.key === "Enter" && !event.nativeEvent.isComposing) {
            event.preventDefault();
            event.stopPropagation();
            // The key that opened the reason may still be held down.
            if (!isBlocked && !event.repeat) deny();
          } else if (event.key === "Escape") change(null);
        }}
      />
      <Button look="danger-fill" disabled={isBlocked} onClick={deny}>
        Deny
      </Button>
      <Button look="quiet" onClick={() => change(null)}>
        Back
      </Button>
    </div>
  );
}
