// Responses to effects: the declaration of what a journal row holds. A field that an older release did not write has a
// default (S1).
//
// An effect id (`id`) is `<turn>/<step>/…`; see effect.ts.

import type { Budget, PendingReason } from "../../model/internal.ts";
import type { Infer, InferUnion, Shape } from "../../model/parse/reading.ts";
import type { LlmTerminalReason } from "../protocol/terminal-reason.ts";

import { noUsage } from "../../model/internal.ts";
import {
  array,
  boolean,
  budgets,
  cancelEvidenceShape,
  count,
  environmentShape,
  executorShape,
  failureShape,
  fallback,
  issueShape,
  json,
  jsonObject,
  messageShape,
  modelNameShape,
  nullable,
  number,
  object,
  oneOf,
  oneOfOr,
  optional,
  pendingReasons,
  replyShape,
  required,
  shownCallShape,
  string,
  toolAnswerFields,
  toolCallShape,
  toolOutcomeShape,
  turnCauseShape,
  usageShape,
  variant,
  waitOpts,
} from "../../model/parse/reading.ts";
import { llmTerminalReasons } from "../protocol/terminal-reason.ts";

const middlewareNoteFields = {
  /** The name of the middleware. */
  name: required(string),
  /** The attempt at the effect, from 1. */
  attempt: fallback(number, 1),
  /**
   * What it did: `changed_request` or `changed_arguments`, `short_circuited` (it answered without the adapter or the
   * handler), `retried`, or a word of the middleware.
   */
  action: required(string),
  details: fallback(jsonObject, {}),
};

/** An action of a middleware, recorded with the response of the effect that it wrapped. */
export type MiddlewareNote = Infer<typeof middlewareNoteFields>;

const middlewareNoteShape: Shape<MiddlewareNote> = object(middlewareNoteFields);

const llmCallErrorFields = {
  /** The failure as data. */
  failure: required(failureShape),
  /**
   * `cancelled` ends the turn as cancelled, every other reason as failed. A missing reason, and one that this release
   * does not know, is read as `unknown`.
   */
  terminalReason: fallback(oneOfOr<LlmTerminalReason>(llmTerminalReasons, "unknown"), "unknown"),
  /** The request body, for the trace log; `null`: not logged. */
  requestBody: fallback(nullable(string), null),
  /** The part of the reply that arrived. It is billed and kept as text; its tool calls are never run. */
  partial: fallback(nullable(replyShape), null),
};

/** Why a model call failed. The terminal reason `cancelled` is not an error: the call was stopped on purpose. */
export type LlmCallError = Infer<typeof llmCallErrorFields>;

const llmCallErrorShape: Shape<LlmCallError> = object(llmCallErrorFields);

const deliveryFields = {
  /** Messages for the history. User and system messages only; others are left out. */
  messages: fallback(array(messageShape), []),
  /** Messages that the model sees in this turn and that the history does not keep. */
  transientMessages: fallback(array(messageShape), []),
  /** Events that join the turn. A cause that the turn has already is ignored. */
  turnCauses: fallback(array(turnCauseShape), []),
  /**
   * The ids of the inbox items these came from. A durable driver removes them in the commit that records this response.
   */
  inputs: fallback(array(string), []),
};

/** Input that a driver adds to a turn at a checkpoint. */
export type CheckpointDelivery = Infer<typeof deliveryFields>;

const deliveryShape: Shape<CheckpointDelivery> = object(deliveryFields);

const verdictCases = {
  go_on: {},
  halt_when: {},
  /** A hook of the program aborts the turn. It ends as cancelled, with this evidence. */
  abort: { evidence: required(cancelEvidenceShape) },
  budget: { budget: required(oneOf<Budget>(budgets)) },
};

/** What a driver decides about a turn at a checkpoint. */
export type Verdict = InferUnion<"type", typeof verdictCases>;

const verdictShape: Shape<Verdict> = variant("type", verdictCases);

const finishCases = {
  value: { value: required(json), issues: fallback(array(issueShape), []) },
  error: { value: required(json) },
};

/** The value a cell ended the turn with, and the issues that the schema found in it; or the error it ended with. */
export type CellFinish = InferUnion<"type", typeof finishCases>;

const finishShape: Shape<CellFinish> = variant("type", finishCases);

