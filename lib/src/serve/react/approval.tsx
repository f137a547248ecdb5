// The decision of a person about a call, as a component: what runs, its arguments to be read and edited, and the
// buttons that approve or deny with a reason. The studio uses it with a form of its own for the arguments.
//
// Its look is in `everturn/react.css`, by CSS variables. Without it the browser's own controls are shown.
//
// Invariants
//   1. A decision is the press of a button, or ⌘⏎ (Ctrl ⏎) in a field. A key that is held down does not decide.
//   2. What is approved is shown: the button is disabled while the arguments have obstacles, which are beside it.
//   3. A call that has changed is another one: edits and the reason of the one before are dropped.

import type { Json, JsonObject, PendingToolCall } from "../../core/model/internal.ts";
import type { ClientDecision } from "../client/internal.ts";
import type { KeyboardEvent, ReactNode } from "react";

import { useEffect, useRef, useState } from "react";

import { approvalText, callPath, isJsonObject } from "../../core/model/internal.ts";
import { Button } from "./controls.tsx";

/** The arguments of a call, shown by the page that uses {@link ApprovalForm}. */
type ArgumentsForm = {
  /** The fields. */
  readonly view: ReactNode;
  /** The arguments as they are now; `null`: those of the call. */
  readonly edited: JsonObject | null;
  /** Why the call cannot be approved as the fields are, as sentences. */
  readonly obstacles: readonly string[];
  /** Shows the arguments of the call again; `null`: nothing was changed. */
  readonly reset: (() => void) | null;
};

/** Properties of {@link ApprovalForm}. */
type ApprovalProps = {
  /** A call that waits for an approval: one of `pending` of `useConversation`. */
  readonly call: PendingToolCall;
  /** Records the decision, for example `(decision) => decide(call, decision)` with `decide` of `useConversation`. */
  readonly decide: (decision: ClientDecision) => unknown;
  /** Nothing can be decided, for example while a decision is being sent. Default: false. */
  readonly disabled?: boolean;
  /** A form for the arguments. Default: the text of the call, and a field with its arguments as JSON. */
  readonly form?: ArgumentsForm;
  /** The reason of a denial that is being written; `null`: none is. Default: the component keeps it. */
  readonly reason?: string | null;
  /** Called with the reason after every change. */
  readonly onReason?: (reason: string | null) => void;
};

/**
 * A component that shows a call which waits for an approval, with all its arguments, and decides: approve, approve with
 * edited arguments, deny with a reason that the model reads. Arguments of a call inside another agent cannot be edited.
 */
export function ApprovalForm(props: ApprovalProps): ReactNode {
  const { call, form } = props;
  return form === undefined ? <JsonApproval {...props} key={call.digest} /> : <Choice {...props} form={form} />;
}

/** An approval with the arguments as JSON. */
function JsonApproval(props: ApprovalProps): ReactNode {
  const { call, disabled = false } = props;
  const [text, setText] = useState<string | null>(null);
  const { edited, problem } = text === null ? { edited: null, problem: null } : parsedArguments(text);
  // The server accepts no other arguments for a call inside another agent.
  const isEditable = call.shown.parents.length === 0 && call.shown.arguments !== null;
  const original = JSON.stringify(call.shown.arguments, null, 2);
  const form: ArgumentsForm = {
    view: (
      <>
        <pre className="everturn-call" dir="auto">
          {approvalText(call)}
        </pre>
        {text !== null ? (
          <textarea
            className="everturn-json"
            aria-label="Arguments, as JSON"
            aria-invalid={problem !== null}
            dir="auto"
            rows={Math.min(20, text.split("\n").length + 1)}
            value={text}
            onChange={(event) => setText(event.target.value)}
          />
        ) : (
          isEditable && (
            <div className="everturn-actions">
              <Button disabled={disabled} onClick={() => setText(original)}>
                Edit arguments…
              </Button>
            </div>
          )
        )}
      </>
    ),
    edited: text === null || text === original ? null : edited,
    obstacles: problem === null ? [] : [problem],
    reset: text === null ? null : () => setText(null),
  };
  return <Choice {...props} form={form} />;
}

/** The arguments in a field, or why they are none. */
function parsedArguments(text: string): { readonly edited: JsonObject | null; readonly problem: string | null } {
  try {
    const edited: Json = JSON.parse(text);
    if (isJsonObject(edited)) return { edited, problem: null };
    return { edited: null, problem: "The arguments must be a JSON object." };
  } catch (error) {
    return { edited: null, problem: `The arguments are not JSON: ${error instanceof Error ? error.message : ""}` };
  }
}

