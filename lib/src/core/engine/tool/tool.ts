// The tool value: the specification that is sent to the model (`ToolSpec`, plain data), and the functions that validate
// arguments, decide about approval and run a call. The functions stay in the process; a stored turn refers to a tool by
// name.
//
// Order of one call (core/run/perform/tool.ts): `prepare` validates the arguments, `needsApproval` decides whether a
// person must approve the call, `run` calls the handler. `needsApproval` and `run` receive the validated arguments,
// with the defaults and conversions of a Standard Schema.
//
// Three settings of a tool sound alike and are independent:
//   replay  what recovery does after a crash with a call that had started (`safe`, `never`, `ask`)
//   retry   how often a handler that returned or threw a retryable failure is run again (`ToolRetryPolicy`)
//   engine.retry  how failed model calls are retried (model-call/retry.ts)

import type {
  Issue,
  Json,
  JsonObject,
  ReplayPolicy,
  ToolCall,
  ToolMessage,
  ToolProviderOptions,
  ToolSpec,
} from "../../model/internal.ts";
import type { CallerContext, ChatResult, MessageInput, Thread, WithText } from "../../model/internal.ts";
import type { Engine } from "../engine.ts";
import type { Rule, Rules } from "../option-rules.ts";
import type { ChatSettings } from "../run-options.ts";
import type { Directive } from "./directive.ts";
import type { AnySchema, JsonSchema, OutputSchema, StandardSchema } from "./schema.ts";

import { invalidArgument, orThrow, replayPolicies, toolSpec, validateTool } from "../../model/internal.ts";
import {
  aBoolean,
  aFunction,
  anything,
  aString,
  checkOptions,
  numberIn,
  objectOf,
  oneOf,
  positive,
} from "../option-rules.ts";
import { checkJsonSchema, checkStandard, isStandardSchema, toJsonSchema } from "./schema.ts";

/** A tool with its handler. `Context` is the part of the caller's context that the handler needs. */
export type Tool<Context extends CallerContext = CallerContext> = ToolSpec & {
  /** Whether the tool has a handler. A call without one is answered as not found, unless the tool is `manual`. */
  readonly hasHandler: boolean;
  /** The time limit of each attempt, in milliseconds; `null`: the limit of the run. */
  readonly timeoutMs: number | null;
  /**
   * Whether calls wait for an approval, for people. `sometimes`: a function decides for each call, which
   * `needsApproval` of the specification does not tell. Absent: as `needsApproval` says.
   */
  readonly approval?: "always" | "sometimes" | "never";
  /** Whether the calls of this tool in one run run together, or one at a time. */
  readonly concurrency: "parallel" | "serial";
  /** When a failed call is run again in the same process. */
  readonly retry: ToolRetryPolicy;
  /** Validates arguments and returns the call to run. */
  readonly prepare: (args: JsonObject) => Promise<PreparedCall<Context>>;
  /** Converts the handler's value for the model; `null`: the encoder of the run does. */
  readonly toModel: ((value: Json) => ToolMessage["content"]) | null;
  /**
   * Of a tool that runs another engine ({@link agentTool}): returns the tools of that engine. An approval of an inner
   * call is checked with them.
   */
  readonly agent?: () => readonly CheckableTool[];
};

/**
 * What a tool adds to {@link Tool} for the compiler: its name, the type of its arguments, and that of its result as a
 * page shows it. `~types` has no value.
 */
export type TypedTool<Name extends string, Input, Result> = {
  readonly name: Name;
  readonly "~types"?: { readonly input: Input; readonly output: ShownResult<Result> };
};

/** The value that a handler returns in the end: neither a promise, nor the progress of a generator, nor a directive. */
type ShownResult<Result> =
  Awaited<Result> extends AsyncGenerator<unknown, infer Value> | Generator<unknown, infer Value>
    ? ShownValue<Exclude<Value, Directive>>
    : ShownValue<Exclude<Awaited<Result>, Directive>>;

/** A page gets values that are no JSON object or list as text. */
type ShownValue<Value> = Value extends number | boolean | null | undefined ? string : Value;

