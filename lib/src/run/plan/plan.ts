// What a run is about to do: every option resolved, once, and everything checked that can be checked before anything happens.

import type {
  Adapter,
  AnySchema,
  Budgets,
  ChatOptions,
  Clock,
  Engine,
  EngineProtocol,
  Fallback,
  Hooks,
  OnToolError,
  OptionsWith,
  RetryPolicy,
  Sources,
  Tool,
  ToolExecutor,
  ToolResultEncoder,
} from "../../engine/internal.ts";
import type { CallAnswer, TurnCause, TurnHistory, TurnInput, TurnMachineConfig } from "../../kernel/internal.ts";
import type {
  CallerContext,
  JsonObject,
  JsonSchemaFormat,
  Message,
  MessageInput,
  ModelName,
  ModelRequest,
  SuspendedCell,
  Thread,
  ToolMode,
  ToolSpec,
  TurnEvent,
  Usage,
} from "../../model/internal.ts";
import type { Pinned } from "./pinned.ts";

import {
  checkedNumber,
  defaultOf,
  withCatalogData,
  missingCapabilities,
  pick,
  priceOf,
  resolveModel,
  resolveTools,
  retryPolicy,
  specOf,
  toJsonSchema,
} from "../../engine/internal.ts";
import { turnInput } from "../../kernel/internal.ts";
import {
  engineFailure,
  EngineError,
  errorFromFailure,
  fromMessages,
  MisuseError,
  noUsage,
  orThrow,
  request as modelRequest,
  toolResult,
  user,
  ValidationError,
  validateRequest,
  validateThread,
} from "../../model/internal.ts";
import { encodeAsJson } from "../perform/encode-result.ts";
import { newRequestId } from "../request-id.ts";
import { configOf, pinnedProtocol } from "./pinned.ts";
import { checkCall, checkedBudgets, checkedOnToolError, maxTurnsOf, requestParams } from "./plan-options.ts";

/** The input of a run: text, messages, or a thread. */
export type RunInput = string | Thread | readonly MessageInput[];

/** A run with nothing left open. */
export type Plan<Context extends CallerContext = CallerContext> = RunPlan & {
  readonly engine: Engine<Context>;
  readonly tools: readonly Tool<Context>[];
  readonly context: Context;
  readonly hooks: Hooks<Context>;
};

/** The part of it that knows nothing of the caller's context. */
export type RunPlan = {
  readonly verb: "generate" | "step" | "chat";
  readonly requestId: string;
  readonly sessionId: string | null;
  readonly thread: Thread;
  readonly config: TurnMachineConfig;
  /** The part of the configuration that a durable turn keeps to its end. */
  readonly pinned: Pinned;
  readonly input: TurnInput;
  readonly adapter: Adapter;
  readonly fallback: readonly Fallback[];
  readonly retry: RetryPolicy;
  readonly adapterOptions: JsonObject;
  readonly apiKey: string | null;
  readonly toolSpecs: readonly ToolSpec[];
  readonly stepHooks: Pick<Hooks, "beforeStep" | "afterStep">;
  readonly protocol: EngineProtocol;
  readonly output: { readonly schema: AnySchema; readonly repair: number } | null;
  readonly mode: ToolMode;
  readonly toolTimeout: number;
  readonly maxConcurrency: number;
  readonly maxToolResultLength: number;
  readonly onToolError: OnToolError;
  readonly toolExecutor: ToolExecutor | null;
  readonly encode: ToolResultEncoder;
  readonly budgets: Budgets;
  /** What the session had cost before this run: its budgets of tokens and cost go on. */
  readonly spentBefore: Usage;
  readonly haltWhen: ChatOptions["haltWhen"] | null;
  readonly prepareStep: ChatOptions["prepareStep"] | null;
  readonly onCheckpoint: ChatOptions["onCheckpoint"] | null;
  readonly onEvent: ChatOptions["onEvent"] | null;
  readonly rawChunks: boolean;
  /** Which events a reader wants to see; `null`: all. */
  readonly wanted: ((event: TurnEvent) => boolean) | null;
  readonly clock: Clock;
  readonly signal: AbortSignal | null;
};

/** The options that an engine's `options` cannot set. `planRun` reads no other option from the call alone. */
type CallOptions<Context extends CallerContext> = Pick<
  ChatOptions<Context>,
  OptionsWith<{ readonly engine: "field" | "no" }>
>;

