// Encodes a request into the call options of an AI SDK model, for each of the specifications v2, v3 and v4.
//
// Theory of operation
//   `sendableHistory` repairs the history as for every codec: each call has one result, directly after its reply. Then
//   each message becomes one message of the prompt, and consecutive results become one message with the role `tool`.
//   The package of the provider converts the prompt into the body of its API.
//
//   Metadata that the model returned with a part (`providerMetadata`: signatures, encrypted reasoning, item ids) is the
//   replay data of that part. It goes back as `providerOptions` of the part, unchanged, and only on the route it came
//   from (W4).
//
// Invariants
//   1. Reasoning is sent only with replay data of this route. Its text alone is never sent: another model would take it
//      for its own.
//   2. `providerOptions` of requests, messages, parts, tools and calls are passed on whole. Their names are those of
//      the AI SDK (`cacheControl`), and the package of a provider reads only its own key.
//   3. No URL is fetched here (SSRF). A URL that the model does not fetch itself is refused with `unsupported_feature`.
//   4. System messages after the first other message: a note of the runtime (it has an origin) is sent in its place as
//      a user message; all others are moved to the start with a warning, because most providers refuse them elsewhere.
//   5. What has no field in the specification is listed in `omissions`, which become warnings of the reply.

import type {
  AssistantMessage,
  AssistantPart,
  ContentSource,
  JsonObject,
  Message,
  ModelRequest,
  ProviderReplay,
  ProviderRoute,
  ToolCall,
  ToolMessage,
  UserPart,
} from "../../core/model/internal.ts";
import type { Omission } from "../../core/wire/internal.ts";
import type { AiSdkCallOptions, PromptMessage, Specification, UrlPatterns } from "./specification.ts";

import { replayFor, textOrPlaceholder } from "../../core/model/internal.ts";
import {
  asObject,
  choiceWithoutTools,
  clientCallName,
  datedToolName,
  inMessage,
  isForced,
  mergeFields,
  nothingToSend,
  requestError,
  sendableHistory,
  textAt,
  unsupported,
  withProviderTools,
} from "../../core/wire/internal.ts";
import { derivedOptions } from "./provider-settings.ts";

/** The model that a request is encoded for. */
export type Target = {
  readonly route: ProviderRoute;
  readonly specification: Specification;
  /** The URLs that the model fetches itself. */
  readonly supportedUrls: UrlPatterns;
};

/** A part of a prompt, or of the content of a result. */
type PromptPart = { readonly type: string; readonly [field: string]: unknown };
type Options = { readonly [provider: string]: JsonObject };

/** Encodes a request. Throws `AdapterError` for media that the model cannot take, and for a request without content. */
export function encodeCall(
  original: ModelRequest,
  target: Target,
): { readonly options: AiSdkCallOptions; readonly omissions: readonly Omission[] } {
  const request = withProviderTools(original);
  const omissions: Omission[] = [];
  const prompt = encodeHistory(request.messages, target, omissions);
  if (prompt.every(({ role }) => role === "system")) throw nothingToSend(target.route);
  const { topK, presencePenalty, frequencyPenalty, ...otherOptions } = request.options;
  for (const name of Object.keys(otherOptions)) {
    const why = "an AI SDK model has no fields of a request body; set providerOptions in the names of its package";
    omissions.push(unsupported(`options.${name}`, why));
  }
  const tools = encodeTools(request, target);
  const derived = derivedOptions(request, target, omissions);
  const providerOptions = byProvider(mergeFields(derived.providerOptions, request.providerOptions));
  return {
    omissions,
    options: {
      prompt,
      ...definedFields({
        maxOutputTokens: request.maxTokens,
        temperature: request.temperature,
        topP: request.topP,
        seed: request.seed,
        topK: numberOf(topK),
        presencePenalty: numberOf(presencePenalty),
        frequencyPenalty: numberOf(frequencyPenalty),
        stopSequences: request.stopSequences.length === 0 ? null : [...request.stopSequences],
        responseFormat: encodeResponseFormat(request),
        tools: tools.length === 0 ? null : tools,
        toolChoice: encodeToolChoice(request, tools.length, omissions),
        reasoning: derived.reasoning,
        providerOptions: Object.keys(providerOptions).length === 0 ? null : providerOptions,
      }),
    },
  };
}

