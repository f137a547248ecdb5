// Resolves and checks the options of a run, and merges the settings of model requests. The options are declared in core/engine/run-options.ts.

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
  RunOptionName,
} from "../../engine/internal.ts";
import type { CallerContext, JsonObject, ModelRequest } from "../../model/internal.ts";

import {
  checkedRange,
  checkTools,
  configuration,
  isMisplacedParam,
  isRunOption,
  placeInCall,
  requestFields,
  runOptionNames,
  runOptionTable,
} from "../../engine/internal.ts";
import { MisuseError } from "../../model/internal.ts";
import { describe } from "../../model/parse/reading.ts";

/** The options of a run, each from the first source that sets it. An option that no source sets is absent, unless the program has a default for it. */
export type ResolvedOptions<Context extends CallerContext> = ChatOptions<Context> &
  Required<Pick<ChatOptions, OptionsWith<{ readonly configure: true }>>>;

/**
 * Resolves the options of a run: those of the call, of its session, of the engine, and the defaults of the program. Options that are merged from several sources are read where they
 * are merged: settings of requests (`requestParams`), tools, adapter options and the context.
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
  const resolve = <Name extends RunOptionName>(name: Name): void => {
    const source = sources.find((candidate) => (candidate[name] ?? null) !== null);
    const value = source?.[name];
    if (value !== undefined && value !== null) options[name] = value;
  };
  runOptionNames.forEach(resolve);
  const { redact: _, ...defaults } = configuration();
  return { ...defaults, ...options };
}

/** A source of options. `null` and `undefined` are no value. */
type Source<Options> = { readonly [Name in keyof Options]?: Options[Name] | null };

/** `maxTurns` may also be one of the engine's `params`. */
function maxTurnsOf({ maxTurns = null }: JsonObject): { readonly maxTurns?: number } {
  return maxTurns === null ? {} : { maxTurns: checkedRange("maxTurns", maxTurns, runOptionTable.maxTurns.number) };
}

/**
 * Checks the values of options at run time, for callers without a compiler. Of a run that is continued, the pinned options are not read and not checked: an open turn
 * must not fail after a deploy.
 */
export function checkOptions<Context extends CallerContext>(options: ChatOptions<Context>, isNew: boolean): void {
  for (const name of runOptionNames) {
    const value: unknown = options[name];
    const { kind, number, words, pinned }: OptionRow = runOptionTable[name];
    if (value === undefined || (!isNew && pinned !== "no")) continue;
    if (number !== undefined) checkedRange(name, value, number);
    if (kind !== undefined && !kinds[kind].fits(value)) throw invalidOption(name, kinds[kind].must, describe(value));
    if (words !== undefined && !words.some((word) => word === value)) {
      throw invalidOption(name, words.map((word) => JSON.stringify(word)).join(" or "), String(value));
    }
  }
  if (options.tools !== undefined) checkTools("the options", options.tools);
  checkOnToolError(options.onToolError ?? "continue");
  checkHooks(options.hooks ?? {});
}

const kinds: { readonly [Kind in OptionKind]: { readonly must: string; readonly fits: (value: unknown) => boolean } } =
  {
    function: { must: "a function", fits: (value) => typeof value === "function" },
    text: { must: "a string", fits: (value) => typeof value === "string" },
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

function invalidOption(name: string, must: string, actual: string): MisuseError {
  return new MisuseError("invalid_argument", `${name} must be ${must}, not ${actual}`, { path: [name] });
}

/** Checks the arguments of a verb at run time, for callers without a compiler. Throws `MisuseError` before the run has any effect. */
export function checkCall(engine: unknown, options: unknown): void {
  if (typeof engine !== "object" || engine === null || !("adapter" in engine) || !("clock" in engine)) {
    throw new MisuseError("invalid_argument", "the first argument must be an engine: engine({ adapter, model, … })");
  }
  if (typeof options !== "object" || options === null) {
    throw new MisuseError("invalid_argument", "the options must be an object");
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

const budgetNames: { readonly [Name in keyof Budgets]-?: true } = {
  steps: true,
  tokens: true,
  cost: true,
  timeMs: true,
  noProgress: true,
};

/** Checks names and values of budgets: each must be a number of at least 0. */
export function checkedBudgets(budgets: Budgets): Budgets {
  for (const [name, value] of Object.entries(budgets)) {
    if (!Object.hasOwn(budgetNames, name)) {
      throw new MisuseError("unknown_field", `budgets: there is no budget "${name}"`, { path: ["budgets", name] });
    }
    checkedRange(`budgets.${name}`, value, { least: 0, whole: false });
  }
  return budgets;
}

function checkOnToolError(policy: unknown): void {
  if (policy === "continue" || policy === "halt" || typeof policy === "function") return;
  throw new MisuseError("invalid_argument", 'onToolError must be "continue", "halt" or a function', {
    path: ["onToolError"],
  });
}

const hookNames: { readonly [Name in keyof Hooks]-?: true } = {
  beforeTool: true,
  afterTool: true,
  beforeTurn: true,
  afterTurn: true,
  beforeStep: true,
  afterStep: true,
};

/** A misspelt hook is refused: a gate that is never called would let every tool call through. */
function checkHooks(hooks: unknown): void {
  if (typeof hooks !== "object" || hooks === null || Array.isArray(hooks)) {
    throw new MisuseError("invalid_argument", `hooks must be an object, not ${describe(hooks)}`, { path: ["hooks"] });
  }
  for (const [name, hook] of Object.entries(hooks)) {
    if (!Object.hasOwn(hookNames, name)) {
      const message = `hooks: there is no hook "${name}"; the hooks are ${Object.keys(hookNames).join(", ")}`;
      throw new MisuseError("unknown_field", message, { path: ["hooks", name] });
    }
    if (hook === undefined || hook === null || typeof hook === "function") continue;
    const message = `hooks: ${name} must be a function, not ${describe(hook)}`;
    throw new MisuseError("invalid_argument", message, { path: ["hooks", name] });
  }
}

type Settings = RequestOptions & Pick<ChatOptions, "params">;

/**
 * Merges settings from all sources into the fields of a request (`params`) and fields of the provider's request body (`body`). Precedence: the options of the call, the
 * request, the engine. A name that is not a request field goes to `body`.
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
    ...(isMap(fromEngine) ? fromEngine : {}),
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
    for (const [provider, fields] of source !== undefined && isMap(source) ? Object.entries(source) : []) {
      const earlier = merged.get(provider) ?? null;
      merged.set(provider, isMap(earlier) && isMap(fields) ? { ...earlier, ...fields } : fields);
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

function isMap(value: JsonObject[string]): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The value of a request field; `undefined` if it has its empty default, because that does not override other sources. */
function valueIn(request: ModelRequest, field: RequestField): JsonObject[string] | undefined {
  const value = request[field];
  if (value === null || (Array.isArray(value) && value.length === 0)) return undefined;
  return typeof value === "object" && !Array.isArray(value) && Object.keys(value).length === 0 ? undefined : value;
}
