// Encodes requests for the Gemini API: `contents` (turns of parts), `systemInstruction`, `generationConfig`, `tools`
// and `toolConfig`.
//
// Invariants
//   1. Schemas are sent as JSON Schema (`parametersJsonSchema`, `responseJsonSchema`), without the keyword `$schema`.
//      That of an answer is written in the keywords that the API reads (`schema-rules.ts`).
//   2. All results of one reply's calls are one turn, directly after the reply. Consecutive replies are one turn,
//      because a turn with `functionCall` parts has to follow a user turn (fixtures/wire/gemini/tool-results).
//   3. The id of a call is sent only if the API assigned it on this route. Without ids the API matches results to calls
//      by name and order.
//   4. Gemini 3 refuses a reply whose first `functionCall` has no `thoughtSignature`. A call that another model made is
//      sent with the placeholder that Google documents for this case.
//   5. The encoded form of a message is cached by message identity, for the route it was last sent by.
//   6. The API refuses turns without parts: a message with no content is not sent and is listed in `omissions` as
//      `repaired`.
//   7. Provider options of a part, a call, a tool message (`functionResponse`) or a tool (its declaration) are fields
//      of its object. The API has no fields on the turns that other messages become: options of such a message are
//      listed in `omissions`.
//   8. Provider options and `options` of the request are merged last, leaf by leaf. `quirks.without` removes fields
//      after that.
//   9. All system messages are `systemInstruction`; those after the first other message are reported. A note of the
//      runtime (a system message with an origin) is sent in its place as a user turn instead, because it makes sense
//      only there: the result of a code cell.

import type {
  AssistantMessage,
  AssistantPart,
  ContentSource,
  Json,
  JsonObject,
  Message,
  ModelRequest,
  ProviderReplay,
  ProviderRoute,
  ReasoningSettings,
  ToolCall,
  ToolMessage,
  UserPart,
} from "../../model/internal.ts";
import type { EncodedRequest, Omission, WireContext } from "../codec.ts";

import { replayFor, textOrPlaceholder } from "../../model/internal.ts";
import { asObject, omitNullish, textAt } from "../fields.ts";
import { nothingToSend, sendableHistory } from "../history.ts";
import {
  authorName,
  choiceWithoutTools,
  foreignTool,
  inMessage,
  isForced,
  noSchemaOutput,
  removedField,
  unsupported,
} from "../omission.ts";
import { callerFields, mergeFields, optionsFor, withOptions } from "../provider-options.ts";
import { requestError } from "../request-error.ts";
import { sendableResult } from "../result-parts.ts";
import { adaptSchema } from "../schema-adaptation.ts";
import { geminiJson } from "../schema-rules.ts";

/**
 * Encodes a request. Throws `AdapterError` for media that cannot be sent, for a model name that is no path, and for a
 * request without content.
 */
export function encode(request: ModelRequest, context: WireContext): EncodedRequest {
  const { route, quirks } = context;
  const omissions: Omission[] = [];
  const { system, contents } = encodeHistory(request.messages, route, omissions);
  const options = callerFields(request, route);
  if (contents.length === 0 && options["contents"] === undefined) throw nothingToSend(route);
  const tools = encodeTools(request, route, omissions);
  const config = encodeGenerationConfig(request, context, omissions);
  const body = omitNullish({
    contents,
    systemInstruction: system === "" ? null : { parts: [{ text: system }] },
    tools: tools.length === 0 ? null : tools,
    toolConfig: encodeToolConfig(request, omissions),
    generationConfig: Object.keys(config).length === 0 ? null : config,
  });
  if (request.promptCache !== null) {
    const why =
      "the Gemini API caches prefixes by itself and has no field for it; explicit caches are options.cachedContent";
    omissions.push(unsupported("promptCache", why));
  }
  if (request.compactAt !== undefined) omissions.push(unsupported("compactAt", "the Gemini API has no compaction"));
  if (request.parallelToolCalls === false)
    omissions.push(unsupported("parallelToolCalls", "the Gemini API cannot limit a reply to one call"));
  const removedFields = quirks.without ?? [];
  const presentFields = [...Object.keys(body), ...Object.keys(config)];
  omissions.push(...presentFields.filter((field) => removedFields.includes(field)).map(removedField));
  return {
    path: `/${modelPath(route)}:streamGenerateContent?alt=sse`,
    body: omitFields(mergeFields(body, options), removedFields),
    headers: {},
    omissions,
  };
}