/**
 * The fields that are neither `null` nor `undefined`: packages of providers treat a present field as a setting of the
 * caller.
 */
function definedFields<Fields extends object>(
  fields: Fields,
): { readonly [Name in keyof Fields]?: NonNullable<Fields[Name]> } {
  const defined: { [Name in keyof Fields]?: NonNullable<Fields[Name]> } = {};
  for (const name in fields) {
    const value = fields[name];
    if (value !== null && value !== undefined) defined[name] = value;
  }
  return defined;
}

function numberOf(value: unknown): number | null {
  return typeof value === "number" ? value : null;
}

// Settings

function encodeResponseFormat({ responseFormat }: ModelRequest): object | null {
  if (responseFormat === null || responseFormat.type === "text") return null;
  if (responseFormat.type === "json_object") return { type: "json" };
  return { type: "json", name: responseFormat.name, schema: responseFormat.schema };
}

function encodeTools(request: ModelRequest, { specification }: Target): readonly object[] {
  const functions = request.tools.map(({ name, description, schema, metadata, providerOptions }) => ({
    type: "function",
    name,
    description,
    inputSchema: schema,
    ...(metadata["strict"] === true && specification !== "v2" ? { strict: true } : {}),
    ...(providerOptions === undefined ? {} : { providerOptions }),
  }));
  const type = specification === "v2" ? "provider-defined" : "provider";
  const ofProvider = request.providerTools.map((tool) => ({
    type,
    id: `${tool.provider}.${tool.name}`,
    name: clientCallName(tool) ?? datedToolName(tool.name) ?? tool.name,
    args: tool.options,
  }));
  return [...functions, ...ofProvider];
}

function encodeToolChoice(request: ModelRequest, toolCount: number, omissions: Omission[]): object | null {
  const { toolChoice } = request;
  if (toolChoice === null) return null;
  if (toolCount === 0) {
    if (isForced(request)) omissions.push(choiceWithoutTools);
    return null;
  }
  return typeof toolChoice === "string" ? { type: toolChoice } : { type: "tool", toolName: toolChoice.name };
}

// History

function encodeHistory(messages: readonly Message[], target: Target, omissions: Omission[]): readonly PromptMessage[] {
  const history = sendableHistory(messages);
  omissions.push(...history.omissions);
  const systemMessages: PromptMessage[] = [];
  const turns: PromptMessage[] = [];
  let calls: readonly ToolCall[] = [];
  let results: object[] | null = null;
  for (const [index, message] of history.messages.entries()) {
    const messagePath = `messages[${history.requestIndexes[index] ?? index}]`;
    const found: Omission[] = [];
    if (message.role === "tool") {
      const call = calls.find(({ id }) => id === message.toolCallId);
      if (results === null) turns.push({ role: "tool", content: (results = []) });
      results.push(resultPart(message, call, target, found));
    } else {
      results = null;
      if (message.role === "assistant") calls = message.toolCalls;
      const encoded = encodeMessage(message, target, found);
      const isMoved = message.role === "system" && turns.length > 0 && message.origin === null;
      if (encoded === null) omissions.push({ path: messagePath, reason: "repaired" });
      else if (message.role !== "system") turns.push(encoded);
      else if (turns.length === 0 || isMoved) systemMessages.push(encoded);
      else turns.push({ ...encoded, role: "user", content: [{ type: "text", text: encoded.content }] });
      if (isMoved && encoded !== null) omissions.push(movedToStart(messagePath));
    }
    omissions.push(...found.map((omission) => inMessage(messagePath, omission)));
  }
  return [...systemMessages, ...turns];
}

function movedToStart(path: string): Omission {
  const message = `${path} is sent before the conversation: most providers of the AI SDK refuse system messages inside of it`;
  return { path, reason: "unsupported", message };
}

