// Tools that a provider defines and the program runs: OpenAI's `shell`, `apply_patch`, `computer` and custom tools,
// Anthropic's `bash`, text editor and memory.
//
// The provider trains its models on these tools, so it defines their arguments and the form of their results.
// `providerTool` pairs such a definition with a handler. The result is one tool: requests contain the provider's
// definition, and its calls go through the same stages as those of every tool (validation, approval, time limit,
// journal, replay policy). The codec gives the answer the form that the API expects
// (core/wire/openai-responses/client-calls.ts).
//
// Two tools decide about approval themselves
//   computer   a call with pending safety checks always needs an approval, because the answer acknowledges them
//   mcp        the provider runs the tool of the MCP server and asks for permission first. The request is a call that
//              needs an approval; its handler does nothing

import type { CallerContext, Json, JsonObject, ProviderTool, ToolMessage } from "../../model/internal.ts";
import type { StandardSchema } from "./schema.ts";
import type { Tool, ToolContext, ToolDefinition } from "./tool.ts";

import { invalidArgument, isJsonArray, toolValueParts } from "../../model/internal.ts";
import { isObject } from "../../model/parse/reading.ts";
import { clientCallName } from "../../wire/internal.ts";
import { fail } from "./directive.ts";
import { tool } from "./tool.ts";

/** The types that a field of the arguments can have. A question mark marks a field that may be absent or `null`. */
type FieldTypes = {
  readonly text: string;
  readonly texts: readonly string[];
  readonly number: number;
  readonly numbers: readonly number[];
  readonly flag: boolean;
  readonly object: JsonObject;
  readonly objects: readonly JsonObject[];
  readonly json: Json;
};
type FieldType = keyof FieldTypes | `${keyof FieldTypes}?`;

/**
 * The arguments of the known tools. Types and validation are derived from this table. Other fields are kept and not
 * checked.
 */
const inputs = {
  shell: { commands: "texts", timeout_ms: "number?", max_output_length: "number?" },
  local_shell: {
    command: "texts",
    env: "object?",
    timeout_ms: "number?",
    user: "text?",
    working_directory: "text?",
  },
  apply_patch: { type: "text", path: "text", diff: "text?" },
  computer: { action: "object?", actions: "objects?", pending_safety_checks: "objects?" },
  computer_use_preview: { action: "object?", actions: "objects?", pending_safety_checks: "objects?" },
  custom: { input: "text" },
  mcp: { server_label: "text", name: "text", arguments: "json?" },
  tool_search: {},
  bash: { command: "text?", restart: "flag?" },
  text_editor: {
    command: "text",
    path: "text",
    file_text: "text?",
    old_str: "text?",
    new_str: "text?",
    insert_line: "number?",
    insert_text: "text?",
    view_range: "numbers?",
  },
  computer_anthropic: {
    action: "text",
    coordinate: "numbers?",
    start_coordinate: "numbers?",
    text: "text?",
    duration: "number?",
    scroll_direction: "text?",
    scroll_amount: "number?",
  },
  browser_toolset: { action: "text" },
  memory: {
    command: "text",
    path: "text?",
    file_text: "text?",
    old_str: "text?",
    new_str: "text?",
    insert_line: "number?",
    insert_text: "text?",
    old_path: "text?",
    new_path: "text?",
    view_range: "numbers?",
  },
} as const satisfies { readonly [tool: string]: { readonly [field: string]: FieldType } };

type Inputs = typeof inputs;
type InputOf<Fields extends { readonly [field: string]: FieldType }> = {
  readonly [
    Key in keyof Fields as Fields[Key] extends keyof FieldTypes ? Key : never
  ]: Fields[Key] extends keyof FieldTypes ? FieldTypes[Fields[Key]] : never;
} & {
  readonly [
    Key in keyof Fields as Fields[Key] extends `${string}?` ? Key : never
  ]?: Fields[Key] extends `${infer Type extends keyof FieldTypes}?` ? FieldTypes[Type] | null : never;
} & JsonObject;

/**
 * The arguments of a provider tool by its name, for example `{ commands: readonly string[] }` for `shell`. The fields
 * have the names of the API. An unknown tool has any JSON object.
 */
export type ProviderToolInput<Name extends string> = Name extends keyof Inputs
  ? InputOf<Inputs[Name]>
  : Name extends `bash_${number}`
    ? InputOf<Inputs["bash"]>
    : Name extends `text_editor_${number}`
      ? InputOf<Inputs["text_editor"]>
      : Name extends `computer_${number}` | `computer_toolset_${number}`
        ? InputOf<Inputs["computer_anthropic"]>
        : Name extends `browser_toolset_${number}`
          ? InputOf<Inputs["browser_toolset"]>
          : Name extends `memory_${number}`
            ? InputOf<Inputs["memory"]>
            : JsonObject;

/** The argument of {@link providerTool}. */
export type ProviderToolDefinition<
  Name extends string = string,
  Context extends CallerContext = CallerContext,
  Result = unknown,
