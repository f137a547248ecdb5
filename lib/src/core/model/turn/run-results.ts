// The results of a step and of a run. These are the only stored types with optional keys: `metadata` has a key only if
// it applies, so `{}` means that there are no details. stored.types.ts exempts exactly these two types from the rule
// "absent is null".

import type { Infer, InferOptional, Shape } from "../parse/shape.ts";
import type { Budget, TurnOutcome } from "./outcome.ts";

import { modelReply, replyShape } from "../call/reply.ts";
import { noUsage, usageShape } from "../call/usage.ts";
import { causeShape, failureShape } from "../failure/failure.ts";
import { renderIssue } from "../failure/issue.ts";
import { invalidArgument } from "../failure/misuse.ts";
import { assistantMessageShape, toolMessageShape } from "../message/message.ts";
import { thread, threadShape } from "../message/thread.ts";
import {
  array,
  boolean,
  construct,
  count,
  fallback,
  nullable,
  object,
  oneOf,
  optional,
  read,
  required,
  settings,
  string,
} from "../parse/shape.ts";
import { contextWindowShape } from "../session/context-window.ts";
import { pendingToolCallShape } from "../tool/pending.ts";
import { toolValueShape } from "../tool/tool-value.ts";
import { toolCallShape } from "../tool/tool.ts";
import { suspendedCellShape } from "./environment.ts";
import { budgets, cancelEvidenceShape, haltedReasonOf, haltedReasonShape, outcomeShape } from "./outcome.ts";
import { protocolEventShape } from "./protocol-event.ts";

/** Details about the end that steps and runs have in common. */
const haltDetails = {
  pendingQuestion: optional(string),
  pendingToolCallId: optional(string),
  /** The hints for the user interface that the asking tool passed, unchanged. */
  askUserOpts: optional(settings),
  /** The call whose tool halted the run, and the value it returned. */
  haltToolCallId: optional(string),
  haltResult: optional(toolValueShape),
  /** The error that the caller's `onToolError` function threw. */
  onToolErrorException: optional(causeShape),
  manualToolCalls: optional(array(toolCallShape)),
  error: optional(failureShape),
};

const stepMetadataFields = {
  ...haltDetails,
  /**
   * Why the step halted the run: `ask_user`, `tool_error`, `cancelled`, or the reason of a tool. Absent if it did not.
   */
  haltedReason: optional(haltedReasonShape),
  /** Set when no handler ran because the caller runs the tools. */
  mode: optional(oneOf(["manual"])),
};

/** Details of a step: why it halted, and the pending question if a tool asked one. */
export type StepMetadata = InferOptional<typeof stepMetadataFields>;

const stepMetadataShape: Shape<StepMetadata> = object(stepMetadataFields);

const stepResultFields = {
  /** The thread after the step. It has no message for a question that a tool asked; the thread of the run has. */
  thread: fallback(threadShape, thread()),
  /** The reply of the model in this step. */
  response: fallback(replyShape, modelReply()),
  /** The answers to the calls of this step, in call order. */
  toolResults: fallback(array(toolMessageShape), []),
  /** The calls of the reply without an answer, each with the reason it waits for. */
  pendingToolCalls: fallback(array(pendingToolCallShape), []),
  /** The code cell that waits for some of the pending calls. */
  suspendedCell: fallback(nullable(suspendedCellShape), null),
  /** The usage of the step: every attempt at the reply, and the turns that its tools ran. */
  usage: fallback(usageShape, noUsage),
  /** Whether a run would end after this step. A reply with the finish reason `tool_calls` and no calls ends it. */
  done: fallback(boolean, false),
  /** Details about the end of the step. */
  metadata: fallback(stepMetadataShape, {}),
};

/** The result of one step: one model reply and the results of its tool calls. */
export type StepResult = Infer<typeof stepResultFields>;

export const stepResultShape: Shape<StepResult> = object(stepResultFields);

const structuredFinalizeFields = {
  /** How the loop ended before the structured call. */
  pass1Halted: required(haltedReasonShape),
  /** Why the structured call failed; `null` if it succeeded. */
  pass2Error: fallback(nullable(failureShape), null),
};

/** How a run with `structuredFinalize` ended: its loop, and the structured call after it. */
export type StructuredFinalizeDetails = Infer<typeof structuredFinalizeFields>;

const structuredFinalizeShape: Shape<StructuredFinalizeDetails> = object(structuredFinalizeFields);

