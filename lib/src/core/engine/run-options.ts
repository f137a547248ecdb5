// Declares every option of a run, once: its type and documentation in `ChatOptions`, its rules in `runOptionTable`.
//
// Theory of operation
//   `ChatOptions` is the type map: one property for each option. `runOptionTable` has one row for each property;
//   `satisfies` rejects a missing row and a row without a property. Everything else that depends on the set of options
//   is derived:
//     - the option types of the verbs (`GenerateOptions`, `StepOptions`), of engines (`EngineOptions`) and of
//       `configure`;
//     - the names and values that verbs accept, the resolved options of a run, and the fields of a model request
//       (core/run/plan/plan-options.ts);
//     - what is pinned when a turn starts (core/run/plan/pinned.ts);
//     - what durable verbs store, and why they refuse the rest (durable/drive/types.ts,
//       durable/drive/durable-options.ts);
//     - what an HTTP caller may send (serve/http/routes/turn-options.ts).
//   lib/test/run-options.test.ts iterates over the table and proves each row: an option that a row lets an engine,
//   `configure`, a durable verb or an HTTP caller set must have its effect when set there, and must be refused
//   everywhere else.
//
// Invariants
//   1. An HTTP caller can only set what a durable verb stores (`OptionRow`).
//   2. The order of the rows with `pinned: "params"` is the order in which request parameters are stored. Append, do
//      not sort.

import type {
  Budgets,
  CallerContext,
  JsonObject,
  ModelEvent,
  ModelName,
  PromptCacheSettings,
  ProviderTool,
  ReasoningSettings,
  RequestProviderOptions,
  ResponseFormat,
  StepResult,
  ToolChoice,
  ToolMode,
  WithText,
} from "../model/internal.ts";
import type { AdapterOptions } from "./model-call/adapter.ts";
import type { RetrySetting } from "./model-call/retry.ts";
import type { NumberRange } from "./option-rules.ts";
import type {
  CheckpointDirective,
  CheckpointInfo,
  Hooks,
  OnToolError,
  PrepareStep,
  ToolExecutor,
  ToolResultEncoder,
} from "./options.ts";
import type { Redact } from "./redaction.ts";
import type { AnySchema } from "./tool/schema.ts";
import type { Tool } from "./tool/tool.ts";