/** What of a tool an approval is checked with: whether it can run, and whether it accepts the arguments. */
export type CheckableTool = Pick<Tool, "name" | "hasHandler" | "agent"> & {
  readonly prepare: (
    args: JsonObject,
  ) => Promise<{ readonly ok: true } | { readonly ok: false; readonly issues: readonly Issue[] }>;
};

/** A call with validated arguments, or the issues of its arguments. */
export type PreparedCall<Context extends CallerContext = CallerContext> =
  | {
      readonly ok: true;
      readonly needsApproval: (context: ToolContext<Context>) => boolean | Promise<boolean>;
      readonly run: (context: ToolContext<Context>) => unknown;
    }
  | { readonly ok: false; readonly issues: readonly Issue[] };

/** What a handler receives besides its arguments. */
export type ToolContext<Context extends CallerContext = CallerContext> = {
  /** The caller's context. */
  readonly context: Context;
  /** The id of the session; `null` outside a session. */
  readonly sessionId: string | null;
  /** The request id of the run, for logs. */
  readonly requestId: string;
  /** The call that is run. */
  readonly toolCall: ToolCall;
  /**
   * Identical for every attempt of this call, also after a crash. Pass it to the service that does the work, so that a
   * repeated call has one effect.
   */
  readonly idempotencyKey: string;
  /** The answer to the question that an earlier run of this call asked with `askAndResume`; `null`: it asked none. */
  readonly answer: ToolAnswer | null;
  /** Aborted when the turn is cancelled or the time limit is reached. */
  readonly signal: AbortSignal;
  /** Emits a progress event. A generator handler can yield instead. */
  readonly progress: (progress: Json) => void;
  /** Parts of the engine that runs the turn. */
  readonly engine: Pick<Engine, "model" | "instructions" | "params" | "metadata">;
  /** Runs a turn inside this one, with its signal. Its usage is added to this turn. */
  readonly runChild: RunChild;
};

/** The answer to a question that a handler asked with `askAndResume`. */
type ToolAnswer = {
  /** The text of the answer. */
  readonly text: string;
  /** The state that was stored with the question. */
  readonly state: Json;
};

/**
 * Runs a child turn inside a tool call. `output` of the result is the structured output, typed by the schema of the
 * option; `null` without one.
 */
export type RunChild = <C extends CallerContext, Output = Json>(
  engine: Engine<C>,
  input: string | Thread | readonly MessageInput[],
  options?: ChatSettings<C> & { readonly output?: OutputSchema<Output> },
) => Promise<WithText<ChatResult> & { readonly output: Output | null }>;

/**
 * How often a handler is run again after a failure that allows it: `fail("busy", { retry: { type: "safe", … } })`.
 * Exponential backoff without jitter.
 */
export type ToolRetryPolicy =
  | { readonly type: "never" }
  /**
   * `idempotent`: as `safe`, for work that the service deduplicates by the idempotency key, which every attempt shares.
   */
  | ({ readonly type: "safe" | "idempotent" } & {
      /** Attempts in total. */
      readonly maxAttempts: number;
      /**
       * The delay before the second attempt, in milliseconds. It doubles with each attempt. A delay that the failure
       * requests takes precedence.
       */
      readonly baseDelayMs: number;
      /** The longest delay, in milliseconds; 0: no limit. */
      readonly maxDelayMs: number;
    });

/**
 * The argument of {@link tool}, without the schema. `Result` is what the handler returns: a value, a directive, a
 * promise of either, or a generator that yields progress.
 */
