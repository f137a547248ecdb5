// How a turn ended, at three levels of detail: the outcome of the turn, the halted reason of the run, the status of the session.
//
// The table `endings` is the only mapping from an outcome to the other two. The run, the session verbs, the runtime and the HTTP
// protocols all use `haltedReasonOf` and `sessionStatusOf`, so the three values never disagree.
//
// Invariants
//   1. Every outcome type has a row: a new member of `TurnOutcome` does not compile without one.
//   2. A session whose status would be `completed` or `idle` is `awaiting_tools` while pending calls are undecided.
//   3. A turn that waits for several things at once has one outcome, by this precedence: `ask_user`, `manual_tool_calls`, `approval`,
//      `outcome_unknown`.

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
  /** The model answered with text. */
  | { readonly type: "assistant_message"; readonly text: string }
  /** Code that the model wrote submitted a value. */
  | { readonly type: "final_value"; readonly value: Json }
  /** A tool ended the turn with a value (`finish`). */
  | { readonly type: "tool_value"; readonly toolName: string; readonly value: Json }
  /** The model ended its reply without text and without calls. */
  | { readonly type: "empty" }
  /** The provider cut the reply at the output token limit. */
  | { readonly type: "incomplete" }
  /** The provider's content filter withheld the rest of the reply. */
  | { readonly type: "filtered" }
  /** The provider gave a finish reason that this release does not know, or none. */
  | { readonly type: "other" }
  /** A tool handed the conversation over to `target`. */
  | {
      readonly type: "handoff";
      readonly target: string;
      readonly task: string | null;
      readonly initialMessages: readonly Message[];
    }
  /** A tool asked the user a question. The turn continues with the answer. */
  | { readonly type: "ask_user"; readonly toolCallId: string; readonly question: string }
  /** Calls wait until the caller runs them and supplies their results. */
  | { readonly type: "manual_tool_calls" }
  /** Calls wait for an approval or a denial. */
  | { readonly type: "approval" }
  /** Calls without a recorded result, started before a crash, wait for a person to decide about them (replay policy `ask`). */
  | { readonly type: "outcome_unknown" }
  /** A tool ended the run with a reason of its own (`halt`). */
  | { readonly type: "halted"; readonly reason: string; readonly toolCallId: string; readonly value: ToolValue }
  /** The run used all its steps (the option `maxTurns`). */
  | { readonly type: "max_turns"; readonly maxTurns: number }
  /** The option `haltWhen` of the caller returned true after a step. */
  | { readonly type: "halt_when" }
  /** A budget of the run is used up. */
  | { readonly type: "budget"; readonly budget: Budget }
  /** The caller asked for a single step, and it ended. */
  | { readonly type: "stop_after" }
  /** The run was cancelled. */
  | { readonly type: "cancelled"; readonly evidence: CancelEvidence }
  /** A tool failed and `onToolError` is to stop, or the tool itself failed the turn (`failTurn`). */
  | {
      readonly type: "tool_error";
      readonly toolName: string;
      readonly toolCallId: string | null;
      readonly failure: ToolFailure;
    }
  /** Code that the model wrote submitted an error. */
  | { readonly type: "submitted_error"; readonly value: Json }
  /** A model call failed, or its reply is not usable. */
  | { readonly type: "provider_error"; readonly failure: Failure }
  /** The library, the storage or a function of the program failed. */
  | { readonly type: "runtime_error"; readonly failure: Failure };

/** The request that cancelled a turn. If a turn is cancelled several times, the first request is recorded. */
export type CancelEvidence = {
  readonly requestId: string;
  /** The component or person that cancelled, in the caller's words. */
  readonly origin: string | null;
  readonly reason: string | null;
};

/** The budget of a run that was used up. `no_progress` counts consecutive model calls without a successful tool call. */
export type Budget = (typeof budgets)[number];
export const budgets = ["steps", "tokens", "cost", "time", "no_progress"] as const;

// The intersection with `NonNullable<unknown>` keeps the known literals in editor completions; `string` alone would absorb them.
/** Why a run ended: a reason of the library, or the reason of a tool that called `halt`. */
export type HaltedReason = KnownHaltedReason | (string & NonNullable<unknown>);

/** The reasons for the end of a run that the library uses. A tool cannot halt with one of them. */
export type KnownHaltedReason = (typeof knownHaltedReasons)[number];

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

/** One row of the table. `haltedReason` is `null` for `halted`, whose reason is chosen by the tool. */
type Ending = { readonly haltedReason: KnownHaltedReason | null; readonly status: SessionStatus };

const endings: { readonly [Type in TurnOutcome["type"]]: Ending } = {
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

/** Returns the halted reason of a run with this outcome. */
export function haltedReasonOf(outcome: TurnOutcome): HaltedReason {
  return outcome.type === "halted" ? outcome.reason : (endings[outcome.type].haltedReason ?? "completed");
}

/**
 * Facts besides the outcome that decide the status. `callsWait`: some pending calls have neither an answer nor a decision.
 * `lastStepDone`: the single step that ran (`stop_after`) would have ended the run anyway.
 */
export type StatusFacts = { readonly callsWait?: boolean; readonly lastStepDone?: boolean };

/** Returns the status of a session after a turn with this outcome. */
export function sessionStatusOf(outcome: TurnOutcome, facts: StatusFacts = {}): SessionStatus {
  const { status } = endings[outcome.type];
  if (facts.callsWait === true && (status === "completed" || status === "idle")) return "awaiting_tools";
  return outcome.type === "stop_after" && facts.lastStepDone === true ? "completed" : status;
}

type Of<Type extends TurnOutcome["type"]> = Extract<TurnOutcome, { readonly type: Type }>;

/** The shape of an outcome without fields besides `type`. */
function typeOnly<Type extends string>(type: Type): Shape<{ readonly type: Type }> {
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
  empty: typeOnly("empty"),
  incomplete: typeOnly("incomplete"),
  filtered: typeOnly("filtered"),
  other: typeOnly("other"),
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
  manual_tool_calls: typeOnly("manual_tool_calls"),
  approval: typeOnly("approval"),
  outcome_unknown: typeOnly("outcome_unknown"),
  halted: object<Of<"halted">>({
    type: required(oneOf(["halted"])),
    reason: required(string),
    toolCallId: required(string),
    value: fallback(toolValueShape, null),
  }),
  max_turns: object<Of<"max_turns">>({ type: required(oneOf(["max_turns"])), maxTurns: required(count) }),
  halt_when: typeOnly("halt_when"),
  budget: object<Of<"budget">>({ type: required(oneOf(["budget"])), budget: required(oneOf(budgets)) }),
  stop_after: typeOnly("stop_after"),
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