/**
 * The path of the model: `models/<name>`, or the name itself if it contains a collection (`tunedModels/...`). Every
 * segment is percent-encoded, and `.`, `..` and empty segments are refused, which prevents path traversal out of the
 * base URL.
 */
function modelPath(route: ProviderRoute): string {
  const { model } = route;
  const segments = (model.includes("/") ? model : `models/${model}`).split("/");
  const encodedSegments = segments.map((segment) => (isDotSegment(segment) ? null : encodeSegment(segment)));
  if (encodedSegments.includes(null))
    throw requestError(`${JSON.stringify(model)} is not a valid model name`, route, "invalid_request");
  return encodedSegments.join("/");
}

/** Segments that URL parsers resolve (RFC 3986, section 5.2.4) or that are empty. */
function isDotSegment(segment: string): boolean {
  return segment === "" || segment === "." || segment === "..";
}

/** Percent-encodes a segment. `null`: it holds a lone surrogate, which `encodeURIComponent` refuses. */
function encodeSegment(segment: string): string | null {
  try {
    return encodeURIComponent(segment);
  } catch {
    return null;
  }
}

/** Removes the fields of `quirks.without` from the body and from `generationConfig`. */
function omitFields(body: JsonObject, fields: readonly string[]): JsonObject {
  if (fields.length === 0) return body;
  const allowedEntries = (object: JsonObject) => Object.entries(object).filter(([key]) => !fields.includes(key));
  return Object.fromEntries(
    allowedEntries(body).map(([key, value]): [string, Json] => {
      const config = key === "generationConfig" ? asObject(value) : null;
      return [key, config === null ? value : Object.fromEntries(allowedEntries(config))];
    }),
  );
}

// Settings

/** `generationConfig`: limits, sampling, output format and thinking. */
function encodeGenerationConfig(
  request: ModelRequest,
  { route, quirks }: WireContext,
  omissions: Omission[],
): JsonObject {
  const { responseFormat, reasoning, stopSequences } = request;
  const takesSchema = quirks.jsonSchema !== false;
  const schema = responseFormat?.type === "json_schema" ? responseSchema(responseFormat.schema) : null;
  if (schema !== null && !takesSchema) omissions.push(unsupported("responseFormat.schema", noSchemaOutput));
  const thinking = reasoning === null ? {} : encodeThinking(reasoning, route, omissions);
  return omitNullish({
    maxOutputTokens: request.maxTokens,
    temperature: request.temperature,
    topP: request.topP,
    stopSequences: stopSequences.length === 0 ? null : stopSequences,
    seed: request.seed,
    responseMimeType: responseFormat === null || responseFormat.type === "text" ? null : "application/json",
    responseJsonSchema: takesSchema ? schema : null,
    thinkingConfig: Object.keys(thinking).length === 0 ? null : thinking,
  });
}

/**
 * `thinkingConfig`: `thinkingLevel` from Gemini 3 on, `thinkingBudget` in tokens before. The API refuses both together;
 * the level wins.
 */
function encodeThinking(reasoning: ReasoningSettings, route: ProviderRoute, omissions: Omission[]): JsonObject {
  const { effort, budgetTokens, summary } = reasoning;
  const includeThoughts = summary === null ? null : summary !== "none";
  if (effort === "none") return omitNullish({ thinkingBudget: 0, includeThoughts });
  const takesLevel = effort !== null && !isBeforeGemini3(route.model);
  if (effort !== null && !takesLevel) {
    const why = "models before Gemini 3 have no thinking levels; set reasoning.budgetTokens";
    omissions.push(unsupported("reasoning.effort", why));
  }
  if (takesLevel && budgetTokens !== null) {
    const why = "the API refuses a thinking budget beside a thinking level, and reasoning.effort is set";
    omissions.push(unsupported("reasoning.budgetTokens", why));
  }
  return takesLevel
    ? omitNullish({ thinkingLevel: effort, includeThoughts })
    : omitNullish({ thinkingBudget: budgetTokens, includeThoughts });
}

