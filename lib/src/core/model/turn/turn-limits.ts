// Limits that options set for a turn: budgets, and deadlines of the calls that wait. Options, stored configurations and
// requests over HTTP share these types.

import type { InferOptional, Shape } from "../parse/shape.ts";
import type { PendingReason } from "../tool/pending.ts";

import { number, object, oneOf, optional, required } from "../parse/shape.ts";

const budgetFields = {
  /** Number of steps. */
  steps: optional(number),
  /** Input and output tokens together. */
  tokens: optional(number),
  /** In US dollars. */
  cost: optional(number),
  /** Milliseconds spent in effects. Time between effects is not counted. */
  timeMs: optional(number),
  /** Consecutive model calls without a successful tool call. */
  noProgress: optional(number),
};

/** Limits of a run. A run that reaches one ends with the halted reason `budget`. No limit is set by default. */
export type Budgets = InferOptional<typeof budgetFields>;

export const budgetsShape: Shape<Budgets> = object(budgetFields);

const waitPolicyFields = {
  /** The time until the deadline, in milliseconds: from 0 to 100 years. */
  afterMs: required(number),
  /**
   * `error_as_result` (default): the model gets an error as the result, and the session continues. `fail_turn`: the
   * session fails.
   */
  onTimeout: optional(oneOf(["error_as_result", "fail_turn"])),
};

/** The deadline of a wait. */
export type WaitPolicy = InferOptional<typeof waitPolicyFields>;

/** Deadlines by the reason for which a call is pending. A reason that is absent has no deadline. */
export type Waits = { readonly [R in PendingReason]?: WaitPolicy };
