// How a turn ended. Three words for one ending, from fine to coarse, and the one place they are mapped:
//
//   outcome                        haltedReason          session status
//   ----------------------------   -------------------   ------------------------------------------------
//   assistant_message, final_value completed             completed
//   tool_value, empty, other       completed             completed
//   incomplete, filtered           completed             completed
//   handoff                        handoff               completed
//   ask_user                       ask_user              awaiting_user
//   manual_tool_calls              manual_tool_calls     awaiting_tools
//   approval                       approval              awaiting_tools
//   outcome_unknown                outcome_unknown       awaiting_tools
//   halted                         (the tool's own word) completed
//   max_turns                      max_turns             completed
//   halt_when                      halt_when             completed
//   budget                         budget                completed
//   stop_after                     stop_after            idle; completed when the step was the last one anyway
//   cancelled                      cancelled             idle
//   tool_error, submitted_error    tool_error            error
//   provider_error, runtime_error  error                 error
//
// Where calls still wait, `completed` and `idle` become `awaiting_tools`. A turn that waits for several things at once is named after
// the first of: a question, calls of the caller's, approvals, unknown outcomes.

import type { Failure, ToolFailure } from "./failure.ts";
import type { Json } from "./json.ts";
import type { Message } from "./message.ts";
import type { SessionStatus } from "./session-status.ts";
import type { Shape } from "./shape.ts";
import type { ToolValue } from "./tool-value.ts";

import { failureShape, toolFailureShape } from "./failure.ts";
import { messageShape } from "./message.ts";
import { array, count, fallback, json, nullable, object, oneOf, required, string, variant } from "./shape.ts";
import { toolValueShape } from "./tool-value.ts";

export type TurnOutcome =
  /** The model answered. */
  | { readonly type: "assistant_message"; readonly text: string }
  /** The code the model wrote finished with a value. */
  | { readonly type: "final_value"; readonly value: Json }
  /** A tool finished the turn with a value. */
  | { readonly type: "tool_value"; readonly toolName: string; readonly value: Json }
  /** The model stopped without saying anything. */
  | { readonly type: "empty" }
  /** The reply was cut at the output limit. */
  | { readonly type: "incomplete" }
  /** The provider withheld the rest. */
  | { readonly type: "filtered" }
  /** The reply ended for a reason the provider did not put into a word we know, or gave none. */
  | { readonly type: "other" }
  /** A tool passed the conversation on. */
  | {
      readonly type: "handoff";
      readonly target: string;
      readonly task: string | null;
      readonly initialMessages: readonly Message[];
    }
  /** A tool asked a question; a person has to answer. */
  | { readonly type: "ask_user"; readonly toolCallId: string; readonly question: string }
  /** Calls wait for the caller to run them. */
  | { readonly type: "manual_tool_calls" }
  /** Calls wait for somebody's consent. */
  | { readonly type: "approval" }
  /** Calls that were running when the process died wait for a person to say what became of them. */
  | { readonly type: "outcome_unknown" }
  /** A tool stopped the loop for a reason of its own. */
  | { readonly type: "halted"; readonly reason: string; readonly toolCallId: string; readonly value: ToolValue }
  | { readonly type: "max_turns"; readonly maxTurns: number }
  | { readonly type: "halt_when" }
  | { readonly type: "budget"; readonly budget: Budget }
  /** The caller asked for a single step. */
  | { readonly type: "stop_after" }
  | { readonly type: "cancelled"; readonly evidence: CancelEvidence }
  /** A tool failed and the policy is to stop, or a tool failed the turn itself. */
  | {
      readonly type: "tool_error";
      readonly toolName: string;
      readonly toolCallId: string | null;
      readonly failure: ToolFailure;
    }
  /** The code the model wrote gave up, with a value that says why. */
  | { readonly type: "submitted_error"; readonly value: Json }
  /** The model could not be asked, or its answer could not be used. */
  | { readonly type: "provider_error"; readonly failure: Failure }
  /** Something on our side broke. */
  | { readonly type: "runtime_error"; readonly failure: Failure };

/** Who cancelled, and why. The first to ask is remembered. */
export type CancelEvidence = {
  readonly requestId: string;
  readonly origin: string | null;
  readonly reason: string | null;
};

/** What can run out. */
export type Budget = (typeof budgets)[number];
export const budgets = ["steps", "tokens", "cost", "time", "no_progress"] as const;

/** Why a run stopped: one of ours, or the word of a tool that stopped it. */
export type HaltedReason = KnownHaltedReason | (string & NonNullable<unknown>);

export type KnownHaltedReason = (typeof knownHaltedReasons)[number];

/** The words that are ours: a tool cannot stop the loop with one of them. */
export const knownHaltedReasons = [
  "completed",
  "handoff",
  "ask_user",
  "manual_tool_calls",
  "approval",
  "outcome_unknown",
  "max_turns",
  "halt_when",
  "budget",
  "stop_after",
  "cancelled",
  "tool_error",
  "error",
] as const;

