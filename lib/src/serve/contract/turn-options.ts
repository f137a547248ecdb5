// The options of a turn that a request may set. Server and client share the type; which of them a server accepts, and
// how it reads them, is in serve/http/routes/turn-options.ts.

import type { Budgets, ModelName, ResponseFormat, ToolChoice, ToolMode, Waits } from "../../core/model/internal.ts";

/**
 * Options of a turn. `engine`, `version` and `waits` are always accepted, the others if the operator of the server
 * allows them.
 */
export type TurnOptions = {
  /** The name of an engine on the server. */
  readonly engine?: string;
  /** The request is rejected with a conflict unless the session has this version. */
  readonly version?: number;
  /** How long calls may stay pending, by reason. */
  readonly waits?: Waits;
  /** The model, as `provider:model`. */
  readonly model?: ModelName;
  /** Instructions that replace those of the engine. */
  readonly instructions?: string;
  /** A JSON Schema that the answer must conform to. */
  readonly output?: { readonly [keyword: string]: unknown };
  /** The format of the reply, if there is no `output`. */
  readonly responseFormat?: ResponseFormat;
  /** How often the model may correct an answer that does not conform to `output`. */
  readonly repair?: number;
  /** Whether the model must, may or must not call a tool. */
  readonly toolChoice?: ToolChoice;
  /** The names of the tools of the engine that the turn has. Default: all. */
  readonly activeTools?: readonly string[];
  /** Whether one reply may contain several tool calls. */
  readonly parallelToolCalls?: boolean;
  /** Randomness of the reply. */
  readonly temperature?: number;
  /** Nucleus sampling, from 0 to 1. */
  readonly topP?: number;
  /** Longest reply of one model call, in tokens. */
  readonly maxTokens?: number;
  /** Texts at which the model stops. */
  readonly stopSequences?: readonly string[];
  /** A seed for sampling. */
  readonly seed?: number;
  /** `manual` leaves all tool calls pending. */
  readonly mode?: ToolMode;
  /** How many model calls the turn may make. */
  readonly maxTurns?: number;
  /** Limits of steps, tokens, cost and time. */
  readonly budgets?: Budgets;
};

/** What to do with a message while a turn is open. */
export type WhenBusy = "steer" | "queue" | "interrupt" | "reject";