type ChoiceProps = ApprovalProps & { readonly form: ArgumentsForm };

/** The fields, and below them the buttons or the reason of a denial. */
function Choice({ call, decide, disabled = false, form, reason: givenReason, onReason }: ChoiceProps): ReactNode {
  const [ownReason, setOwnReason] = useState<string | null>(null);
  const reason = givenReason === undefined ? ownReason : givenReason;
  const change = (next: string | null): void => {
    setOwnReason(next);
    onReason?.(next);
  };
  const denying = useRef<HTMLButtonElement>(null);
  /** Whether the reason was opened here, and not in a form that was removed meanwhile. */
  const wasOpened = useRef(false);
  const isBack = useRef(false);
  const isDenying = reason !== null;
  // The focus returns from the reason to the button that opened it.
  useEffect(() => {
    if (!isDenying && isBack.current) denying.current?.focus();
    isBack.current = false;
  }, [isDenying]);
  const { edited, obstacles, reset } = form;
  const isApprovable = !disabled && obstacles.length === 0 && !isDenying;
  const approve = (): void => {
    if (isApprovable) decide(edited === null ? { type: "approve" } : { type: "approve", arguments: edited });
  };
  const press = (event: KeyboardEvent): void => {
    if (event.key !== "Enter" || event.repeat || !(event.metaKey || event.ctrlKey)) return;
    // On a button, for example that of the denial, the keys press the button.
    if (!(event.target instanceof Element) || !event.target.matches("textarea, input, select")) return;
    event.preventDefault();
    approve();
  };
  const open = (): void => {
    wasOpened.current = true;
    change("");
  };
  return (
    <div className="everturn-approval" onKeyDown={press}>
      {form.view}
      {isDenying ? (
        <Denial
          reason={reason}
          takesFocus={wasOpened.current}
          disabled={disabled}
          change={(next) => {
            isBack.current = next === null;
            change(next);
          }}
          deny={(text) => decide(text === "" ? { type: "deny" } : { type: "deny", reason: text })}
        />
      ) : (
        <>
          <p className="everturn-runs">
            An approval runs <b>{callPath(call.shown)}</b>
          </p>
          <div className="everturn-actions">
            <Button look="primary" disabled={!isApprovable} onClick={approve}>
              {edited === null ? "Approve" : "Approve edited"}
            </Button>
            <Button ref={denying} disabled={disabled} onClick={open}>
              Deny with reason…
            </Button>
            {reset !== null && (
              <Button look="quiet" onClick={reset}>
                Reset
              </Button>
            )}
            <kbd className="everturn-keys">{isApple() ? "⌘⏎" : "Ctrl ⏎"}</kbd>
          </div>
          {obstacles.length > 0 && (
            <p className="everturn-obstacles" role="status">
              {`Cannot be approved yet: ${obstacles.join(" ")}`}
            </p>
          )}
        </>
      )}
    </div>
  );
}

type DenialProps = {
  readonly reason: string;
  readonly takesFocus: boolean;
  readonly disabled: boolean;
  readonly change: (reason: string | null) => void;
  readonly deny: (reason: string) => void;
};

/** The reason of a denial. */
function Denial({ reason, takesFocus, disabled, change, deny }: DenialProps): ReactNode {
  const input = useRef<HTMLInputElement>(null);
  useEffect(() => {
    if (takesFocus) input.current?.focus();
    // Only when it is opened.
  }, []);
  const press = (event: KeyboardEvent): void => {
    if (event.key === "Escape") return change(null);
    if (event.key !== "Enter" || event.nativeEvent.isComposing) return;
    event.preventDefault();
    event.stopPropagation();
    // The key that opened the reason may still be held down.
    if (!disabled && !event.repeat) deny(reason.trim());
  };
  return (
    <div className="everturn-actions">
      <input
        ref={input}
        className="everturn-input"
        dir="auto"
        aria-label="Reason, which the model reads"
        placeholder="Reason, which the model reads"
        value={reason}
        onChange={(event) => change(event.target.value)}
        onKeyDown={press}
      />
      <Button look="danger" disabled={disabled} onClick={() => deny(reason.trim())}>
        Deny
      </Button>
      <Button look="quiet" onClick={() => change(null)}>
        Back
      </Button>
    </div>
  );
}

function isApple(): boolean {
  return typeof navigator === "object" && /Mac|iPhone|iPad/.test(navigator.userAgent);
}
