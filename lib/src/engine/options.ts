// Everything a call may say, in one place, and who wins when several say it: the call, the request, the session, the engine, the program
// (`configure`), the library.

import type {
  CallerContext,
  Environment,
  Json,
  JsonObject,
  Message,
  ModelEvent,
  ModelName,
  ModelRequest,
  ResponseFormat,
  StepResult,
  ToolCall,
  ToolFailure,
  ToolMessage,
  ToolMode,
  ToolOutcome,
  ToolSpec,
} from "../model/internal.ts";
import type { Configuration } from "./configure.ts";
import type { RetrySetting } from "./model-call/retry.ts";
import type { AnySchema } from "./tool/schema.ts";
import type { Tool, ToolContext } from "./tool/tool.ts";

import { configuration } from "./configure.ts";

/** Settings a request has fields for. */
export type RequestOptions = Partial<
  Pick<
    ModelRequest,
    | "toolChoice"
    | "parallelToolCalls"
    | "temperature"
    | "topP"
    | "maxTokens"
    | "stopSequences"
    | "seed"
    | "reasoning"
    | "promptCache"
    | "options"
    | "metadata"
    | "providerTools"
  >
>;

/** What every verb takes. */
export type GenerateOptions = GenerateSettings & OutputOption;
export type StepOptions<Context extends CallerContext = CallerContext> = StepSettings<Context> & OutputOption;
export type ChatOptions<Context extends CallerContext = CallerContext> = ChatSettings<Context> & OutputOption;

/** The answer in a schema, checked: `result.output`. Apart from the others, because a type that is both one's own schema and any is slow to check. */
export type OutputOption = { readonly output?: AnySchema };

export type GenerateSettings = RequestOptions & {
  readonly model?: ModelName;
  readonly responseFormat?: ResponseFormat;
  /** How often the model may try again when its answer does not fit the schema. */
  readonly repair?: number;
  readonly adapterOptions?: JsonObject;
  /** More settings by name: those a request has fields for go there, the others into the provider's body as they are. */
  readonly params?: JsonObject;
  /** For this one call. Never stored, never shown. */
  readonly apiKey?: string;
  readonly requestId?: string;
  readonly retry?: RetrySetting;
  readonly signal?: AbortSignal;
  /** What the stream leaves out, or adds. The result is the same either way. */
  readonly emitTextDeltas?: boolean;
  readonly emitToolDeltas?: boolean;
  readonly includeRawChunks?: boolean;
  /** Sees every event of the model, before anything is left out. What it throws reaches whoever reads the stream. */
  readonly onEvent?: (event: ModelEvent) => void;
};

export type StepSettings<Context extends CallerContext = CallerContext> = GenerateSettings & {
  readonly instructions?: string;
  /** Over those of the engine, by name. */
  readonly tools?: readonly Tool<Context>[];
  readonly context?: Context;
  readonly sessionId?: string;
  /** Who runs the tools. */
  readonly mode?: ToolMode;
  /** In milliseconds. */
  readonly toolTimeout?: number;
  readonly maxConcurrency?: number;
  readonly maxToolResultLength?: number;
  readonly onToolError?: OnToolError;
  readonly toolExecutor?: ToolExecutor;
  readonly toolResultEncoder?: ToolResultEncoder;
  readonly onUnknownTool?: "error" | "answer";
  readonly onEmptyReply?: "complete" | "error";
  readonly hooks?: Hooks<Context>;
};

export type ChatSettings<Context extends CallerContext = CallerContext> = StepSettings<Context> & {
  /** Model calls the run may take. */
  readonly maxTurns?: number;
  /** Told to the model when the limit is reached. */
  readonly turnLimitMessage?: string;
  /** Stops the run after a step; what it throws rejects the run. */
  readonly haltWhen?: (step: StepResult) => boolean | Promise<boolean>;
  readonly budgets?: Budgets;
  /** Answer in the schema with a call of its own after the loop. */
  readonly structuredFinalize?: boolean;
  readonly structuredFinalizeNudge?: string;
  /** May change model, instructions, tools (by name) and settings before a step. */
  readonly prepareStep?: PrepareStep;
  /** Input that arrives while the run goes on: asked at every checkpoint where more can be said. */
  readonly onCheckpoint?: (checkpoint: CheckpointAsked) => Delivered | null | Promise<Delivered | null>;
};

