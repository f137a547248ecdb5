// The engine value: adapter, model, tools, instructions and defaults of a run, and the functions that derive one engine
// from another.
//
// Invariants
//   1. An engine is immutable. Every function here returns a new value and shares the unchanged parts.
//   2. An engine never contains an API key. Keys are looked up for each call (model-call/keys.ts); settings that look
//      like a credential are rejected.
//   3. Unknown fields are rejected, also from callers without a compiler: a misspelt option must not be ignored
//      silently.

import type { Clock } from "../clock/clock.ts";
import type { NamedProjector } from "../kernel/internal.ts";
import type { CallerContext, JsonObject, ModelName } from "../model/internal.ts";
import type { ContextPolicy } from "./context-policy.ts";
import type { Middleware } from "./middleware.ts";
import type { Adapter, AdapterOptions, ImageAdapter } from "./model-call/adapter.ts";
import type { Catalog } from "./model-call/catalog.ts";
import type { RetrySetting } from "./model-call/retry.ts";
import type { Rule } from "./option-rules.ts";
import type { ToolExecutor, ToolResultEncoder, WhenBusy } from "./options.ts";
import type { EngineProtocol } from "./protocol.ts";
import type { EngineOptions } from "./run-options.ts";
import type { Tool } from "./tool/tool.ts";

import { systemClock } from "../clock/clock.ts";
import { invalidArgument, MisuseError, renderIssue } from "../model/internal.ts";
import { emptyObject, isObject, read, settings } from "../model/parse/reading.ts";
import { checkContextPolicy } from "./context-policy.ts";
import { checkMiddleware } from "./middleware.ts";
import { builtInCatalog, withCatalogData } from "./model-call/catalog.ts";
import { retryPolicy } from "./model-call/retry.ts";
import { isEngineOption, isMisplacedParam, placeOf } from "./option-place.ts";
import { aFunction, checkRule, oneOf } from "./option-rules.ts";
import { busyPolicies } from "./options.ts";
import { checkProjector, checkProtocol } from "./protocol.ts";

/**
 * What a run works with, as one immutable value: adapter, model, tools, instructions, defaults. It never contains
 * an API key.
 */
export type Engine<Context extends CallerContext = CallerContext> = {
  /** Makes model calls. Required by every run. */
  readonly adapter: Adapter | null;
  /** Makes image calls. */
  readonly imageAdapter: ImageAdapter | null;
  /** The default model. */
  readonly model: ModelName | null;
  /** The system prompt. */
  readonly instructions: string | null;
  /** The tools that the model may call. */
  readonly tools: readonly Tool<Context>[];
  /** Settings of model calls by their names in a request. Other names are sent in the body of the provider's API. */
  readonly params: JsonObject;
  /** Passed to tool handlers if neither the call nor its session has a context. */
  readonly context: Context;
  /** Settings of the adapter for all calls: headers and betas. */
  readonly adapterOptions: AdapterOptions;
  /** Runs tool calls; `null`: their handlers are called directly. */
  readonly toolExecutor: ToolExecutor | null;
  /** Converts tool results for the model; `null`: JSON. */
  readonly toolResultEncoder: ToolResultEncoder | null;
  /** How failed model calls are retried. */
  readonly retry: RetrySetting;
  /** Models tried in order when the model before them cannot answer. */
  readonly fallback: readonly Fallback[];
  /** Options that apply to every run of this engine. */
  readonly options: EngineOptions<Context>;
  /**
   * How replies are interpreted: as text and tool calls (`{ type: "chat" }`), as code to run
   * (`{ type: "code", executor }`), or by a protocol of your own, with a name and a version. Default: as text and tool
   * calls.
   */
  readonly protocol: EngineProtocol;
  /**
   * Builds the request of each model call from the turn, with a name and a version; `null`: the request of a
   * conversation (`ChatContextProjector`).
   */
  readonly projector: NamedProjector | null;
  /**
   * Keeps requests within the context window of the model: prunes old tool results and replaces old messages by a
   * summary. The history stays whole. `null`: requests contain the whole history.
   */
  readonly contextPolicy: ContextPolicy | null;
  /**
   * Limits, prices and capabilities of models. Default: the built-in catalog; `null`: only what the references of
   * models contain.
   */
  readonly catalog: Catalog | null;
  /**
   * Time and random numbers for retries, tool timeouts, spans and the adapter's timeouts. Default: the system clock.
   */
  readonly clock: Clock;
  /**
   * What durable sessions do with a message that arrives while a turn of this engine is open, if the call does not say;
   * `null`: `reply` rejects the message and `send` steers the turn. Only the durable runtime reads it.
   */
  readonly whenBusy: WhenBusy | null;
  /** Data of the caller. The library stores it and does not interpret it. */
  readonly metadata: JsonObject;
  /** Wraps model calls and tool calls, the first one outermost. Default: none. */
  readonly middleware: readonly Middleware[];
};

/** Another model of the same adapter, or another adapter too. */
export type Fallback = ModelName | { readonly adapter: Adapter; readonly model: ModelName };

/** The fields that `engine` takes. */
export type EngineFields<Context extends CallerContext = CallerContext> = Partial<Engine<Context>>;

