// The plan of a run: every option resolved once, and every check made that needs no I/O.
//
// `planRun` runs when a verb is called, before the first event is requested (R4). Order: misuse (wrong arguments), a
// missing adapter, the thread, tools, the pinned configuration, prices for a cost budget, the request. For a durable
// turn that is continued, the pinned configuration is given, and checks that were made when the turn was accepted are
// skipped: they must not fail an open turn after a deploy.

import type {
  Adapter,
  AdapterOptions,
  AnySchema,
  ChatOptions,
  Engine,
  Fallback,
  Hooks,
  OptionsWith,
  RetryPolicy,
  Tool,
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
  ContextWindow,
  Json,
  Message,
  MessageInput,
  ModelName,
  ModelRequest,
  ProtocolEvent,
  SuspendedCell,
  Thread,
  ToolSpec,
  TurnEvent,
  Usage,
} from "../../model/internal.ts";
import type { Limits, Pinned, PinnedName } from "./pinned.ts";

import {
  cellSettingsOf,
  clientTools,
  withCatalogData,
  mergeAdapterOptions,
  missingCapabilities,
  priceOf,
  projectorNamed,
  protocolNamed,
  resolveTools,
  retryPolicy,
  specOf,
} from "../../engine/internal.ts";
import { kernelRevision, turnInput } from "../../kernel/internal.ts";
import {
  engineFailure,
  EngineError,
  errorFromFailure,
  fromMessages,
  invalidArgument,
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
import { pin } from "./pin.ts";
import { configOf, limitsOf } from "./pinned.ts";
import { checkCall, checkValues, resolvedOptions } from "./plan-options.ts";

/** The input of a run: text, a message, messages, or a thread. */
export type RunInput = string | MessageInput | readonly MessageInput[] | Thread;

/** A run with all options resolved. */
export type Plan<Context extends CallerContext = CallerContext> = RunPlan & {
  readonly engine: Engine<Context>;
  readonly tools: readonly Tool<Context>[];
  readonly context: Context;
  readonly hooks: Hooks<Context>;
};

/** The part of a plan that does not depend on the type of the caller's context. */
export type RunPlan = Pick<Engine, "catalog" | "clock" | "contextPolicy" | "middleware" | "protocol"> & {
  readonly verb: "generate" | "step" | "chat";
  readonly requestId: string;
  readonly sessionId: string | null;
  readonly thread: Thread;
  /** The configuration that is data. It is stored with a durable turn. */
  readonly pinned: Pinned;
  /** The configuration of the machine, from `pinned`, without its protocol. */
  readonly config: RequestConfig;
  /** The limits of `pinned`, with the defaults of this release. */
  readonly limits: Limits;
  /** The options that are not data, and those that each process resolves again. */
  readonly options: Pick<ChatOptions, ResolvedOption>;
  readonly input: TurnInput<Json>;
  readonly adapter: Adapter;
  /** Models to ask, in order, if the model fails. */
  readonly fallback: readonly Fallback[];
  readonly retry: RetryPolicy;
  readonly adapterOptions: AdapterOptions;
  /** The key of the call; `null`: the adapter resolves one. It is never stored. */
  readonly apiKey: string | null;
  /** The tools as data, for requests. */
  readonly toolSpecs: readonly ToolSpec[];
  readonly hooks: Pick<Hooks, "beforeTurn" | "afterTurn" | "beforeStep" | "afterStep">;
  /**
   * The functions of a protocol of one's own; `null`: the turn has a built-in one, or the engine does not have its
   * protocol.
   */
  readonly ownProtocol: NamedProtocol | null;
  /**
   * What the turn was accepted with and the engine does not have: its protocol, its projector. Such a turn cannot run.
   * Empty for a new turn.
   */
  readonly missing: readonly string[];
  /** The schema of structured output, and how often an invalid output is sent back to the model. */
  readonly output: { readonly schema: AnySchema; readonly repair: number } | null;
  /** The usage of the session before this run. Budgets of tokens and cost count it. */
  readonly spentBefore: Usage;
  /** The filter for events of the reader. It never affects the result (R3). */
  readonly wanted: (event: TurnEvent) => boolean;
  /** The caller's context, for middleware of model calls. */
  readonly context: CallerContext;
};

/** The options that are not pinned, without those that a plan has in another form. */
type ResolvedOption = Exclude<
  OptionsWith<{ readonly pinned: "no" }>,
  "adapterOptions" | "apiKey" | "context" | "hooks" | "repair" | "requestId" | "retry" | "sessionId"
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
  /** What requests leave out of the history, as the session has it. Default: nothing. */
  readonly contextWindow?: ContextWindow | null;
};