> = Pick<
  ToolDefinition<ProviderToolInput<Name>, Context, Result>,
  "handler" | "manual" | "needsApproval" | "replay" | "timeoutMs" | "concurrency" | "retry" | "toModel" | "metadata"
> & {
  /**
   * The provider that defines the tool, for example `openai` or `anthropic`. Requests to other providers do not contain
   * the tool.
   */
  readonly provider: string;
  /** The provider's name for the tool: the field `type` of its definition, for example `shell` or `bash_20250124`. */
  readonly name: Name;
  /** Further fields of the definition, under the names of the API. Default: none. */
  readonly options?: JsonObject;
};

/**
 * Builds a tool that a provider defines and the program runs. The tool is sent as the provider's own definition, and
 * the handler receives the arguments that the provider defines. Without a handler the tool is `manual`: the run ends,
 * and the caller answers the call.
 *
 * OpenAI (Responses API): `shell`, `local_shell`, `apply_patch`, `computer`, `computer_use_preview`, `custom`, `mcp`
 * (approval requests), `tool_search` with `execution: "client"`; `custom` also with Chat Completions. Anthropic:
 * `bash_*`, `text_editor_*`, `memory_*`, `computer_*`, `computer_toolset_*` and `browser_toolset_*`; the argument
 * `action` of a toolset is the name of its member (`left_click`). Throws `MisuseError` for a tool that the provider
 * runs itself; those belong into the option `providerTools`.
 *
 * @example
 * ```ts
 * import { providerTool } from "everturn";
 *
 * const shell = providerTool({
 *   provider: "openai",
 *   name: "shell",
 *   needsApproval: ({ commands }) => commands.some((command) => command.startsWith("rm")),
 *   handler: ({ commands }) => ({
 *     output: commands.map((command) => ({ stdout: `ran ${command}`, stderr: "", outcome: { type: "exit", exit_code: 0 } })),
 *   }),
 * });
 * shell.name; // => "shell"
 * ```
 */
export function providerTool<
  const Name extends string,
  Result = unknown,
  Context extends CallerContext = CallerContext,
>(definition: ProviderToolDefinition<Name, Context, Result>): Tool<Context> {
  const { provider, name, options = {}, handler, needsApproval, toModel, ...settings } = definition;
  const definedTool: ProviderTool = { provider, name, options };
  const callName = clientCallName(definedTool);
  if (callName === null) {
    throw invalidArgument(
      `providerTool: the provider runs the tool "${name}" itself; list it in the option providerTools. ` +
        'A custom tool needs options.name, and tool_search needs the option execution: "client"',
      ["name"],
    );
  }
  const isApproval = name === "mcp";
  const encoder = toModel ?? encoders.get(name);
  const built = tool<StandardSchema<ProviderToolInput<Name>>, unknown, Context>({
    replay: isApproval ? "safe" : "never",
    ...settings,
    name: callName,
    description: descriptionOf(definedTool),
    schema: inputSchema<Name>(name),
    manual: settings.manual ?? (handler === undefined && !isApproval),
    needsApproval: approvalRule(name, needsApproval ?? isApproval),
    ...(isApproval ? { handler: approvedHandler(handler) } : handler === undefined ? {} : { handler }),
    ...(encoder === undefined ? {} : { toModel: encoder }),
  });
  return { ...built, providerTool: definedTool };
}

/**
 * The tools for provider tools that are listed without a handler: approval requests of MCP servers, and manual tools
 * for the other ones that the program runs.
 */
export function clientTools(providerTools: readonly ProviderTool[]): readonly Tool[] {
  return providerTools.filter((listed) => clientCallName(listed) !== null).map((listed) => providerTool(listed));
}

/**
 * The provider tools that the provider runs itself. An MCP server is among the client tools, because its calls may need
 * an approval.
 */
export function hostedTools(providerTools: readonly ProviderTool[]): readonly ProviderTool[] {
  return providerTools.filter((listed) => clientCallName(listed) === null);
}

/** What a person or a log sees of the tool. Providers do not get it. */
function descriptionOf({ name, options }: ProviderTool): string {
  const { description, server_label: server } = options;
  if (typeof description === "string") return description;
  if (name === "mcp") return `Permission for a call of the MCP server ${typeof server === "string" ? server : ""}.`;
  return `The tool ${name} of the provider.`;
}

type Approval<Input, Context extends CallerContext> = ToolDefinition<Input, Context>["needsApproval"];

/** A computer call with pending safety checks needs an approval, whatever the definition says. */
function approvalRule<Input extends JsonObject, Context extends CallerContext>(
  name: string,
  needsApproval: NonNullable<Approval<Input, Context>>,
): NonNullable<Approval<Input, Context>> {
  if (name !== "computer" && name !== "computer_use_preview") return needsApproval;
  return (input, context) => {
    const checks = input["pending_safety_checks"];
    if (isJsonArray(checks) && checks.length > 0) return true;
    return typeof needsApproval === "function" ? needsApproval(input, context) : needsApproval;
  };
}