/** What `engine` adds to {@link Engine} for the compiler: the types of its tools. `~tools` has no value. */
export type TypedEngine<One> = { readonly "~tools"?: readonly One[] };

/** The context is required if a tool needs one. */
export type NeededContext<Context extends CallerContext> = CallerContext extends Context
  ? unknown
  : { readonly context: Context };

const defaults: Engine = {
  adapter: null,
  imageAdapter: null,
  model: null,
  instructions: null,
  tools: [],
  params: emptyObject,
  context: emptyObject,
  adapterOptions: emptyObject,
  toolExecutor: null,
  toolResultEncoder: null,
  retry: "default",
  fallback: [],
  options: {},
  protocol: { type: "chat" },
  projector: null,
  contextPolicy: null,
  catalog: builtInCatalog,
  clock: systemClock,
  whenBusy: null,
  metadata: emptyObject,
  middleware: [],
};

/**
 * Builds an engine from its fields; every field has a default. The public function (core/adapters/engine.ts) also takes
 * the name of a model. Throws `MisuseError` for an unknown field, which says where an option belongs that was given in
 * the wrong place, for an API key among the settings, and for two tools of one name.
 */
export function engine<Context extends CallerContext = CallerContext, One extends Tool<Context> = Tool<Context>>(
  fields?: EngineFields<Context> & { readonly tools?: readonly One[] } & NeededContext<NoInfer<Context>>,
): Engine<Context> & TypedEngine<One>;
export function engine(given: EngineFields<CallerContext> = {}): Engine {
  // A field with the value `undefined` has its default, as if it were absent.
  const fields: EngineFields<CallerContext> = Object.fromEntries(
    Object.entries(given).filter(([, value]) => value !== undefined),
  );
  const unknownField = Object.keys(fields).find((key) => !Object.hasOwn(defaults, key));
  if (unknownField !== undefined) {
    throw unknownName("an engine has no field", unknownField, [unknownField], Object.keys(defaults));
  }
  const unknownOption = Object.keys(fields.options ?? {}).find((key) => !isEngineOption(key));
  if (unknownOption !== undefined) {
    throw unknownName("options of an engine have no", unknownOption, ["options", unknownOption]);
  }
  const misplacedParam = Object.keys(fields.params ?? {}).find(isMisplacedParam);
  if (misplacedParam !== undefined) {
    throw unknownName("params are settings of model calls, without", misplacedParam, ["params", misplacedParam]);
  }
  for (const key of ["params", "adapterOptions", "metadata"] as const) {
    const parsed = read(settings, fields[key] ?? {});
    if ("value" in parsed) continue;
    const issues = parsed.issues.map(renderIssue).join("; ");
    throw invalidArgument(`engine: ${key}: ${issues}`, [key]);
  }
  for (const key of ["toolExecutor", "toolResultEncoder"] as const) {
    if ((fields[key] ?? null) !== null) checkRule("engine: ", [key], fields[key], aFunction);
  }
  checkTools("engine", fields.tools ?? []);
  checkToolNames(fields.tools ?? []);
  if ((fields.adapter ?? null) !== null) checkRule("engine: ", ["adapter"], fields.adapter, anAdapter);
  fields.adapter?.checkOptions?.(fields.adapterOptions ?? {});
  checkMiddleware("engine", fields.middleware ?? []);
  checkProtocol(fields.protocol === undefined ? defaults.protocol : fields.protocol);
  checkProjector(fields.projector ?? null);
  checkContextPolicy(fields.contextPolicy ?? null, fields.projector ?? null);
  if ((fields.whenBusy ?? null) !== null) checkRule("engine: ", ["whenBusy"], fields.whenBusy, oneOf(busyPolicies));
  // Only for its check: an invalid policy throws here and not at the first failure.
  retryPolicy(fields.retry ?? "default");
  return { ...defaults, ...fields };
}

const anAdapter: Rule = {
  must: "an adapter, the value of a call such as openai()",
  fits: (value) => isObject(value) && typeof value["stream"] === "function",
};

/** The error for a name that is not known at its place. It says where the name belongs, as far as that is known. */
function unknownName(
  message: string,
  name: string,
  path: readonly string[],
  names: readonly string[] = [],
): MisuseError {
  const advice = placeOf(name) ?? (names.length === 0 ? null : `the fields are ${names.join(", ")}`);
  return new MisuseError("unknown_field", `engine: ${message} "${name}"${advice === null ? "" : `; ${advice}`}`, {
    path,
  });
}

/** Returns the engine with one more tool. A tool of the same name is not replaced. */
export function putTool<Context extends CallerContext>(engine: Engine<Context>, tool: Tool<Context>): Engine<Context> {
  return putTools(engine, [tool]);
}

/** Returns the engine with more tools. Tools of the same name are not replaced. */
export function putTools<Context extends CallerContext>(
  engine: Engine<Context>,
  tools: readonly Tool<Context>[],
): Engine<Context> {
  return { ...engine, tools: [...engine.tools, ...tools] };
}