/** Resolves and checks everything a run needs. Throws `MisuseError`, `EngineError` or `ValidationError`. */
export function planRun<Context extends CallerContext>(
  engine: Engine<Context>,
  runInput: RunInput,
  callOptions: ChatOptions<Context>,
  details: PlanDetails,
): Plan<Context> {
  // Misuse first.
  checkCall(engine, callOptions);
  const isNew = details.pinned === undefined;
  const options = resolvedOptions(engine, callOptions, details.session ?? {});
  checkValues(options, isNew);
  const { adapter, catalog, clock, contextPolicy, middleware, protocol } = engine;
  if (adapter === null) {
    throw new EngineError("missing_adapter", {
      message: "the engine has no adapter; pass one: engine({ adapter: … })",
    });
  }
  if (typeof adapter.stream !== "function") throw new EngineError("missing_stream_adapter");
  const thread = threadOf(runInput);
  const resolvedTools = activeOnly(resolveTools(engine, callOptions), options.activeTools ?? null, isNew);
  const pinned =
    details.pinned ?? pin(engine, { callOptions, options, adapter, tools: resolvedTools, thread, ...details });
  const tools = withListedTools(resolvedTools, pinned.environment.tools);
  const { protocol: usedProtocol, projector: usedProjector } = pinned;
  const ownProtocol = usedProtocol.type === "own" ? protocolNamed(protocol, usedProtocol) : null;
  const projector = usedProjector === null ? null : projectorNamed(engine.projector, usedProjector);
  const missing = [
    ...(usedProtocol.type === "own" && ownProtocol === null ? [versionedName("protocol", usedProtocol)] : []),
    ...(usedProjector !== null && projector === null ? [versionedName("projector", usedProjector)] : []),
  ];
  const { requestId = newRequestId(), sessionId = null, hooks = {}, output, repair = 0 } = options;
  const config = configOf(pinned, projector, sessionId ?? "");
  const limits = limitsOf(pinned, options.onToolError);
  const fallback = engine.fallback.map((entry) => fallbackWithCatalog(engine, entry));
  // A turn that is continued may be planned without its engine, to be ended only.
  if (isNew) {
    checkCellExecutor(engine, details.cell ?? null);
    // `prepareStep` may set another model for the first step.
    if (!pinned.policy.syncEnvironment) {
      adapter.checkModel?.(config.model, modelRequest([], config.generation).options);
    }
    checkPrices(limits, pinned, fallback);
  }
  // A stored history was validated when it was stored.
  if (details.history === undefined) checkRequest(withAnswers(thread, details), config);
  const adapterOptions = mergeAdapterOptions(engine.adapterOptions, callOptions.adapterOptions);
  adapter.checkOptions?.(adapterOptions);
  return {
    verb: details.verb,
    requestId,
    sessionId,
    thread,
    pinned,
    config,
    limits,
    options,
    input: plannedInput(details.turnId ?? requestId, thread, pinned, details),
    adapter,
    catalog,
    clock,
    contextPolicy,
    middleware,
    protocol,
    fallback,
    retry: retryPolicy(options.retry ?? engine.retry),
    adapterOptions,
    apiKey: options.apiKey ?? null,
    engine,
    tools,
    toolSpecs: tools.map(specOf),
    context: contextOf(engine, callOptions.context),
    hooks,
    ownProtocol,
    missing,
    output: output === undefined ? null : { schema: output, repair },
    spentBefore: details.spentBefore ?? noUsage,
    wanted: wantedOf(options),
  };
}

/** The input of the turn of a run. */
function plannedInput(
  turnId: string,
  { messages: threadMessages }: Thread,
  { protocol }: Pinned,
  {
    revision = kernelRevision,
    history,
    protocolEvents = [],
    messages = [],
    turnCauses = [],
    answers = [],
    cell = null,
    contextWindow = null,
  }: PlanDetails,
): TurnInput<Json> {
  return turnInput<Json>(turnId, {
    revision,
    contextWindow,
    // A copy: later changes of the caller to its array must not affect the run.
    history: history ?? [...threadMessages],
    events: protocolEvents.flatMap(({ protocol: name, event }) =>
      protocol.type === "own" && protocol.name === name ? [event] : [],
    ),
    messages,
    turnCauses,
    answers,
    cell,
  });
}

/**
 * The tools with these names; `null`: all. A new run refuses a name that no tool has. A run that is continued may be
 * planned without its engine's tools, to be ended only.
 */
function activeOnly<Context extends CallerContext>(
  tools: readonly Tool<Context>[],
  names: readonly string[] | null,
  isNew: boolean,
): readonly Tool<Context>[] {
  if (names === null) return tools;
  const missing = names.find((name) => tools.every((tool) => tool.name !== name));
  if (isNew && missing !== undefined) {
    throw invalidArgument(`activeTools: there is no tool ${JSON.stringify(missing)}`, ["activeTools"]);
  }
  return tools.filter(({ name }) => names.includes(name));
}

