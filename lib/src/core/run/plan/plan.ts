// The plan of a run: every option resolved once, and every check made that needs no I/O.
//
// `planRun` runs when a verb is called, before the first event is requested (R4). Order: misuse (wrong arguments), a missing adapter, the thread, tools, the pinned configuration,
// prices for a cost budget, the request. For a durable turn that is continued, the pinned configuration is given, and checks that were made when the turn was accepted are
// skipped: they must not fail an open turn after a deploy.

import type {
  Adapter,
  AdapterOptions,
  AnySchema,
  Budgets,
  Catalog,
  ChatOptions,
  Clock,
  Engine,
  EngineProtocol,
  Fallback,
  Hooks,
  Middleware,
  OnToolError,
  OptionsWith,
  RetryPolicy,
  Sources,
  Tool,
  ToolExecutor,
  ToolResultEncoder,
} from "../../engine/internal.ts";
import type {
  CallAnswer,
  NamedProtocol,
  RequestConfig,
  TurnCause,
  TurnHistory,
  TurnInput,
} from "../../kernel/internal.ts";
import type {
  CallerContext,
  Json,
  JsonSchemaFormat,
  Message,
  MessageInput,
  ModelRequest,
  ProtocolEvent,
  ProviderTool,
  SuspendedCell,
  Thread,
  ToolMode,
  ToolSpec,
  TurnEvent,
  Usage,
} from "../../model/internal.ts";
import type { Pinned, PinnedName } from "./pinned.ts";

import {
  cellSettingsOf,
  checkedNumber,
  clientTools,
  defaultOf,
  hostedTools,
  isOwnProtocol,
  withCatalogData,
  missingCapabilities,
  pick,
  priceOf,
  projectorNamed,
  protocolNamed,
  resolveModel,
  resolveTools,
  retryPolicy,
  specOf,
  toJsonSchema,
  mergeAdapterOptions,
} from "../../engine/internal.ts";
import { turnInput, withoutForcedChoice } from "../../kernel/internal.ts";
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
import { newRequestId } from "../request-id.ts";
import {
  configOf,
  defaultCancelGraceMs,
  defaultMaxConcurrency,
  defaultMaxToolCalls,
  noLimit,
  pinnedProtocol,
} from "./pinned.ts";
import {
  checkCall,
  checkedBudgets,
  checkedOnToolError,
  checkFunctions,
  checkTypes,
  maxTurnsOf,
  requestParams,
} from "./plan-options.ts";

/** The input of a run: text, messages, or a thread. */
export type RunInput = string | Thread | readonly MessageInput[];

/** A run with all options resolved. */
export type Plan<Context extends CallerContext = CallerContext> = RunPlan & {
  readonly engine: Engine<Context>;
  readonly tools: readonly Tool<Context>[];
  readonly context: Context;
  readonly hooks: Hooks<Context>;
};

