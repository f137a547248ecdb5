// Tools of the AI SDK as tools of an engine.
//
// Theory of operation
//   A tool of the AI SDK is an object: a schema, usually a function `execute`, and settings. It is translated once,
//   field by field:
//     inputSchema     a Standard Schema (Zod, Valibot, …), `jsonSchema(…)` or `zodSchema(…)` of the AI SDK, or a
//                     function that returns one
//     execute         the handler. Values that an async iterable yields before its last are progress; the last value is
//                     the result
//     no execute      the tool is manual: the turn ends, and the program answers the call
//     needsApproval   as it is: a flag or a function
//     toModelOutput   what the model reads. It may be asynchronous and may need the input, so it runs with the handler,
//                     and `toModel` finds its result
//     a tool that the provider runs (`openai.tools.webSearch()`)   an entry of `providerTools`
//
// Invariants
//   1. A call runs at most once by default (`replay: "never"`), because the AI SDK has no word about repeating a call.
//   2. `execute` gets the idempotency key of the call beside the options of the AI SDK, so a tool can be made safe to
//      repeat.

import type { StandardSchema, Tool, ToolContext, ToolDefinition } from "../../core/engine/internal.ts";
import type { Json, JsonObject, ProviderTool, ReplayPolicy, ToolMessage } from "../../core/model/internal.ts";

import { checkValue, isStandardSchema, tool } from "../../core/engine/internal.ts";
import { invalidArgument, parseJson, textPart } from "../../core/model/internal.ts";
import { clientCallName, datedToolName } from "../../core/wire/internal.ts";
import { contentPart, fieldOf, jsonOf, listOf, objectOf, textField } from "./fields.ts";

/** A tool of the AI SDK: the result of `tool()`, `dynamicTool()` or a provider's `tools`. */
type AiSdkTool = {
  /** The schema of the input. */
  readonly inputSchema?: unknown;
  /** Tells the model what the tool does. */
  readonly description?: unknown;
  /** Runs a call. */
  readonly execute?: unknown;
};

/** Options of {@link aiSdkTools}. */
type AiSdkToolsOptions = {
  /**
   * What recovery does with a call that was running when the process died, for all tools or by name: `safe` runs it
   * again, `never` answers `outcome_unknown`, `ask` leaves it to a person. Default: `never`.
   */
  readonly replay?: ReplayPolicy | { readonly [name: string]: ReplayPolicy };
};

/** The tools of an engine, and the tools that the provider runs, for `params.providerTools`. */
export type AiSdkTools = { readonly tools: readonly Tool[]; readonly providerTools: readonly ProviderTool[] };

/**
 * Converts tools of the AI SDK. Tools that the program runs go into `tools` of an engine; tools that the provider runs
 * go into its `params.providerTools`. `execute` gets `toolCallId`, `abortSignal`, the caller's context (`context`,
 * `experimental_context`) and `idempotencyKey`; its `messages` are empty. Throws `MisuseError` for a schema that has no
 * JSON Schema.
 *
 * @example
 * ```ts
 * import { aiSdkTools } from "everturn/ai-sdk";
 * import { z } from "zod";
 *
 * const { tools } = aiSdkTools({
 *   weather: { description: "The weather in a city.", inputSchema: z.object({ city: z.string() }), execute: async () => "sunny" },
 * });
 * tools.map(({ name, replay }) => `${name}: ${replay}`); // => ["weather: never"]
 * ```
 */
export function aiSdkTools(
  toolSet: { readonly [name: string]: AiSdkTool },
  { replay = "never" }: AiSdkToolsOptions = {},
): AiSdkTools {
  const tools: Tool[] = [];
  const providerTools: ProviderTool[] = [];
  for (const [name, source] of Object.entries(toolSet)) {
    const ofProvider = providerToolOf(source);
    const policy = typeof replay === "string" ? replay : (replay[name] ?? "never");
    if (ofProvider !== null && !isRunHere(source, ofProvider)) providerTools.push(ofProvider);
    else tools.push(convert(name, source, ofProvider, policy));
  }
  return { tools, providerTools };
}

/**
 * The definition of a provider's tool: `{ type: "provider", id: "openai.web_search", args }`; `null` for other tools.
 */
