// The answer to a call that waits: an approval with a form for its arguments, the answer to a question, or the result
// of a manual tool.

import type { Decision, PendingCall } from "../data/types.ts";
import type { Json, JsonObject } from "everturn";
import type { ReactNode } from "react";

import { isEverturnError, visibleText } from "everturn";
import { useId, useState } from "react";

import { useConnection } from "../data/connection.tsx";
import { parsedOrProblem } from "../forms/schema-form.ts";
import { pathOf, reasonText } from "../sessions/session-label.ts";
import { Button } from "../shell/button.tsx";
import { notifyError } from "../shell/toasts.tsx";
import { PlainText } from "../text/long-text.tsx";
import { SchemaApprovalForm } from "./approval-form.tsx";
import { formKey, useSeenCall, useTextDraft } from "./form-drafts.ts";
import { ChangedCall, ToolNote, useCallArguments } from "./waiting-call.tsx";
import { useWaitingSession } from "./waiting-session.ts";

/** Moves the focus into the composer: the shortcut `s`. */
export function focusComposer(): void {
  const field = document.querySelector("[data-composer]");
  if (field instanceof HTMLElement) field.focus();
}

/** How many frames `showPendingForm` waits for the end of the conversation to be drawn. */
const maxFrames = 20;

/**
 * Scrolls to the form of a call that waits, and moves the focus into it. A form at the end of the conversation is in
 * the document only if the end is in view.
 */
export function showPendingForm(callId: string, frame = 0): void {
  const form = [...document.querySelectorAll("[data-pending-form]")].find(
    (element) => element.getAttribute("data-pending-form") === callId,
  );
  if (form === undefined) {
    if (frame >= maxFrames) return;
    const scroller = document.querySelector(".talk");
    if (scroller !== null) scroller.scrollTop = scroller.scrollHeight;
    requestAnimationFrame(() => showPendingForm(callId, frame + 1));
    return;
  }
  form.scrollIntoView({ block: "nearest" });
  // Not the first button, which may approve: a second press of the key that led here must not decide.
  if (form instanceof HTMLElement) form.focus();
}

/** A waiting call with its form, outside of the reply that has made it. */
export function PendingCard({
  pending,
  hasQuestion = true,
}: {
  readonly pending: PendingCall;
  readonly hasQuestion?: boolean;
}): ReactNode {
  return (
    <section
      className="card approval"
      aria-label={`Tool ${pathOf(pending.shown)}`}
      data-pending-form={pending.id}
      tabIndex={-1}
    >
      <div className="head">
        <span className="name">{pathOf(pending.shown)}</span>
        <span className="tag wait">{reasonText(pending)}</span>
        {pending.reason === "approval" && <ToolNote pending={pending} />}
      </div>
      <PendingForm pending={pending} hasQuestion={hasQuestion} />
    </section>
  );
}

export function PendingForm({
  pending,
  hasQuestion = true,
}: {
  readonly pending: PendingCall;
  /** `false`: the question is shown elsewhere. */
  readonly hasQuestion?: boolean;
}): ReactNode {
  const { sessionId, composed, read } = useWaitingSession();
  const isCurrent = composed === pending.id;
  const { client } = useConnection();
  const [isSending, setSending] = useState(false);
  const { seen, review, forget } = useSeenCall(sessionId, pending);
  /** The digest of a decision that was refused, because the call has changed. */
  const [refused, setRefused] = useState<string | null>(null);
  const isRead = refused !== pending.digest;
  const isChanged = seen.digest !== pending.digest;
  const notice = (isChanged || !isRead) && (
    <ChangedCall before={seen} after={pending} review={isRead ? review : null} />
  );
  const send = async (answer: () => Promise<unknown>): Promise<void> => {
    setSending(true);
    try {
      await answer();
      read();
    } catch (error) {
      notifyError(error);
      setSending(false);
      if (!isEverturnError(error) || error.reason !== "call_changed") return;
      setRefused(pending.digest);
      read();
    }
  };
  const decide = (decision: Decision): void =>
    void send(async () => {
      // The digest of what is shown: the server refuses the decision if the call is another one now.
      await client.decide(sessionId, pending.id, { ...decision, digest: pending.digest });
      forget();
    });
  const submit = (value: Json): void =>
    void send(async () => client.submitToolResults(sessionId, [[pending.id, value]]));
  const key = formKey(sessionId, pending);
  switch (pending.reason) {
    case "approval":
      return (
        <>
          {notice}
          <SchemaApprovalForm
            key={key}
            pending={pending}
            isBlocked={isSending || isChanged || !isRead}
            decide={decide}
          />
        </>
      );
    case "question":
      return (
        <Question
          key={key}
          draftKey={key}
          pending={pending}
          hasQuestion={hasQuestion}
          isCurrent={isCurrent}
          isSending={isSending}
          answer={(text) =>
            void send(async () => {
              if (isCurrent) return client.reply(sessionId, text);
              // A reply answers the question that the session names; a token answers any other one.
              const token = await client.token(sessionId, pending.id);
              return client.complete(token, { type: "answer", text });
            })
          }
        />
      );
    case "manual":
    case "outcome_unknown":
      return (
        <>
          {notice}
          <ResultForm
            key={key}
            draftKey={key}
            pending={pending}
            isSending={isSending || isChanged || !isRead}
            submit={submit}
            decide={pending.reason === "manual" ? null : decide}
          />
        </>
      );
  }
}