/** The part of a plan that does not depend on the type of the caller's context. */
export type RunPlan = {
  readonly verb: "generate" | "step" | "chat";
  readonly requestId: string;
  readonly sessionId: string | null;
  readonly thread: Thread;
  /** The configuration of the machine without its protocol, which follows from `pinned`. */
  readonly config: RequestConfig;
  /** The part of the configuration that is stored with a durable turn. */
  readonly pinned: Pinned;
  readonly input: TurnInput<Json>;
  readonly adapter: Adapter;
  /** Models to ask, in order, if the model fails. */
  readonly fallback: readonly Fallback[];
  /** Adds data to a model that `prepareStep` sets; `null`: none. */
  readonly catalog: Catalog | null;
  readonly retry: RetryPolicy;
  readonly adapterOptions: AdapterOptions;
  /** The key of the call; `null`: the adapter resolves one. It is never stored. */
  readonly apiKey: string | null;
  /** The tools as data, for requests. */
  readonly toolSpecs: readonly ToolSpec[];
  readonly loopHooks: LoopHooks;
  readonly protocol: EngineProtocol;
  /** The functions of a protocol of one's own; `null`: the turn has a built-in one, or the engine does not have its protocol. */
  readonly ownProtocol: NamedProtocol | null;
  /** What the turn was accepted with and the engine does not have: its protocol, its projector. Such a turn cannot run. Empty for a new turn. */
  readonly missing: readonly string[];
  /** The schema of structured output, and how often an invalid output is sent back to the model. */
  readonly output: { readonly schema: AnySchema; readonly repair: number } | null;
  readonly mode: ToolMode;
  /** Milliseconds for one attempt of a tool that has no limit of its own; `Infinity`: no limit. */
  readonly toolTimeout: number;
  /** Milliseconds that running tools have to answer after a cancel; 0: none. */
  readonly cancelGraceMs: number;
  /** Tool calls that run at once; `Infinity`: no limit. */
  readonly maxConcurrency: number;
  readonly maxToolCalls: number;
  readonly hideErrorsFromModel: boolean;
  /** Characters of each text of a tool result; longer texts are cut in the middle. */
  readonly maxToolResultLength: number;
  readonly onToolError: OnToolError;
  readonly toolExecutor: ToolExecutor | null;
  /** Encodes tool results for the model; `null`: as JSON. */
  readonly encode: ToolResultEncoder | null;
  readonly budgets: Budgets;
  /** The usage of the session before this run. Budgets of tokens and cost count it. */
  readonly spentBefore: Usage;
  readonly haltWhen: ChatOptions["haltWhen"] | null;
  readonly prepareStep: ChatOptions["prepareStep"] | null;
  readonly onCheckpoint: ChatOptions["onCheckpoint"] | null;
  readonly onEvent: ChatOptions["onEvent"] | null;
  /** Whether the adapter emits `raw_chunk` events. */
  readonly rawChunks: boolean;
  /** The filter for events of the reader; `null`: all. It never affects the result (R3). */
  readonly wanted: ((event: TurnEvent) => boolean) | null;
  readonly clock: Clock;
  readonly signal: AbortSignal | null;
  /** Wraps model calls and tool calls, the first one outermost. */
  readonly middleware: readonly Middleware[];
  /** The caller's context, for middleware of model calls. */
  readonly context: CallerContext;
};

/** The options that an engine's `options` cannot set. `planRun` reads no other option from the call alone. */
type CallOptions<Context extends CallerContext> = Pick<
  ChatOptions<Context>,
  OptionsWith<{ readonly engine: "field" | "no" }>
>;

/** Inputs of a plan that only some verbs have. */
export type PlanDetails = {
  readonly verb: Plan["verb"];
  /** The request of `generate`, if it was called with one. */
  readonly request?: ModelRequest;
  /** Options stored in a session. */
  readonly session?: Partial<ChatOptions>;
  readonly answers?: readonly CallAnswer[];
  readonly cell?: SuspendedCell | null;
  readonly turnId?: string;
  readonly spentBefore?: Usage;
  /** The records of protocols in earlier turns of the session. */
  readonly protocolEvents?: readonly ProtocolEvent[];
  /** The history of a stored session. It is used without copying and was validated when it was stored. */
  readonly history?: TurnHistory;
  readonly messages?: readonly Message[];
  readonly turnCauses?: readonly TurnCause[];
  /** The stored configuration of a turn that is continued. */
  readonly pinned?: Pinned;
  /** The kernel revision the turn was started under; by default the newest one. */
  readonly revision?: number;
};

