// How a turn ended, at three levels of detail: the outcome of the turn, the halted reason of the run, the status of the
// session.
//
// The table `endings` is the only mapping from an outcome to the other two. The run, the session verbs, the runtime and
// the HTTP protocols all use `haltedReasonOf` and `sessionStatusOf`, so the three values never disagree.
//
// Invariants
//   1. Every outcome type has a row: a new member of `TurnOutcome` does not compile without one.
//   2. A session whose status would be `completed` or `idle` is `awaiting_tools` while pending calls are undecided.
//   3. A turn that waits for several things at once has one outcome, by this precedence: `ask_user`,
//      `manual_tool_calls`, `approval`, `outcome_unknown`.

import type { Infer, InferUnion, Shape, WordOf } from "../parse/shape.ts";
import type { SessionStatus } from "../session/session-status.ts";

import { failureShape, toolFailureShape } from "../failure/failure.ts";
import { messageShape } from "../message/message.ts";
import { array, count, fallback, json, nullable, object, oneOf, required, string, variant } from "../parse/shape.ts";
import { toolValueShape } from "../tool/tool-value.ts";

const cancelEvidenceFields = {
  requestId: required(string),
  /** The component or person that cancelled, in the caller's words. */
  origin: fallback(nullable(string), null),
  reason: fallback(nullable(string), null),
};

/** The request that cancelled a turn. If a turn is cancelled several times, the first request is recorded. */
export type CancelEvidence = Infer<typeof cancelEvidenceFields>;

export const cancelEvidenceShape: Shape<CancelEvidence> = object(cancelEvidenceFields);

/**
 * The budget of a run that was used up. `no_progress` counts consecutive model calls without a successful tool call.
 */
export type Budget = WordOf<typeof budgets>;
export const budgets = ["steps", "tokens", "cost", "time", "no_progress"] as const;

const outcomeCases = {
  /** The model answered with text. */
  assistant_message: { text: required(string) },
  /** Code that the model wrote submitted a value. */
  final_value: { value: required(json) },
  /** A tool ended the turn with a value (`finish`). */
  tool_value: { toolName: required(string), value: required(json) },
  /** The model ended its reply without text and without calls. */
  empty: {},
  /** The provider cut the reply at the output token limit. */
  incomplete: {},
  /** The provider's content filter withheld the rest of the reply. */
  filtered: {},
  /** The provider gave a finish reason that this release does not know, or none. */
  other: {},
  /** A tool handed the conversation over to `target`. */
  handoff: {
    target: required(string),
    task: fallback(nullable(string), null),
    initialMessages: fallback(array(messageShape), []),
  },
  /** A tool asked the user a question. The turn continues with the answer. */
  ask_user: { toolCallId: required(string), question: required(string) },
  /** Calls wait until the caller runs them and supplies their results. */
  manual_tool_calls: {},
  /** Calls wait for an approval or a denial. */
  approval: {},
  /**
   * Calls without a recorded result, started before a crash, wait for a person to decide about them (replay policy
   * `ask`).
   */
  outcome_unknown: {},
  /** A tool ended the run with a reason of its own (`halt`). */
  halted: { reason: required(string), toolCallId: required(string), value: fallback(toolValueShape, null) },
  /** The run used all its steps (the option `maxTurns`). */
  max_turns: { maxTurns: required(count) },
  /** The option `haltWhen` of the caller returned true after a step. */
  halt_when: {},
  /** A budget of the run is used up. */
  budget: { budget: required(oneOf<Budget>(budgets)) },
  /** The caller asked for a single step, and it ended. */
  stop_after: {},
  /** The run was cancelled. */
  cancelled: { evidence: required(cancelEvidenceShape) },
  /** A tool failed and `onToolError` is to stop, or the tool itself failed the turn (`failTurn`). */
  tool_error: {
    toolName: required(string),
    toolCallId: fallback(nullable(string), null),
    failure: required(toolFailureShape),
  },
  /** Code that the model wrote submitted an error. */
  submitted_error: { value: required(json) },
  /** A model call failed, or its reply is not usable. */
  provider_error: { failure: required(failureShape) },
  /** The library, the storage or a function of the program failed. */
  runtime_error: { failure: required(failureShape) },
};

/** How a turn ended, in detail. `haltedReason` of a result and the status of a session follow from it. */
export type TurnOutcome = InferUnion<"type", typeof outcomeCases>;

export const outcomeShape: Shape<TurnOutcome> = variant("type", outcomeCases);

// The intersection with `NonNullable<unknown>` keeps the known literals in editor completions; `string` alone would
// absorb them.
/** Why a run ended: a reason of the library, or the reason of a tool that called `halt`. */
export type HaltedReason = KnownHaltedReason | (string & NonNullable<unknown>);

export const haltedReasonShape: Shape<HaltedReason> = string;

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
 * Facts besides the outcome that decide the status. `callsWait`: some pending calls have neither an answer nor a
 * decision. `lastStepDone`: the single step that ran (`stop_after`) would have ended the run anyway.
 */
export type StatusFacts = { readonly callsWait?: boolean; readonly lastStepDone?: boolean };

/** Returns the status of a session after a turn with this outcome. */
export function sessionStatusOf(outcome: TurnOutcome, facts: StatusFacts = {}): SessionStatus {
  const { status } = endings[outcome.type];
  if (facts.callsWait === true && (status === "completed" || status === "idle")) return "awaiting_tools";
  return outcome.type === "stop_after" && facts.lastStepDone === true ? "completed" : status;
}