/** Names of Gemini 1 and 2 models. Unknown names count as newer. */
function isBeforeGemini3(model: string): boolean {
  return /gemini-[12](?!\d)/.test(model);
}

/** The schema of the answer in the keywords that the API reads. */
function responseSchema(schema: JsonObject): JsonObject {
  const adapted = adaptSchema(schema, geminiJson);
  return adapted.type === "adapted" ? adapted.schema : withoutSchemaKeyword(schema);
}

/** The schema without `$schema`. */
function withoutSchemaKeyword(schema: JsonObject): JsonObject {
  const { $schema: _, ...schemaFields } = schema;
  return schemaFields;
}

/**
 * The parameters of a function. The API requires an object, so a schema that says nothing about its type, or that lists
 * several, has that type.
 */
function parametersOf(schema: JsonObject): JsonObject {
  const { type, ...fields } = withoutSchemaKeyword(schema);
  const isTyped = ["$ref", "anyOf", "oneOf", "allOf"].some((keyword) => schema[keyword] !== undefined);
  if (typeof type === "string") return { type, ...fields };
  return type === undefined && isTyped ? fields : { type: "object", ...fields };
}

/** Function declarations as one entry, then one entry for each tool that Gemini runs (`{ googleSearch: {} }`). */
function encodeTools(request: ModelRequest, route: ProviderRoute, omissions: Omission[]): readonly JsonObject[] {
  const functionDeclarations = request.tools.map((tool) => {
    const { name, description, schema } = tool;
    const declaration = { name, description, parametersJsonSchema: parametersOf(schema) };
    return withOptions(declaration, optionsFor(tool, route));
  });
  const hostedTools = request.providerTools.flatMap((tool, index): readonly JsonObject[] => {
    if (tool.provider === route.provider) return [{ [tool.name]: tool.options }];
    omissions.push(foreignTool(index, tool.provider));
    return [];
  });
  return functionDeclarations.length === 0 ? hostedTools : [{ functionDeclarations }, ...hostedTools];
}

/** `toolConfig`. The API refuses a `functionCallingConfig` without functions, so it is omitted then. */
function encodeToolConfig(request: ModelRequest, omissions: Omission[]): JsonObject | null {
  const { tools, toolChoice } = request;
  if (toolChoice === null) return null;
  if (tools.length === 0) {
    if (isForced(request)) omissions.push(choiceWithoutTools);
    return null;
  }
  if (typeof toolChoice === "object")
    return { functionCallingConfig: { mode: "ANY", allowedFunctionNames: [toolChoice.name] } };
  const modes = { auto: "AUTO", none: "NONE", required: "ANY" } as const;
  return { functionCallingConfig: { mode: modes[toolChoice] } };
}

// History

/**
 * The encoded parts of a message. `omissions` has paths relative to the message; `call` is the call that a tool result
 * answers, part of the cache key.
 */
type EncodedMessage = {
  readonly route: string;
  readonly call: ToolCall | null;
  readonly parts: readonly JsonObject[];
  readonly omissions: readonly Omission[];
};
// For each message, its parts on the route it was last encoded for.
const encodedMessages = new WeakMap<Message, EncodedMessage>();

/**
 * One element of `contents`. `messageRole` is the role of its messages in the library, which decides whether another
 * message joins it.
 */
type ContentTurn = {
  readonly role: "user" | "model";
  readonly messageRole: Message["role"];
  readonly parts: JsonObject[];
};