/** Resolves and checks everything a run needs. Throws `MisuseError`, `EngineError` or `ValidationError`. */
export function planRun<Context extends CallerContext>(
  engine: Engine<Context>,
  runInput: RunInput,
  options: ChatOptions<Context>,
  details: PlanDetails,
): Plan<Context> {
  checkCall(engine, options);
  const { verb } = details;
  const call: CallOptions<Context> = options;
  const sources: Sources<ChatOptions<Context>> = [options, details.session, engine.options];
  // Misuse first.
  checkFunctions(sources);
  checkTypes(options);
  const maxTurns = maxTurnsOf(sources, engine.params);
  const onToolError = checkedOnToolError(pick(sources, "onToolError") ?? "continue");
  const { adapter } = engine;
  if (adapter === null) {
    throw new EngineError("missing_adapter", {
      message: "the engine has no adapter; pass one: engine({ adapter: … })",
    });
  }
  if (typeof adapter.stream !== "function") throw new EngineError("missing_stream_adapter");
  const thread = threadOf(runInput);
  const isNew = details.pinned === undefined;
  const resolvedTools = activeOnly(resolveTools(engine, call), pick(sources, "activeTools") ?? null, isNew);
  const requestId = call.requestId ?? newRequestId();
  const output = pick(sources, "output") ?? null;
  const { protocol } = engine;
  const pinned =
    details.pinned ??
    pin(engine, { adapter, tools: resolvedTools, maxTurns, onToolError, thread }, options, sources, details);
  const tools = withListedTools(resolvedTools, pinned.environment.tools);
  // A turn that is continued may be planned without its engine, to be ended only; its performer checks the executor.
  if (details.pinned === undefined) checkCellExecutor(engine, details.cell ?? null);
  const { limits } = pinned;
  const { protocol: usedProtocol, projector: usedProjector } = pinned;
  const ownProtocol = usedProtocol.type === "own" ? protocolNamed(protocol, usedProtocol) : null;
  const projector = usedProjector === null ? null : projectorNamed(engine.projector, usedProjector);
  const missing = [
    ...(usedProtocol.type === "own" && ownProtocol === null ? [nameOf("protocol", usedProtocol)] : []),
    ...(usedProjector !== null && projector === null ? [nameOf("projector", usedProjector)] : []),
  ];
  const config = configOf(pinned, projector, pick(sources, "sessionId") ?? "");
  const turnId = details.turnId ?? requestId;
  const input = turnInput<Json>(turnId, {
    ...(details.revision === undefined ? {} : { revision: details.revision }),
    // A copy: later changes of the caller to its array must not affect the run.
    history: details.history ?? [...thread.messages],
    events: (details.protocolEvents ?? []).flatMap(({ protocol: name, event }) =>
      usedProtocol.type === "own" && usedProtocol.name === name ? [event] : [],
    ),
    messages: details.messages ?? [],
    turnCauses: details.turnCauses ?? [],
    answers: details.answers ?? [],
    cell: details.cell ?? null,
  });
  const hooks = pick(sources, "hooks") ?? {};
  // `prepareStep` may set another model for the first step.
  if (details.pinned === undefined && !pinned.policy.syncEnvironment) {
    adapter.checkModel?.(config.model, modelRequest([], config.generation).options);
  }
  if (details.pinned === undefined) checkPrices(engine, config, limits.budgets);
  // A stored history was validated when it was stored.
  if (details.history === undefined) checkRequest(withAnswers(thread, details), config);
  const adapterOptions = mergeAdapterOptions(engine.adapterOptions, call.adapterOptions);
  adapter.checkOptions?.(adapterOptions);
  return {
    verb,
    pinned,
    requestId,
    sessionId: pick(sources, "sessionId") ?? null,
    thread,
    config,
    input,
    adapter,
    fallback: engine.fallback.map((entry) => fallbackWithCatalog(engine, entry)),
    catalog: engine.catalog,
    retry: retryPolicy(call.retry ?? engine.retry),
    adapterOptions,
    apiKey: call.apiKey ?? null,
    engine,
    tools,
    toolSpecs: tools.map(specOf),
    loopHooks: hooks,
    context: contextOf(engine, call.context),
    protocol,
    ownProtocol,
    missing,
    output: output === null ? null : { schema: output, repair: checkedNumber("repair", pick(sources, "repair") ?? 0) },
    mode: pinned.protocol.type === "chat" ? pinned.protocol.mode : "auto",
    toolTimeout: limits.toolTimeout ?? Number.POSITIVE_INFINITY,
    cancelGraceMs: limits.cancelGraceMs,
    maxConcurrency: limits.maxConcurrency ?? defaultMaxConcurrency,
    maxToolCalls: limits.maxToolCalls ?? defaultMaxToolCalls,
    hideErrorsFromModel: pick(sources, "hideErrorsFromModel") === true,
    maxToolResultLength: limits.maxToolResultLength,
    onToolError: limits.onToolError ?? onToolError,
    toolExecutor: pick(sources, "toolExecutor") ?? engine.toolExecutor,
    encode: pick(sources, "toolResultEncoder") ?? engine.toolResultEncoder,
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
    middleware: engine.middleware,
  };
}