/** What only some verbs know. */
export type PlanDetails = {
  readonly verb: Plan["verb"];
  /** What a request of its own says, for verbs that take one. */
  readonly request?: ModelRequest;
  /** What a session says. */
  readonly session?: Partial<ChatOptions>;
  readonly answers?: readonly CallAnswer[];
  readonly cell?: SuspendedCell | null;
  readonly turnId?: string;
  readonly spentBefore?: Usage;
  /** What was said before, where that is a history already: it is taken as it is. */
  readonly history?: TurnHistory;
  readonly messages?: readonly Message[];
  readonly turnCauses?: readonly TurnCause[];
  /** What the turn was pinned to when it began. */
  readonly pinned?: Pinned;
  /** The kernel revision the turn was started under; by default the newest one. */
  readonly revision?: number;
};

export function planRun<Context extends CallerContext>(
  engine: Engine<Context>,
  given: RunInput,
  options: ChatOptions<Context>,
  details: PlanDetails,
): Plan<Context> {
  checkCall(engine, options);
  const { verb } = details;
  const call: CallOptions<Context> = options;
  const sources: Sources<ChatOptions<Context>> = [options, details.session, engine.options];
  // Misuse first.
  const maxTurns = maxTurnsOf(sources, engine.params);
  const onToolError = checkedOnToolError(pick(sources, "onToolError") ?? "continue");
  const { adapter } = engine;
  if (adapter === null) {
    throw new EngineError("missing_adapter", {
      message: "the engine has no adapter; give it one: engine({ adapter: … })",
    });
  }
  if (typeof adapter.stream !== "function") throw new EngineError("missing_stream_adapter");
  const thread = threadOf(given);
  const tools = resolveTools(engine, call);
  const requestId = call.requestId ?? newRequestId();
  const output = pick(sources, "output") ?? null;
  const { protocol } = engine;
  const pinned = details.pinned ?? pin(engine, { adapter, tools, maxTurns, onToolError }, options, sources, details);
  const { limits } = pinned;
  const config = configOf(pinned, pick(sources, "sessionId") ?? "");
  const turnId = details.turnId ?? requestId;
  const input = turnInput(turnId, {
    ...(details.revision === undefined ? {} : { revision: details.revision }),
    // A copy: what is done to the caller's list after the verb was called is not part of the run.
    history: details.history ?? [...thread.messages],
    messages: details.messages ?? [],
    turnCauses: details.turnCauses ?? [],
    answers: details.answers ?? [],
    cell: details.cell ?? null,
  });
  const hooks = pick(sources, "hooks") ?? {};
  if (details.pinned === undefined) checkPrices(engine, config, limits.budgets);
  // What a store has kept was looked at when it came in.
  if (details.history === undefined) checkRequest(withAnswers(thread, details), config);
  return {
    verb,
    pinned,
    requestId,
    sessionId: pick(sources, "sessionId") ?? null,
    thread,
    config,
    input,
    adapter,
    fallback: engine.fallback.map((one) => (isPair(one) ? one : (known(engine, one) ?? one))),
    retry: retryPolicy(call.retry ?? engine.retry),
    adapterOptions: { ...engine.adapterOptions, ...call.adapterOptions },
    apiKey: call.apiKey ?? null,
    engine,
    tools,
    toolSpecs: tools.map(specOf),
    stepHooks: stepHooksOf(hooks),
    context: contextOf(engine, call.context),
    protocol,
    output: output === null ? null : { schema: output, repair: checkedNumber("repair", pick(sources, "repair") ?? 0) },
    mode: pinned.protocol.type === "chat" ? pinned.protocol.mode : "auto",
    toolTimeout: limits.toolTimeout ?? Number.POSITIVE_INFINITY,
    maxConcurrency: limits.maxConcurrency ?? Number.POSITIVE_INFINITY,
    maxToolResultLength: limits.maxToolResultLength,
    onToolError: limits.onToolError ?? onToolError,
    toolExecutor: pick(sources, "toolExecutor") ?? engine.toolExecutor,
    encode: pick(sources, "toolResultEncoder") ?? engine.toolResultEncoder ?? encodeAsJson,
    hooks,
    budgets: limits.budgets,
    spentBefore: details.spentBefore ?? noUsage,
    haltWhen: pick(sources, "haltWhen") ?? null,
    prepareStep: pick(sources, "prepareStep") ?? null,
    onCheckpoint: pick(sources, "onCheckpoint") ?? null,
    onEvent: call.onEvent ?? null,
    rawChunks: pick(sources, "includeRawChunks") ?? false,
    wanted: wantedOf(sources),
    clock: engine.clock,
    signal: call.signal ?? null,
  };
}