/** Encodes the history into `contents` and the text of `systemInstruction`. */
function encodeHistory(
  messages: readonly Message[],
  route: ProviderRoute,
  omissions: Omission[],
): { readonly system: string; readonly contents: readonly JsonObject[] } {
  const history = sendableHistory(messages);
  omissions.push(...history.omissions);
  const systemTexts: string[] = [];
  const turns: ContentTurn[] = [];
  let calls: readonly ToolCall[] = [];
  for (const [index, message] of history.messages.entries()) {
    const messagePath = `messages[${history.requestIndexes[index] ?? index}]`;
    if (message.role !== "tool" && optionsFor(message, route) !== null)
      omissions.push(
        unsupported(
          `${messagePath}.providerOptions`,
          "the Gemini API has no fields of a message besides its role and its parts",
        ),
      );
    if (message.role === "system") {
      const text = joinedText(message.content);
      if (text === "") {
        omissions.push({ path: messagePath, reason: "repaired" });
      } else if (turns.length > 0 && message.origin !== null) {
        turns.push({ role: "user", messageRole: "system", parts: [{ text }] });
      } else {
        systemTexts.push(text);
        if (turns.length > 0) omissions.push(movedToStart(messagePath));
      }
      continue;
    }
    if (message.role === "assistant") calls = message.toolCalls;
    const call = message.role === "tool" ? (calls.find(({ id }) => id === message.toolCallId) ?? null) : null;
    const { parts, omissions: messageOmissions } = encodeOnce(message, call, route);
    omissions.push(...messageOmissions.map((omission) => inMessage(messagePath, omission)));
    if (parts.length === 0) {
      omissions.push({ path: messagePath, reason: "repaired" });
      continue;
    }
    const last = turns.at(-1);
    const joinsLastTurn =
      last?.messageRole === message.role && (message.role === "assistant" || message.role === "tool");
    if (joinsLastTurn) last.parts.push(...parts);
    else
      turns.push({
        role: message.role === "assistant" ? "model" : "user",
        messageRole: message.role,
        parts: [...parts],
      });
  }
  return {
    system: systemTexts.join("\n\n"),
    contents: turns.map(({ role, parts }) => ({ role, parts })),
  };
}

/** A system message that is sent in `systemInstruction`, although it follows other messages. */
function movedToStart(path: string): Omission {
  const why = "the Gemini API has no system messages inside of the conversation";
  return {
    path,
    reason: "unsupported",
    message: `${path} is sent in the system prompt, before the conversation: ${why}`,
  };
}

function encodeOnce(
  message: Exclude<Message, { role: "system" }>,
  call: ToolCall | null,
  to: ProviderRoute,
): EncodedMessage {
  const route = JSON.stringify([to.provider, to.endpoint, to.model]);
  const cached = encodedMessages.get(message);
  if (cached?.route === route && cached.call === call) return cached;
  const omissions: Omission[] = [];
  const encoded = { route, call, parts: encodeParts(message, call, to, omissions), omissions };
  encodedMessages.set(message, encoded);
  return encoded;
}

function encodeParts(
  message: Exclude<Message, { role: "system" }>,
  call: ToolCall | null,
  route: ProviderRoute,
  omissions: Omission[],
): readonly JsonObject[] {
  switch (message.role) {
    case "user":
    case "event":
      omissions.push(...authorName(message));
      return userParts(message.content, route, omissions);
    case "tool":
      return resultParts(message, call, route, omissions);
    case "assistant":
      return replyParts(message, route, omissions);
  }
}

function joinedText(content: Extract<Message, { role: "system" }>["content"]): string {
  if (typeof content === "string") return content;
  return content.map(({ text, pruneState }) => textOrPlaceholder(text, pruneState)).join("\n\n");
}

/** The API refuses empty text parts: they are not sent. */
function textParts(text: string): readonly JsonObject[] {
  return text === "" ? [] : [{ text }];
}

function userParts(
  content: string | readonly UserPart[],
  route: ProviderRoute,
  omissions: Omission[],
): readonly JsonObject[] {
  if (typeof content === "string") return textParts(content);
  return content.flatMap((part, index) => userPart(part, `.content[${index}]`, route, omissions));
}

/** The part of a user part, with its options. A pruned part is its placeholder text, without options. */
function userPart(part: UserPart, path: string, route: ProviderRoute, omissions: Omission[]): readonly JsonObject[] {
  if (part.pruneState !== null)
    return textParts(textOrPlaceholder(part.type === "text" ? part.text : "", part.pruneState));
  const options = optionsFor(part, route);
  if (part.type === "text") return textParts(part.text).map((encoded) => withOptions(encoded, options));
  if (part.type === "file") return [withOptions(mediaPart(part.source, part.mimeType, path, route), options)];
  if (part.detail !== "auto")
    omissions.push(
      unsupported(`${path}.detail`, "the Gemini API has no image detail; set generationConfig.mediaResolution"),
    );
  return [withOptions(mediaPart(part.image.source, part.image.mimeType, path, route), options)];
}

