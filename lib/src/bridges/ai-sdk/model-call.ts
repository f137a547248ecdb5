// What a call of the AI SDK asks of an engine that serves as its model: options of the run, and tools.

import type { ChatOptions, Engine, Tool } from "../../core/engine/internal.ts";
import type { CallerContext, Json, JsonObject, ToolChoice } from "../../core/model/internal.ts";
import type { ModelWarning } from "./model-parts.ts";
import type { AiSdkCallOptions } from "./specification.ts";

import { tool } from "../../core/engine/internal.ts";
import { invalidArgument } from "../../core/model/internal.ts";
import { fieldOf, objectOf, textField } from "./fields.ts";
import { metadataKey } from "./prompt.ts";
import { providerToolOf } from "./tools.ts";

/** The options of the run. */
export function settingsOf(call: AiSdkCallOptions): ChatOptions {
  const { maxOutputTokens, temperature, topP, seed, stopSequences, reasoning, includeRawChunks } = call;
  const toolChoice = toolChoiceOf(call.toolChoice);
  const responseFormat = responseFormatOf(call.responseFormat);
  const headers = Object.entries(call.headers ?? {}).filter(
    (entry): entry is [string, string] => entry[1] !== undefined && entry[0].toLowerCase() !== "user-agent",
  );
  const providerOptions = objectOf(call.providerOptions);
  const providerTools = (call.tools ?? []).flatMap((definition) => providerToolOf(definition) ?? []);
  return {
    ...(maxOutputTokens === undefined ? {} : { maxTokens: maxOutputTokens }),
    ...(temperature === undefined ? {} : { temperature }),
    ...(topP === undefined ? {} : { topP }),
    ...(seed === undefined ? {} : { seed }),
    ...(stopSequences === undefined ? {} : { stopSequences: [...stopSequences] }),
    ...(toolChoice === null ? {} : { toolChoice }),
    ...(responseFormat === null ? {} : { responseFormat }),
    ...(reasoning === undefined || reasoning === "provider-default" ? {} : { reasoning: { effort: reasoning } }),
    ...(headers.length === 0 ? {} : { adapterOptions: { headers: Object.fromEntries(headers) } }),
    ...(providerOptions === null ? {} : { providerOptions: optionsByProvider(providerOptions) }),
    ...(providerTools.length === 0 ? {} : { providerTools }),
    ...(includeRawChunks === true ? { includeRawChunks } : {}),
  };
}

/** The settings of the call that an engine has no option for. */
export function unsupportedSettings(call: AiSdkCallOptions): readonly ModelWarning[] {
  const features = ["topK", "presencePenalty", "frequencyPenalty"] as const;
  return features.flatMap((feature): readonly ModelWarning[] =>
    call[feature] === undefined
      ? []
      : [{ type: "unsupported", feature, details: "set it in the params of the engine" }],
  );
}

/** The tools that the AI SDK runs, as manual tools. Throws `MisuseError` for a name that a tool of the engine has. */
export function callerToolsOf<Context extends CallerContext>(
  engine: Engine<Context>,
  call: AiSdkCallOptions,
): readonly Tool[] {
  const callerTools = (call.tools ?? []).flatMap((definition) => manualTool(definition) ?? []);
  const clash = callerTools.find(({ name }) => engine.tools.some((own) => own.name === name));
  if (clash === undefined) return callerTools;
  const message = `aiSdkModel: the engine has a tool "${clash.name}", and the call passes another; rename one of them`;
  throw invalidArgument(message);
}

/** A tool that the AI SDK runs: the turn ends with its calls. `null` for tools of a provider. */
function manualTool(definition: unknown): Tool | null {
  if (textField(definition, "type") !== "function") return null;
  const name = textField(definition, "name") ?? "";
  const schema = objectOf(fieldOf(definition, "inputSchema")) ?? { type: "object" };
  return tool({ name, description: textField(definition, "description") ?? `The tool ${name}.`, schema, manual: true });
}

function toolChoiceOf(choice: unknown): ToolChoice | null {
  const type = textField(choice, "type");
  if (type === "auto" || type === "none" || type === "required") return type;
  return type === "tool" ? { type, name: textField(choice, "toolName") ?? "" } : null;
}

function responseFormatOf(format: unknown) {
  if (textField(format, "type") !== "json") return null;
  const schema = objectOf(fieldOf(format, "schema"));
  if (schema === null) return { type: "json_object" } as const;
  return { type: "json_schema", name: textField(format, "name") ?? "answer", schema, strict: true } as const;
}

/** The options by provider, without those of this library. */
function optionsByProvider(options: JsonObject): { [provider: string]: JsonObject } {
  const entries = Object.entries(options).flatMap(([provider, fields]: [string, Json]) => {
    const object = objectOf(fields);
    return object === null || provider === metadataKey ? [] : [[provider, object] as const];
  });
  return Object.fromEntries(entries);
}
