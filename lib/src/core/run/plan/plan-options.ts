// Checks the options of a call and merges the settings of model requests. The options are declared in core/engine/run-options.ts.

import type {
  Budgets,
  ChatOptions,
  Hooks,
  OnToolError,
  RequestField,
  RequestOptions,
  RunOptionName,
  Sources,
} from "../../engine/internal.ts";
import type { CallerContext, JsonObject, ModelRequest } from "../../model/internal.ts";

import {
  checkedNumber,
  checkedRange,
  checkTools,
  defaultOf,
  isMisplacedParam,
  isRunOption,
  pick,
  placeInCall,
  requestFields,
} from "../../engine/internal.ts";
import { MisuseError } from "../../model/internal.ts";
import { describe } from "../../model/parse/reading.ts";

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

/** `maxTurns` of the options, then of the engine's `params`, then the default (8). */
export function maxTurnsOf<Context extends CallerContext>(
  sources: Sources<ChatOptions<Context>>,
  params: JsonObject,
): number {
  return checkedNumber("maxTurns", pick(sources, "maxTurns") ?? params["maxTurns"] ?? defaultOf("maxTurns"));
}

/** Checks the option `onToolError`. */
export function checkedOnToolError(policy: OnToolError): OnToolError {
  if (policy === "continue" || policy === "halt" || typeof policy === "function") return policy;
  throw new MisuseError("invalid_argument", 'onToolError must be "continue", "halt" or a function', {
    path: ["onToolError"],
  });
}

/** Checks that the options that must be functions are functions. `null` and `undefined` are no value. */
export function checkFunctions<Context extends CallerContext>(sources: Sources<ChatOptions<Context>>): void {
  for (const name of functionOptions) {
    const value: unknown = pick(sources, name);
    if (value === undefined || typeof value === "function") continue;
    throw new MisuseError("invalid_argument", `${name} must be a function, not ${describe(value)}`, { path: [name] });
  }
  checkHooks(pick(sources, "hooks") ?? {});
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

/** Checks options of a call whose wrong type would end the run with an error of the language. `null` and `undefined` are no value. */
export function checkTypes<Context extends CallerContext>(call: ChatOptions<Context>): void {
  const { signal, tools, activeTools, instructions }: { readonly [Name in RunOptionName]?: unknown } = call;
  if ((tools ?? null) !== null) checkTools("the options", tools);
  const isNames = Array.isArray(activeTools) && activeTools.every((name) => typeof name === "string");
  if ((activeTools ?? null) !== null && !isNames) {
    throw new MisuseError("invalid_argument", `activeTools must be names of tools, not ${describe(activeTools)}`, {
      path: ["activeTools"],
    });
  }
  // Not `instanceof`: a signal may be of another realm or of a polyfill.
  const isSignal = typeof signal === "object" && signal !== null && "aborted" in signal && "addEventListener" in signal;
  if ((signal ?? null) !== null && !isSignal) {
    throw new MisuseError("invalid_argument", `signal must be an AbortSignal, not ${describe(signal)}`, {
      path: ["signal"],
    });
  }
  if ((instructions ?? null) !== null && typeof instructions !== "string") {
    throw new MisuseError("invalid_argument", `instructions must be a string, not ${describe(instructions)}`, {
      path: ["instructions"],
    });
  }
}

const functionOptions = [
  "haltWhen",
  "onEvent",
  "prepareStep",
  "onCheckpoint",
  "toolExecutor",
  "toolResultEncoder",
] as const satisfies readonly RunOptionName[];

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