/**
 * The tools with these names; `null`: all. A new run refuses a name that no tool has. A run that is continued may be planned without its engine's tools, to be
 * ended only.
 */
function activeOnly<Context extends CallerContext>(
  tools: readonly Tool<Context>[],
  names: readonly string[] | null,
  isNew: boolean,
): readonly Tool<Context>[] {
  if (names === null) return tools;
  const missing = names.find((name) => tools.every((tool) => tool.name !== name));
  if (isNew && missing !== undefined) {
    throw new MisuseError("invalid_argument", `activeTools: there is no tool ${JSON.stringify(missing)}`, {
      path: ["activeTools"],
    });
  }
  return tools.filter(({ name }) => names.includes(name));
}

/** Values that `planRun` has resolved before the configuration is pinned. */
type Resolved<Context extends CallerContext> = {
  readonly adapter: Adapter;
  readonly tools: readonly Tool<Context>[];
  readonly maxTurns: number;
  readonly onToolError: OnToolError;
  readonly thread: Thread;
};

/** Builds the pinned configuration of a new run. */
function pin<Context extends CallerContext>(
  engine: Engine<Context>,
  { adapter, tools, maxTurns, onToolError, thread }: Resolved<Context>,
  options: ChatOptions<Context>,
  sources: Sources<ChatOptions<Context>>,
  details: PlanDetails,
): Pinned {
  const { verb, request } = details;
  const { params, body } = requestParams(engine, request, options);
  const format =
    pick(sources, "responseFormat") ?? request?.responseFormat ?? formatOf(pick(sources, "output") ?? null);
  const model = resolveModel(engine, { model: options.model ?? request?.model ?? null });
  const listedTools = options.providerTools ?? providerToolsOf(request) ?? engine.options.providerTools ?? [];
  const ownSpecs =
    request === undefined ? tools.map(specOf) : request.tools.length > 0 ? request.tools : tools.map(specOf);
  const specs = [...ownSpecs, ...listedSpecs(ownSpecs, listedTools)];
  const probe = modelRequest([], { ...params, model, tools: specs, responseFormat: format });
  const wantsFinalize = pick(sources, "structuredFinalize") ?? adapter.needsFinalize?.(probe) ?? false;
  const finalize = verb === "chat" && wantsFinalize ? finalizeOf(sources, format) : null;
  const stopAfter = verb === "chat" ? null : verb === "step" ? "step" : "reply";
  const mode = pick(sources, "mode");
  if (mode !== undefined && mode !== "auto" && mode !== "manual") {
    throw new MisuseError("invalid_argument", `mode must be "auto" or "manual", not ${String(mode)}`, {
      path: ["mode"],
    });
  }
  const onUnknownTool = pick(sources, "onUnknownTool");
  const onEmptyReply = pick(sources, "onEmptyReply");
  const environment = {
    instructions: pick(sources, "instructions") ?? engine.instructions ?? "",
    model,
    tools: specs,
    providerTools: hostedTools(listedTools),
    params: {
      ...params,
      ...(format === null || finalize !== null ? {} : { responseFormat: { ...format } }),
      ...(Object.keys(body).length === 0 ? {} : { options: body }),
    },
  };
  if (isOwnProtocol(engine.protocol)) checkOwnOptions(engine.protocol.name, { mode, onUnknownTool, onEmptyReply });
  return {
    // `generate` is one call: its settings are those of the caller.
    environment: verb !== "generate" && isAnswered(thread, details) ? withoutForcedChoice(environment) : environment,
    policy: {
      syncEnvironment: pick(sources, "prepareStep") !== undefined && verb === "chat",
      startCheckpoint: pick(sources, "hooks")?.beforeTurn !== undefined && verb !== "generate",
      maxTurns: verb === "chat" ? maxTurns : null,
      maxContextTokens: model !== null && typeof model === "object" ? (model.limits?.context ?? null) : null,
      turnLimitFinalMessage: pick(sources, "turnLimitMessage") ?? null,
      structuredFinalize: finalize,
    },
    protocol: pinnedProtocol(engine.protocol, { mode, onUnknownTool, onEmptyReply }, stopAfter),
    projector: engine.projector === null ? null : { name: engine.projector.name, version: engine.projector.version },
    limits: {
      budgets: checkedBudgets(pick(sources, "budgets") ?? {}),
      toolTimeout: finite(checkedNumber("toolTimeout", pick(sources, "toolTimeout") ?? defaultOf("toolTimeout"))),
      cancelGraceMs: checkedNumber("cancelGraceMs", pick(sources, "cancelGraceMs") ?? defaultCancelGraceMs),
      maxConcurrency: limitOrDefault(sources, "maxConcurrency"),
      maxToolCalls: limitOrDefault(sources, "maxToolCalls"),
      maxToolResultLength: pick(sources, "maxToolResultLength") ?? defaultOf("maxToolResultLength"),
      onToolError: typeof onToolError === "function" ? null : onToolError,
    },
  };
}

