// The results of a step and of a run. These are the only stored types with optional keys: `metadata` has a key only if it applies, so
// `{}` means that there are no details. stored.types.ts exempts exactly these two types from the rule "absent is null".

import type { ModelReply } from "../call/reply.ts";
import type { Usage } from "../call/usage.ts";
import type { Failure, FailureCause } from "../failure/failure.ts";
import type { AssistantMessage, ToolMessage } from "../message/message.ts";
import type { Thread } from "../message/thread.ts";
import type { JsonObject } from "../parse/json.ts";
import type { Shape } from "../parse/shape.ts";
import type { PendingToolCall } from "../tool/pending.ts";
import type { ToolValue } from "../tool/tool-value.ts";
import type { ToolCall } from "../tool/tool.ts";
import type { SuspendedCell } from "./environment.ts";
import type { Budget, CancelEvidence, HaltedReason, TurnOutcome } from "./outcome.ts";
import type { ProtocolEvent } from "./protocol-event.ts";

import { modelReply, replyShape } from "../call/reply.ts";
import { noUsage, usageShape } from "../call/usage.ts";
import { causeShape, failureShape } from "../failure/failure.ts";
import { renderIssue } from "../failure/issue.ts";
import { MisuseError } from "../failure/misuse.ts";
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
import { pendingToolCallShape } from "../tool/pending.ts";
import { toolValueShape } from "../tool/tool-value.ts";
import { toolCallShape } from "../tool/tool.ts";
import { suspendedCellShape } from "./environment.ts";
import { budgets, cancelEvidenceShape, haltedReasonOf, outcomeShape } from "./outcome.ts";
import { protocolEventShape } from "./protocol-event.ts";

/** The result of one step: one model reply and the results of its tool calls. */
export type StepResult = {
  /** The thread after the step. It has no message for a question that a tool asked; the thread of the run has. */
  readonly thread: Thread;
  /** The reply of the model in this step. */
  readonly response: ModelReply;
  /** The answers to the calls of this step, in call order. */
  readonly toolResults: readonly ToolMessage[];
  /** The calls of the reply without an answer, each with the reason it waits for. */
  readonly pendingToolCalls: readonly PendingToolCall[];
  /** The code cell that waits for some of the pending calls. */
  readonly suspendedCell: SuspendedCell | null;
  /** The usage of the step: every attempt at the reply, and the turns that its tools ran. */
  readonly usage: Usage;
  /** Whether a run would end after this step. A reply with the finish reason `tool_calls` and no calls ends it. */
  readonly done: boolean;
  /** Details about the end of the step. */
  readonly metadata: StepMetadata;
};

/** Details of a step: why it halted, and the pending question if a tool asked one. */
export type StepMetadata = HaltDetails & {
  /** Why the step halted the run: `ask_user`, `tool_error`, `cancelled`, or the reason of a tool. Absent if it did not. */
  readonly haltedReason?: HaltedReason;
  /** Set when no handler ran because the caller runs the tools. */
  readonly mode?: "manual";
};

/** The result of a run: the thread after it, its steps, usage, and why it ended. */
export type ChatResult = {
  /** The conversation after the run: the input, the replies and the tool results. */
  readonly thread: Thread;
  /** `null` when the run ended before any reply. */
  readonly finalResponse: ModelReply | null;
  /** Why the run ended. `completed`: the model answered. */
  readonly haltedReason: HaltedReason;
  /** How the run ended, with its details. */
  readonly outcome: TurnOutcome;
  /** The question that a tool asked the user; `null` if there is none. */
  readonly pendingQuestion: string | null;
  /** The call that asked the question. */
  readonly pendingToolCallId: string | null;
  /** The calls that wait for an answer or an approval. */
  readonly pendingToolCalls: readonly PendingToolCall[];
  /** The code cell that waits for some of the pending calls. */
  readonly suspendedCell: SuspendedCell | null;
  /** The steps of the run, in order. */
  readonly steps: readonly StepResult[];
  /** The usage of the whole run. */
  readonly usage: Usage;
  /** The records that a protocol of one's own appended in this run. Empty with the built-in protocols. */
  readonly protocolEvents: readonly ProtocolEvent[];
  /** The received part of a structured call (`structuredFinalize`) that was cancelled. It is not in the thread; a cancelled reply of the loop is. */
  readonly partial: AssistantMessage | null;
  /** Details about the end of the run, for example `metadata.error`. */
  readonly metadata: ChatMetadata;
};