/** Options of `chat` and `stream`: those of `step`, and the conditions that end the run. */
export type ChatOptions<Context extends CallerContext = CallerContext> = {
  /**
   * Whether the model must, may or must not call a tool. A forced choice (`"required"`, or a tool) applies to the first
   * reply after a user message, and `prepareStep` can set it again; `"none"` applies to all. Default: `"auto"`.
   */
  readonly toolChoice?: ToolChoice | null;
  /** Whether one reply may contain several tool calls. Default: the provider decides. */
  readonly parallelToolCalls?: boolean | null;
  /** Sampling temperature. Default: that of the provider. */
  readonly temperature?: number | null;
  /** Nucleus sampling: the probability mass that is sampled from. Default: that of the provider. */
  readonly topP?: number | null;
  /** Longest reply of one model call, in tokens. Default: the provider decides. */
  readonly maxTokens?: number | null;
  /** Texts at which the model stops. Default: none. */
  readonly stopSequences?: readonly string[];
  /** Seed for sampling, for providers that have one. It makes replies similar, not equal. */
  readonly seed?: number | null;
  /** How much the model reasons before it answers. Default: the provider decides. */
  readonly reasoning?: Partial<ReasoningSettings> | null;
  /** How the provider caches the prompt. Every field has a default: `{}` turns it on. Default: the provider decides. */
  readonly promptCache?: Partial<PromptCacheSettings> | null;
  /** Fields for the request body of any provider. Objects are merged with those of the library, key by key. */
  readonly options?: JsonObject;
  /** Fields for the request body by provider: `{ anthropic: { top_k: 5 } }`. Sent to that provider only. */
  readonly providerOptions?: RequestProviderOptions;
  /** Metadata of the model request. */
  readonly metadata?: JsonObject;
  /** Tools that the provider runs itself. */
  readonly providerTools?: readonly ProviderTool[];
  /** The model. Default: that of the engine. */
  readonly model?: ModelName;
  /** The format of the answer, without validation. `output` also validates. Default: text. */
  readonly responseFormat?: ResponseFormat;
  /** The schema of the answer. The answer is validated and returned as `result.output`. */
  readonly output?: AnySchema;
  /** How many times the model may correct an answer that does not match the schema of `output`. Default: 0. */
  readonly repair?: number;
  /** Settings of the adapter: headers and betas. Merged over those of the engine. */
  readonly adapterOptions?: AdapterOptions;
  /**
   * More settings by name. Names of request fields set those fields; all others go into the provider's request body.
   */
  readonly params?: JsonObject;
  /** The API key for this call. Never stored or shown. */
  readonly apiKey?: string;
  /** Identifies the run in logs, events and failures. Default: a random id. */
  readonly requestId?: string;
  /** When a failed model call is repeated. Default: that of the engine. */
  readonly retry?: RetrySetting;
  /** Cancels the run. */
  readonly signal?: AbortSignal;
  /** `false` leaves `text_delta` events out of the stream. The result is the same. */
  readonly emitTextDeltas?: boolean;
  /** `false` leaves `tool_call_delta` events out of the stream. The result is the same. */
  readonly emitToolDeltas?: boolean;
  /** `true` adds the provider's own chunks to the stream as `raw_chunk` events. The result is the same. */
  readonly includeRawChunks?: boolean;
  /**
   * Receives every event of the model, also those left out of the stream. An error it throws rejects the read of the
   * stream.
   */
  readonly onEvent?: (event: ModelEvent) => void;
  /** The system prompt. Default: that of the engine. */
  readonly instructions?: string;
  /** Tools for this call. A tool replaces the engine's tool of the same name. */
  readonly tools?: readonly Tool<Context>[];
  /**
   * The names of the tools that the run has, of those of the engine and of the call. The model does not see the others.
   * Default: all. Empty: none. A name that no tool has is a `MisuseError`. Provider tools without a handler
   * (`providerTools`) are not affected.
   */
  readonly activeTools?: readonly string[];
  /** Passed to tool handlers unchanged. Default: that of the session, then that of the engine. */
  readonly context?: Context;
  /** Identifies the session to adapters and tool handlers. */
  readonly sessionId?: string;
  /** `"auto"` runs the handlers of tools; `"manual"` leaves all tool calls pending. Default: `"auto"`. */
  readonly mode?: ToolMode;
  /** Longest run time of one tool call, in milliseconds. Default: 30,000. A call that takes longer fails. */
  readonly toolTimeout?: number;
  /**
   * How long running tools may take to answer after a cancel, in milliseconds. Default: 50. Their signal is aborted at
   * once. A result within this time is recorded before the cancel; a call without one is answered as cancelled. `0`:
   * results after the cancel are dropped.
   */
  readonly cancelGraceMs?: number;
  /**
   * How many tool calls of the run are executed at the same time; the others wait. Default: 16. `Infinity`: all of
   * them.
   */
  readonly maxConcurrency?: number;
  /**
   * How many tool calls one reply of the model may have. Default: 1,000. A reply with more fails the model call
   * (`malformed_response`, code `too_many_tool_calls`), and none of its calls runs.
   */
  readonly maxToolCalls?: number;
  /** Longest tool result sent to the model, in characters. Default: 100,000. The middle of a longer one is cut out. */
  readonly maxToolResultLength?: number;
  /** What a failed tool call does to the run. Default: `"continue"`. */
  readonly onToolError?: OnToolError;
  /**
   * The model reads a general message in place of the text of an exception that a tool threw. Failures that a tool
   * returns (`fail`) are not affected. Default: `false`: the model reads the text, so that it can correct itself.
   */
  readonly hideErrorsFromModel?: boolean;
  /** Runs tool calls in place of their handlers. */
  readonly toolExecutor?: ToolExecutor;
  /** Encodes tool results for the model. Default: JSON. */
  readonly toolResultEncoder?: ToolResultEncoder;
  /**
   * What a call of an unknown tool does: `"error"` fails the run, `"answer"` returns `not_found` to the model. Default:
   * `"error"`.
   */
  readonly onUnknownTool?: "error" | "answer";
  /** What an empty reply does. Default: `"complete"`; with the code protocol `"error"`. */
  readonly onEmptyReply?: "complete" | "error";
  /** Functions called before and after turns, steps and tool calls. */
  readonly hooks?: Hooks<Context>;
  /** How many model calls the run may make. Default: 8. */
  readonly maxTurns?: number;
  /** A system message that is added to the thread when `maxTurns` is reached. */
  readonly turnLimitMessage?: string;
  /** Called after each step; `true` stops the run. An error it throws rejects the run. */
  readonly haltWhen?: (step: WithText<StepResult>) => boolean | Promise<boolean>;
  /** Limits on steps, tokens, cost and time. Default: none. */
  readonly budgets?: Budgets;
  /**
   * Requests the structured answer in a separate model call after the loop. Default: only if the provider needs it.
   * Needs `output`, or a `responseFormat` of type `json_schema` or `json_object`.
   */
  readonly structuredFinalize?: boolean;
  /**
   * The user message that asks for the answer in that model call; `""`: none. It is stored in the thread with the
   * answer, with `structuredFinalize` in its metadata. Default: `Now provide your final structured response.`
   */
  readonly structuredFinalizeNudge?: string;
  /** Called before every step; may change model, instructions, tools (by name) and settings. */
  readonly prepareStep?: PrepareStep;
  /**
   * Called at every checkpoint that another model call can follow; returns input or causes that arrived during the run,
   * or aborts the turn.
   */
  readonly onCheckpoint?: (checkpoint: CheckpointInfo) => CheckpointDirective | Promise<CheckpointDirective>;
};