/** One message of the prompt; `null` if it has no content for the model. */
function encodeMessage(
  message: Exclude<Message, ToolMessage>,
  target: Target,
  omissions: Omission[],
): PromptMessage | null {
  const ofMessage = message.providerOptions === undefined ? {} : { providerOptions: message.providerOptions };
  if (message.role === "system") {
    const text =
      typeof message.content === "string"
        ? message.content
        : message.content.map((part) => textOrPlaceholder(part.text, part.pruneState)).join("\n\n");
    return text === "" ? null : { role: "system", content: text, ...ofMessage };
  }
  const isReply = message.role === "assistant";
  const content = isReply ? replyParts(message, target, omissions) : userParts(message.content, target);
  return content.length === 0 ? null : { role: isReply ? "assistant" : "user", content, ...ofMessage };
}

function userParts(content: string | readonly UserPart[], target: Target): readonly PromptPart[] {
  if (typeof content === "string") return textParts(content);
  return content.flatMap((part, index) => userPart(part, `content[${index}]`, target));
}

/** Packages of providers refuse or drop empty texts: they are not sent. */
function textParts(text: string, options: Options | null = null): readonly PromptPart[] {
  return text === "" && options === null ? [] : [{ type: "text", text, ...optionsField(options) }];
}

function optionsField(options: Options | null): { readonly providerOptions?: Options } {
  return options === null || Object.keys(options).length === 0 ? {} : { providerOptions: options };
}

/** The part of a user part. A pruned part is its placeholder text, without options. */
function userPart(part: UserPart, path: string, target: Target): readonly PromptPart[] {
  if (part.pruneState !== null)
    return textParts(textOrPlaceholder(part.type === "text" ? part.text : "", part.pruneState));
  const options: Options = part.providerOptions ?? {};
  if (part.type === "text") return textParts(part.text).map((text) => ({ ...text, ...optionsField(options) }));
  const { data, mediaType } = mediaOf(part, path, target);
  const filename = part.type === "file" && part.name !== null ? { filename: part.name } : {};
  return [{ type: "file", data, mediaType, ...filename, ...optionsField(withDetail(part, options)) }];
}

/** The options of an image with its detail, which only packages with OpenAI's options read. */
function withDetail(part: UserPart, options: Options): Options {
  if (part.type !== "image" || part.detail === "auto") return options;
  return { ...options, openai: { imageDetail: part.detail, ...options["openai"] } };
}

type MediaPart = Extract<UserPart, { readonly type: "image" | "file" }>;
type Media =
  | { readonly type: "base64"; readonly text: string; readonly mediaType: string }
  | { readonly type: "url"; readonly url: URL; readonly mediaType: string }
  | { readonly type: "reference"; readonly reference: JsonObject; readonly mediaType: string };

/**
 * The bytes or the reference of a part, checked against what the model takes (invariant 3). `data:` URLs become bytes.
 */
function readMedia(part: MediaPart, path: string, { route, specification, supportedUrls }: Target): Media {
  const source: ContentSource = part.type === "image" ? part.image.source : part.source;
  const mimeType = part.type === "image" ? part.image.mimeType : part.mimeType;
  if (source.type === "url") {
    const [, inlineType, data] = /^data:([^;,]+);base64,(.*)$/s.exec(source.url) ?? [];
    if (inlineType !== undefined && data !== undefined) return { type: "base64", text: data, mediaType: inlineType };
    if (!URL.canParse(source.url)) throw requestError(`${path} has an invalid URL`, route, "invalid_request");
    const mediaType = mimeType ?? (part.type === "image" ? "image/*" : "application/octet-stream");
    if (isFetched(source.url, mediaType, supportedUrls)) return { type: "url", url: new URL(source.url), mediaType };
    throw requestError(`${path} is a URL that ${route.model} does not fetch; send the bytes`, route);
  }
  if (source.type === "file") throw requestError(`${path} is a file on disk; read it and send its bytes`, route);
  if (mimeType === null)
    throw requestError(`${path} has no MIME type; the AI SDK requires one`, route, "invalid_request");
  if (source.type === "base64") return { type: "base64", text: source.data, mediaType: mimeType };
  if (specification === "v4")
    return { type: "reference", reference: { [source.provider]: source.id }, mediaType: mimeType };
  const message = `${path} is a file of the provider ${source.provider}; models of the specification ${specification} take bytes`;
  throw requestError(message, route);
}

