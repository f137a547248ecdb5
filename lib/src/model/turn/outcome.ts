// How a turn ended, in three words from fine to coarse: its outcome, the halted reason of the run, the status of the session. The one
// place they are mapped is the table below. Where calls still wait, a session that would rest awaits tools instead. A turn that waits
// for several things at once is named after the first of: a question, calls of the caller's, approvals, unknown outcomes.

import type { Failure, ToolFailure } from "../failure/failure.ts";
import type { Message } from "../message/message.ts";
import type { Json } from "../parse/json.ts";
import type { Shape } from "../parse/shape.ts";
import type { SessionStatus } from "../session/session-status.ts";
import type { ToolValue } from "../tool/tool-value.ts";

import { failureShape, toolFailureShape } from "../failure/failure.ts";
import { messageShape } from "../message/message.ts";
import { array, count, fallback, json, nullable, object, oneOf, required, string, variant } from "../parse/shape.ts";
import { toolValueShape } from "../tool/tool-value.ts";

/** How a turn ended, in detail. `haltedReason` of a result and the status of a session follow from it. */
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
// The intersection keeps the known words in an editor's completions.
/** Why a run ended: a reason of the library, or the reason of a tool that called `halt`. */
export type HaltedReason = KnownHaltedReason | (string & NonNullable<unknown>);

/** The reasons for the end of a run that the library uses. A tool cannot halt with one of them. */
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

/** `null` as a halted reason: the tool that stopped the turn has a word of its own. */
type EndingWords = { readonly haltedReason: KnownHaltedReason | null; readonly status: SessionStatus };

const endings: { readonly [Type in TurnOutcome["type"]]: EndingWords } = {
  assistant_message: { haltedReason: "completed", status: "completed" },
  final_value: { haltedReason: "completed", status: "completed" },
  tool_value: { haltedReason: "completed", status: "completed" },
  empty: { haltedReason: "completed", status: "completed" },
  incomplete: { haltedReason: "completed", status: "completed" },
  filtered: { haltedReason: "completed", status: "completed" },
  other: { haltedReason: "completed", status: "completed" },
  handoff: { haltedReason: "handoff", status: "completed" },
  halted: { haltedReason: null, status: "completed" },
  max_turns: { haltedReason: "max_turns", status: "completed" },
  halt_when: { haltedReason: "halt_when", status: "completed" },
  budget: { haltedReason: "budget", status: "completed" },
  ask_user: { haltedReason: "ask_user", status: "awaiting_user" },
  manual_tool_calls: { haltedReason: "manual_tool_calls", status: "awaiting_tools" },
  approval: { haltedReason: "approval", status: "awaiting_tools" },
  outcome_unknown: { haltedReason: "outcome_unknown", status: "awaiting_tools" },
  stop_after: { haltedReason: "stop_after", status: "idle" },
  cancelled: { haltedReason: "cancelled", status: "idle" },
  tool_error: { haltedReason: "tool_error", status: "error" },
  submitted_error: { haltedReason: "tool_error", status: "error" },
  provider_error: { haltedReason: "error", status: "error" },
  runtime_error: { haltedReason: "error", status: "error" },
};

/** The one word for why a run with this outcome stopped. */
export function haltedReasonOf(outcome: TurnOutcome): HaltedReason {
  return outcome.type === "halted" ? outcome.reason : (endings[outcome.type].haltedReason ?? "completed");
}

/** What besides the outcome decides the status. Calls wait when nobody has answered or decided them. */
export type StatusFacts = { readonly callsWait?: boolean; readonly lastStepDone?: boolean };

/** The status of a session after this outcome. A single step that would have been the last one anyway completes it. */
export function sessionStatusOf(outcome: TurnOutcome, facts: StatusFacts = {}): SessionStatus {
  const { status } = endings[outcome.type];
  if (facts.callsWait === true && (status === "completed" || status === "idle")) return "awaiting_tools";
  return outcome.type === "stop_after" && facts.lastStepDone === true ? "completed" : status;
}

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
