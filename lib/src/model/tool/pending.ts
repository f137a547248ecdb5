// Calls that wait for somebody, and what may be said to them.

import type { JsonObject } from "../parse/json.ts";
import type { Shape } from "../parse/shape.ts";
import type { ToolValue } from "./tool-value.ts";
import type { ToolCall, ToolCallInput } from "./tool.ts";

import { emptyObject } from "../parse/json.ts";
import {
  array,
  fallback,
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
  readonly reason: PendingReason;
  /** What a tool asked, when the reason is `question`. */
  readonly question: string | null;
  /** How the answer to a question reaches the model. */
  readonly answerAs: AnswerForm;
  /** Hints for whoever shows the question or the approval. */
  readonly opts: JsonObject;
  /** What was decided, until the result of that is in the thread. */
  readonly decision: Decision | null;
  /** The same on every try, so that whoever does the work can tell a repeat; unique beyond the reply. */
  readonly idempotencyKey: string | null;
  /** The cell of code that made the call; the answer goes to it and not into the thread. */
  readonly cellId: string | null;
  /** For a call of a tool that runs a turn of its own: the ids down to the call in there that really waits. */
  readonly path: readonly string[];
};

export type PendingReason = (typeof pendingReasons)[number];
export const pendingReasons = ["manual", "approval", "question", "outcome_unknown"] as const;

/** As something the user said, or as the result of the call that asked. */
export type AnswerForm = (typeof answerForms)[number];
export const answerForms = ["user_message", "tool_result"] as const;

/** What somebody may say to a pending call. */
export type AnswerKind = "result" | "approve" | "deny" | "answer";

/** What may be answered, by the reason a call waits for. */
export const answersByReason: { readonly [R in PendingReason]: readonly AnswerKind[] } = {
  manual: ["result"],
  approval: ["approve", "deny"],
  question: ["answer"],
  outcome_unknown: ["result", "approve", "deny"],
};

/**
 * A decision about a pending call: approve it (with other arguments if given), deny it (the model reads the
 * reason), or forward an answer to a call of a turn inside the tool, which is then run again.
 */
export type Decision =
  | Approval
  | Denial
  | {
      readonly type: "forward";
      /** What the tool ran with before it waited, where that is not what the model asked for. */
      readonly arguments: JsonObject | null;
      readonly by: string | null;
      /** Which wait of which turn inside it was said to. */
      readonly wait: string;
      readonly answer: ForwardedAnswer;
    };

/** What was said to a call inside a tool. */
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
  }),
});

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

export type PendingToolCallInput = ToolCallInput & Partial<PendingToolCall>;