/** Does the model fetch the URL itself? Patterns of media types end in `*`. */
function isFetched(url: string, mediaType: string, patterns: UrlPatterns): boolean {
  return Object.entries(patterns).some(([pattern, urls]) => {
    const prefix = pattern === "*/*" ? "" : pattern.toLowerCase().replace(/\*$/, "");
    return mediaType.toLowerCase().startsWith(prefix) && urls.some((expression) => new RegExp(expression).test(url));
  });
}

/** The fields `data` and `mediaType` of a file part. */
function mediaOf(
  part: MediaPart,
  path: string,
  target: Target,
): { readonly data: unknown; readonly mediaType: string } {
  const media = readMedia(part, path, target);
  const { mediaType } = media;
  if (media.type === "reference") return { mediaType, data: { type: "reference", reference: media.reference } };
  if (target.specification !== "v4") return { mediaType, data: media.type === "url" ? media.url : media.text };
  return {
    mediaType,
    data: media.type === "url" ? { type: "url", url: media.url } : { type: "data", data: media.text },
  };
}

// Results

/** The result of a call. Text, an error text, or a list of texts and media. */
function resultPart(
  message: ToolMessage,
  call: ToolCall | undefined,
  target: Target,
  omissions: Omission[],
): PromptPart {
  const { toolCallId, content, status, code, name } = message;
  const isError = status === "failure" || status === "cancelled" || status === "not_run";
  const parts = typeof content === "string" ? null : content;
  const hasMedia = parts?.some((part) => part.type !== "text" && part.pruneState === null) === true;
  const text = parts === null ? content : parts.flatMap((part) => visibleTextOf(part) ?? []).join("\n");
  if (isError && hasMedia)
    omissions.push(unsupported(".content", "the AI SDK has no media in the result of a failed call"));
  const output =
    parts !== null && hasMedia && !isError
      ? { type: "content", value: parts.flatMap((part, index) => promptParts(part, `content[${index}]`, target)) }
      : { type: isError ? "error-text" : "text", value: isError && text === "" ? (code ?? status) : text };
  const toolName = call?.name ?? name ?? "unknown";
  return { type: "tool-result", toolCallId, toolName, output, ...optionsField(message.providerOptions ?? null) };
}

function visibleTextOf(part: UserPart): string | null {
  if (part.pruneState === null) return part.type === "text" ? part.text : null;
  return textOrPlaceholder(part.type === "text" ? part.text : "", part.pruneState);
}

/** One item of a result with media, in the form of the specification. */
function promptParts(part: UserPart, path: string, target: Target): readonly PromptPart[] {
  const text = visibleTextOf(part);
  if (part.type === "text" || text !== null) return textParts(text ?? "");
  const filename = part.type === "file" && part.name !== null ? { filename: part.name } : {};
  const field = target.specification === "v2" ? {} : optionsField(part.providerOptions ?? null);
  if (target.specification === "v4") return [{ type: "file", ...mediaOf(part, path, target), ...filename, ...field }];
  const media = readMedia(part, path, target);
  if (media.type === "base64") {
    const { mediaType, text: data } = media;
    if (target.specification === "v2") return [{ type: "media", data, mediaType }];
    const type = part.type === "image" ? "image-data" : "file-data";
    return [{ type, data, mediaType, ...(type === "file-data" ? filename : {}), ...field }];
  }
  if (media.type === "url" && target.specification === "v3")
    return [{ type: part.type === "image" ? "image-url" : "file-url", url: media.url.href, ...field }];
  throw requestError(`${path} of a result is no inline data; send its bytes`, target.route);
}

// Replies

/** The parts of a reply in order, with calls at their `tool_call` parts and the remaining calls at the end. */
function replyParts(message: AssistantMessage, target: Target, omissions: Omission[]): readonly PromptPart[] {
  const { content, toolCalls } = message;
  const unplacedCalls = new Map(toolCalls.map((call, index) => [call.id, { call, index }]));
  const takeCall = ({ call, index }: { readonly call: ToolCall; readonly index: number }): PromptPart => {
    unplacedCalls.delete(call.id);
    if (call.arguments === null) omissions.push({ path: `.toolCalls[${index}].arguments`, reason: "repaired" });
    return callPart(call, `.toolCalls[${index}]`, target, omissions);
  };
  const contentParts =
    typeof content === "string"
      ? textParts(content)
      : content.flatMap((part, index): readonly PromptPart[] => {
          if (part.type !== "tool_call" || part.providerExecuted !== null)
            return replyPart(part, `.content[${index}]`, content, target, omissions);
          const placed = unplacedCalls.get(part.toolCallId);
          return placed === undefined ? [] : [takeCall(placed)];
        });
  return [...contentParts, ...[...unplacedCalls.values()].map(takeCall)];
}

