// Resolves and checks the options of a run, and merges the settings of model requests. The options are declared in
// core/engine/run-options.ts.

import type {
  Budgets,
  ChatOptions,
  Engine,
  Hooks,
  OptionKind,
  OptionRow,
  OptionsWith,
  RequestField,
  RequestOptions,
  Rule,
  Rules,
  RunOptionName,
} from "../../engine/internal.ts";
import type { CallerContext, JsonObject, ModelRequest } from "../../model/internal.ts";

import {
  aFunction,
  aString,
  checkOptions,
  checkRule,
  checkTools,
  configuration,
  isMisplacedParam,
  isRunOption,
  numberIn,
  objectOf,
  oneOf,
  placeInCall,
  requestFields,
  runOptionNames,
  runOptionTable,
} from "../../engine/internal.ts";
import { invalidArgument, MisuseError } from "../../model/internal.ts";
import { isObject, isPlainObject } from "../../model/parse/reading.ts";

/**
 * The options of a run, each from the first source that sets it. An option that no source sets is absent, unless the
 * program has a default for it.
 */
export type ResolvedOptions<Context extends CallerContext> = ChatOptions<Context> &
  Required<Pick<ChatOptions, OptionsWith<{ readonly configure: true }>>>;

/**
 * Resolves the options of a run: those of the call, of its session, of the engine, and the defaults of the program.
 * Options that are merged from several sources are read where they are merged: settings of requests (`requestParams`),
 * tools, adapter options and the context.
 */
export function resolvedOptions<Context extends CallerContext>(
  engine: Engine<Context>,
  call: ChatOptions<Context>,
  session: Partial<ChatOptions>,
): ResolvedOptions<Context> {
  const { instructions, toolExecutor, toolResultEncoder } = engine;
  const fields = { instructions, toolExecutor, toolResultEncoder, ...maxTurnsOf(engine.params) };
  const sources: readonly Source<ChatOptions<Context>>[] = [call, session, engine.options, fields];
  const options: { -readonly [Name in RunOptionName]?: ChatOptions<Context>[Name] } = {};
  const resolve = <Name extends RunOptionName>(source: Source<ChatOptions<Context>>, name: Name): void => {
    const value = source[name];
    if ((options[name] ?? null) === null && value !== undefined && value !== null) options[name] = value;
  };
  for (const source of sources) for (const name of optionsIn(source)) resolve(source, name);
  const { redact: _, ...defaults } = configuration();
  return { ...defaults, ...options };
}

/**
 * The options that an object may have. Most of the options are set nowhere, so only those are visited that a plain
 * object has; an object with a prototype of its own may inherit any.
 */
function optionsIn(source: object): readonly RunOptionName[] {
  return isPlainObject(source) ? Object.keys(source).filter(isRunOption) : runOptionNames;
}

/** A source of options. `null` and `undefined` are no value. */
type Source<Options> = { readonly [Name in keyof Options]?: Options[Name] | null };

/** `maxTurns` may also be one of the engine's `params`. */
function maxTurnsOf({ maxTurns }: JsonObject): { readonly maxTurns?: number } {
  if (maxTurns === undefined || maxTurns === null) return {};
  checkRule("", ["maxTurns"], maxTurns, numberIn(runOptionTable.maxTurns.number));
  return { maxTurns: Number(maxTurns) };
}

/**
 * Checks the values of options at run time, for callers without a compiler. Of a run that is continued, the pinned
 * options are not read and not checked: an open turn must not fail after a deploy.
 */
export function checkValues<Context extends CallerContext>(options: ChatOptions<Context>, isNew: boolean): void {
  for (const name of optionsIn(options)) {
    const value: unknown = options[name];
    const { kind, number, words, pinned }: OptionRow = runOptionTable[name];
    if (value === undefined || (!isNew && pinned !== "no")) continue;
    if (number !== undefined) checkRule("", [name], value, numberIn(number));
    if (words !== undefined) checkRule("", [name], value, oneOf(words));
    if (kind !== undefined) checkRule("", [name], value, kinds[kind]);
  }
  if (options.tools !== undefined) checkTools("the options", options.tools);
  checkRule("", ["onToolError"], options.onToolError ?? "continue", toolErrorRule);
  checkOptions("options", { hooks: options.hooks }, { hooks: objectOf(hookRules) });
  if (isNew) checkOptions("options", { budgets: options.budgets }, { budgets: objectOf(budgetRules) });
}

const kinds: { readonly [Kind in OptionKind]: Rule } = {
  function: aFunction,
  text: aString,
  names: {
    must: "names of tools",
    fits: (value) => Array.isArray(value) && value.every((name) => typeof name === "string"),
  },
  // Not `instanceof`: a signal may be of another realm or of a polyfill.
  signal: {
    must: "an AbortSignal",
    fits: (value) => typeof value === "object" && value !== null && "aborted" in value && "addEventListener" in value,
  },
};