/**
 * The handler of an approval request: it runs after the approval. The provider runs the call with its own arguments, so
 * changed ones are a denial.
 */
function approvedHandler<Input extends JsonObject, Context extends CallerContext, Result>(
  handler: ((input: Input, context: ToolContext<Context>) => Result) | undefined,
): (input: Input, context: ToolContext<Context>) => unknown {
  return (input, context) => {
    if (JSON.stringify(input) !== JSON.stringify(context.toolCall.arguments))
      return fail("the arguments of an MCP call cannot be changed; the call was not approved");
    return handler === undefined ? "approved" : handler(input, context);
  };
}

/**
 * How the values of handlers become text for tools with structured answers, independent of the encoder of the run. A
 * text is wrapped, so that text which happens to be JSON is not taken for the structure.
 */
const encoders: ReadonlyMap<string, (value: Json) => ToolMessage["content"]> = new Map([
  [
    "shell",
    (value) =>
      typeof value === "string"
        ? JSON.stringify({ output: [{ stdout: value, stderr: "", outcome: { type: "exit", exit_code: 0 } }] })
        : toolValueParts(value),
  ],
  [
    "apply_patch",
    (value) =>
      value === null || typeof value === "string"
        ? JSON.stringify({ status: "completed", output: value ?? "" })
        : toolValueParts(value),
  ],
  ["computer", toolValueParts],
  ["computer_use_preview", toolValueParts],
  ["local_shell", toolValueParts],
  ["tool_search", toolValueParts],
]);

/** The schema of the arguments: the fields of the table, and any others. */
function inputSchema<Name extends string>(name: Name): StandardSchema<ProviderToolInput<Name>> {
  const fields = Object.entries(inputFields(name));
  const schema = {
    type: "object",
    properties: Object.fromEntries(fields.map(([field, type]) => [field, fieldKind(type).schema])),
    required: fields.filter(([, type]) => !type.endsWith("?")).map(([field]) => field),
  };
  return {
    "~standard": {
      version: 1,
      vendor: "everturn",
      validate: (value) => {
        const wrong = fields.filter(([field, type]) => !hasField(value, field, type));
        if (isInput<Name>(value, wrong.length === 0)) return { value };
        return {
          issues: wrong.map(([field, type]) => ({ path: [field], message: `must be ${fieldKind(type).word}` })),
        };
      },
      jsonSchema: { input: () => schema, output: () => schema },
    },
  };
}

function inputFields(name: string): { readonly [field: string]: FieldType } {
  const key = /^computer_(?:toolset_)?\d+$/.test(name) ? "computer_anthropic" : name.replace(/_\d{8}$/, "");
  const known: { readonly [tool: string]: { readonly [field: string]: FieldType } } = inputs;
  return known[key] ?? {};
}

/** Narrows a value whose fields were checked. */
function isInput<Name extends string>(value: unknown, isChecked: boolean): value is ProviderToolInput<Name> {
  return isChecked && typeof value === "object" && value !== null;
}

function hasField(value: unknown, field: string, type: FieldType): boolean {
  const found: unknown = typeof value === "object" && value !== null ? Reflect.get(value, field) : undefined;
  const isAbsent = found === undefined || found === null;
  if (isAbsent) return type.endsWith("?");
  return fieldKind(type).fits(found);
}

function fieldKind(type: FieldType): FieldKind {
  const known: { readonly [type: string]: FieldKind } = kinds;
  return known[type.replace("?", "")] ?? kinds.json;
}

function isListOf(fits: (item: unknown) => boolean): (value: unknown) => boolean {
  return (value) => Array.isArray(value) && value.every(fits);
}

const isText = (value: unknown) => typeof value === "string";
const isNumber = (value: unknown) => typeof value === "number";

/** How the values of a type are checked, named in errors, and described to the model. */
type FieldKind = {
  readonly word: string;
  readonly schema: JsonObject;
  readonly fits: (value: unknown) => boolean;
};

const kinds: { readonly [Type in keyof FieldTypes]: FieldKind } = {
  text: { word: "a string", schema: { type: "string" }, fits: isText },
  texts: { word: "a list of strings", schema: { type: "array", items: { type: "string" } }, fits: isListOf(isText) },
  number: { word: "a number", schema: { type: "number" }, fits: isNumber },
  numbers: {
    word: "a list of numbers",
    schema: { type: "array", items: { type: "number" } },
    fits: isListOf(isNumber),
  },
  flag: { word: "a boolean", schema: { type: "boolean" }, fits: (value) => typeof value === "boolean" },
  object: { word: "an object", schema: { type: "object" }, fits: isObject },
  objects: {
    word: "a list of objects",
    schema: { type: "array", items: { type: "object" } },
    fits: isListOf(isObject),
  },
  json: { word: "JSON", schema: {}, fits: () => true },
};