export type RunOptionName = keyof ChatOptions;

/** The rules of one option. */
export type OptionRow = {
  /** The smallest verb that takes the option: `step` takes all of `generate`, `chat` takes all of `step`. */
  readonly level: "generate" | "step" | "chat";
  /**
   * Where an engine may set it for all its runs: among its `options`, as a `field` of the engine, as `both`, or not at
   * all.
   */
  readonly engine: "options" | "field" | "both" | "no";
  /**
   * What of it a turn keeps to its end, whichever process continues it and whatever engine that process has:
   * `params` is the request field of the same name; the others name the part of `Pinned` (core/run/plan/pinned.ts).
   * `no`: the process that drives the turn resolves it again.
   */
  readonly pinned: "params" | "environment" | "policy" | "protocol" | "limits" | "no";
  /** Whether `configure` sets a default for the program. */
  readonly configure?: true;
  /** The values that a number may have. */
  readonly number?: NumberRange;
  /** The values that a text may have. */
  readonly words?: readonly string[];
  /**
   * What any other value has to be, where a wrong value would end the run with an error of the language or be ignored.
   */
  readonly kind?: OptionKind;
} & (
  | { readonly durable: "stored"; readonly http: "if_allowed" | "no" }
  | { readonly durable: DurableRefusal; readonly http: "no" }
);

/** What the value of an option has to be. The checks are in core/run/plan/plan-options.ts. */
export type OptionKind = "function" | "text" | "names" | "signal";

/**
 * Why durable verbs refuse an option: `function` cannot be stored and is set on the engine; `secret` must not be
 * stored; `live` exists only in the process of the caller; `reader` is for the single reader of an in-memory stream;
 * `session` follows from the stored session and its turn.
 */