const toEffect = {
  /** The id of the effect that this responds to. */
  id: required(string),
};
const duration = {
  /** Wall time of the whole effect, with retries and waits, in milliseconds. */
  durationMs: fallback(number, 0),
};
const noted = {
  /** What middleware did in this call; absent if nothing. */
  middleware: optional(array(middlewareNoteShape)),
};

const responses = {
  /** The environment was refreshed. */
  environment_synced: {
    ...toEffect,
    /**
     * The environment for the coming step and those after it; `null`: no change. The first sync of a turn may replace
     * the environment, too; only turns of kernel revision 1 ignore it there.
     */
    environment: fallback(nullable(environmentShape), null),
  },
  /** The environment could not be refreshed. It ends the turn. */
  environment_failed: { ...toEffect, message: required(string) },
  /** The tokens of the next request were counted. */
  tokens_counted: {
    ...toEffect,
    /** The input tokens of the whole request. */
    tokens: required(count),
    /** The provider's endpoint that counts tokens, or the tokenizer of the context policy. */
    by: fallback(oneOf(["provider", "tokenizer"]), "provider"),
    /** Why the provider did not count, although it was asked; otherwise `null`. */
    failure: fallback(nullable(failureShape), null),
    ...duration,
  },
  /** The tokens of the next request could not be counted: the estimate decides. */
  count_failed: { ...toEffect, failure: required(failureShape), ...duration },
  /** The model replied. */
  model_replied: {
    ...toEffect,
    /** The complete reply. A reply with `error` set fails the turn. */
    reply: required(replyShape),
    /**
     * The model that answered if it is a fallback; it stays the model for the rest of the turn (Q7). `null`: the model
     * that was asked.
     */
    model: fallback(nullable(modelNameShape), null),
    /** The request body, for the trace log; `null`: not logged. */
    requestBody: fallback(nullable(string), null),
    /** The usage of earlier attempts; the usage of the reply itself is in `reply.usage`. */
    spent: fallback(usageShape, noUsage),
    ...duration,
    ...noted,
  },
  /** The model call failed, or its stream was interrupted. */
  model_failed: {
    ...toEffect,
    /** The failure of the last attempt. */
    error: required(llmCallErrorShape),
    /** The usage of attempts before the last one; that of the last one is in `error.partial`. */
    spent: fallback(usageShape, noUsage),
    ...duration,
    ...noted,
  },
  /** A model has written the summary of old messages. */
  compacted: {
    ...toEffect,
    /** The summary. A blank one is used like a failure. */
    summary: required(string),
    /** The model that wrote it, as the provider names it. */
    model: fallback(nullable(string), null),
    /** The usage of the attempt that succeeded. */
    usage: required(usageShape),
    /** The usage of earlier attempts. */
    spent: fallback(usageShape, noUsage),
    ...duration,
    ...noted,
  },
  /** No summary could be made. The turn continues without one. */
  compaction_failed: {
    ...toEffect,
    failure: required(failureShape),
    /** The usage of the last attempt. */
    usage: fallback(usageShape, noUsage),
    /** The usage of earlier attempts. */
    spent: fallback(usageShape, noUsage),
    ...duration,
    ...noted,
  },
  /** The tool call ended, with success or failure. */
  tool_returned: {
    ...toEffect,
    /** The outcome, for the program. */
    outcome: required(toolOutcomeShape),
    /** The content of the tool message that the model sees, as the result encoder returned it. */
    content: toolAnswerFields.content,
    /** The arguments the handler ran with if a hook or an approval changed them; otherwise `null`. */
    ranArguments: fallback(nullable(jsonObject), null),
    /** True: `onToolError` says that this failure ends the turn. */
    stops: fallback(boolean, false),
    /** The usage of turns that ran inside the tool. */
    spent: fallback(usageShape, noUsage),
    ...duration,
    ...noted,
  },
  /**
   * The call has no result yet. It needs an approval, a result, an answer or a decision from outside, and the turn ends
   * (a wait ends the turn).
   */
  tool_waits: {
    ...toEffect,
    /** What the call waits for. */
    reason: required(oneOf<PendingReason>(pendingReasons)),
    /** The question, if the reason is `question`. */
    question: fallback(nullable(string), null),
    /** Options of the question or approval, for the user interface. */
    opts: fallback(waitOpts, {}),
    /** For a tool that runs a turn inside: the ids that lead to the inner call that waits. */
    path: fallback(array(string), []),
    /** What runs if the call is approved; `null`: the call itself, with its own arguments. */
    shown: fallback(nullable(shownCallShape), null),
    /** The usage of the inner turn so far. */
    spent: fallback(usageShape, noUsage),
  },
  /** The cell ran to its end. */
  code_finished: {
    ...toEffect,
    /** The output of the cell, for the model. */
    observations: fallback(array(string), []),
    /** The uncaught exception of the cell, for the model. */
    error: fallback(nullable(string), null),
    /** Set if the cell ended the turn. */
    finish: fallback(nullable(finishShape), null),
    ...duration,
  },
  /** The cell made these calls and needs their answers to continue. */
  code_calls: {
    ...toEffect,
    /** The new calls, in order; at least one. */
    calls: required(array(toolCallShape)),
    /** The executor that runs the cell. */
    executor: required(executorShape),
    /** How long this run of the cell took, in milliseconds, without the time in which it waited for a worker. */
    ranMs: fallback(number, 0),
    ...duration,
  },
  /** The cell could not be run to its end. `diverged` means that it made other calls than in its first run. */
  code_failed: {
    ...toEffect,
    /**
     * `limit_exceeded`: a limit on instructions, memory, calls, output or time. `diverged`: the cell made different
     * calls when it ran again.
     */
    reason: fallback(oneOf(["failed", "limit_exceeded", "diverged"]), "failed"),
    /** Why, for the model. */
    message: required(string),
    ...duration,
  },
  /** What the driver adds at a checkpoint, and whether the turn continues. */
  checkpoint_delivered: {
    ...toEffect,
    /** The input to add. Ignored if the verdict ends the turn, or if no model call can follow. */
    delivery: required(deliveryShape),
    /** Whether the turn continues. It takes precedence over the delivery. */
    verdict: required(verdictShape),
  },
};