export function providerToolOf(source: object): ProviderTool | null {
  const [provider = "", ...words] = (textField(source, "id") ?? "").split(".");
  if (words.length === 0 || textField(source, "type")?.startsWith("provider") !== true) return null;
  return { provider, name: words.join("."), options: objectOf(fieldOf(source, "args")) ?? {} };
}

/**
 * Does the program run the calls? AI SDK 7 says so; before, only a tool with `execute` and the known client tools are
 * certain.
 */
function isRunHere(source: AiSdkTool, ofProvider: ProviderTool): boolean {
  const isProviderExecuted = fieldOf(source, "isProviderExecuted");
  if (typeof isProviderExecuted === "boolean") return !isProviderExecuted;
  return typeof source.execute === "function" || clientCallName(ofProvider) !== null;
}

function convert(key: string, source: AiSdkTool, ofProvider: ProviderTool | null, replay: ReplayPolicy): Tool {
  const name = ofProvider === null ? key : (clientCallName(ofProvider) ?? datedToolName(ofProvider.name) ?? key);
  const { execute } = source;
  const modelOutputs = new ModelOutputs(source);
  const providerOptions = objectsOnly(fieldOf(source, "providerOptions"));
  const definition: ToolDefinition<unknown> = {
    name,
    description: descriptionOf(source, name),
    replay,
    manual: typeof execute !== "function",
    needsApproval: approvalRule(source),
    ...(typeof execute === "function"
      ? {
          handler: async (input: unknown, context: ToolContext) => {
            const value = await lastYield(Reflect.apply(execute, source, [input, executionOptions(context)]), context);
            await modelOutputs.compute(value, input, context);
            return value;
          },
        }
      : {}),
    ...(modelOutputs.isUsed ? { toModel: (value: Json) => modelOutputs.take(value) } : {}),
    metadata: fieldOf(source, "strict") === true ? { strict: true } : {},
    ...(providerOptions === null ? {} : { providerOptions }),
  };
  const built = tool({ ...definition, schema: standardSchema(source.inputSchema, name) });
  return ofProvider === null ? built : { ...built, providerTool: ofProvider };
}

/** The fields of an object that are objects; `null` if there are none. */
function objectsOnly(value: unknown) {
  const entries = Object.entries(objectOf(value) ?? {}).flatMap(([key, fields]) => {
    const object = objectOf(fields);
    return object === null ? [] : [[key, object] as const];
  });
  return entries.length === 0 ? null : Object.fromEntries(entries);
}

/** The description. In AI SDK 7 it may be a function of the context, which a stored turn does not have. */
function descriptionOf({ description }: AiSdkTool, name: string): string {
  if (typeof description === "string") return description;
  if (typeof description !== "function") return `The tool ${name}.`;
  const text: unknown = Reflect.apply(description, undefined, [{ context: {} }]);
  return typeof text === "string" ? text : `The tool ${name}.`;
}

function approvalRule(source: AiSdkTool): NonNullable<ToolDefinition<unknown>["needsApproval"]> {
  const needsApproval = fieldOf(source, "needsApproval");
  if (typeof needsApproval !== "function") return needsApproval === true;
  return async (input, context) =>
    (await Reflect.apply(needsApproval, source, [input, executionOptions(context)])) === true;
}

/** The second argument of `execute`, under the names of AI SDK 6 and 7. */
function executionOptions({ toolCall, signal, context, idempotencyKey }: ToolContext): object {
  return {
    toolCallId: toolCall.id,
    messages: [],
    abortSignal: signal,
    context,
    experimental_context: context,
    idempotencyKey,
  };
}

/**
 * The result of `execute`: a value, a promise, or the last value of an async iterable, whose earlier values are
 * progress. JSON, as in the AI SDK.
 */
async function lastYield(returned: unknown, { progress }: ToolContext): Promise<Json> {
  if (!isAsyncIterable(returned)) return plainJson(await returned);
  let last: Json = null;
  let hasValue = false;
  for await (const value of returned) {
    if (hasValue) progress(last);
    last = plainJson(value);
    hasValue = true;
  }
  return last;
}

function isAsyncIterable(value: unknown): value is AsyncIterable<unknown> {
  return typeof value === "object" && value !== null && Symbol.asyncIterator in value;
}

