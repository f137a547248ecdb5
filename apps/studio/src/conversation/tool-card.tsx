// A call of a tool: name, arguments, progress, result, duration and attempts. A call that waits has the form for its
// answer.

import type { PendingCall } from "../data/types.ts";
import type { CallTime } from "./message-row.tsx";
import type { Json, ToolCall } from "everturn";
import type { TurnCall } from "everturn/advanced";
import type { ReactNode } from "react";

import { visibleText } from "everturn";
import { memo } from "react";

import { isSameJson } from "../forms/schema-form.ts";
import { duration } from "../parts/format.ts";
import { isObject } from "../parts/json.ts";
import { exactName, visibleJson, visibleName } from "../parts/text.ts";
import { sessionRoute } from "../route.ts";
import { pathOf } from "../sessions/session-label.ts";
import { Button } from "../shell/button.tsx";
import { Link } from "../shell/link.tsx";
import { JsonText, JsonView } from "../text/json-view.tsx";
import { AnswerContent } from "./message-content.tsx";
import { PendingForm, showPendingForm } from "./pending-form.tsx";
import { argumentsOf, ToolNote } from "./waiting-call.tsx";

export const ToolCard = memo(function ToolCard({
  call,
  live,
  answer,
  pending,
  hasForm,
  time,
  isSelected,
  select,
}: {
  readonly call: ToolCall;
  /** What events have reported; `null`: nothing since the page was opened. */
  readonly live: TurnCall | null;
  readonly answer: TurnCall["answer"];
  /** Why the call waits; `null`: it does not. */
  readonly pending: PendingCall | null;
  /** Whether the form for the answer is in this card. */
  readonly hasForm: boolean;
  readonly time: CallTime | null;
  readonly isSelected: boolean;
  readonly select: () => void;
}): ReactNode {
  const sign = signOf(live, answer, pending, live?.durationMs ?? time?.durationMs ?? null);
  const attempts = Math.max(live?.attempts ?? 0, time?.attempts ?? 0);
  // The call of a child agent is what a decision is about, and not the tool around it.
  const name = pending === null ? visibleName(call.name) : pathOf(pending.shown);
  const written: Json = call.arguments ?? call.rawArguments ?? {};
  const run = answer?.ranArguments ?? live?.arguments ?? null;
  const isEdited = run !== null && !isSameJson(run, written);
  const input = isEdited ? run : written;
  return (
    <section
      className={`card tool-card ${pending === null ? "" : "approval"} ${isSelected ? "sel" : ""}`}
      aria-label={`Tool ${name}, ${sign.text}`}
    >
      <div className="head">
        <button type="button" className="name" onClick={select} title="Show in the timeline and the inspector">
          {name}
        </button>
        <span className={`tag ${sign.kind}`}>{sign.text}</span>
        {attempts > 1 && <span className="tag crash">{attempts} attempts</span>}
        {isEdited && <span className="tag wait">edited arguments</span>}
        {hasForm && pending?.reason === "approval" && <ToolNote pending={pending} />}
      </div>
      {pending !== null && !hasForm ? (
        <div className="body">
          <Button look="small" onClick={() => showPendingForm(pending.id)}>
            {pending.reason === "approval" ? "Decide below" : "Answer below"}
          </Button>
          {!isEmpty(argumentsOf(pending)) && (
            <details className="fold">
              <summary>arguments</summary>
              <JsonText value={visibleJson(argumentsOf(pending))} />
            </details>
          )}
        </div>
      ) : pending === null ? (
        <div className="body">
          {answer === null ? (
            <>
              {!isEmpty(input) && (
                <div data-arguments="run">
                  <JsonView value={input} show={visibleText} />
                </div>
              )}
              {isEdited && <WrittenArguments value={written} />}
            </>
          ) : (
            (!isEmpty(input) || isEdited) && (
              <details className="fold">
                <summary>{summaryOf(input)}</summary>
                <div data-arguments="run">
                  <JsonText value={visibleJson(input)} />
                </div>
                {isEdited && <WrittenArguments value={written} />}
              </details>
            )
          )}
          {time?.children.map(({ sessionId, turnId }, index) => (
            <Link key={turnId} to={sessionRoute(sessionId, { turnId })} className="btn small child-link">
              {time.children.length === 1 ? "Open the child agent" : `Open turn ${index + 1} of the child agent`}
            </Link>
          ))}
          {live?.state === "running" && <Progress progress={live.progress} />}
          {answer !== null && answer.status !== "awaiting_user" && (
            <div className={answer.status === "success" ? "result" : "result failed"}>
              {answer.code !== null && <span className="tag crash">{answer.code}</span>}
              <AnswerContent content={answer.content} />
            </div>
          )}
        </div>
      ) : (
        <PendingForm pending={pending} />
      )}
    </section>
  );
});