/** The options of the built-in protocols have no effect on a protocol of one's own. Throws `MisuseError` if one is set: a caller would rely on it. */
function checkOwnOptions(protocol: string, options: { readonly [name: string]: unknown }): void {
  const name = Object.keys(options).find((option) => options[option] !== undefined);
  if (name === undefined) return;
  const instead = `a protocol that wraps the chat protocol sets it: chatProtocol({ ${name} })`;
  const message = `${name} is an option of the built-in protocols, which the protocol ${JSON.stringify(protocol)} does not read; ${instead}`;
  throw new MisuseError("invalid_argument", message, { path: [name] });
}

/** How a missing protocol or projector is reported, for example `protocol guess 1`. */
function nameOf(what: "protocol" | "projector", { name, version }: PinnedName): string {
  return `${what} ${name} ${version}`;
}

/**
 * Has the model replied since the last user message? Then the turn continues after a wait, and a forced tool choice has had its effect. The answer to a question of a tool is part of
 * the wait.
 */
function isAnswered({ messages }: Thread, details: PlanDetails): boolean {
  if ((details.turnCauses ?? []).length > 0) return false;
  const all = [...messages, ...(details.messages ?? [])];
  const last = all.findLastIndex(({ role }) => role === "user" || role === "event" || role === "assistant");
  if (all[last]?.role === "assistant") return true;
  const before = all[last - 1];
  return before?.role === "assistant" && before.metadata["askUser"] === true;
}

/**
 * The tools of the run, and those for provider tools that were listed without a handler and whose calls reach the program. They are built from the pinned
 * configuration, so that a turn which is continued after a deploy has them too.
 */
function withListedTools<Context extends CallerContext>(
  tools: readonly Tool<Context>[],
  specs: readonly ToolSpec[],
): readonly Tool<Context>[] {
  const listed = specs.filter(({ name }) => tools.every((tool) => tool.name !== name));
  return [...tools, ...clientTools(listed.flatMap(({ providerTool }) => providerTool ?? []))];
}