/**
 * The value as the AI SDK sends it: what `JSON.stringify` makes of it. `undefined` is `null`. Throws for values without
 * JSON, such as a `bigint`.
 */
function plainJson(value: unknown): Json {
  const text: string | undefined = JSON.stringify(value);
  return text === undefined ? null : (parseJson(text)?.value ?? null);
}

// What the model reads

/**
 * How many results of `toModelOutput` one tool keeps. More concurrent calls than this with different values are shown
 * to the model as JSON.
 */
const maxPendingOutputs = 1000;

/**
 * The results of `toModelOutput` between the handler, which has the input and can wait, and `toModel`, which runs
 * directly after it. By the JSON of the value.
 */
class ModelOutputs {
  readonly #source: AiSdkTool;
  readonly #toModelOutput: unknown;
  readonly #contents = new Map<string, ToolMessage["content"][]>();

  constructor(source: AiSdkTool) {
    this.#source = source;
    this.#toModelOutput = fieldOf(source, "toModelOutput");
  }

  get isUsed(): boolean {
    return typeof this.#toModelOutput === "function";
  }

  async compute(output: Json, input: unknown, { toolCall }: ToolContext): Promise<void> {
    if (typeof this.#toModelOutput !== "function") return;
    const options = { toolCallId: toolCall.id, input, output };
    const result: unknown = await Reflect.apply(this.#toModelOutput, this.#source, [options]);
    const key = JSON.stringify(output);
    this.#contents.set(key, [...(this.#contents.get(key) ?? []), toolContent(result)]);
    // A call that was cancelled after its handler is not taken.
    const [oldest] = this.#contents.keys();
    if (this.#contents.size > maxPendingOutputs && oldest !== undefined) this.#contents.delete(oldest);
  }

  /** The content for a value; the JSON of the value if a hook has replaced it. */
  take(value: Json): ToolMessage["content"] {
    const key = JSON.stringify(value);
    const [first, ...others] = this.#contents.get(key) ?? [];
    if (others.length === 0) this.#contents.delete(key);
    else this.#contents.set(key, others);
    return first ?? (typeof value === "string" ? value : key);
  }
}

/** The content of a result output of the AI SDK: text, JSON, or a list of texts and media. */
function toolContent(output: unknown): ToolMessage["content"] {
  const value = fieldOf(output, "value");
  if (textField(output, "type") === "content")
    return listOf(output, "value").map((item) => contentPart(item) ?? textPart(JSON.stringify(jsonOf(item))));
  if (typeof value === "string") return value;
  return value === undefined ? (textField(output, "reason") ?? "") : JSON.stringify(value);
}

// Schemas

/**
 * The input schema as a Standard Schema. A schema of the AI SDK without `validate` is checked by its JSON Schema; a
 * tool without a schema takes any object.
 */
function standardSchema(schema: unknown, name: string): StandardSchema {
  if (isStandardSchema(schema)) return schema;
  if (typeof schema === "function") return standardSchema(Reflect.apply(schema, undefined, []), name);
  const jsonSchema = fieldOf(schema, "jsonSchema") ?? schema ?? { type: "object", properties: {} };
  const json = objectOf(jsonSchema);
  if (json === null || typeof fieldOf(jsonSchema, "then") === "function") {
    const message = `tool "${name}": the JSON Schema of the input is not available at once; await it and pass jsonSchema(…)`;
    throw invalidArgument(message, ["inputSchema"]);
  }
  const validate = fieldOf(schema, "validate");
  return {
    "~standard": {
      version: 1,
      vendor: "ai-sdk",
      validate: async (value) => {
        if (typeof validate !== "function") return checkedByJsonSchema(json, value);
        const result: unknown = await Reflect.apply(validate, schema, [value]);
        if (fieldOf(result, "success") === true) return { value: fieldOf(result, "value") };
        return { issues: [{ message: textField(fieldOf(result, "error"), "message") ?? "the input does not match" }] };
      },
      jsonSchema: { input: () => json, output: () => json },
    },
  };
}

async function checkedByJsonSchema(schema: JsonObject, value: unknown) {
  const checked = await checkValue(schema, jsonOf(value));
  return checked.ok ? { value } : { issues: checked.issues };
}