const toolErrorRule: Rule = {
  must: '"continue", "halt" or a function',
  fits: (value) => value === "continue" || value === "halt" || typeof value === "function",
};

const functionOrNull: Rule = { must: "a function", fits: (value) => value === null || typeof value === "function" };

/** A misspelt hook is refused: a gate that is never called would let every tool call through. */
const hookRules: Rules<Hooks> = {
  beforeTool: functionOrNull,
  afterTool: functionOrNull,
  beforeTurn: functionOrNull,
  afterTurn: functionOrNull,
  beforeStep: functionOrNull,
  afterStep: functionOrNull,
};

/**
 * Checks the arguments of a verb at run time, for callers without a compiler. Throws `MisuseError` before the run has
 * any effect.
 */
export function checkCall(engine: unknown, options: unknown): void {
  if (typeof engine !== "object" || engine === null || !("adapter" in engine) || !("clock" in engine)) {
    throw invalidArgument("the first argument must be an engine: engine({ adapter, model, … })");
  }
  if (typeof options !== "object" || options === null) {
    throw invalidArgument("the options must be an object");
  }
  const params = "params" in options && typeof options.params === "object" ? (options.params ?? {}) : {};
  const misplacedParam = Object.keys(params).find(isMisplacedParam);
  if (misplacedParam !== undefined) {
    const message = `params are settings of model calls; "${misplacedParam}" is an option of the run: { ${misplacedParam}: … }`;
    throw new MisuseError("unknown_field", message, { path: ["params", misplacedParam] });
  }
  const unknownOption = Object.keys(options).find((key) => !isRunOption(key));
  if (unknownOption !== undefined) {
    const message = `"${unknownOption}" is not an option of a run; ${placeInCall(unknownOption)}`;
    throw new MisuseError("unknown_field", message, { path: [unknownOption] });
  }
}

const limit = numberIn({ least: 0, whole: false });

const budgetRules: Rules<Budgets> = { steps: limit, tokens: limit, cost: limit, timeMs: limit, noProgress: limit };

type Settings = RequestOptions & Pick<ChatOptions, "params">;

/**
 * Merges settings from all sources into the fields of a request (`params`) and fields of the provider's request body
 * (`body`). Precedence: the options of the call, the request, the engine. A name that is not a request field goes to
 * `body`.
 */
export function requestParams(
  engine: { readonly params: JsonObject; readonly options: Settings },
  request: ModelRequest | undefined,
  options: Settings,
): { readonly params: JsonObject; readonly body: JsonObject } {
  const ofEngine = { ...engine.params, ...engine.options.params, ...fieldsIn(engine.options) };
  const { maxTurns: _, options: fromEngine = {}, ...settings } = { ...ofEngine, ...options.params };
  const merged: Record<string, JsonObject[string]> = {};
  const body: Record<string, JsonObject[string]> = {
    ...(isObject(fromEngine) ? fromEngine : {}),
    ...engine.options.options,
    ...request?.options,
    ...options.options,
  };
  for (const [name, value] of Object.entries(settings)) {
    if (requestFields.some((field) => field === name)) merged[name] = value;
    else body[name] = value;
  }
  for (const field of requestFields) {
    const setting = options[field] ?? (request === undefined ? undefined : valueIn(request, field));
    if (setting !== undefined && setting !== null) merged[field] = setting;
  }
  const byProvider = mergeByProvider(ofEngine["providerOptions"], request?.providerOptions, options.providerOptions);
  if (Object.keys(byProvider).length > 0) merged["providerOptions"] = byProvider;
  return { params: merged, body };
}

/** Merges provider options: later sources override the fields of earlier ones, for each provider on its own. */
function mergeByProvider(...sources: readonly (JsonObject[string] | undefined)[]): JsonObject {
  const merged = new Map<string, JsonObject[string]>();
  for (const source of sources) {
    for (const [provider, fields] of source !== undefined && isObject(source) ? Object.entries(source) : []) {
      const earlier = merged.get(provider) ?? null;
      merged.set(provider, isObject(earlier) && isObject(fields) ? { ...earlier, ...fields } : fields);
    }
  }
  return Object.fromEntries(merged);
}

/** The request fields that these options set. */
function fieldsIn(options: RequestOptions): JsonObject {
  const fields: Record<string, JsonObject[string]> = {};
  for (const field of requestFields) {
    const value = options[field];
    if (value !== undefined && value !== null) fields[field] = value;
  }
  return fields;
}

/**
 * The value of a request field; `undefined` if it has its empty default, because that does not override other sources.
 */
function valueIn(request: ModelRequest, field: RequestField): JsonObject[string] | undefined {
  const value = request[field];
  if (value === null || (Array.isArray(value) && value.length === 0)) return undefined;
  return typeof value === "object" && !Array.isArray(value) && Object.keys(value).length === 0 ? undefined : value;
}