/** The specifications of provider tools that were listed without a handler and whose calls reach the program. */
function listedSpecs(specs: readonly ToolSpec[], listedTools: readonly ProviderTool[]): readonly ToolSpec[] {
  const listed = clientTools(listedTools).map(specOf);
  const repeated = listed.find(({ name }) => specs.some((spec) => spec.name === name));
  if (repeated === undefined) return listed;
  throw new MisuseError(
    "invalid_argument",
    `the tool "${repeated.name}" is in tools and in providerTools; build one tool: providerTool({ provider, name, options, handler })`,
    { path: ["providerTools"] },
  );
}

/** The provider tools of a request; `null` if it has none, so that those of the engine apply. */
function providerToolsOf(request: ModelRequest | undefined): ModelRequest["providerTools"] | null {
  return request === undefined || request.providerTools.length === 0 ? null : request.providerTools;
}

/** The stored form of a limit: `null` if no source sets it. */
function limitOrDefault<Context extends CallerContext>(
  sources: Sources<ChatOptions<Context>>,
  name: "maxConcurrency" | "maxToolCalls",
): number | null {
  const value = pick(sources, name);
  return value === undefined ? null : Math.min(checkedNumber(name, value), noLimit);
}

/** The number, or `null` for `Infinity`, which JSON does not have. */
function finite(value: number): number | null {
  return Number.isFinite(value) ? value : null;
}

/** A fallback with the data (limits, prices, capabilities) that the catalog of the engine has about its model. */
function fallbackWithCatalog<Context extends CallerContext>(
  { catalog, adapter }: Engine<Context>,
  entry: Fallback,
): Fallback {
  return isPair(entry)
    ? { ...entry, model: withCatalogData(entry.model, entry.adapter.provider, catalog) }
    : withCatalogData(entry, adapter?.provider ?? null, catalog);
}

/** The hooks that do not depend on the context type of the engine. */
type LoopHooks = Pick<Hooks, "beforeTurn" | "afterTurn" | "beforeStep" | "afterStep">;

/** The event filter of the options. It is applied when events are handed to the reader, so it cannot change the result (R3). */
function wantedOf<Context extends CallerContext>(sources: Sources<ChatOptions<Context>>): RunPlan["wanted"] {
  const unwanted = new Set<TurnEvent["type"]>();
  if (pick(sources, "emitTextDeltas") === false) unwanted.add("text_delta");
  if (pick(sources, "emitToolDeltas") === false) unwanted.add("tool_call_delta");
  if (pick(sources, "includeRawChunks") !== true) unwanted.add("raw_chunk");
  return ({ type }) => !unwanted.has(type);
}

/** The context of the call; the context of the engine if that is absent or empty. */
function contextOf<Context extends CallerContext>(engine: Engine<Context>, context: Context | undefined): Context {
  return context === undefined || Object.keys(context).length === 0 ? engine.context : context;
}

/** The input of a run as a thread. Throws `ValidationError` for anything but text, messages or a thread. */
function threadOf(input: RunInput): Thread {
  if (typeof input === "string") return fromMessages([user(input)]);
  if (Array.isArray(input)) return checkedThread(() => fromMessages(input));
  if (typeof input === "object" && input !== null && "messages" in input && Array.isArray(input.messages)) return input;
  const issues = [{ path: ["thread"], code: "invalid_type" as const, message: "must be text, messages or a thread" }];
  throw new ValidationError("invalid_thread", { issues });
}

/** Reports invalid messages as `invalid_thread` instead of misuse: a thread is often data from outside the program. */
function checkedThread(make: () => Thread): Thread {
  try {
    return make();
  } catch (error) {
    if (!(error instanceof MisuseError)) throw error;
    const issues = [{ path: ["messages", ...error.path], code: "invalid_type" as const, message: error.message }];
    throw new ValidationError("invalid_thread", { issues, cause: error });
  }
}