/** Details about the end of a run. Which fields are set depends on `haltedReason`. */
export type ChatMetadata = HaltDetails & {
  /** The index of the step whose calls are left to the caller. */
  readonly manualTurnIndex?: number;
  /** The index of the step after which `haltWhen` returned true. */
  readonly haltWhenStepIndex?: number;
  /** The limit that was reached. */
  readonly maxTurns?: number;
  /** The budget that was exhausted. */
  readonly budget?: Budget;
  /** The origin and the reason of the cancel. */
  readonly cancellation?: CancelEvidence;
  /** The end of the loop before the structured call, and the failure of that call. */
  readonly structuredFinalize?: StructuredFinalizeDetails;
};

/** Details about the end that steps and runs have in common. */
type HaltDetails = {
  readonly pendingQuestion?: string;
  readonly pendingToolCallId?: string;
  /** The hints for the user interface that the asking tool passed, unchanged. */
  readonly askUserOpts?: JsonObject;
  /** The call whose tool halted the run, and the value it returned. */
  readonly haltToolCallId?: string;
  readonly haltResult?: ToolValue;
  /** The error that the caller's `onToolError` function threw. */
  readonly onToolErrorException?: FailureCause;
  readonly manualToolCalls?: readonly ToolCall[];
  readonly error?: Failure;
};

/** How a run with `structuredFinalize` ended: its loop, and the structured call after it. */
export type StructuredFinalizeDetails = {
  /** How the loop ended before the structured call. */
  readonly pass1Halted: HaltedReason;
  /** Why the structured call failed; `null` if it succeeded. */
  readonly pass2Error: Failure | null;
};

const haltDetails = {
  pendingQuestion: optional(string),
  pendingToolCallId: optional(string),
  askUserOpts: optional(settings),
  haltToolCallId: optional(string),
  haltResult: optional(toolValueShape),
  onToolErrorException: optional(causeShape),
  manualToolCalls: optional(array(toolCallShape)),
  error: optional(failureShape),
};

export const stepResultShape: Shape<StepResult> = object<StepResult>({
  thread: fallback(threadShape, thread()),
  response: fallback(replyShape, modelReply()),
  toolResults: fallback(array(toolMessageShape), []),
  pendingToolCalls: fallback(array(pendingToolCallShape), []),
  suspendedCell: fallback(nullable(suspendedCellShape), null),
  usage: fallback(usageShape, noUsage),
  done: fallback(boolean, false),
  metadata: fallback(
    object<StepMetadata>({ ...haltDetails, haltedReason: optional(string), mode: optional(oneOf(["manual"])) }),
    {},
  ),
});

export const chatMetadataShape: Shape<ChatMetadata> = object<ChatMetadata>({
  ...haltDetails,
  manualTurnIndex: optional(count),
  haltWhenStepIndex: optional(count),
  maxTurns: optional(count),
  budget: optional(oneOf(budgets)),
  cancellation: optional(cancelEvidenceShape),
  structuredFinalize: optional(
    object<StructuredFinalizeDetails>({
      pass1Halted: required(string),
      pass2Error: fallback(nullable(failureShape), null),
    }),
  ),
});

export const chatResultShape: Shape<ChatResult> = object<ChatResult>({
  thread: fallback(threadShape, thread()),
  finalResponse: fallback(nullable(replyShape), null),
  haltedReason: required(string),
  outcome: required(outcomeShape),
  pendingQuestion: fallback(nullable(string), null),
  pendingToolCallId: fallback(nullable(string), null),
  pendingToolCalls: fallback(array(pendingToolCallShape), []),
  suspendedCell: fallback(nullable(suspendedCellShape), null),
  steps: fallback(array(stepResultShape), []),
  usage: fallback(usageShape, noUsage),
  protocolEvents: fallback(array(protocolEventShape), []),
  partial: fallback(nullable(assistantMessageShape), null),
  metadata: fallback(chatMetadataShape, {}),
});

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
    throw new MisuseError("invalid_argument", `chatResult: the outcome is invalid: ${why}`, {
      path: ["outcome", ...(first?.path ?? [])],
    });
  }
  return construct("chatResult", chatResultShape, { ...fields, outcome, haltedReason: haltedReasonOf(checked.value) });
}

/**
 * Returns whether a run ended for any reason other than `completed`.
 *
 * @example
 * ```ts
 * import { chatResult, isHalted } from "everturn/model";
 *
 * isHalted(chatResult({ type: "assistant_message", text: "Done." })); // => false
 * isHalted(chatResult({ type: "max_turns", maxTurns: 8 })); // => true
 * ```
 */
export function isHalted(result: ChatResult): boolean {
  return result.haltedReason !== "completed";
}