/** How far a run may go. Off unless set. */
export type Budgets = {
  readonly steps?: number;
  /** Of input and output together. */
  readonly tokens?: number;
  /** In US dollars. */
  readonly cost?: number;
  /** Time spent in effects; what passes while nobody works is not counted. */
  readonly timeMs?: number;
  /** Model calls in a row without a tool that succeeded. */
  readonly noProgress?: number;
};

export type PrepareStep = (step: {
  readonly step: number;
  readonly environment: Environment;
}) => StepChanges | null | Promise<StepChanges | null>;

export type StepChanges = {
  readonly model?: ModelName;
  readonly instructions?: string;
  /** Names of the engine's tools. */
  readonly tools?: readonly string[];
  readonly params?: JsonObject;
};

export type CheckpointAsked = { readonly checkpoint: "after_work" | "before_completion"; readonly step: number };

export type Delivered = {
  readonly messages?: readonly Message[];
  readonly transientMessages?: readonly Message[];
};

/** What happens at a tool's failure: go on, stop, or what a function says. */
export type OnToolError =
  | "continue"
  | "halt"
  | ((call: ToolCall, failure: ToolFailure) => OnToolErrorAnswer | Promise<OnToolErrorAnswer>);

/** Stop; or go on with something else in place of the failure. */
export type OnToolErrorAnswer = "halt" | { readonly continue: unknown };

/** Runs a call in its own way. Returns what a handler may return. */
export type ToolExecutor = (tool: ToolSpec, args: JsonObject, context: ToolContext, run: () => unknown) => unknown;

/** What the model gets to see of a result. */
export type ToolResultEncoder = (
  result: { readonly type: "ok"; readonly value: unknown } | { readonly type: "error"; readonly failure: ToolFailure },
) => ToolMessage["content"];

/** What a program may do around tools and steps. */
export type Hooks<Context extends CallerContext = CallerContext> = {
  /** Before a call runs: let it (`null`), change its arguments, or give its outcome without running it. */
  readonly beforeTool?: (call: ToolCall, context: ToolContext<Context>) => BeforeTool | Promise<BeforeTool>;
  /** After it ran: leave the outcome (`null`), or replace it. */
  readonly afterTool?: (
    call: ToolCall,
    outcome: ToolOutcome,
    context: ToolContext<Context>,
  ) => ToolOutcome | null | Promise<ToolOutcome | null>;
  readonly beforeStep?: (step: number) => void | Promise<void>;
  readonly afterStep?: (step: StepResult) => void | Promise<void>;
};

export type BeforeTool =
  | null
  | { readonly type: "replace_arguments"; readonly arguments: JsonObject }
  | { readonly type: "skip"; readonly value: Json }
  | { readonly type: "deny"; readonly reason: string };

/** What an engine may say once for all its runs: everything that is not about one call. */
export type EngineOptions<Context extends CallerContext = CallerContext> = Omit<
  ChatOptions<Context>,
  | "signal"
  | "requestId"
  | "apiKey"
  | "onEvent"
  | "tools"
  | "model"
  | "context"
  | "retry"
  | "instructions"
  | "adapterOptions"
  | "sessionId"
>;

/** The sources of options, the strongest first. Those that say nothing are asked past. */
export type Sources<Options> = readonly (Partial<Options> | null | undefined)[];

/** What the strongest source that says anything says. */
export function pick<Options, Key extends keyof Options>(
  sources: Sources<Options>,
  key: Key,
): NonNullable<Options[Key]> | undefined {
  for (const source of sources) {
    const value = source?.[key];
    if (value !== undefined && value !== null) return value;
  }
  return undefined;
}

/** A default of the program. */
export function defaultOf<Key extends keyof Configuration>(key: Key): Configuration[Key] {
  return configuration()[key];
}