/** Inline data or a file URI. `data:` URLs become inline data; inline data needs a MIME type. */
function mediaPart(source: ContentSource, mimeType: string | null, path: string, route: ProviderRoute): JsonObject {
  const name = path.slice(1);
  switch (source.type) {
    case "base64":
      if (mimeType === null) {
        throw requestError(`${name} has no MIME type; Gemini requires one for inline data`, route, "invalid_request");
      }
      return { inlineData: { mimeType, data: source.data } };
    case "url": {
      const inline = /^data:([^;,]+);base64,(.*)$/s.exec(source.url);
      const [, type, data] = inline ?? [];
      if (type !== undefined && data !== undefined) return { inlineData: { mimeType: mimeType ?? type, data } };
      return { fileData: omitNullish({ mimeType, fileUri: source.url }) };
    }
    case "provider_file":
      if (source.provider === route.provider) return { fileData: omitNullish({ mimeType, fileUri: source.id }) };
      throw requestError(`${name} was uploaded to ${source.provider} and cannot be sent here; send its bytes`, route);
    case "file":
      throw requestError(`${name} is a file on disk; read it and send its bytes`, route);
  }
}

/**
 * Types of inline media in `functionResponse.parts` (https://ai.google.dev/gemini-api/docs/function-calling,
 * "Multimodal function responses").
 */
const nestedTypes: ReadonlySet<string> = new Set([
  "image/png",
  "image/jpeg",
  "image/webp",
  "application/pdf",
  "text/plain",
]);

/**
 * The `functionResponse` of a tool message, and media beside it. From Gemini 3 on, inline media of {@link nestedTypes}
 * goes into `functionResponse.parts`. Other media, media by URI and all media for older models are parts after the
 * response. What the API does not accept becomes a note.
 */
function resultParts(
  message: ToolMessage,
  call: ToolCall | null,
  route: ProviderRoute,
  omissions: Omission[],
): readonly JsonObject[] {
  const { content, status, name } = message;
  const encodePart = (part: UserPart) => userPart(part, ".content", route, []);
  const sendable = typeof content === "string" ? null : sendableResult(content, encodePart);
  omissions.push(...(sendable?.omissions ?? []));
  const contentParts = sendable === null ? [{ text: content }] : userParts(sendable.parts, route, omissions);
  const text = contentParts.flatMap((part) => textAt(part, "text") ?? []).join("\n");
  const media = contentParts.filter((part) => textAt(part, "text") === null);
  const isNested = (part: JsonObject) =>
    nestedTypes.has(textAt(asObject(part["inlineData"]), "mimeType") ?? "") && !isBeforeGemini3(route.model);
  const nestedMedia = media.filter(isNested);
  const failed = status === "failure" || status === "cancelled" || status === "not_run";
  const functionResponse = omitNullish({
    id: call === null ? null : textAt(replayFields(call.provider, route), "id"),
    name: call?.name ?? name ?? "unknown",
    response: failed ? { error: text } : { output: text },
    parts: nestedMedia.length === 0 ? null : nestedMedia,
  });
  const withFields = withOptions(functionResponse, optionsFor(message, route));
  return [{ functionResponse: withFields }, ...media.filter((part) => !isNested(part))];
}

/** The replay data of a part that belongs to this route; `null` otherwise (W4). */
function replayFields(provider: ProviderReplay | null, route: ProviderRoute): JsonObject | null {
  const verdict = replayFor(provider, route);
  return verdict.type === "replay" ? asObject(verdict.data) : null;
}

/** Like `replayFields`; adds replay data of another route to `omissions`. */
function replayFieldsOrOmit(
  provider: ProviderReplay | null,
  path: string,
  route: ProviderRoute,
  omissions: Omission[],
): JsonObject | null {
  if (replayFor(provider, route).type === "foreign_route") omissions.push({ path, reason: "foreign_replay" });
  return replayFields(provider, route);
}