export function haltedReasonOf(outcome: TurnOutcome): HaltedReason {
  switch (outcome.type) {
    case "assistant_message":
    case "final_value":
    case "tool_value":
    case "empty":
    case "incomplete":
    case "filtered":
    case "other":
      return "completed";
    case "handoff":
    case "ask_user":
    case "manual_tool_calls":
    case "approval":
    case "outcome_unknown":
    case "max_turns":
    case "halt_when":
    case "budget":
    case "stop_after":
    case "cancelled":
    case "tool_error":
      return outcome.type;
    case "halted":
      return outcome.reason;
    case "submitted_error":
      return "tool_error";
    case "provider_error":
    case "runtime_error":
      return "error";
  }
}

/** What besides the outcome decides the status. Calls wait when nobody has answered or decided them. */
export type StatusFacts = { readonly callsWait?: boolean; readonly lastStepDone?: boolean };

/** The status of a session after this outcome. Calls that still wait keep a turn that went well from being the end of it. */
export function sessionStatusOf(outcome: TurnOutcome, facts: StatusFacts = {}): SessionStatus {
  const status = statusAlone(outcome, facts.lastStepDone ?? false);
  return facts.callsWait === true && (status === "completed" || status === "idle") ? "awaiting_tools" : status;
}

function statusAlone(outcome: TurnOutcome, lastStepDone: boolean): SessionStatus {
  switch (outcome.type) {
    case "assistant_message":
    case "final_value":
    case "tool_value":
    case "empty":
    case "incomplete":
    case "filtered":
    case "other":
    case "handoff":
    case "halted":
    case "max_turns":
    case "halt_when":
    case "budget":
      return "completed";
    case "ask_user":
      return "awaiting_user";
    case "manual_tool_calls":
    case "approval":
    case "outcome_unknown":
      return "awaiting_tools";
    case "stop_after":
      return lastStepDone ? "completed" : "idle";
    case "cancelled":
      return "idle";
    case "tool_error":
    case "submitted_error":
    case "provider_error":
    case "runtime_error":
      return "error";
  }
}

// Shapes

type Of<Type extends TurnOutcome["type"]> = Extract<TurnOutcome, { readonly type: Type }>;

/** An ending that is all said with its word. */
function bare<Type extends string>(type: Type): Shape<{ readonly type: Type }> {
  return object<{ readonly type: Type }>({ type: required(oneOf([type])) });
}

export const cancelEvidenceShape: Shape<CancelEvidence> = object<CancelEvidence>({
  requestId: required(string),
  origin: fallback(nullable(string), null),
  reason: fallback(nullable(string), null),
});

export const outcomeShape: Shape<TurnOutcome> = variant<TurnOutcome, "type">("type", {
  assistant_message: object<Of<"assistant_message">>({
    type: required(oneOf(["assistant_message"])),
    text: required(string),
  }),
  final_value: object<Of<"final_value">>({ type: required(oneOf(["final_value"])), value: required(json) }),
  tool_value: object<Of<"tool_value">>({
    type: required(oneOf(["tool_value"])),
    toolName: required(string),
    value: required(json),
  }),
  empty: bare("empty"),
  incomplete: bare("incomplete"),
  filtered: bare("filtered"),
  other: bare("other"),
  handoff: object<Of<"handoff">>({
    type: required(oneOf(["handoff"])),
    target: required(string),
    task: fallback(nullable(string), null),
    initialMessages: fallback(array(messageShape), []),
  }),
  ask_user: object<Of<"ask_user">>({
    type: required(oneOf(["ask_user"])),
    toolCallId: required(string),
    question: required(string),
  }),
  manual_tool_calls: bare("manual_tool_calls"),
  approval: bare("approval"),
  outcome_unknown: bare("outcome_unknown"),
  halted: object<Of<"halted">>({
    type: required(oneOf(["halted"])),
    reason: required(string),
    toolCallId: required(string),
    value: fallback(toolValueShape, null),
  }),
  max_turns: object<Of<"max_turns">>({ type: required(oneOf(["max_turns"])), maxTurns: required(count) }),
  halt_when: bare("halt_when"),
  budget: object<Of<"budget">>({ type: required(oneOf(["budget"])), budget: required(oneOf(budgets)) }),
  stop_after: bare("stop_after"),
  cancelled: object<Of<"cancelled">>({
    type: required(oneOf(["cancelled"])),
    evidence: required(cancelEvidenceShape),
  }),
  tool_error: object<Of<"tool_error">>({
    type: required(oneOf(["tool_error"])),
    toolName: required(string),
    toolCallId: fallback(nullable(string), null),
    failure: required(toolFailureShape),
  }),
  submitted_error: object<Of<"submitted_error">>({
    type: required(oneOf(["submitted_error"])),
    value: required(json),
  }),
  provider_error: object<Of<"provider_error">>({
    type: required(oneOf(["provider_error"])),
    failure: required(failureShape),
  }),
  runtime_error: object<Of<"runtime_error">>({
    type: required(oneOf(["runtime_error"])),
    failure: required(failureShape),
  }),
});
