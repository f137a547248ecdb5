// The answer to a call that waits: an approval with a form for its arguments, the answer to a question, or the result of a manual tool.

import type { Decision, PendingCall } from "../data/types.ts";
import type { ToolView } from "everturn/client";
import type { Json, JsonObject } from "everturn/model";
import type { KeyboardEvent, ReactNode } from "react";

import { useCallback, useEffect, useId, useMemo, useRef, useState } from "react";

import { useConnection } from "../data/connection.tsx";
import { useQuery } from "../data/query.ts";
import { refreshSession } from "../data/session-feed.ts";
import { JsonInput, SchemaFields } from "../forms/schema-fields.tsx";
import { fieldsOf, isSameJson, parsedOrProblem, problemOf } from "../forms/schema-form.ts";
import { isObject } from "../parts/json.ts";
import { withModifier } from "../shell/keyboard.ts";
import { notifyError } from "../shell/toasts.tsx";
import { PlainText } from "../text/long-text.tsx";
import { useConversationPart } from "./use-conversation.ts";

/** Moves the focus into the composer: the shortcut `s`. */
export function focusComposer(): void {
  const field = document.querySelector("[data-composer]");
  if (field instanceof HTMLElement) field.focus();
}

/** Asks the form of the first waiting call to approve or deny: the shortcuts `a` and `d`. */
export function requestDecision(type: "approve" | "deny"): boolean {
  const form = document.querySelector(`[data-pending="${type}"]`);
  if (!(form instanceof HTMLElement)) return false;
  form.click();
  return true;
}

/** How many frames `showPendingForm` waits for the end of the conversation to be drawn. */
const maxFrames = 20;

/** Scrolls to the form of a call that waits, and moves the focus into it. A form at the end of the conversation is in the document only if the end is in view. */
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
  const control = form.querySelector(".body input, .body textarea, .body button");
  if (control instanceof HTMLElement) control.focus();
}

export function PendingForm({
  pending,
  hasQuestion = true,
}: {
  readonly pending: PendingCall;
  /** `false`: the question is shown elsewhere. */
  readonly hasQuestion?: boolean;
}): ReactNode {
  const sessionId = useConversationPart((state) => state.sessionId);
  const isCurrent = useConversationPart(({ head }) => head?.session.pendingToolCallId === pending.id);
  const { client } = useConnection();
  const [isSending, setSending] = useState(false);
  const send = async (answer: () => Promise<unknown>): Promise<void> => {
    setSending(true);
    try {
      await answer();
      refreshSession(client, sessionId);
    } catch (error) {
      notifyError(error);
      setSending(false);
    }
  };
  const decide = (decision: Decision): void =>
    void send(async () => client.decide(sessionId, pending.id, { ...decision, digest: pending.digest }));
  const submit = (value: Json): void =>
    void send(async () => client.submitToolResults(sessionId, [[pending.id, value]]));
  switch (pending.reason) {
    case "approval":
      return <Approval pending={pending} isSending={isSending} decide={decide} />;
    case "question":
      return (
        <Question
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
      return <ManualResult isSending={isSending} submit={submit} />;
    case "outcome_unknown":
      return (
        <div className="body">
          <p className="muted">
            The process ended while this tool ran. Whether it took effect is not known, and it is not safe to run twice:
            check first, then enter its result, or run it again.
          </p>
          <ManualResult isSending={isSending} submit={submit} />
          <div className="actions">
            <button type="button" className="btn" disabled={isSending} onClick={() => decide({ type: "approve" })}>
              Run it again
            </button>
            <button type="button" className="btn danger" disabled={isSending} onClick={() => decide({ type: "deny" })}>
              Do not run it
            </button>
          </div>
        </div>
      );
  }
}

/** The tool of a call, with its schema; `null`: the engine is not known, or has no such tool. */
function useTool(name: string): ToolView | null {
  const { inspector } = useConnection();
  const engine = useConversationPart((state) => state.head?.engine ?? null);
  const engines = useQuery("engines", async (signal) => inspector.engines({ signal }));
  const own = engines.data?.find((other) => other.name === engine);
  return own?.tools.find((tool) => tool.name === name) ?? null;
}

/** What a tool does, and whether it is safe to run twice, for the head of an approval. */
export function ToolNote({ name }: { readonly name: string }): ReactNode {
  const tool = useTool(name);
  if (tool === null) return null;
  return (
    <span className="tool-note" title={tool.description}>
      <span dir="auto">{tool.description}</span>
      <b>{rerunText(tool.rerun)}</b>
    </span>
  );
}

function Approval({
  pending,
  isSending,
  decide,
}: {
  readonly pending: PendingCall;
  readonly isSending: boolean;
  readonly decide: (decision: Decision) => void;
}): ReactNode {
  const tool = useTool(pending.name);
  const original = useMemo((): JsonObject => pending.arguments ?? {}, [pending.arguments]);
  const [value, setValue] = useDraft(`${pending.idempotencyKey ?? pending.id} arguments`, original);
  const [reason, setReason] = useState<string | null>(null);
  const fields = useMemo(() => (tool === null ? null : fieldsOf(tool.inputSchema, original)), [tool, original]);
  const isEdited = !isSameJson(value, original);
  const isValid = fields === null || fields.every((field) => problemOf(field, value[field.name]) === null);
  const approve = (): void => {
    if (isSending || !isValid) return;
    decide(isEdited ? { type: "approve", arguments: value } : { type: "approve" });
  };
  const press = (event: KeyboardEvent): void => {
    if (event.key !== "Enter" || !(event.metaKey || event.ctrlKey)) return;
    event.preventDefault();
    approve();
  };
  return (
    <div className="body" onKeyDown={press}>
      {fields === null ? (
        <ArgumentsAsJson value={value} change={setValue} />
      ) : (
        <SchemaFields fields={fields} value={value} original={original} change={setValue} />
      )}
      {reason === null ? (
        <div className="actions">
          <button
            type="button"
            className="btn primary"
            data-pending="approve"
            disabled={isSending || !isValid}
            onClick={approve}
          >
            {isEdited ? "Approve edited" : "Approve"}
          </button>
          <button type="button" className="btn" data-pending="deny" disabled={isSending} onClick={() => setReason("")}>
            Deny with reason…
          </button>
          {isEdited && (
            <button type="button" className="btn quiet" onClick={() => setValue(original)}>
              Reset
            </button>
          )}
          <span className="spacer" />
          <span className="kbd">{withModifier("⏎")}</span>
        </div>
      ) : (
        <Denial
          reason={reason}
          change={setReason}
          isSending={isSending}
          deny={() => decide(reason.trim() === "" ? { type: "deny" } : { type: "deny", reason: reason.trim() })}
        />
      )}
    </div>
  );
}

function ArgumentsAsJson({
  value,
  change,
}: {
  readonly value: JsonObject;
  readonly change: (value: JsonObject) => void;
}): ReactNode {
  const id = useId();
  return (
    <JsonInput
      id={id}
      label="Arguments"
      value={value}
      change={(next) => {
        if (isObject(next)) change(next);
      }}
    />
  );
}

function Denial({
  reason,
  change,
  isSending,
  deny,
}: {
  readonly reason: string;
  readonly change: (reason: string | null) => void;
  readonly isSending: boolean;
  readonly deny: () => void;
}): ReactNode {
  const input = useRef<HTMLInputElement>(null);
  useEffect(() => input.current?.focus(), []);
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
            deny();
          } else if (event.key === "Escape") change(null);
        }}
      />
      <button type="button" className="btn danger-fill" disabled={isSending} onClick={deny}>
        Deny
      </button>
      <button type="button" className="btn quiet" onClick={() => change(null)}>
        Back
      </button>
    </div>
  );
}

