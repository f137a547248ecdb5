// Options as a caller gives them: which there are, what they may say, and where settings of a request go.

import type { Budgets, ChatOptions, OnToolError, RequestOptions, Sources } from "../../engine/internal.ts";
import type { CallerContext, JsonObject, ModelRequest } from "../../model/internal.ts";

import { defaultOf, pick } from "../../engine/internal.ts";
import { MisuseError } from "../../model/internal.ts";

/** What callers without a compiler may get wrong, told before anything happens. */
export function checkCall(engine: unknown, options: unknown): void {
  if (typeof engine !== "object" || engine === null || !("adapter" in engine) || !("clock" in engine)) {
    throw new MisuseError("invalid_argument", "the first argument has to be an engine: engine({ adapter, model, … })");
  }
  if (typeof options !== "object" || options === null) {
    throw new MisuseError("invalid_argument", "the options have to be an object");
  }
  const stranger = Object.keys(options).find((key) => !optionNames.has(key));
  if (stranger !== undefined) {
    throw new MisuseError("unknown_field", `"${stranger}" is no option; settings of a provider go into params`, {
      path: [stranger],
    });
  }
}

/** Settings a request has fields for. */
const requestFields = [
  "toolChoice",
  "parallelToolCalls",
  "temperature",
  "topP",
  "maxTokens",
  "stopSequences",
  "seed",
  "reasoning",
  "promptCache",
  "metadata",
] as const;

const optionNames: ReadonlySet<string> = new Set<keyof ChatOptions>([
  ...requestFields,
  ...(["options", "providerTools", "model", "responseFormat", "output", "repair"] as const),
  ...([
    "adapterOptions",
    "params",
    "apiKey",
    "requestId",
    "retry",
    "signal",
    "emitTextDeltas",
    "emitToolDeltas",
  ] as const),
  ...(["includeRawChunks", "onEvent", "instructions", "tools", "context", "sessionId", "mode", "toolTimeout"] as const),
  ...(["maxConcurrency", "maxToolResultLength", "onToolError", "toolExecutor", "toolResultEncoder", "hooks"] as const),
  ...(["onUnknownTool", "onEmptyReply", "maxTurns", "turnLimitMessage", "haltWhen", "budgets", "prepareStep"] as const),
  ...(["structuredFinalize", "structuredFinalizeNudge", "onCheckpoint"] as const),
]);

/** A number that has to be one, and above a bound. */
export function checkedNumber(name: string, value: number, least: number, whole = false): number {
  const fits = typeof value === "number" && value >= least && (!whole || Number.isSafeInteger(value));
  if (fits) return value;
  const kind = whole ? "a whole number" : "a number";
  throw new MisuseError("invalid_argument", `${name} has to be ${kind} of ${least} or more, not ${String(value)}`, {
    path: [name],
  });
}

export function checkedBudgets(budgets: Budgets): Budgets {
  for (const [name, value] of Object.entries(budgets)) {
    if (!["steps", "tokens", "cost", "timeMs", "noProgress"].includes(name)) {
      throw new MisuseError("unknown_field", `budgets: "${name}" is no budget`, { path: ["budgets", name] });
    }
    checkedNumber(`budgets.${name}`, value, 0);
  }
  return budgets;
}

export function maxTurnsOf<Context extends CallerContext>(
  sources: Sources<ChatOptions<Context>>,
  params: JsonObject,
): number {
  const maxTurns: unknown = pick(sources, "maxTurns") ?? params["maxTurns"] ?? defaultOf("maxTurns");
  if (typeof maxTurns === "number" && Number.isSafeInteger(maxTurns) && maxTurns > 0) return maxTurns;
  throw new MisuseError("invalid_argument", `maxTurns must be a whole number above 0, not ${String(maxTurns)}`, {
    path: ["maxTurns"],
  });
}

export function checkedOnToolError(policy: OnToolError): OnToolError {
  if (policy === "continue" || policy === "halt" || typeof policy === "function") return policy;
  throw new MisuseError("invalid_argument", 'onToolError must be "continue", "halt" or a function', {
    path: ["onToolError"],
  });
}

type Settings = RequestOptions & Pick<ChatOptions, "params">;

/** Settings by name: those a request has fields for, and what goes into the provider's body as it is. */
export function requestParams(
  engine: { readonly params: JsonObject; readonly options: Settings },
  request: ModelRequest | undefined,
  options: Settings,
): { readonly params: JsonObject; readonly body: JsonObject } {
  const ofEngine = { ...engine.params, ...engine.options.params, ...fieldsIn(engine.options) };
  const { maxTurns: _, options: fromEngine = {}, ...rest } = { ...ofEngine, ...options.params };
  const known: Record<string, JsonObject[string]> = {};
  const body: Record<string, JsonObject[string]> = {
    ...(isMap(fromEngine) ? fromEngine : {}),
    ...engine.options.options,
    ...request?.options,
    ...options.options,
  };
  for (const [name, value] of Object.entries(rest)) {
    if (requestFields.some((field) => field === name)) known[name] = value;
    else body[name] = value;
  }
  for (const field of requestFields) {
    const asked = options[field] ?? (request === undefined ? undefined : saidIn(request, field));
    if (asked !== undefined && asked !== null) known[field] = asked;
  }
  return { params: known, body };
}

/** The settings that a request has fields for, as far as they are said. */
function fieldsIn(options: RequestOptions): JsonObject {
  const said: Record<string, JsonObject[string]> = {};
  for (const field of requestFields) {
    const value = options[field];
    if (value !== undefined && value !== null) said[field] = value;
  }
  return said;
}

function isMap(value: JsonObject[string]): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** What a request says of its own; a field that was left out says nothing. */
function saidIn(request: ModelRequest, field: (typeof requestFields)[number]): JsonObject[string] | undefined {
  const value = request[field];
  if (value === null || (Array.isArray(value) && value.length === 0)) return undefined;
  return typeof value === "object" && !Array.isArray(value) && Object.keys(value).length === 0 ? undefined : value;
}