function callPart(call: ToolCall, path: string, target: Target, omissions: Omission[]): PromptPart {
  const replay = replayOf(call.provider, `${path}.provider`, target, omissions);
  const options = withReplay(replay, call.providerOptions ?? {});
  return {
    type: "tool-call",
    toolCallId: call.id,
    toolName: call.name,
    input: call.arguments ?? {},
    ...optionsField(options),
  };
}

/**
 * The parts of a reply's part other than a call for the program. What the provider made itself is sent only on its own
 * route.
 */
function replyPart(
  part: AssistantPart,
  path: string,
  siblings: readonly AssistantPart[],
  target: Target,
  omissions: Omission[],
): readonly PromptPart[] {
  switch (part.type) {
    case "text": {
      if (part.pruneState !== null) return textParts(textOrPlaceholder(part.text, part.pruneState));
      const replay = replayOf(part.provider, `${path}.provider`, target, omissions);
      const options = withReplay(replay, part.providerOptions ?? {});
      return textParts(part.text, Object.keys(options).length === 0 ? null : options);
    }
    case "reasoning": {
      const replay = replayOf(part.provider, path, target, omissions);
      return replay === null ? [] : [{ type: "reasoning", text: part.text, ...optionsField(withReplay(replay, {})) }];
    }
    case "image":
    case "file": {
      const replay = part.pruneState === null ? replayOf(part.provider, `${path}.provider`, target, omissions) : null;
      return userPart(part, path.slice(1), target).map((encoded) => ({
        ...encoded,
        ...optionsField(withReplay(replay, part.providerOptions ?? {})),
      }));
    }
    case "tool_call": {
      const call = part.providerExecuted;
      if (call === null || replayOf(call.provider, path, target, omissions) === null) return [];
      return [{ ...callPart(call, path, target, omissions), providerExecuted: true }];
    }
    case "tool_result": {
      const replay = part.pruneState === null ? replayOf(part.provider, path, target, omissions) : null;
      if (replay === null) return [];
      const call = siblings.find((item) => item.type === "tool_call" && item.toolCallId === part.toolCallId);
      const toolName = textAt(replay, "toolName") ?? (call?.type === "tool_call" ? call.providerExecuted?.name : null);
      return [
        {
          type: "tool-result",
          toolCallId: part.toolCallId,
          toolName: toolName ?? "unknown",
          output: { type: part.isError ? "error-json" : "json", value: part.content },
          ...optionsField(withReplay(replay, {})),
        },
      ];
    }
    case "opaque": {
      const replay = replayOf(part.provider, path, target, omissions);
      const stored = asObject(replay?.["part"]);
      const type = textAt(stored, "type");
      return type === null ? [] : [{ ...stored, type, ...optionsField(withReplay(replay, {})) }];
    }
  }
}

/**
 * The replay data of a part that belongs to this route; `null` otherwise, and listed as an omission if it belongs to
 * another (W4).
 */
function replayOf(
  provider: ProviderReplay | null,
  path: string,
  { route }: Target,
  omissions: Omission[],
): JsonObject | null {
  const verdict = replayFor(provider, route);
  if (verdict.type === "foreign_route") omissions.push({ path, reason: "foreign_replay" });
  return verdict.type === "replay" ? asObject(verdict.data) : null;
}

/** The metadata of replay data as options, and the options of the caller, which win. */
function withReplay(replay: JsonObject | null, options: Options): Options {
  return byProvider(mergeFields(asObject(replay?.["providerMetadata"]) ?? {}, options));
}

/** The fields that are objects: options of one provider each. */
function byProvider(options: JsonObject): Options {
  const objects: { [provider: string]: JsonObject } = {};
  for (const [provider, fields] of Object.entries(options)) {
    const object = asObject(fields);
    if (object !== null) objects[provider] = object;
  }
  return objects;
}