/** The thread with an empty result for each answered call, so that the validation finds no open call. Calls of a suspended cell are not in the thread. */
function withAnswers(thread: Thread, { answers = [], cell = null }: PlanDetails): Thread {
  const cellCallIds = new Set(cell?.calls.map(({ call }) => call.id) ?? []);
  const threadAnswers = answers.filter(({ call }) => !cellCallIds.has(call.id));
  return {
    ...thread,
    messages: [...thread.messages, ...threadAnswers.map(({ call }) => toolResult(call.id, "", { name: call.name }))],
  };
}

/** Validates the thread and the first request, and the capabilities of the model as far as they are known. */
function checkRequest(thread: Thread, config: RequestConfig): void {
  orThrow(validateThread(thread));
  const { systemPrompt, toolSpecs, generation, model } = config;
  const probe = modelRequest(thread.messages, { ...generation, tools: toolSpecs, model });
  const valid = validateRequest(probe);
  if (!valid.ok && !(thread.messages.length === 0 && systemPrompt !== "")) throw errorFromFailure(valid.failure);
  const issues = missingCapabilities(model, probe);
  if (issues.length > 0) throw new ValidationError("unsupported_capability", { issues });
}

/** A suspended cell is resumed by the code executor of the engine. Throws `invalid_engine` before anything runs if the engine has none (Q5). */
function checkCellExecutor<Context extends CallerContext>(
  { protocol }: Engine<Context>,
  cell: SuspendedCell | null,
): void {
  if (cell === null || cellSettingsOf(protocol) !== null) return;
  const message = `the session has a suspended code cell (${cell.id}), and the engine has no code executor: use an engine with the code protocol`;
  throw new EngineError("invalid_engine", { message, metadata: { cellId: cell.id } });
}

function formatOf(output: AnySchema | null): JsonSchemaFormat | null {
  if (output === null) return null;
  return { type: "json_schema", name: "output", schema: toJsonSchema(output, "output"), strict: true };
}

function finalizeOf<Context extends CallerContext>(
  sources: Sources<ChatOptions<Context>>,
  format: ModelRequest["responseFormat"],
): RequestConfig["structuredFinalize"] {
  if (format === null || format.type === "text") {
    const message = "structuredFinalize needs output, or a responseFormat of type json_schema or json_object";
    const issues = [{ path: ["structuredFinalize"], code: "requires_json_schema" as const, message }];
    throw new ValidationError("invalid_request", { issues });
  }
  return { format, nudge: pick(sources, "structuredFinalizeNudge") ?? defaultOf("structuredFinalizeNudge") };
}

/** A cost budget cannot be enforced for a model of unknown price. Throws `unknown_price` before the first call, for the model and all fallbacks (Q12). */
function checkPrices<Context extends CallerContext>(
  engine: Engine<Context>,
  { model }: RequestConfig,
  budgets: Budgets,
): void {
  if (budgets.cost === undefined) return;
  const fallback = engine.fallback.map((entry) => fallbackWithCatalog(engine, entry));
  const models = [model, ...fallback.map((entry) => (isPair(entry) ? entry.model : entry))];
  const unpriced = models.find((name) => priceOf(name) === null);
  if (unpriced === undefined) return;
  const name = typeof unpriced === "string" ? unpriced : (unpriced?.id ?? "no model");
  throw errorFromFailure(
    engineFailure("unknown_price", {
      message: `budgets.cost needs the price of every model that may be called, and the price of ${name} is not known`,
    }),
  );
}

/** Is this fallback an adapter with a model, and not only a model? */
export function isPair(fallback: Fallback): fallback is Extract<Fallback, { readonly adapter: Adapter }> {
  return typeof fallback === "object" && "adapter" in fallback;
}