/** The arguments that the model wrote, beside those that run. */
function WrittenArguments({ value }: { readonly value: Json }): ReactNode {
  return (
    <div className="written" data-arguments="model">
      <span className="muted">The model wrote:</span>
      <JsonText value={visibleJson(value)} />
    </div>
  );
}

/** Progress as a bar, if the tool reports a share or a count, and as text. */
function Progress({ progress }: { readonly progress: Json }): ReactNode {
  const share = shareOf(progress);
  return (
    <div className="progress-row" role="status">
      {share === null ? (
        <div className="progress busy" aria-hidden="true">
          <i />
        </div>
      ) : (
        <div
          className="progress"
          role="progressbar"
          aria-label="Progress"
          aria-valuenow={Math.round(share * 100)}
          aria-valuemin={0}
          aria-valuemax={100}
        >
          <i style={{ width: `${share * 100}%` }} />
        </div>
      )}
      {progress !== null && <span className="muted">{progressText(progress)}</span>}
    </div>
  );
}

/** The share of the work that is done, from 0 to 1; `null`: the progress has no number that says it. */
function shareOf(progress: Json): number | null {
  if (typeof progress === "number" && progress >= 0 && progress <= 1) return progress;
  if (!isObject(progress)) return null;
  const number = (...names: readonly string[]): number | null => {
    for (const name of names) {
      const value = progress[name];
      if (typeof value === "number" && Number.isFinite(value)) return value;
    }
    return null;
  };
  const percent = number("percent", "percentage");
  if (percent !== null) return Math.min(1, Math.max(0, percent / 100));
  const done = number("done", "progress", "current", "completed", "step");
  const total = number("total", "of", "steps");
  if (done !== null && total !== null && total > 0) return Math.min(1, Math.max(0, done / total));
  return done !== null && done >= 0 && done <= 1 ? done : null;
}

function progressText(progress: Json): string {
  if (typeof progress === "string") return progress.slice(0, 200);
  if (isObject(progress)) {
    const text = progress["message"] ?? progress["text"] ?? progress["status"];
    if (typeof text === "string") return text.slice(0, 200);
    const { done, total } = progress;
    if (typeof done === "number" && typeof total === "number") return `${done} of ${total}`;
  }
  return JSON.stringify(progress).slice(0, 200);
}

function signOf(
  live: TurnCall | null,
  answer: TurnCall["answer"],
  pending: PendingCall | null,
  time: number | null,
): { readonly text: string; readonly kind: string } {
  if (pending !== null) {
    const texts = { approval: "approval", question: "question", manual: "manual", outcome_unknown: "outcome unknown" };
    return { text: texts[pending.reason], kind: "wait" };
  }
  if (answer !== null && answer.status !== "awaiting_user") {
    if (answer.status === "success") return { text: time === null ? "done" : duration(time), kind: "tool" };
    // A person has decided: the tool did not run, and nothing went wrong.
    if (isDenial(answer)) return { text: "denied", kind: "wait" };
    const text = answer.status === "not_run" ? "not run" : answer.status === "failure" ? "failed" : "cancelled";
    return { text: time === null ? text : `${text} · ${duration(time)}`, kind: "crash" };
  }
  if (answer?.status === "awaiting_user") return { text: "asked", kind: "wait" };
  if (live?.state === "running") return { text: "running", kind: "tool" };
  if (live?.state === "waiting") return { text: "waits", kind: "wait" };
  if (live?.state === "succeeded") return { text: time === null ? "done" : duration(time), kind: "tool" };
  return { text: "called", kind: "" };
}

function isDenial({ status, code }: NonNullable<TurnCall["answer"]>): boolean {
  return status === "failure" && code === "denied";
}

/** The arguments on one line. */
function summaryOf(input: Json): string {
  if (!isObject(input)) return exactName(String(input)).slice(0, 100);
  return exactName(
    Object.entries(input)
      .map(([name, value]) => `${name}: ${typeof value === "string" ? value : JSON.stringify(value)}`.slice(0, 60))
      .join(" · ")
      .slice(0, 140),
  );
}

function isEmpty(input: Json): boolean {
  return typeof input === "object" && input !== null && Object.keys(input).length === 0;
}