/** The parts of a reply in order, with calls at their `tool_call` parts and the remaining calls at the end. */
function replyParts(message: AssistantMessage, route: ProviderRoute, omissions: Omission[]): readonly JsonObject[] {
  const { content, toolCalls } = message;
  const unplacedCalls = new Map(toolCalls.map((call, index) => [call.id, { call, index }]));
  let isFirstCall = true;
  const encodeCall = ({ call, index }: { readonly call: ToolCall; readonly index: number }): JsonObject => {
    unplacedCalls.delete(call.id);
    const path = `.toolCalls[${index}]`;
    const replay = replayFieldsOrOmit(call.provider, `${path}.provider`, route, omissions);
    if (call.arguments === null) omissions.push({ path: `${path}.arguments`, reason: "repaired" });
    const signature = textAt(replay, "thoughtSignature") ?? (isFirstCall ? placeholderSignature(route.model) : null);
    isFirstCall = false;
    const functionCall = omitNullish({ id: textAt(replay, "id"), name: call.name, args: call.arguments ?? {} });
    return withOptions(omitNullish({ functionCall, thoughtSignature: signature }), optionsFor(call, route));
  };
  const contentParts =
    typeof content === "string"
      ? textParts(content)
      : content.flatMap((part, index): readonly JsonObject[] => {
          const call =
            part.type === "tool_call" && part.providerExecuted === null ? unplacedCalls.get(part.toolCallId) : null;
          if (call !== null) return call === undefined ? [] : [encodeCall(call)];
          return replyPart(part, `.content[${index}]`, route, omissions);
        });
  return [...contentParts, ...[...unplacedCalls.values()].map(encodeCall)];
}

/**
 * The `thoughtSignature` for a call that Gemini did not make: the value that Google documents to skip validation.
 * `null` before Gemini 3.
 */
function placeholderSignature(model: string): string | null {
  return model.includes("gemini") && !isBeforeGemini3(model) ? "skip_thought_signature_validator" : null;
}

/** The parts of a reply's part other than a call for the program. Thoughts are sent only with their signature. */
function replyPart(
  part: AssistantPart,
  path: string,
  route: ProviderRoute,
  omissions: Omission[],
): readonly JsonObject[] {
  switch (part.type) {
    case "text": {
      const text = textOrPlaceholder(part.text, part.pruneState);
      const replay =
        part.pruneState === null ? replayFieldsOrOmit(part.provider, `${path}.provider`, route, omissions) : null;
      const thoughtSignature = textAt(replay, "thoughtSignature");
      const parts = thoughtSignature === null ? textParts(text) : [{ text, thoughtSignature }];
      const options = part.pruneState === null ? optionsFor(part, route) : null;
      return parts.map((encoded) => withOptions(encoded, options));
    }
    case "reasoning": {
      const thoughtSignature = textAt(replayFieldsOrOmit(part.provider, path, route, omissions), "thoughtSignature");
      return thoughtSignature === null ? [] : [{ text: part.text, thought: true, thoughtSignature }];
    }
    case "image":
    case "file": {
      const isPruned = part.pruneState !== null;
      const replay = isPruned ? null : replayFieldsOrOmit(part.provider, `${path}.provider`, route, omissions);
      // Drafts of the model are thoughts: they are sent only with their signature.
      if (part.metadata["thought"] === true && textAt(replay, "thoughtSignature") === null) return [];
      return userPart(part, path, route, omissions).map((encoded) => ({ ...replay, ...encoded }));
    }
    case "tool_call":
      return replayedPart(replayFieldsOrOmit(part.providerExecuted?.provider ?? null, path, route, omissions));
    case "tool_result":
      return part.pruneState === null ? replayedPart(replayFieldsOrOmit(part.provider, path, route, omissions)) : [];
    case "opaque":
      return replayedPart(replayFieldsOrOmit(part.provider, path, route, omissions));
  }
}

function replayedPart(replay: JsonObject | null): readonly JsonObject[] {
  return replay === null ? [] : [replay];
}