/**
 * The response to an effect. `id` names the effect; a response that the turn does not wait for changes nothing
 * (K4).
 */
export type EffectResponse = InferUnion<"type", typeof responses>;

export const responseShape: Shape<EffectResponse> = variant("type", responses);

/** The response of a type, or of one of several types. */
export type ResponseOf<Type extends EffectResponse["type"]> = Extract<EffectResponse, { readonly type: Type }>;

/** A response: the environment was refreshed. */
export type EnvironmentSynced = ResponseOf<"environment_synced">;
/** A response: the environment could not be refreshed. It ends the turn. */
export type EnvironmentFailed = ResponseOf<"environment_failed">;
/** A response: the tokens of the next request were counted. */
export type TokensCounted = ResponseOf<"tokens_counted">;
/** A response: the tokens of the next request could not be counted: the estimate decides. */
export type CountFailed = ResponseOf<"count_failed">;
/** A response: the model replied. */
export type ModelReplied = ResponseOf<"model_replied">;
/** A response: the model call failed, or its stream was interrupted. */
export type ModelFailed = ResponseOf<"model_failed">;
/** A response: a model has written the summary of old messages. */
export type Compacted = ResponseOf<"compacted">;
/** A response: no summary could be made. The turn continues without one. */
export type CompactionFailed = ResponseOf<"compaction_failed">;
/** A response: the tool call ended, with success or failure. */
export type ToolReturned = ResponseOf<"tool_returned">;
/**
 * A response: the call has no result yet. It needs an approval, a result, an answer or a decision from outside, and the
 * turn ends (a wait ends the turn).
 */
export type ToolWaits = ResponseOf<"tool_waits">;
/** A response: the cell ran to its end. */
export type CodeFinished = ResponseOf<"code_finished">;
/** A response: the cell made these calls and needs their answers to continue. */
export type CodeCalls = ResponseOf<"code_calls">;
/**
 * A response: the cell could not be run to its end. `diverged` means that it made other calls than in its first
 * run.
 */
export type CodeFailed = ResponseOf<"code_failed">;
/** A response: what the driver adds at a checkpoint, and whether the turn continues. */
export type CheckpointDelivered = ResponseOf<"checkpoint_delivered">;
