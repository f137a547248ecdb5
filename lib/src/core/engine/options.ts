// The types of option values. The options themselves are declared in run-options.ts; core/run/plan/plan-options.ts
// resolves them.

import type {
  CallerContext,
  ChatResult,
  Environment,
  Json,
  JsonObject,
  Message,
  ModelName,
  StepResult,
  Thread,
  ToolCall,
  ToolFailure,
  ToolMessage,
  ToolOutcome,
  ToolSpec,
  TurnCause,
  WithText,
} from "../model/internal.ts";
import type { ToolContext } from "./tool/tool.ts";

/** Called before a step; returns changes for this step and the ones after it, or `null`. */
export type PrepareStep = (step: {
  readonly step: number;
  readonly environment: Environment;
}) => StepChanges | null | Promise<StepChanges | null>;

type StepChanges = {
  readonly model?: ModelName;
  readonly instructions?: string;
  /** Names of the engine's tools that the model may call. */
  readonly tools?: readonly string[];
  readonly params?: JsonObject;
};

/** A checkpoint of the loop: after the tools of a step have run, or before the run completes. */
export type CheckpointInfo = { readonly checkpoint: "after_work" | "before_completion"; readonly step: number };

/** Input that `onCheckpoint` or `beforeTurn` adds to a run. */
type CheckpointInput = {
  /** Appended to the thread. */
  readonly messages?: readonly Message[];
  /** Shown to the model in this turn, and not kept in the thread. */
  readonly transientMessages?: readonly Message[];
  /** Events outside the conversation that join the turn. A cause that the turn has already is ignored. */
  readonly turnCauses?: readonly TurnCause[];
};

/** Ends the turn as cancelled: the outcome is `cancelled` with the origin `hook` and this reason. */
type AbortTurn = { readonly type: "abort"; readonly reason: string };

/** What a hook returns at a checkpoint: input for the turn, an abort, or `null` to continue. */
export type CheckpointDirective = CheckpointInput | AbortTurn | null;

/** A turn that is about to begin. `thread` has its messages, without what `beforeTurn` adds. */
type TurnInfo = { readonly turnId: string; readonly sessionId: string | null; readonly thread: Thread };

/**
 * What a run does when a tool fails: `continue` shows the failure to the model (the default), `halt` ends the run,
 * a function decides per call.
 */
export type OnToolError =
  | "continue"
  | "halt"
  | ((call: ToolCall, failure: ToolFailure) => OnToolErrorAnswer | Promise<OnToolErrorAnswer>);

/** The decision of an `onToolError` function: end the run, or continue with a value in place of the failure. */
export type OnToolErrorAnswer = "halt" | { readonly continue: unknown };

/**
 * Runs tool calls instead of calling their handlers directly. `run` calls the handler. Returns what a handler may
 * return.
 */
export type ToolExecutor = (tool: ToolSpec, args: JsonObject, context: ToolContext, run: () => unknown) => unknown;

/** Converts the result of a tool to the content that the model sees. The default is JSON. */
export type ToolResultEncoder = (
  result: { readonly type: "ok"; readonly value: unknown } | { readonly type: "error"; readonly failure: ToolFailure },
) => ToolMessage["content"];

/** Functions that a program runs before and after turns, steps and tool calls. */
export type Hooks<Context extends CallerContext = CallerContext> = {
  /**
   * Called before a tool call runs. Returns `null` to run it unchanged, new arguments, or an outcome in place of
   * running it.
   */
  readonly beforeTool?: (call: ToolCall, context: ToolContext<Context>) => BeforeTool | Promise<BeforeTool>;
  /** Called after a tool call. Returns `null` to keep its outcome, or an outcome that replaces it. */
  readonly afterTool?: (
    call: ToolCall,
    outcome: ToolOutcome,
    context: ToolContext<Context>,
  ) => ToolOutcome | null | Promise<ToolOutcome | null>;
  /**
   * Called once before the first effect of a turn of `chat`, `step` or a session verb. Returns `null` to continue,
   * input to add, or an abort. In a turn that resumes tool calls, the input is added after these calls. The directive
   * is recorded: a process that takes the turn over does not call the hook again.
   */
  readonly beforeTurn?: (turn: TurnInfo) => CheckpointDirective | Promise<CheckpointDirective>;
  /**
   * Called after the end of a turn was committed, with its result; not for `generate`, and not again after a crash. It
   * cannot change the result: an error it throws rejects a run in memory, and is only reported to telemetry if the turn
   * is durable.
   */
  readonly afterTurn?: (result: WithText<ChatResult>) => void | Promise<void>;
  readonly beforeStep?: (step: number) => void | Promise<void>;
  readonly afterStep?: (step: WithText<StepResult>) => void | Promise<void>;
};

type BeforeTool =
  | null
  | { readonly type: "replace_arguments"; readonly arguments: JsonObject }
  | { readonly type: "skip"; readonly value: Json }
  | { readonly type: "deny"; readonly reason: string };

/**
 * What a durable session does with a message that arrives while a turn is open. `steer`: the turn reads the message at
 * its next checkpoint. `queue`: the message starts the next turn. `interrupt`: the open turn is cancelled, and the
 * message starts the next turn. `reject`: the call fails with `conflict`.
 */
export type WhenBusy = (typeof busyPolicies)[number];
export const busyPolicies = ["steer", "queue", "interrupt", "reject"] as const;

/** Returns whether a value is a busy policy. */
export function isBusyPolicy(value: unknown): value is WhenBusy {
  return busyPolicies.some((policy) => policy === value);
}
