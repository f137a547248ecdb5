// Recorded requests of the Gemini API: the converter to the library's request, and the harmless differences.

import type { AssistantPart, UserPart } from "../../../src/core/model/internal.ts";
import type { Rule } from "./compare.ts";
import type { Converted, RecordedApi, Recording, ReplyForm, RequestFields } from "./convert.ts";
import type { Json, JsonObject, Message, ModelRequest, ToolCall } from "everturn";
import type { ReasoningSettings, ToolChoice, ToolSpec, WireContext } from "everturn/advanced";

import { assistant, filePart, system, textPart, toolResult, user } from "everturn";
import { jsonSchema, request, toolSpec, geminiGenerateContent } from "everturn/advanced";

import { toolCallPart } from "../../../src/core/model/internal.ts";
import { geminiJson } from "../../../src/core/wire/schema-rules.ts";
import { recordedRule, rule } from "./compare.ts";
import { contextFor, decodeTurn, isBlank, optionNames, ProviderOptions } from "./convert.ts";
import {
  flagOf,
  isEmpty,
  isList,
  isObject,
  listOf,
  mapField,
  mapObjects,
  numberOf,
  objectOf,
  objectsOf,
  parsedOrText,
  stringOrNull,
  without,
  withoutNulls,
} from "./json.ts";
import { documentedSchema } from "./schemas.ts";

const provider = "gemini";

export const recordedGemini: RecordedApi = {
  api: "gemini",
  codec: geminiGenerateContent,
  convert,
  rules: () => rules,
  documented: new Set(
    "model contents systemInstruction tools toolConfig generationConfig safetySettings cachedContent labels serviceTier store modelArmorConfig".split(
      " ",
    ),
  ),
};

// Converter

const typedFields = ["model", "contents", "systemInstruction", "tools", "toolConfig", "generationConfig"];
const typedConfig = [
  "temperature",
  "topP",
  "maxOutputTokens",
  "stopSequences",
  "seed",
  "responseMimeType",
  "responseSchema",
  "responseJsonSchema",
  "thinkingConfig",
];