const chatMetadataFields = {
  ...haltDetails,
  /** The index of the step whose calls are left to the caller. */
  manualTurnIndex: optional(count),
  /** The index of the step after which `haltWhen` returned true. */
  haltWhenStepIndex: optional(count),
  /** The limit that was reached. */
  maxTurns: optional(count),
  /** The budget that was exhausted. */
  budget: optional(oneOf<Budget>(budgets)),
  /** The origin and the reason of the cancel. */
  cancellation: optional(cancelEvidenceShape),
  /** The end of the loop before the structured call, and the failure of that call. */
  structuredFinalize: optional(structuredFinalizeShape),
};

/** Details about the end of a run. Which fields are set depends on `haltedReason`. */
export type ChatMetadata = InferOptional<typeof chatMetadataFields>;

export const chatMetadataShape: Shape<ChatMetadata> = object(chatMetadataFields);

const chatResultFields = {
  /** The conversation after the run: the input, the replies and the tool results. */
  thread: fallback(threadShape, thread()),
  /** `null` when the run ended before any reply. */
  finalResponse: fallback(nullable(replyShape), null),
  /** Why the run ended. `completed`: the model answered. */
  haltedReason: required(haltedReasonShape),
  /** How the run ended, with its details. */
  outcome: required(outcomeShape),
  /** The question that a tool asked the user; `null` if there is none. */
  pendingQuestion: fallback(nullable(string), null),
  /** The call that asked the question. */
  pendingToolCallId: fallback(nullable(string), null),
  /** The calls that wait for an answer or an approval. */
  pendingToolCalls: fallback(array(pendingToolCallShape), []),
  /** The code cell that waits for some of the pending calls. */
  suspendedCell: fallback(nullable(suspendedCellShape), null),
  /** The steps of the run, in order. */
  steps: fallback(array(stepResultShape), []),
  /** The usage of the whole run. */
  usage: fallback(usageShape, noUsage),
  /** What requests leave out of the thread, for the next run (`Session.contextWindow`). `null`: nothing. */
  contextWindow: fallback(nullable(contextWindowShape), null),
  /** The records that a protocol of one's own appended in this run. Empty with the built-in protocols. */
  protocolEvents: fallback(array(protocolEventShape), []),
  /**
   * The received part of a structured call (`structuredFinalize`) that was cancelled. It is not in the thread; a
   * cancelled reply of the loop is.
   */
  partial: fallback(nullable(assistantMessageShape), null),
  /** Details about the end of the run, for example `metadata.error`. */
  metadata: fallback(chatMetadataShape, {}),
};

/** The result of a run: the thread after it, its steps, usage, and why it ended. */
export type ChatResult = Infer<typeof chatResultFields>;

export const chatResultShape: Shape<ChatResult> = object(chatResultFields);

/**
 * Builds a step result and fills in defaults. For tests. Throws `MisuseError` for an unknown field or a wrong
 * type.
 */
export function stepResult(fields: Partial<StepResult> = {}): StepResult {
  return construct("stepResult", stepResultShape, fields);
}

/**
 * Builds the result of a run from its outcome; `haltedReason` follows from the outcome. For tests. Throws
 * `MisuseError` for an unknown field or a wrong type.
 */
export function chatResult(
  outcome: TurnOutcome,
  fields: Partial<Omit<ChatResult, "outcome" | "haltedReason">> = {},
): ChatResult {
  const checked = read(outcomeShape, outcome);
  if (!("value" in checked)) {
    const [first] = checked.issues;
    const why = first === undefined ? "it has the wrong shape" : renderIssue(first);
    throw invalidArgument(`chatResult: the outcome is invalid: ${why}`, ["outcome", ...(first?.path ?? [])]);
  }
  return construct("chatResult", chatResultShape, { ...fields, outcome, haltedReason: haltedReasonOf(checked.value) });
}

/**
 * Returns whether a run ended for any reason other than `completed`.
 *
 * @example
 * ```ts
 * import { chatResult } from "everturn/advanced"; import { isHalted } from "everturn/advanced";
 *
 * isHalted(chatResult({ type: "assistant_message", text: "Done." })); // => false
 * isHalted(chatResult({ type: "max_turns", maxTurns: 8 })); // => true
 * ```
 */
export function isHalted(result: ChatResult): boolean {
  return result.haltedReason !== "completed";
}
