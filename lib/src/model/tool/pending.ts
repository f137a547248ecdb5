// Pending tool calls: calls that wait for a result, an answer or a decision, and which of these each reason accepts
// (`answersByReason`).

import type { Json, JsonObject } from "../parse/json.ts";
import type { Shape } from "../parse/shape.ts";
import type { ToolValue } from "./tool-value.ts";
import type { ToolCall, ToolCallInput } from "./tool.ts";

import { emptyObject } from "../parse/json.ts";
import {
  array,
  fallback,
  json,
  jsonObject,
  nullable,
  object,
  oneOf,
  required,
  settings,
  string,
  variant,
} from "../parse/shape.ts";
import { toolValueShape } from "./tool-value.ts";
import { toolCallFields } from "./tool.ts";

/** A tool call that waits for a result, an answer or a decision. `reason` determines which of them is accepted. */
export type PendingToolCall = ToolCall & {
  /** Why the call waits. It determines which answers are accepted. */
  readonly reason: PendingReason;
  /** The question of the tool, if the reason is `question`. */
  readonly question: string | null;
  /** How the answer to a question reaches the model. The default is `user_message`. */
  readonly answerAs: AnswerForm;
  /** Hints for the user interface that shows the question or the approval. */
  readonly opts: JsonObject;
  /** The recorded decision. A decided call stays pending until its result is in the thread (Q4). */
  readonly decision: Decision | null;
  /** The idempotency key of the call: the same on every attempt, and unique beyond the reply, unlike the id. */
  readonly idempotencyKey: string | null;
  /** The code cell that made the call. The answer goes to the cell and not into the thread. */
  readonly cellId: string | null;
  /**
   * For a tool that runs a turn of its own: the call ids on the path down to the nested call that waits. For a tool that asked with
   * `askAndResume`: the id of the call itself. Empty: the answer is not passed to the tool.
   */
  readonly path: readonly string[];
};

/**
 * Why a call waits. `manual`: the caller runs the tool. `approval`: it needs an approval. `question`: the tool asked the user.
 * `outcome_unknown`: it started before a crash, has no recorded result, and the replay policy is `ask`.
 */
export type PendingReason = (typeof pendingReasons)[number];
export const pendingReasons = ["manual", "approval", "question", "outcome_unknown"] as const;

/** The form of an answer to a question: a user message, or the result of the call that asked. */
export type AnswerForm = (typeof answerForms)[number];
export const answerForms = ["user_message", "tool_result"] as const;

/** A kind of answer to a pending call. */
export type AnswerKind = "result" | "approve" | "deny" | "answer";

/** The kinds of answer that a pending call accepts, by its reason. */
export const answersByReason: { readonly [R in PendingReason]: readonly AnswerKind[] } = {
  manual: ["result"],
  approval: ["approve", "deny"],
  question: ["answer"],
  outcome_unknown: ["result", "approve", "deny"],
};

/**
 * A decision about a pending call: approve it (with other arguments if given), deny it (the model reads the
 * reason), or forward an answer to the tool itself or to a call of a turn inside it; the tool is then run again.
 */
export type Decision =
  | Approval
  | Denial
  | {
      readonly type: "forward";
      /** The arguments the tool ran with before it waited, if they differ from those of the call. */
      readonly arguments: JsonObject | null;
      /** The person or component that answered; `null` if unknown. */
      readonly by: string | null;
      /** Identifies the nested turn and the wait in it that the answer is for, or is `handlerWait`. */
      readonly wait: string;
      /** The answer for the nested call, or for the handler. */
      readonly answer: ForwardedAnswer;
      /** The state that the handler stored with its question; `null` for a nested turn. */
      readonly state: Json;
    };

/** An answer to a nested call of a turn that a tool runs. */
export type ForwardedAnswer =
  | { readonly type: "result"; readonly value: ToolValue }
  | { readonly type: "answer"; readonly text: string }
  | Approval
  | Denial;

type Approval = { readonly type: "approve"; readonly arguments: JsonObject | null; readonly by: string | null };
type Denial = { readonly type: "deny"; readonly reason: string | null; readonly by: string | null };

const approvalShape: Shape<Approval> = object<Approval>({
  type: required(oneOf(["approve"])),
  arguments: fallback(nullable(jsonObject), null),
  by: fallback(nullable(string), null),
});

const denialShape: Shape<Denial> = object<Denial>({
  type: required(oneOf(["deny"])),
  reason: fallback(nullable(string), null),
  by: fallback(nullable(string), null),
});

export const forwardedShape: Shape<ForwardedAnswer> = variant<ForwardedAnswer, "type">("type", {
  result: object<Extract<ForwardedAnswer, { type: "result" }>>({
    type: required(oneOf(["result"])),
    value: required(toolValueShape),
  }),
  answer: object<Extract<ForwardedAnswer, { type: "answer" }>>({
    type: required(oneOf(["answer"])),
    text: required(string),
  }),
  approve: approvalShape,
  deny: denialShape,
});

export const decisionShape: Shape<Decision> = variant<Decision, "type">("type", {
  approve: approvalShape,
  deny: denialShape,
  forward: object<Extract<Decision, { type: "forward" }>>({
    type: required(oneOf(["forward"])),
    arguments: fallback(nullable(jsonObject), null),
    by: fallback(nullable(string), null),
    wait: required(string),
    answer: required(forwardedShape),
    state: fallback(json, null),
  }),
});

/** The wait of a question that a handler asked with `askAndResume`. Names of waits in nested turns contain a slash. */
export const handlerWait = "handler";

/** The answer to a question whose deadline has passed. */
export const deadlineAnswer = "(no answer arrived before the deadline)";

export const pendingToolCallShape: Shape<PendingToolCall> = object<PendingToolCall>({
  ...toolCallFields,
  reason: fallback(oneOf(pendingReasons), "manual"),
  question: fallback(nullable(string), null),
  answerAs: fallback(oneOf(answerForms), "user_message"),
  opts: fallback(settings, emptyObject),
  decision: fallback(nullable(decisionShape), null),
  idempotencyKey: fallback(nullable(string), null),
  cellId: fallback(nullable(string), null),
  path: fallback(array(string), []),
});

/** The loose form of a pending call: fields with a default are optional. */
export type PendingToolCallInput = ToolCallInput & Partial<PendingToolCall>;