function convert({ body: recordedBody, model: knownModel }: Recording, form: ReplyForm): Converted {
  const body = withoutNulls(camelCased(recordedBody));
  const config = withoutNulls(objectOf(body["generationConfig"]));
  const thinkingConfig = withoutNulls(objectOf(config["thinkingConfig"]));
  // The path names the model, and the recording has only the body. Levels of thinking and signatures exist since
  // Gemini 3.
  const isNew =
    thinkingConfig["thinkingLevel"] !== undefined ||
    JSON.stringify(body["contents"] ?? null).includes('"thoughtSignature"');
  const fallbackModel = isNew ? "gemini-3-flash" : "gemini-2.5-flash";
  const model = (knownModel ?? stringOrNull(body["model"]) ?? fallbackModel).replace(/^models\//, "");
  const context = contextFor(provider, model, "gemini");
  const providerOptions = new ProviderOptions(provider);
  const choice = convertToolChoice(objectOf(body["toolConfig"]));
  const thinking = convertThinking(thinkingConfig);
  const format = convertFormat(config);
  const configOptions = { ...without(config, ...typedConfig), ...thinking.options, ...format.options };
  const options: JsonObject = {
    ...without(body, ...typedFields),
    ...(isEmpty(configOptions) ? {} : { generationConfig: configOptions }),
    ...(isEmpty(choice.options) ? {} : { toolConfig: choice.options }),
  };
  const fields: RequestFields = {
    model,
    ...convertTools(body, providerOptions),
    toolChoice: choice.choice,
    temperature: numberOf(config["temperature"]),
    topP: numberOf(config["topP"]),
    maxTokens: numberOf(config["maxOutputTokens"]),
    stopSequences: listOf(config["stopSequences"]).flatMap((text) => stringOrNull(text) ?? []),
    seed: numberOf(config["seed"]),
    reasoning: thinking.reasoning,
    responseFormat: format.format,
    providerOptions: { [provider]: options },
  };
  return {
    request: request(
      [...convertSystem(body["systemInstruction"]), ...convertContents(body, form, context, providerOptions)],
      fields,
    ),
    context,
    options: optionNames(options, new Set(["generationConfig", "toolConfig"])),
    providerOptions: providerOptions.names,
  };
}

function convertThinking(config: JsonObject): {
  readonly reasoning: ReasoningSettings | null;
  readonly options: JsonObject;
} {
  const { thinkingBudget, thinkingLevel, includeThoughts, ...others } = config;
  if (isEmpty(config)) return { reasoning: null, options: {} };
  const budget = numberOf(thinkingBudget);
  const level = stringOrNull(thinkingLevel);
  const thoughts = flagOf(includeThoughts);
  const summary = thoughts === null ? null : thoughts ? "auto" : "none";
  // A negative budget (the model decides) is no count.
  const isCount = budget !== null && budget > 0;
  const rest = { ...others, ...(budget !== null && budget < 0 ? { thinkingBudget: budget } : {}) };
  return {
    reasoning: { effort: budget === 0 ? "none" : level, budgetTokens: isCount ? budget : null, summary },
    options: isEmpty(rest) ? {} : { thinkingConfig: rest },
  };
}

function convertFormat(config: JsonObject): {
  readonly format: ModelRequest["responseFormat"];
  readonly options: JsonObject;
} {
  const { responseMimeType, responseSchema, responseJsonSchema } = config;
  if (responseMimeType !== "application/json") {
    const rest = { responseMimeType, responseSchema, responseJsonSchema };
    const given = Object.entries(rest).filter((entry): entry is [string, Json] => entry[1] !== undefined);
    return {
      format: responseMimeType === "text/plain" ? { type: "text" } : null,
      options: Object.fromEntries(given.filter(([, value]) => value !== "text/plain")),
    };
  }
  const schema = responseJsonSchema ?? (responseSchema === undefined ? undefined : toJsonSchema(responseSchema));
  return { format: isObject(schema) ? jsonSchema("answer", schema) : { type: "json_object" }, options: {} };
}

function convertToolChoice(config: JsonObject): { readonly choice: ToolChoice | null; readonly options: JsonObject } {
  const { functionCallingConfig, ...others } = config;
  const { mode, allowedFunctionNames, ...rest } = objectOf(functionCallingConfig);
  const names = listOf(allowedFunctionNames).flatMap((name) => stringOrNull(name) ?? []);
  const [only] = names;
  const choices: { readonly [mode: string]: ToolChoice | undefined } = {
    AUTO: "auto",
    NONE: "none",
    ANY:
      names.length === 0
        ? "required"
        : names.length === 1 && only !== undefined
          ? { type: "tool", name: only }
          : undefined,
  };
  const choice =
    typeof mode === "string" && isEmpty(rest) && (names.length === 0 || mode === "ANY") ? choices[mode] : undefined;
  if (functionCallingConfig === undefined) return { choice: null, options: others };
  // Several allowed functions, and the mode `VALIDATED`, have no type in the library.
  return choice === undefined ? { choice: null, options: config } : { choice, options: others };
}

function convertTools(
  body: JsonObject,
  providerOptions: ProviderOptions,
): Pick<ModelRequest, "tools" | "providerTools"> {
  const entries = objectsOf(isObject(body["tools"]) ? [body["tools"]] : body["tools"]);
  const tools = entries.flatMap(({ functionDeclarations }) =>
    objectsOf(functionDeclarations).map((declaration): ToolSpec => {
      const { name, description, parameters, parametersJsonSchema, ...others } = withoutNulls(declaration);
      const schema = parametersJsonSchema ?? (parameters === undefined ? undefined : toJsonSchema(parameters));
      return toolSpec({
        name: stringOrNull(name) ?? "",
        description: stringOrNull(description) ?? "",
        schema: isObject(schema) ? schema : { type: "object", properties: {} },
        ...providerOptions.of("functionDeclarations[]", others),
      });
    }),
  );
  const providerTools = entries.flatMap((entry) =>
    Object.entries(without(entry, "functionDeclarations")).map(([name, options]) => ({
      provider,
      name,
      options: objectOf(options),
    })),
  );
  return { tools, providerTools };
}

function convertSystem(instruction: Json | undefined): readonly Message[] {
  const texts =
    typeof instruction === "string"
      ? [instruction]
      : partsOf(objectOf(instruction)).flatMap((part) => stringOrNull(part["text"]) ?? []);
  return texts.map((text) => system(text));
}

function partsOf(content: JsonObject): readonly JsonObject[] {
  return isObject(content["parts"]) ? [content["parts"]] : objectsOf(content["parts"]);
}

function convertContents(
  body: JsonObject,
  form: ReplyForm,
  context: WireContext,
  providerOptions: ProviderOptions,
): readonly Message[] {
  let calls: ToolCall[] = [];
  return joinReplies(objectsOf(body["contents"])).flatMap((content): readonly Message[] => {
    const parts = partsOf(content);
    if (content["role"] === "model") {
      const reply = convertReply(parts, form, context);
      calls = [...calls, ...reply.toolCalls];
      return [reply];
    }
    const messages: Message[] = [];
    let userParts: UserPart[] = [];
    for (const part of parts) {
      if (part["functionResponse"] === undefined) {
        userParts.push(convertPart(part, providerOptions));
        continue;
      }
      if (!isBlank(userParts)) messages.push(user(userParts));
      userParts = [];
      messages.push(convertResult(objectOf(part["functionResponse"]), calls, providerOptions));
    }
    return isBlank(userParts) ? messages : [...messages, user(userParts)];
  });
}

/**
 * A turn of the model with calls and the next turn of the model are one reply: the results of the calls follow after
 * both.
 */
function joinReplies(contents: readonly JsonObject[]): readonly JsonObject[] {
  const joined: JsonObject[] = [];
  for (const content of contents) {
    const last = joined.at(-1);
    const joins =
      last?.["role"] === "model" &&
      content["role"] === "model" &&
      partsOf(last).some(({ functionCall }) => functionCall !== undefined);
    if (!joins) joined.push(content);
    else joined.splice(-1, 1, { ...last, parts: [...partsOf(last), ...partsOf(content)] });
  }
  return joined;
}

/** The result of the first unanswered call with the id, or else with the name. Removes the call from `calls`. */
function convertResult(response: JsonObject, calls: ToolCall[], providerOptions: ProviderOptions): Message {
  const { id, name, response: value, parts, ...others } = withoutNulls(response);
  const byId = calls.findIndex((call) => call.id === id);
  const byName = calls.findIndex((call) => call.name === name);
  const [call] = calls.splice(byId === -1 ? Math.max(byName, 0) : byId, 1);
  const { isError, result } = resultOf(objectOf(value));
  const text = typeof result === "string" ? result : JSON.stringify(result);
  const media = objectsOf(parts).map((part) => convertPart(part, providerOptions));
  return toolResult(call?.id ?? stringOrNull(id) ?? "", media.length === 0 ? text : [textPart(text), ...media], {
    name: stringOrNull(name),
    status: isError ? "failure" : "success",
    ...providerOptions.of("functionResponse", others),
  });
}

/**
 * What a function returned. The API documents `output` and `error`; SDKs also write `result`, `{ name, content }`, or
 * the value itself.
 */
function resultOf(response: JsonObject): { readonly isError: boolean; readonly result: Json } {
  const names = Object.keys(response);
  const [only] = names;
  const error = response["error"];
  if (names.length === 1 && error !== undefined) return { isError: true, result: error };
  if (names.length === 1 && (only === "output" || only === "result"))
    return { isError: false, result: response[only] ?? null };
  if (names.length === 2 && response["content"] !== undefined && typeof response["name"] === "string")
    return { isError: false, result: response["content"] };
  return { isError: false, result: response };
}

function convertPart(part: JsonObject, providerOptions: ProviderOptions): UserPart {
  const extra = (...typed: readonly string[]) => providerOptions.of("parts[]", without(part, ...typed));
  const inline = part["inlineData"];
  const file = part["fileData"];
  if (isObject(inline)) {
    return filePart(
      { type: "base64", data: stringOrNull(inline["data"]) ?? "" },
      { mimeType: stringOrNull(inline["mimeType"]), ...extra("inlineData") },
    );
  }
  if (isObject(file)) {
    return filePart(
      { type: "url", url: stringOrNull(file["fileUri"]) ?? "" },
      { mimeType: stringOrNull(file["mimeType"]), ...extra("fileData") },
    );
  }
  if (typeof part["text"] === "string") return textPart(part["text"], extra("text"));
  throw new Error(`a part with the fields ${Object.keys(part).join(", ")} has no counterpart in a user message`);
}

function convertReply(
  parts: readonly JsonObject[],
  form: ReplyForm,
  context: WireContext,
): Extract<Message, { role: "assistant" }> {
  const isPlain = parts.every((part) => {
    const call = objectOf(part["functionCall"]);
    return isEmpty(without(part, "text", "functionCall")) && isEmpty(without(call, "name", "args"));
  });
  if (form === "written" && isPlain) {
    const ids = parts.map((_, index) => `call_${index}`);
    const toolCalls = parts.flatMap(({ functionCall }, index) =>
      isObject(functionCall)
        ? [
            {
              id: ids[index] ?? "",
              name: stringOrNull(functionCall["name"]) ?? "",
              arguments: objectOf(functionCall["args"]),
            },
          ]
        : [],
    );
    const content = parts.map((part, index): AssistantPart =>
      part["functionCall"] === undefined ? textPart(stringOrNull(part["text"]) ?? "") : toolCallPart(ids[index] ?? ""),
    );
    return assistant(content, { toolCalls });
  }
  return decodeTurn(geminiGenerateContent, context, {
    candidates: [{ content: { role: "model", parts }, finishReason: "STOP", index: 0 }],
  });
}

// Harmless differences

/** The value that Google documents for a call without a signature. */
const placeholderSignature = "skip_thought_signature_validator";

const rules: readonly Rule[] = [
  recordedRule("names in snake_case", "the API reads protocol fields in both spellings", camelCased),
  recordedRule("model in the body", "the path names the model", (body) => without(body, "model")),
  rule("null field", "the API reads `null` as an absent field", withoutNulls),
  rule("default written out", "the value is the API's default, or an object or list without content", removeDefaults),
  rule("system text", "the parts of the instruction are one text, and its role has no meaning", (body) =>
    mapField(body, "systemInstruction", (instruction) => {
      const texts =
        typeof instruction === "string"
          ? [instruction]
          : partsOf(objectOf(instruction)).map((part) => stringOrNull(part["text"]) ?? "");
      const text = texts.filter((part) => part !== "").join("\n\n");
      return text === "" ? undefined : { parts: [{ text }] };
    }),
  ),
  rule(
    "schema dialect",
    "the API takes parameters and answers as an OpenAPI schema or as the JSON Schema of the same meaning",
    jsonSchemas,
  ),
  rule("schema keyword", "`$schema` names the dialect", (body) =>
    eachSchema(body, (schema) => without(objectOf(schema), "$schema")),
  ),
  rule(
    "keywords of an answer",
    "the API ignores keywords that are not in its list; the description names them",
    (body) =>
      mapField(body, "generationConfig", (config) =>
        without(documentedSchema({ ...objectOf(config), strict: true }, "responseJsonSchema", geminiJson), "strict"),
      ),
  ),
  rule(
    "function without parameters",
    "absent parameters are an object without properties; an empty description is an absent one",
    (body) =>
      mapObjects(body, "tools", (entry) =>
        mapObjects(entry, "functionDeclarations", (declaration) => {
          const described = declaration["description"] === "" ? without(declaration, "description") : declaration;
          const { parametersJsonSchema: schema } = described;
          return schema === undefined
            ? { ...described, parametersJsonSchema: { type: "object", properties: {} } }
            : described;
        }),
      ),
  ),
  rule("list of tools", "functions and provider tools may share an entry of the list or have one each", splitTools),
  rule(
    "result of a function",
    "SDKs write a result in different objects; the library sends the text of the result under `output` or `error`, which keeps large numbers exact",
    (body) =>
      eachPart(body, (part) =>
        mapField(part, "functionResponse", (value) =>
          mapField(objectOf(value), "response", (response) => {
            const { isError, result } = resultOf(objectOf(response));
            return { [isError ? "error" : "output"]: typeof result === "string" ? parsedOrText(result) : result };
          }),
        ),
      ),
  ),
  rule("placeholder signature", "Google documents the value for a call without a signature", (body) =>
    eachPart(body, (part) =>
      part["thoughtSignature"] === placeholderSignature ? without(part, "thoughtSignature") : part,
    ),
  ),
  recordedRule("thought without signature", "the API does not read a thought without its signature", (body) =>
    mapObjects(body, "contents", (content) => {
      const parts = partsOf(content).filter(
        (part) => part["thought"] !== true || part["thoughtSignature"] !== undefined,
      );
      return parts.length === 0 ? [] : [{ ...content, parts }];
    }),
  ),
  rule("empty text", "the API refuses empty text parts; the library does not send them", (body) =>
    mapObjects(body, "contents", (content) => {
      const parts = partsOf(content).filter((part) => part["text"] !== "" || part["thoughtSignature"] !== undefined);
      return parts.length === 0 ? [] : [{ ...content, parts }];
    }),
  ),
  rule(
    "media of a result",
    "media belongs to the result in `functionResponse.parts` and after it in the same turn",
    (body) =>
      mapObjects(body, "contents", (content) => ({
        ...content,
        parts: partsOf(content).flatMap((part) => {
          const response = objectOf(part["functionResponse"]);
          const media = objectsOf(response["parts"]);
          return media.length === 0 ? [part] : [{ ...part, functionResponse: without(response, "parts") }, ...media];
        }),
      })),
  ),
  rule(
    "turn boundaries",
    "results of functions are a turn of their own; neighbouring turns of the model or of results are one",
    (body) => mapField(body, "contents", joinTurns),
  ),
  rule("text of a reply", "neighbouring texts of a reply without signatures are one text", (body) =>
    mapObjects(body, "contents", (content) =>
      content["role"] === "model" ? { ...content, parts: joinTexts(partsOf(content)) } : content,
    ),
  ),
];

/** Joins neighbouring text parts that have no other field. */
function joinTexts(parts: readonly JsonObject[]): readonly JsonObject[] {
  const joined: JsonObject[] = [];
  for (const part of parts) {
    const last = joined.at(-1);
    if (last === undefined || !isPlainText(last) || !isPlainText(part)) joined.push(part);
    else joined.splice(-1, 1, { text: `${stringOrNull(last["text"])}${stringOrNull(part["text"])}` });
  }
  return joined;
}

function isPlainText(part: JsonObject): boolean {
  return typeof part["text"] === "string" && isEmpty(without(part, "text"));
}

function eachPart(body: JsonObject, change: (part: JsonObject) => JsonObject): JsonObject {
  return mapObjects(body, "contents", (content) => ({ ...content, parts: partsOf(content).map(change) }));
}

function removeDefaults(body: JsonObject): JsonObject {
  const withConfig = mapField(body, "generationConfig", (value) => {
    const config = withoutNulls(objectOf(value));
    const isDefault: { readonly [name: string]: (value: Json) => boolean } = {
      responseMimeType: (type) => type === "text/plain",
      candidateCount: (count) => count === 1,
      stopSequences: (list) => listOf(list).length === 0,
      thinkingConfig: (thinking) => isEmpty(objectOf(thinking)),
    };
    const kept = Object.entries(config).filter(([name, item]) => isDefault[name]?.(item) !== true);
    return kept.length === 0 ? undefined : Object.fromEntries(kept);
  });
  const withTools = mapField(withConfig, "tools", (tools) =>
    isList(tools) && tools.length === 0 ? undefined : isObject(tools) ? [tools] : tools,
  );
  const hasFunctions = objectsOf(withTools["tools"]).some((entry) => entry["functionDeclarations"] !== undefined);
  const withChoice = mapField(withTools, "toolConfig", (value) => {
    const config = mapField(objectOf(value), "functionCallingConfig", (calling) => {
      const { mode } = objectOf(calling);
      // Without functions there is nothing to choose from.
      return isEmpty(objectOf(calling)) || !hasFunctions || mode === "AUTO" ? undefined : calling;
    });
    return isEmpty(config) ? undefined : config;
  });
  const withSettings = mapField(withChoice, "safetySettings", (list) => (listOf(list).length === 0 ? undefined : list));
  return mapObjects(withSettings, "contents", (content) => ({
    ...content,
    role: content["role"] === "model" ? "model" : "user",
  }));
}

/** Splits the list of tools: all functions first, then one entry for each provider tool. */
function splitTools(body: JsonObject): JsonObject {
  return mapField(body, "tools", (value) => {
    const entries = objectsOf(value);
    const functionDeclarations = entries.flatMap((entry) => objectsOf(entry["functionDeclarations"]));
    const others = entries.flatMap((entry) =>
      Object.entries(without(entry, "functionDeclarations")).map(([name, options]): JsonObject => ({
        [name]: options,
      })),
    );
    return functionDeclarations.length === 0 ? others : [{ functionDeclarations }, ...others];
  });
}

/**
 * Turns of results, with the media beside them, then turns without. Neighbouring turns of the model, and of results,
 * are joined.
 */
function joinTurns(value: Json): Json {
  const turns: { readonly role: Json; readonly kind: string; readonly parts: JsonObject[] }[] = [];
  for (const content of objectsOf(value)) {
    const { role } = content;
    let kind: string | null = null;
    for (const part of partsOf(content)) {
      const isResult: boolean = part["functionResponse"] !== undefined || (kind === "results" && isMedia(part));
      const previous: string | null = kind;
      kind = role === "model" ? "model" : isResult ? "results" : "user";
      const last = turns.at(-1);
      const joins = last?.kind === kind && (kind !== "user" || previous === "user");
      if (joins && last !== undefined) last.parts.push(part);
      else turns.push({ role: role ?? "user", kind, parts: [part] });
    }
  }
  return turns.map(({ role, parts }) => ({ role, parts }));
}

function isMedia(part: JsonObject): boolean {
  return part["inlineData"] !== undefined || part["fileData"] !== undefined;
}

/** Applies a change to every schema of the body. */
function eachSchema(body: JsonObject, change: (schema: Json) => Json): JsonObject {
  const withTools = mapObjects(body, "tools", (entry) =>
    mapObjects(entry, "functionDeclarations", (declaration) => mapField(declaration, "parametersJsonSchema", change)),
  );
  return mapField(withTools, "generationConfig", (config) => mapField(objectOf(config), "responseJsonSchema", change));
}

/** Writes every schema as JSON Schema, under the name of the field for JSON Schema. */
function jsonSchemas(body: JsonObject): JsonObject {
  const withTools = mapObjects(body, "tools", (entry) =>
    mapObjects(entry, "functionDeclarations", (declaration) =>
      renameSchema(declaration, "parameters", "parametersJsonSchema"),
    ),
  );
  return mapField(withTools, "generationConfig", (config) =>
    renameSchema(objectOf(config), "responseSchema", "responseJsonSchema"),
  );
}

function renameSchema(object: JsonObject, from: string, to: string): JsonObject {
  const schema = object[from];
  return schema === undefined ? object : { ...without(object, from), [to]: toJsonSchema(schema) };
}

const countKeywords = ["minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties"];

/** The JSON Schema of an OpenAPI schema: types in lower case, `nullable` as the type `null`, and counts as numbers. */
function toJsonSchema(schema: Json): Json {
  if (!isObject(schema)) return schema;
  const { nullable, ...others } = schema;
  const entries = Object.entries(others).map(([name, value]): [string, Json] => {
    if (name === "type") return [name, isList(value) ? value.map(lowerCase) : lowerCase(value)];
    if (name === "properties" || name === "$defs")
      return [
        name,
        Object.fromEntries(Object.entries(objectOf(value)).map(([key, inner]) => [key, toJsonSchema(inner)])),
      ];
    if (name === "items" || name === "additionalProperties") return [name, toJsonSchema(value)];
    if (name === "anyOf") return [name, listOf(value).map(toJsonSchema)];
    if (countKeywords.includes(name) && typeof value === "string") return [name, Number(value)];
    return [name, value];
  });
  const converted: JsonObject = Object.fromEntries(entries);
  if (nullable !== true) return converted;
  if (isList(converted["anyOf"])) return { ...converted, anyOf: [...converted["anyOf"], { type: "null" }] };
  return typeof converted["type"] === "string" ? { ...converted, type: [converted["type"], "null"] } : converted;
}

function lowerCase(value: Json): Json {
  return typeof value === "string" ? value.toLowerCase() : value;
}

/** Fields whose content is the caller's: their keys keep their spelling. */
const openFields: ReadonlySet<string> = new Set([
  "args",
  "response",
  "parameters",
  "parametersJsonSchema",
  "responseSchema",
  "responseJsonSchema",
  "labels",
]);

/** The body with the keys of protocol fields in camelCase. */
function camelCased(body: JsonObject): JsonObject {
  return Object.fromEntries(
    Object.entries(body).map(([key, value]): [string, Json] => {
      const name = key.replaceAll(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());
      return [name, openFields.has(name) ? value : camelCasedValue(value)];
    }),
  );
}

function camelCasedValue(value: Json): Json {
  if (isList(value)) return value.map(camelCasedValue);
  return isObject(value) ? camelCased(value) : value;
}