/** What has been looked at already. */
type Resolved<Context extends CallerContext> = {
  readonly adapter: Adapter;
  readonly tools: readonly Tool<Context>[];
  readonly maxTurns: number;
  readonly onToolError: OnToolError;
};

/** What a run with these settings is pinned to. */
function pin<Context extends CallerContext>(
  engine: Engine<Context>,
  { adapter, tools, maxTurns, onToolError }: Resolved<Context>,
  options: ChatOptions<Context>,
  sources: Sources<ChatOptions<Context>>,
  { verb, request }: PlanDetails,
): Pinned {
  const { params, body } = requestParams(engine, request, options);
  const format =
    pick(sources, "responseFormat") ?? request?.responseFormat ?? formatOf(pick(sources, "output") ?? null);
  const model = known(engine, resolveModel(engine, { model: options.model ?? request?.model ?? null }));
  const specs =
    request === undefined ? tools.map(specOf) : request.tools.length > 0 ? request.tools : tools.map(specOf);
  const probe = modelRequest([], { ...params, model, tools: specs, responseFormat: format });
  const wantsFinalize = pick(sources, "structuredFinalize") ?? adapter.needsFinalize?.(probe) ?? false;
  const finalize = verb === "chat" && wantsFinalize ? finalizeOf(sources, format) : null;
  const stopAfter = verb === "chat" ? null : verb === "step" ? "step" : "reply";
  const mode = pick(sources, "mode");
  if (mode !== undefined && mode !== "auto" && mode !== "manual") {
    throw new MisuseError("invalid_argument", `mode has to be "auto" or "manual", not ${String(mode)}`, {
      path: ["mode"],
    });
  }
  const onUnknownTool = pick(sources, "onUnknownTool");
  const onEmptyReply = pick(sources, "onEmptyReply");
  return {
    environment: {
      instructions: pick(sources, "instructions") ?? engine.instructions ?? "",
      model,
      tools: specs,
      providerTools: options.providerTools ?? saidOf(request) ?? engine.options.providerTools ?? [],
      params: {
        ...params,
        ...(format === null || finalize !== null ? {} : { responseFormat: { ...format } }),
        ...(Object.keys(body).length === 0 ? {} : { options: body }),
      },
    },
    policy: {
      syncEnvironment: pick(sources, "prepareStep") !== undefined && verb === "chat",
      maxTurns: verb === "chat" ? maxTurns : null,
      maxContextTokens: model !== null && typeof model === "object" ? (model.limits?.context ?? null) : null,
      turnLimitFinalMessage: pick(sources, "turnLimitMessage") ?? null,
      structuredFinalize: finalize,
    },
    protocol: pinnedProtocol(engine.protocol, { mode, onUnknownTool, onEmptyReply }, stopAfter),
    limits: {
      budgets: checkedBudgets(pick(sources, "budgets") ?? {}),
      toolTimeout: finite(checkedNumber("toolTimeout", pick(sources, "toolTimeout") ?? defaultOf("toolTimeout"))),
      maxConcurrency: finite(
        checkedNumber("maxConcurrency", pick(sources, "maxConcurrency") ?? Number.POSITIVE_INFINITY),
      ),
      maxToolResultLength: pick(sources, "maxToolResultLength") ?? defaultOf("maxToolResultLength"),
      onToolError: typeof onToolError === "function" ? null : onToolError,
    },
  };
}

/** Tools of the provider's own that a request names, if it names any. */
function saidOf(request: ModelRequest | undefined): ModelRequest["providerTools"] | null {
  return request === undefined || request.providerTools.length === 0 ? null : request.providerTools;
}

/** The number, or `null` for one without end, which JSON does not have. */
function finite(value: number): number | null {
  return Number.isFinite(value) ? value : null;
}

/** A model with what the engine's catalog knows about it. */
function known<Context extends CallerContext>(
  { catalog, adapter }: Engine<Context>,
  model: ModelName | null,
): ModelName | null {
  return catalog === null ? model : withCatalogData(model, adapter?.provider ?? null, catalog);
}

function stepHooksOf({ beforeStep, afterStep }: Pick<Hooks, "beforeStep" | "afterStep">): RunPlan["stepHooks"] {
  return { ...(beforeStep === undefined ? {} : { beforeStep }), ...(afterStep === undefined ? {} : { afterStep }) };
}