/** Returns the engine with one setting of model calls changed. */
export function putParam<Context extends CallerContext>(
  engine: Engine<Context>,
  name: string,
  value: JsonObject[string],
): Engine<Context> {
  return { ...engine, params: { ...engine.params, [name]: value } };
}

/** Returns the engine with one entry of its context changed. Tool handlers receive the context. */
export function putContext<Context extends CallerContext, Key extends string, Value>(
  engine: Engine<Context>,
  name: Key,
  value: Value,
): Engine<Context & { readonly [K in Key]: Value }> {
  const added = { [name]: value } as { readonly [K in Key]: Value };
  return { ...engine, context: { ...engine.context, ...added } };
}

/** Returns the engine with another model. */
export function withModel<Context extends CallerContext>(engine: Engine<Context>, model: ModelName): Engine<Context> {
  return { ...engine, model };
}

/** The options of a call that {@link mergeOpts} and the `resolve…` functions read. */
export type Overrides<Context extends CallerContext = CallerContext> = {
  /** Replaces the model. */
  readonly model?: ModelName | null;
  /** Added to the tools; a tool replaces the one of the same name. */
  readonly tools?: readonly Tool<Context>[];
  /** Merged over the params. */
  readonly params?: JsonObject;
  /** Merged over the context. */
  readonly context?: Partial<Context>;
};

/**
 * Returns the engine with the overrides of a call. Total for options from callers without a compiler: options that are
 * not overrides, overrides of a wrong type, and list items that are no tools are ignored. The model is kept as it was
 * given; `resolveModel` looks it up in the catalog. Throws `MisuseError` if the arguments are not an engine and an
 * object.
 */
export function mergeOpts<Context extends CallerContext>(
  engine: Engine<Context>,
  opts: Overrides<Context>,
): Engine<Context> {
  if (!isObject(engine) || !Object.hasOwn(engine, "adapter")) {
    throw invalidArgument("mergeOpts: the first argument must be an engine");
  }
  if (!isObject(opts)) throw invalidArgument("mergeOpts: the options must be an object");
  const { model, tools, params, context } = opts;
  return {
    ...engine,
    model: typeof model === "string" || isObject(model) ? model : engine.model,
    tools: resolveTools(engine, { tools: Array.isArray(tools) ? tools.filter(isTool) : [] }),
    params: { ...engine.params, ...(isObject(params) ? params : {}) },
    context: { ...engine.context, ...(isObject(context) ? context : {}) },
  };
}

/** Throws `MisuseError` unless the value is a list of tools. `caller` begins the message. */
export function checkTools(caller: string, tools: unknown): void {
  if (!Array.isArray(tools)) throw invalidArgument(`${caller}: tools must be a list of tools`, ["tools"]);
  const index = tools.findIndex((each) => !isTool(each));
  if (index === -1) return;
  throw invalidArgument(`${caller}: tools[${index}] must be a tool, the value of tool({ … })`, ["tools"]);
}

/** Throws `MisuseError` for two tools of one name: a call of the model would not say which. */
function checkToolNames(tools: readonly Tool<CallerContext>[]): void {
  const names = tools.map(({ name }) => name);
  const second = names.findIndex((name, index) => names.indexOf(name) < index);
  const name = names[second];
  if (name === undefined) return;
  const first = names.indexOf(name);
  throw invalidArgument(`engine: tools[${first}] and tools[${second}] have the same name "${name}"; rename one`, [
    "tools",
    second,
    "name",
  ]);
}

function isTool(value: unknown): boolean {
  return isObject(value) && typeof value["name"] === "string" && typeof value["prepare"] === "function";
}

/**
 * Returns the model of a call: that of the overrides, else that of the engine, else `null`. A model that the engine's
 * catalog knows is a reference with its limits, prices and capabilities.
 */
export function resolveModel<Context extends CallerContext>(
  engine: Engine<Context>,
  opts: Overrides<Context>,
): ModelName | null {
  return withCatalogData(opts.model ?? engine.model, engine.adapter?.provider ?? null, engine.catalog);
}

/**
 * Returns the tools of a call: those of the engine in their order, replaced by those of the overrides with the
 * same name, then the other overrides.
 */
export function resolveTools<Context extends CallerContext>(
  engine: Engine<Context>,
  opts: Overrides<Context>,
): readonly Tool<Context>[] {
  const overrides = opts.tools ?? [];
  const engineToolNames = new Set(engine.tools.map(({ name }) => name));
  const replaced = engine.tools.map((tool) => overrides.findLast(({ name }) => name === tool.name) ?? tool);
  return [...replaced, ...overrides.filter(({ name }) => !engineToolNames.has(name))];
}

// Options that are not settings of a model call: the fields of an engine, and the key.
const notParams = new Set([...Object.keys(defaults), "apiKey"]);

/**
 * Returns the settings of a call: those of the engine, replaced by those in `opts`. Names of engine fields are
 * left out; unknown names are kept.
 */
export function resolveParams(engine: { readonly params: JsonObject }, opts: JsonObject): JsonObject {
  const callParams = Object.entries(opts).filter(([name]) => !notParams.has(name));
  return { ...engine.params, ...Object.fromEntries(callParams) };
}