export type DurableRefusal = "function" | "secret" | "live" | "reader" | "session";

/**
 * What most options have: `options` of an engine may set them, a turn stores them, HTTP callers may not set them, and
 * each process resolves them again.
 */
const usual = { engine: "options", durable: "stored", http: "no", pinned: "no" } as const;
const generate = { level: "generate", ...usual } as const;
const step = { level: "step", ...usual } as const;
const chat = { level: "chat", ...usual } as const;

/**
 * The rules of every option: its level, and what differs from the usual ones. Read by the files that the header lists;
 * a new option needs a row here and a property above.
 */
export const runOptionTable = {
  toolChoice: { ...generate, http: "if_allowed", pinned: "params" },
  parallelToolCalls: { ...generate, http: "if_allowed", pinned: "params" },
  temperature: { ...generate, http: "if_allowed", pinned: "params" },
  topP: { ...generate, http: "if_allowed", pinned: "params" },
  maxTokens: { ...generate, http: "if_allowed", pinned: "params" },
  stopSequences: { ...generate, http: "if_allowed", pinned: "params" },
  seed: { ...generate, http: "if_allowed", pinned: "params" },
  reasoning: { ...generate, pinned: "params" },
  promptCache: { ...generate, pinned: "params" },
  metadata: { ...generate, pinned: "params" },
  providerOptions: { ...generate, pinned: "params" },
  options: { ...generate, pinned: "environment" },
  providerTools: { ...generate, pinned: "environment" },
  params: { ...generate, engine: "both", pinned: "environment" },
  model: { ...generate, engine: "field", http: "if_allowed", pinned: "environment" },
  responseFormat: { ...generate, http: "if_allowed", pinned: "environment" },
  output: { ...generate, http: "if_allowed", pinned: "environment" },
  repair: { ...generate, http: "if_allowed", number: { least: 0, whole: true } },
  adapterOptions: { ...generate, engine: "field" },
  apiKey: { ...generate, engine: "no", durable: "secret" },
  requestId: { ...generate, engine: "no", durable: "session" },
  retry: { ...generate, engine: "field" },
  signal: { ...generate, engine: "no", durable: "live", kind: "signal" },
  emitTextDeltas: { ...generate, durable: "reader" },
  emitToolDeltas: { ...generate, durable: "reader" },
  includeRawChunks: { ...generate, durable: "reader" },
  onEvent: { ...generate, engine: "no", durable: "live", kind: "function" },
  instructions: { ...step, engine: "field", http: "if_allowed", pinned: "environment", kind: "text" },
  tools: { ...step, engine: "field", durable: "function", pinned: "environment" },
  activeTools: { ...step, http: "if_allowed", pinned: "environment", kind: "names" },
  context: { ...step, engine: "field", durable: "session" },
  sessionId: { ...step, engine: "no", durable: "session" },
  mode: { ...step, http: "if_allowed", pinned: "protocol", words: ["auto", "manual"] },
  toolTimeout: { ...step, pinned: "limits", configure: true, number: { least: 0, whole: false } },
  cancelGraceMs: { ...step, pinned: "limits", number: { least: 0, whole: true } },
  maxConcurrency: { ...step, pinned: "limits", number: { least: 1, whole: false } },
  maxToolCalls: { ...step, pinned: "limits", number: { least: 1, whole: true } },
  maxToolResultLength: { ...step, pinned: "limits", configure: true, number: { least: 0, whole: true } },
  onToolError: { ...step, pinned: "limits" },
  hideErrorsFromModel: step,
  toolExecutor: { ...step, engine: "both", durable: "function", kind: "function" },
  toolResultEncoder: { ...step, engine: "both", durable: "function", kind: "function" },
  onUnknownTool: { ...step, pinned: "protocol", words: ["error", "answer"] },
  onEmptyReply: { ...step, pinned: "protocol", words: ["complete", "error"] },
  hooks: { ...step, durable: "function" },
  maxTurns: { ...chat, http: "if_allowed", pinned: "policy", configure: true, number: { least: 1, whole: true } },
  turnLimitMessage: { ...chat, pinned: "policy" },
  haltWhen: { ...chat, durable: "function", kind: "function" },
  budgets: { ...chat, http: "if_allowed", pinned: "limits" },
  structuredFinalize: { ...chat, pinned: "policy" },
  structuredFinalizeNudge: { ...chat, pinned: "policy", configure: true },
  prepareStep: { ...chat, durable: "function", kind: "function" },
  onCheckpoint: { ...chat, durable: "function", kind: "function" },
} as const satisfies { readonly [Name in RunOptionName]: OptionRow };