/** Arguments that were edited in forms that are no longer in the document, because the reader has scrolled away from them. */
const drafts = new Map<string, JsonObject>();
const maxDrafts = 50;

/** The arguments of an approval. Edits survive the removal of the form; `key` identifies the call. */
function useDraft(key: string, original: JsonObject): readonly [JsonObject, (value: JsonObject) => void] {
  const [value, setValue] = useState(() => drafts.get(key) ?? original);
  const change = useCallback(
    (next: JsonObject) => {
      const [oldest] = drafts.keys();
      if (drafts.size >= maxDrafts && oldest !== undefined) drafts.delete(oldest);
      drafts.set(key, next);
      setValue(next);
    },
    [key],
  );
  return [value, change];
}

function Question({
  pending,
  hasQuestion,
  isCurrent,
  isSending,
  answer,
}: {
  readonly pending: PendingCall;
  readonly hasQuestion: boolean;
  /** The next message to the session answers this question, so the composer is the field for the answer. */
  readonly isCurrent: boolean;
  readonly isSending: boolean;
  readonly answer: (text: string) => void;
}): ReactNode {
  const [text, setText] = useState("");
  const options = optionsOf(pending.opts);
  const send = (): void => {
    if (text.trim() !== "" && !isSending) answer(text);
  };
  return (
    <div className="body">
      {hasQuestion && <PlainText text={pending.question ?? ""} className="plain prose" />}
      {options.length > 0 && (
        <div className="actions wrap">
          {options.map((option) => (
            <button key={option} type="button" className="btn" disabled={isSending} onClick={() => answer(option)}>
              {option}
            </button>
          ))}
        </div>
      )}
      {isCurrent ? (
        <div className="actions">
          <button type="button" className="btn" onClick={focusComposer}>
            {options.length === 0 ? "Write the answer" : "Write another answer"}
          </button>
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
          <button type="button" className="btn primary" disabled={isSending || text.trim() === ""} onClick={send}>
            Answer
          </button>
        </div>
      )}
    </div>
  );
}

/** Answers that the tool offers (`opts.options` or `opts.choices`), if they are texts. */
function optionsOf(opts: JsonObject): readonly string[] {
  const list = opts["options"] ?? opts["choices"];
  return Array.isArray(list) ? list.filter((option) => typeof option === "string").slice(0, 12) : [];
}

function ManualResult({
  isSending,
  submit,
}: {
  readonly isSending: boolean;
  readonly submit: (value: Json) => void;
}): ReactNode {
  const [text, setText] = useState("");
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
        <button
          type="button"
          className="btn primary"
          disabled={isSending || text === "" || parsed.problem !== null}
          onClick={() => submit(parsed.value)}
        >
          Send result
        </button>
        <label className="check">
          <input type="checkbox" checked={isJson} onChange={(event) => setJson(event.target.checked)} /> as JSON
        </label>
      </div>
    </div>
  );
}

/** What a crash in the middle of the call leads to, for the header of an approval. */
function rerunText(rerun: string): string {
  if (rerun === "never" || rerun === "ask") return "not safe to run twice";
  return "safe to run twice";
}