/** How a missing protocol or projector is reported, for example `protocol guess 1`. */
function versionedName(what: "protocol" | "projector", { name, version }: PinnedName): string {
  return `${what} ${name} ${version}`;
}

/**
 * The tools of the run, and those for provider tools that were listed without a handler and whose calls reach the
 * program. They are built from the pinned configuration, so that a turn which is continued after a deploy has them too.
 */
function withListedTools<Context extends CallerContext>(
  tools: readonly Tool<Context>[],
  specs: readonly ToolSpec[],
): readonly Tool<Context>[] {
  const listed = specs.filter(({ name }) => tools.every((tool) => tool.name !== name));
  return [...tools, ...clientTools(listed.flatMap(({ providerTool }) => providerTool ?? []))];
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

/**
 * The event filter of the options. It is applied when events are handed to the reader, so it cannot change the result
 * (R3).
 */
function wantedOf({ emitTextDeltas, emitToolDeltas, includeRawChunks }: RunPlan["options"]): RunPlan["wanted"] {
  const unwanted = new Set<TurnEvent["type"]>();
  if (emitTextDeltas === false) unwanted.add("text_delta");
  if (emitToolDeltas === false) unwanted.add("tool_call_delta");
  if (includeRawChunks !== true) unwanted.add("raw_chunk");
  return ({ type }) => !unwanted.has(type);
}

/** The context of the call; the context of the engine if that is absent or empty. */
function contextOf<Context extends CallerContext>(engine: Engine<Context>, context: Context | undefined): Context {
  return context === undefined || Object.keys(context).length === 0 ? engine.context : context;
}

/** The input of a run as a thread. Throws `ValidationError` for anything but text, messages or a thread. */
function threadOf(input: RunInput): Thread {
  if (typeof input === "string") return fromMessages([user(input)]);
  const messages = messagesOf(input);
  if (messages !== null) return checkedThread(() => fromMessages(messages));
  if (isThread(input)) return input;
  const message = "must be text, a message, messages or a thread";
  const issues = [{ path: ["thread"], code: "invalid_type" as const, message }];
  throw new ValidationError("invalid_thread", { issues });
}

/** The messages of an input that is a message or a list of messages; `null`: it is neither. */
export function messagesOf(input: Exclude<RunInput, string>): readonly MessageInput[] | null {
  if (isMessageList(input)) return input;
  return typeof input === "object" && input !== null && "role" in input ? [input] : null;
}

function isMessageList(input: Exclude<RunInput, string>): input is readonly MessageInput[] {
  return Array.isArray(input);
}

function isThread(input: unknown): input is Thread {
  return typeof input === "object" && input !== null && "messages" in input && Array.isArray(input.messages);
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

/**
 * The thread with an empty result for each answered call, so that the validation finds no open call. Calls of a
 * suspended cell are not in the thread.
 */
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

/**
 * A suspended cell is resumed by the code executor of the engine. Throws `invalid_engine` before anything runs if the
 * engine has none (Q5).
 */
function checkCellExecutor<Context extends CallerContext>(
  { protocol }: Engine<Context>,
  cell: SuspendedCell | null,
): void {
  if (cell === null || cellSettingsOf(protocol) !== null) return;
  const message = `the session has a suspended code cell (${cell.id}), and the engine has no code executor: use an engine with the code protocol`;
  throw new EngineError("invalid_engine", { message, metadata: { cellId: cell.id } });
}

/**
 * A cost budget cannot be enforced for a model of unknown price. Throws `unknown_price` before the first call, for the
 * models of a turn, of its summaries, and all fallbacks (Q12).
 */
function checkPrices({ budgets }: Limits, { environment, policy }: Pinned, fallback: readonly Fallback[]): void {
  const others = fallback.map((entry) => (isPair(entry) ? entry.model : entry));
  const compact = policy.context?.compact ?? null;
  const writer = compact?.model ?? environment.model;
  if (budgets.cost !== undefined) checkPricesOf("budgets.cost", [environment.model, writer, ...others]);
  if ((compact?.budget?.cost ?? null) !== null) checkPricesOf("contextPolicy.compact.budget.cost", [writer, ...others]);
}

function checkPricesOf(budget: string, models: readonly (ModelName | null)[]): void {
  const unpriced = models.find((name) => priceOf(name) === null);
  if (unpriced === undefined) return;
  const name = typeof unpriced === "string" ? unpriced : (unpriced?.id ?? "no model");
  throw errorFromFailure(
    engineFailure("unknown_price", {
      message: `${budget} needs the price of every model that may be called, and the price of ${name} is not known`,
    }),
  );
}

/** Is this fallback an adapter with a model, and not only a model? */
export function isPair(fallback: Fallback): fallback is Extract<Fallback, { readonly adapter: Adapter }> {
  return typeof fallback === "object" && "adapter" in fallback;
}