export type ToolDefinition<Input = unknown, Context extends CallerContext = CallerContext, Result = unknown> = {
  /** The name that the model calls. */
  readonly name: string;
  /** Tells the model what the tool does. */
  readonly description: string;
  /** Runs a call. Without one the tool must be `manual`. */
  readonly handler?: (input: Input, context: ToolContext<Context>) => Result;
  /** `true`: the loop never runs the tool; it stops and leaves the call to the caller. Default: false. */
  readonly manual?: boolean;
  /** Whether a call must be approved before it runs: always, or as the function decides. Default: false. */
  readonly needsApproval?: boolean | ((input: Input, context: ToolContext<Context>) => boolean | Promise<boolean>);
  /**
   * What recovery does with a call that was running when the process died: `safe` runs it again, `never` answers
   * `outcome_unknown`, `ask` leaves it to a person. Default: `never`.
   */
  readonly replay?: ReplayPolicy;
  /** The time limit of each attempt, in milliseconds. Default: that of the run. */
  readonly timeoutMs?: number;
  /**
   * `serial`: the calls of this tool in one run are run one at a time, in the order in which they are ready; calls of
   * other tools are not affected. Default: `parallel`, limited by `maxConcurrency`.
   */
  readonly concurrency?: "parallel" | "serial";
  /** When a failed call is run again. Never by default. */
  readonly retry?: ToolRetryPolicy;
  /** Converts the handler's value, as JSON, to what the model sees. The program receives the value itself. */
  readonly toModel?: (value: Json) => ToolMessage["content"];
  /** The schema of the result, for models and prompts that can use it. */
  readonly outputSchema?: AnySchema;
  readonly metadata?: JsonObject;
  /**
   * Fields of a provider's API for the tool, by provider, for example `{ anthropic: { strict: true } }`. Sent to that
   * provider only.
   */
  readonly providerOptions?: ToolProviderOptions;
};

/** The type of the arguments that a schema accepts. */
type ToolInput<Schema extends AnySchema> = Schema extends StandardSchema<infer Output> ? Output : JsonObject;

const retryTypes: readonly unknown[] = ["never", "safe", "idempotent"];

const definitionRules: Rules<ToolDefinition<JsonObject, CallerContext, unknown> & { readonly schema: AnySchema }> = {
  name: { ...aString, required: true },
  description: { ...aString, required: true },
  schema: anything,
  handler: aFunction,
  manual: aBoolean,
  needsApproval: {
    must: "true, false or a function",
    fits: (value) => typeof value === "boolean" || typeof value === "function",
  },
  replay: oneOf(replayPolicies),
  timeoutMs: positive,
  concurrency: oneOf(["parallel", "serial"]),
  retry: {
    must: '{ type: "never" }, "safe" or "idempotent"',
    fits: (value) =>
      typeof value === "object" && value !== null && "type" in value && retryTypes.some((type) => type === value.type),
  },
  toModel: anything,
  outputSchema: anything,
  metadata: anything,
  providerOptions: anything,
};

const delay: Rule = { ...numberIn({ least: 0, whole: false }), required: true };

const backoffRules: Rules<Exclude<ToolRetryPolicy, { readonly type: "never" }>> = {
  type: anything,
  maxAttempts: { ...numberIn({ least: 1, whole: true }), required: true },
  baseDelayMs: delay,
  maxDelayMs: delay,
};

/**
 * Builds a tool. The arguments of the handler have the type of the schema: a Standard Schema that can be converted
 * to JSON Schema, or a plain JSON Schema. Throws `MisuseError` or `ValidationError` for an invalid definition.
 *
 * @example
 * ```ts
 * import { tool } from "everturn";
 *
 * const add = tool({
 *   name: "add",
 *   description: "Adds two numbers.",
 *   schema: { type: "object", properties: { a: { type: "number" }, b: { type: "number" } }, required: ["a", "b"] },
 *   handler: ({ a, b }) => Number(a) + Number(b),
 * });
 * add.name; // => "add"
 * ```
 */
export function tool<
  Schema extends AnySchema,
  Result = unknown,
  Context extends CallerContext = CallerContext,
  const Name extends string = string,