/** What a reader does not want to see is left out at the reader's edge, where it changes no result. */
function wantedOf<Context extends CallerContext>(sources: Sources<ChatOptions<Context>>): RunPlan["wanted"] {
  const unwanted = new Set<TurnEvent["type"]>();
  if (pick(sources, "emitTextDeltas") === false) unwanted.add("text_delta");
  if (pick(sources, "emitToolDeltas") === false) unwanted.add("tool_call_delta");
  if (pick(sources, "includeRawChunks") !== true) unwanted.add("raw_chunk");
  return ({ type }) => !unwanted.has(type);
}

/** An absent or empty context of the call falls through to the engine's. */
function contextOf<Context extends CallerContext>(engine: Engine<Context>, given: Context | undefined): Context {
  return given === undefined || Object.keys(given).length === 0 ? engine.context : given;
}

function threadOf(given: RunInput): Thread {
  if (typeof given === "string") return fromMessages([user(given)]);
  if (Array.isArray(given)) return checkedThread(() => fromMessages(given));
  if (typeof given === "object" && given !== null && "messages" in given && Array.isArray(given.messages)) return given;
  const issues = [{ path: ["thread"], code: "invalid_type" as const, message: "must be text, messages or a thread" }];
  throw new ValidationError("invalid_thread", { issues });
}

/** Messages that are no messages are what makes a thread invalid, not a bug of whoever passed them on. */
function checkedThread(make: () => Thread): Thread {
  try {
    return make();
  } catch (error) {
    if (!(error instanceof MisuseError)) throw error;
    const issues = [{ path: ["messages", ...error.path], code: "invalid_type" as const, message: error.message }];
    throw new ValidationError("invalid_thread", { issues, cause: error });
  }
}

/** The thread as it will be once what was said to its open calls is in it. */
function withAnswers(thread: Thread, { answers = [], cell = null }: PlanDetails): Thread {
  const ofCell = new Set(cell?.calls.map(({ call }) => call.id) ?? []);
  const given = answers.filter(({ call }) => !ofCell.has(call.id));
  return {
    ...thread,
    messages: [...thread.messages, ...given.map(({ call }) => toolResult(call.id, "", { name: call.name }))],
  };
}

function checkRequest(thread: Thread, config: TurnMachineConfig): void {
  orThrow(validateThread(thread));
  const { systemPrompt, toolSpecs, generation, model } = config;
  const probe = modelRequest(thread.messages, { ...generation, tools: toolSpecs, model });
  const valid = validateRequest(probe);
  if (!valid.ok && !(thread.messages.length === 0 && systemPrompt !== "")) throw errorFromFailure(valid.failure);
  const issues = missingCapabilities(model, probe);
  if (issues.length > 0) throw new ValidationError("unsupported_capability", { issues });
}

function formatOf(output: AnySchema | null): JsonSchemaFormat | null {
  if (output === null) return null;
  return { type: "json_schema", name: "output", schema: toJsonSchema(output, "output"), strict: true };
}

function finalizeOf<Context extends CallerContext>(
  sources: Sources<ChatOptions<Context>>,
  format: ModelRequest["responseFormat"],
): TurnMachineConfig["structuredFinalize"] {
  if (format === null || format.type !== "json_schema") {
    const message = "structuredFinalize needs a schema to answer in: output, or a json_schema responseFormat";
    const issues = [{ path: ["structuredFinalize"], code: "requires_json_schema" as const, message }];
    throw new ValidationError("invalid_request", { issues });
  }
  return { format, nudge: pick(sources, "structuredFinalizeNudge") ?? defaultOf("structuredFinalizeNudge") };
}

/** A cost budget with a model of unknown price could never be kept: that is the caller's to know before the first call. */
function checkPrices<Context extends CallerContext>(
  engine: Engine<Context>,
  { model }: TurnMachineConfig,
  budgets: Budgets,
): void {
  if (budgets.cost === undefined) return;
  const models = [model, ...engine.fallback.map((one) => known(engine, isPair(one) ? one.model : one))];
  const unpriced = models.find((name) => priceOf(name) === null);
  if (unpriced === undefined) return;
  const name = typeof unpriced === "string" ? unpriced : (unpriced?.id ?? "no model");
  throw errorFromFailure(
    engineFailure("unknown_price", {
      message: `a cost budget needs the price of every model that may be asked; that of ${name} is not known`,
    }),
  );
}

/** Is this fallback an adapter with its model? */
export function isPair(fallback: Fallback): fallback is Extract<Fallback, { readonly adapter: Adapter }> {
  return typeof fallback === "object" && "adapter" in fallback;
}