type Table = typeof runOptionTable;

/** The names of the options whose row has these properties. */
export type OptionsWith<Properties> = {
  [Name in RunOptionName]: Table[Name] extends Properties ? Name : never;
}[RunOptionName];

/** Options that set the request field of the same name. */
export type RequestField = OptionsWith<{ readonly pinned: "params" }>;

/** Options about the content of a model request. */
export type RequestOptions = Pick<ChatOptions, RequestField | "options" | "providerTools">;

type GenerateOption = OptionsWith<{ readonly level: "generate" }>;
type StepOption = OptionsWith<{ readonly level: "generate" | "step" }>;

/** Options of `generate` and `streamGenerate`. `output` is a schema that the answer is validated against. */
export type GenerateOptions = Pick<ChatOptions, GenerateOption>;
/** Options of `step` and `streamStep`: those of `generate`, and how tools are run. */
export type StepOptions<Context extends CallerContext = CallerContext> = Pick<ChatOptions<Context>, StepOption>;

// The options without `output`. The verbs intersect them with a specific schema type; intersecting that with
// `AnySchema` is slow to check.
export type GenerateSettings = Pick<ChatOptions, Exclude<GenerateOption, "output">>;
export type StepSettings<Context extends CallerContext = CallerContext> = Pick<
  ChatOptions<Context>,
  Exclude<StepOption, "output">
>;
export type ChatSettings<Context extends CallerContext = CallerContext> = Pick<
  ChatOptions<Context>,
  Exclude<RunOptionName, "output">
>;

/** The options that an engine may set for all its runs. */
export type EngineOptions<Context extends CallerContext = CallerContext> = Pick<
  ChatOptions<Context>,
  OptionsWith<{ readonly engine: "options" | "both" }>
>;

/** Defaults of the whole process, used where neither the call nor the engine has a value. */
export type Configuration = Required<Pick<ChatOptions, OptionsWith<{ readonly configure: true }>>> & {
  /**
   * A redaction hook: returns each text as it may be shown in HTTP messages and events, in logs, and in stored failures
   * of providers. Text deltas are redacted one by one, so a secret that spans two deltas is not found in them. If the
   * hook throws, the text is replaced. Default: `null`, none.
   */
  readonly redact: Redact | null;
};

/** Returns whether a name is an option. `hasOwn` keeps names such as `constructor` and `__proto__` out. */
export function isRunOption(name: string): name is RunOptionName {
  return Object.hasOwn(runOptionTable, name);
}

/** All option names, in the order of the table. */
export const runOptionNames: readonly RunOptionName[] = Object.keys(runOptionTable).filter(isRunOption);

/** The options that set a request field, in the order in which they are stored. */
export const requestFields: readonly RequestField[] = runOptionNames.filter(
  (name): name is RequestField => runOptionTable[name].pinned === "params",
);

/** Options with a range of numbers. */
type NumericOption = OptionsWith<{ readonly number: NumberRange }>;

export const numericOptions: readonly NumericOption[] = runOptionNames.filter(
  (name): name is NumericOption => "number" in runOptionTable[name],
);