>(
  definition: ToolDefinition<NoInfer<ToolInput<Schema>>, Context, Result> & {
    readonly name: Name;
    readonly schema: Schema;
  },
): Tool<Context> & TypedTool<Name, ToolInput<Schema>, Result>;
export function tool<Output, Result, Context extends CallerContext>(
  definition:
    | (ToolDefinition<Output, Context, Result> & { readonly schema: StandardSchema<Output> })
    | (ToolDefinition<JsonObject, Context, Result> & { readonly schema: JsonSchema }),
): Tool<Context> {
  const { name, description, schema, manual = false, replay = "never", metadata = {} } = definition;
  const { timeoutMs = null, concurrency = "parallel", retry = { type: "never" }, handler, toModel = null } = definition;
  const caller = typeof name === "string" ? `tool ${JSON.stringify(name)}` : "tool";
  checkOptions(caller, definition, definitionRules);
  if (retry.type !== "never") checkOptions(caller, { retry }, { retry: objectOf(backoffRules) });
  const parameters = toJsonSchema(schema, caller);
  if (![parameters["type"] ?? "object"].flat().includes("object")) {
    const message = `${caller}: the schema is of type ${String(parameters["type"])}, but arguments are always an object; use an object with a field for the value`;
    throw invalidArgument(message, ["schema"]);
  }
  const spec = toolSpec({
    name,
    description,
    schema: parameters,
    outputSchema: definition.outputSchema === undefined ? null : toJsonSchema(definition.outputSchema, caller),
    manual,
    needsApproval: definition.needsApproval !== undefined && definition.needsApproval !== false,
    replay,
    metadata,
    ...(definition.providerOptions === undefined ? {} : { providerOptions: definition.providerOptions }),
  });
  orThrow(validateTool(spec));
  return {
    ...spec,
    hasHandler: handler !== undefined,
    timeoutMs,
    approval: approvalFrequency(definition.needsApproval ?? false),
    concurrency,
    retry,
    prepare: isStandard(definition)
      ? (args) => prepareStandard(definition, args)
      : (args) => preparePlain(definition, args),
    toModel,
  };
}

function approvalFrequency(needsApproval: unknown): NonNullable<Tool["approval"]> {
  return typeof needsApproval === "function" ? "sometimes" : needsApproval === false ? "never" : "always";
}

type Standard<Output, Context extends CallerContext, Result> = ToolDefinition<Output, Context, Result> & {
  readonly schema: StandardSchema<Output>;
};
type Plain<Context extends CallerContext, Result> = ToolDefinition<JsonObject, Context, Result> & {
  readonly schema: JsonSchema;
};

function isStandard<Output, Context extends CallerContext, Result>(
  definition: Standard<Output, Context, Result> | Plain<Context, Result>,
): definition is Standard<Output, Context, Result> {
  return isStandardSchema(definition.schema);
}

async function prepareStandard<Output, Context extends CallerContext, Result>(
  definition: Standard<Output, Context, Result>,
  args: JsonObject,
): Promise<PreparedCall<Context>> {
  const checked = await checkStandard(definition.schema, args);
  return checked.ok ? preparedCall(definition, checked.value) : checked;
}

async function preparePlain<Context extends CallerContext, Result>(
  definition: Plain<Context, Result>,
  args: JsonObject,
): Promise<PreparedCall<Context>> {
  const checked = await checkJsonSchema(definition.schema, args);
  return checked.ok ? preparedCall(definition, args) : checked;
}

function preparedCall<Input, Context extends CallerContext, Result>(
  { handler, needsApproval = false }: ToolDefinition<Input, Context, Result>,
  input: Input,
): PreparedCall<Context> {
  return {
    ok: true,
    needsApproval: (context) => (typeof needsApproval === "function" ? needsApproval(input, context) : needsApproval),
    run: (context) => handler?.(input, context),
  };
}

/** Returns the plain data of a tool: the part that is sent to the model and stored in the environment of a turn. */
export function specOf(tool: ToolSpec): ToolSpec {
  const { name, description, schema, outputSchema, manual, needsApproval, replay, metadata } = tool;
  const { providerTool, providerOptions } = tool;
  const spec = { name, description, schema, outputSchema, manual, needsApproval, replay, metadata };
  return {
    ...spec,
    ...(providerTool === undefined ? {} : { providerTool }),
    ...(providerOptions === undefined ? {} : { providerOptions }),
  };
}