/**
 * The result of a tool that a person runs. `decide`: the tool may have run before a crash; it can be run again, or not
 * at all.
 */
function ResultForm({
  draftKey,
  pending,
  isSending,
  submit,
  decide,
}: {
  readonly draftKey: string;
  readonly pending: PendingCall;
  readonly isSending: boolean;
  readonly submit: (value: Json) => void;
  readonly decide: ((decision: Decision) => void) | null;
}): ReactNode {
  const { view, isComplete } = useCallArguments(pending);
  return (
    <div className="body">
      {decide !== null && (
        <p className="muted">
          The process ended while this tool ran. Whether it took effect is not known, and it is not safe to run twice:
          check first, then enter its result, or run it again.
        </p>
      )}
      {view}
      <ManualResult draftKey={draftKey} isSending={isSending} submit={submit} />
      {decide !== null && (
        <div className="actions">
          <Button
            disabled={isSending || !isComplete}
            title={isComplete ? undefined : "Not all arguments are shown"}
            onClick={() => decide({ type: "approve" })}
          >
            Run it again
          </Button>
          <Button look="danger" disabled={isSending} onClick={() => decide({ type: "deny" })}>
            Do not run it
          </Button>
        </div>
      )}
    </div>
  );
}

function Question({
  draftKey,
  pending,
  hasQuestion,
  isCurrent,
  isSending,
  answer,
}: {
  readonly draftKey: string;
  readonly pending: PendingCall;
  readonly hasQuestion: boolean;
  /** The next message to the session answers this question, so the composer is the field for the answer. */
  readonly isCurrent: boolean;
  readonly isSending: boolean;
  readonly answer: (text: string) => void;
}): ReactNode {
  const [text, setText] = useTextDraft(`${draftKey} answer`, "");
  const options = answerOptions(pending.opts);
  const send = (): void => {
    if (text.trim() !== "" && !isSending) answer(text);
  };
  return (
    <div className="body">
      {hasQuestion && <PlainText text={pending.question ?? ""} className="plain prose" />}
      {options.length > 0 && (
        <div className="actions wrap">
          {options.map((option) => (
            <Button key={option} disabled={isSending} onClick={() => answer(option)}>
              {visibleText(option)}
            </Button>
          ))}
        </div>
      )}
      {isCurrent ? (
        <div className="actions">
          <Button onClick={focusComposer}>{options.length === 0 ? "Write the answer" : "Write another answer"}</Button>
        </div>
      ) : (
        <div className="actions">
          <input
            className="input grow"
            dir="auto"
            aria-label="Answer"
            placeholder="Answer"
            value={text}
            onChange={(event) => setText(event.target.value)}
            onKeyDown={(event) => {
              if (event.key !== "Enter" || event.nativeEvent.isComposing) return;
              event.preventDefault();
              send();
            }}
          />
          <Button look="primary" disabled={isSending || text.trim() === ""} onClick={send}>
            Answer
          </Button>
        </div>
      )}
    </div>
  );
}

/** Answers that the tool offers (`opts.options` or `opts.choices`), if they are texts. */
function answerOptions(opts: JsonObject): readonly string[] {
  const list = opts["options"] ?? opts["choices"];
  return Array.isArray(list) ? list.filter((option) => typeof option === "string").slice(0, 12) : [];
}

function ManualResult({
  draftKey,
  isSending,
  submit,
}: {
  readonly draftKey: string;
  readonly isSending: boolean;
  readonly submit: (value: Json) => void;
}): ReactNode {
  const [text, setText] = useTextDraft(`${draftKey} result`, "");
  const [isJson, setJson] = useState(false);
  const parsed = isJson ? parsedOrProblem(text) : { value: text, problem: null };
  const id = useId();
  return (
    <div className="body">
      <label htmlFor={id} className="muted">
        Result of the tool
      </label>
      <textarea
        id={id}
        className="input mono"
        rows={3}
        dir="auto"
        value={text}
        aria-invalid={parsed.problem !== null}
        onChange={(event) => setText(event.target.value)}
      />
      {parsed.problem !== null && text !== "" && <span className="error-text">Not JSON: {parsed.problem}</span>}
      <div className="actions">
        <Button
          look="primary"
          disabled={isSending || text === "" || parsed.problem !== null}
          onClick={() => submit(parsed.value)}
        >
          Send result
        </Button>
        <label className="check">
          <input type="checkbox" checked={isJson} onChange={(event) => setJson(event.target.checked)} /> as JSON
        </label>
      </div>
    </div>
  );
}
