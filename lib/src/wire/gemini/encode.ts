// A request as Gemini wants it: `contents` of turns with parts, everything else in `generationConfig`, `tools` and `toolConfig`.
//
// Rules:
//   1. Schemas go as plain JSON Schema (`parametersJsonSchema`, `responseJsonSchema`), only without `$schema`.
//   2. Results of the calls of one reply are one turn, right behind it; replies in a row are one turn, because a turn with calls has to follow
//      one of the user's.
//   3. An id goes back only if the API gave it on this route; without ids, results belong to calls by name and order.
//   4. Gemini 3 refuses a reply whose first call has no signature. One that another model made goes with the word Google has for that.
//   5. A message is encoded once for a route, however often it is sent.
//   6. Turns without parts are refused: a message with nothing to send is left out, and that is said.

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
import type { EncodedRequest, LeftOut, WireContext } from "../codec.ts";

import { AdapterError, replayFor, visibleText } from "../../model/internal.ts";
import { asObject, said, textAt } from "../fields.ts";
import { nothingToSend, sendableHistory } from "../history.ts";

export function encode(request: ModelRequest, context: WireContext): EncodedRequest {
  const { route, quirks } = context;
  const left: LeftOut[] = [];
  const { system, contents } = turns(request.messages, route, left);
  if (contents.length === 0 && request.options["contents"] === undefined) throw nothingToSend(route);
  const tools = toolsOf(request, route, left);
  const config = configOf(request, context, left);
  const body = said({
    contents,
    systemInstruction: system === "" ? null : { parts: [{ text: system }] },
    tools: tools.length === 0 ? null : tools,
    toolConfig: toolConfigOf(request, left),
    generationConfig: Object.keys(config).length === 0 ? null : config,
  });
  if (request.promptCache !== null) left.push({ path: "promptCache", reason: "unsupported" });
  if (request.parallelToolCalls === false) left.push({ path: "parallelToolCalls", reason: "unsupported" });
  return {
    path: `/${modelPath(route)}:streamGenerateContent?alt=sse`,
    body: without(merged(body, request.options), quirks.without ?? []),
    headers: {},
    left,
  };
}

/** Models are named without their collection, or with one: `tunedModels/…`. No name leads out of the base URL. */
function modelPath(route: ProviderRoute): string {
  const { model } = route;
  const segments = (model.includes("/") ? model : `models/${model}`).split("/");
  const written = segments.map((segment) => (isStep(segment) ? null : encoded(segment)));
  if (written.includes(null)) throw refusal(`${JSON.stringify(model)} is no name of a model`, route, "invalid_request");
  return written.join("/");
}

/** What a URL takes as a way, and not as a name. */
function isStep(segment: string): boolean {
  return segment === "" || segment === "." || segment === "..";
}

/** `null`: half a character, which no URL can hold. */
function encoded(segment: string): string | null {
  try {
    return encodeURIComponent(segment);
  } catch {
    return null;
  }
}

/** Options win, word for word; objects that are on both sides (`generationConfig`) are joined key by key. */
function merged(body: JsonObject, options: JsonObject): JsonObject {
  const joined = Object.entries(options).map(([key, value]): [string, Json] => {
    const ours = asObject(body[key]);
    const theirs = asObject(value);
    return [key, ours === null || theirs === null ? value : { ...ours, ...theirs }];
  });
  return { ...body, ...Object.fromEntries(joined) };
}

function without(body: JsonObject, fields: readonly string[]): JsonObject {
  if (fields.length === 0) return body;
  const kept = (object: JsonObject) => Object.entries(object).filter(([key]) => !fields.includes(key));
  return Object.fromEntries(
    kept(body).map(([key, value]): [string, Json] => {
      const config = key === "generationConfig" ? asObject(value) : null;
      return [key, config === null ? value : Object.fromEntries(kept(config))];
    }),
  );
}

// ---- settings

function configOf(request: ModelRequest, { route, quirks }: WireContext, left: LeftOut[]): JsonObject {
  const { responseFormat, reasoning, stopSequences } = request;
  const takesSchema = quirks.jsonSchema !== false;
  const schema = responseFormat?.type === "json_schema" ? plainSchema(responseFormat.schema) : null;
  if (schema !== null && !takesSchema) left.push({ path: "responseFormat.schema", reason: "unsupported" });
  const thinking = reasoning === null ? {} : thinkingOf(reasoning, route, left);
  return said({
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

/** Levels since Gemini 3, tokens before; a request with both is refused. */
function thinkingOf(reasoning: ReasoningSettings, route: ProviderRoute, left: LeftOut[]): JsonObject {
  const { effort, budgetTokens, summary } = reasoning;
  const includeThoughts = summary === null ? null : summary !== "none";
  if (effort === "none") return said({ thinkingBudget: 0, includeThoughts });
  const takesLevel = effort !== null && !isBeforeGemini3(route.model);
  if (effort !== null && !takesLevel) left.push({ path: "reasoning.effort", reason: "unsupported" });
  if (takesLevel && budgetTokens !== null) left.push({ path: "reasoning.budgetTokens", reason: "unsupported" });
  return takesLevel
    ? said({ thinkingLevel: effort, includeThoughts })
    : said({ thinkingBudget: budgetTokens, includeThoughts });
}

function isBeforeGemini3(model: string): boolean {
  return /gemini-[12](?!\d)/.test(model);
}

function plainSchema(schema: JsonObject): JsonObject {
  const { $schema: _, ...rest } = schema;
  return rest;
}

function toolsOf(request: ModelRequest, { provider }: ProviderRoute, left: LeftOut[]): readonly JsonObject[] {
  const functionDeclarations = request.tools.map(({ name, description, schema }) => ({
    name,
    description,
    parametersJsonSchema: plainSchema(schema),
  }));
  const own = request.providerTools.flatMap((tool, index): readonly JsonObject[] => {
    if (tool.provider === provider) return [{ [tool.name]: tool.options }];
    left.push({ path: `providerTools[${index}]`, reason: "unsupported" });
    return [];
  });
  return functionDeclarations.length === 0 ? own : [{ functionDeclarations }, ...own];
}

/** A choice among no functions is refused, so it is not made. */
function toolConfigOf({ tools, toolChoice }: ModelRequest, left: LeftOut[]): JsonObject | null {
  if (toolChoice === null) return null;
  if (tools.length === 0) {
    left.push({ path: "toolChoice", reason: "unsupported" });
    return null;
  }
  if (typeof toolChoice === "object")
    return { functionCallingConfig: { mode: "ANY", allowedFunctionNames: [toolChoice.name] } };
  const modes = { auto: "AUTO", none: "NONE", required: "ANY" } as const;
  return { functionCallingConfig: { mode: modes[toolChoice] } };
}

// ---- history

/** A message's parts on a route, and what is not in them, by paths within the message. */
type Encoded = {
  readonly route: string;
  readonly call: ToolCall | null;
  readonly parts: readonly JsonObject[];
  readonly left: readonly LeftOut[];
};
const encodedMessages = new WeakMap<Message, Encoded>();

type Turn = { readonly role: "user" | "model"; readonly of: Message["role"]; readonly parts: JsonObject[] };

function turns(
  messages: readonly Message[],
  route: ProviderRoute,
  left: LeftOut[],
): { readonly system: string; readonly contents: readonly JsonObject[] } {
  const history = sendableHistory(messages);
  left.push(...history.left);
  const system: string[] = [];
  const found: Turn[] = [];
  let calls: readonly ToolCall[] = [];
  for (const [index, message] of history.messages.entries()) {
    const at = `messages[${history.places[index] ?? index}]`;
    if (message.role === "system") {
      const text = textOf(message.content);
      if (text === "") left.push({ path: at, reason: "repaired" });
      else system.push(text);
      continue;
    }
    if (message.role === "assistant") calls = message.toolCalls;
    const call = message.role === "tool" ? (calls.find(({ id }) => id === message.toolCallId) ?? null) : null;
    const { parts, left: lost } = encodeOnce(message, call, route);
    left.push(...lost.map(({ path, reason }) => ({ path: `${at}.${path}`, reason })));
    if (parts.length === 0) {
      left.push({ path: at, reason: "repaired" });
      continue;
    }
    const last = found.at(-1);
    const joins = last?.of === message.role && (message.role === "assistant" || message.role === "tool");
    if (joins) last.parts.push(...parts);
    else
      found.push({
        role: message.role === "assistant" ? "model" : "user",
        of: message.role,
        parts: [...parts],
      });
  }
  return {
    system: system.join("\n\n"),
    contents: found.map(({ role, parts }) => ({ role, parts })),
  };
}

function encodeOnce(message: Exclude<Message, { role: "system" }>, call: ToolCall | null, to: ProviderRoute): Encoded {
  const route = JSON.stringify([to.provider, to.endpoint, to.model]);
  const known = encodedMessages.get(message);
  if (known?.route === route && known.call === call) return known;
  const left: LeftOut[] = [];
  const encoded = { route, call, parts: partsOf(message, call, to, left), left };
  encodedMessages.set(message, encoded);
  return encoded;
}

function partsOf(
  message: Exclude<Message, { role: "system" }>,
  call: ToolCall | null,
  route: ProviderRoute,
  left: LeftOut[],
): readonly JsonObject[] {
  switch (message.role) {
    case "user":
    case "event":
      return userParts(message.content, route, left);
    case "tool":
      return resultParts(message, call, route, left);
    case "assistant":
      return replyParts(message, route, left);
  }
}

function textOf(content: Extract<Message, { role: "system" }>["content"]): string {
  if (typeof content === "string") return content;
  return content.map(({ text, pruneState }) => visibleText(text, pruneState)).join("\n\n");
}

/** Parts without a word are refused, so they are not sent. */
function textParts(text: string): readonly JsonObject[] {
  return text === "" ? [] : [{ text }];
}

function userParts(
  content: string | readonly UserPart[],
  route: ProviderRoute,
  left: LeftOut[],
): readonly JsonObject[] {
  if (typeof content === "string") return textParts(content);
  return content.flatMap((part, index) => userPart(part, `content[${index}]`, route, left));
}

function userPart(part: UserPart, path: string, route: ProviderRoute, left: LeftOut[]): readonly JsonObject[] {
  if (part.type === "text") return textParts(visibleText(part.text, part.pruneState));
  if (part.pruneState !== null) return textParts(visibleText("", part.pruneState));
  if (part.type === "file") return [mediaPart(part.source, part.mimeType, path, route)];
  if (part.detail !== "auto") left.push({ path: `${path}.detail`, reason: "unsupported" });
  return [mediaPart(part.image.source, part.image.mimeType, path, route)];
}

function mediaPart(source: ContentSource, mimeType: string | null, path: string, route: ProviderRoute): JsonObject {
  switch (source.type) {
    case "base64":
      if (mimeType === null) {
        throw refusal(`${path} has no MIME type, and Gemini takes no data without one`, route, "invalid_request");
      }
      return { inlineData: { mimeType, data: source.data } };
    case "url": {
      const inline = /^data:([^;,]+);base64,(.*)$/s.exec(source.url);
      const [, type, data] = inline ?? [];
      if (type !== undefined && data !== undefined) return { inlineData: { mimeType: mimeType ?? type, data } };
      return { fileData: said({ mimeType, fileUri: source.url }) };
    }
    case "provider_file":
      if (source.provider === route.provider) return { fileData: said({ mimeType, fileUri: source.id }) };
      throw refusal(`${path} was uploaded to ${source.provider}`, route);
    case "file":
      throw refusal(`${path} is a file on disk: read it first`, route);
  }
}

function refusal(
  message: string,
  { provider }: ProviderRoute,
  reason: "unsupported_feature" | "invalid_request" = "unsupported_feature",
): AdapterError {
  return new AdapterError(reason, { provider, message: `${provider}: ${message}` });
}

/** The answer to a call. Media stands inside of it since Gemini 3, and beside it before or when it is not inline. */
function resultParts(
  message: ToolMessage,
  call: ToolCall | null,
  route: ProviderRoute,
  left: LeftOut[],
): readonly JsonObject[] {
  const { content, status, name } = message;
  const shown = typeof content === "string" ? [{ text: content }] : userParts(content, route, left);
  const text = shown.flatMap((part) => textAt(part, "text") ?? []).join("\n");
  const media = shown.filter((part) => textAt(part, "text") === null);
  const isInside = (part: JsonObject) => "inlineData" in part && !isBeforeGemini3(route.model);
  const inside = media.filter(isInside);
  const failed = status === "failure" || status === "cancelled" || status === "not_run";
  const functionResponse = said({
    id: call === null ? null : textAt(replayOf(call.provider, route), "id"),
    name: call?.name ?? name ?? "unknown",
    response: failed ? { error: text } : { output: text },
    parts: inside.length === 0 ? null : inside,
  });
  return [{ functionResponse }, ...media.filter((part) => !isInside(part))];
}

/** What may go back of a part's replay data. */
function replayOf(provider: ProviderReplay | null, route: ProviderRoute): JsonObject | null {
  const verdict = replayFor(provider, route);
  return verdict.type === "replay" ? asObject(verdict.data) : null;
}

/** The same, and said so if there is some that may not. */
function replayAt(
  provider: ProviderReplay | null,
  path: string,
  route: ProviderRoute,
  left: LeftOut[],
): JsonObject | null {
  if (replayFor(provider, route).type === "foreign_route") left.push({ path, reason: "foreign_replay" });
  return replayOf(provider, route);
}

function replyParts(message: AssistantMessage, route: ProviderRoute, left: LeftOut[]): readonly JsonObject[] {
  const { content, toolCalls } = message;
  const open = new Map(toolCalls.map((call, index) => [call.id, { call, index }]));
  let first = true;
  const callParts = ({ call, index }: { readonly call: ToolCall; readonly index: number }): JsonObject => {
    open.delete(call.id);
    const path = `toolCalls[${index}]`;
    const replay = replayAt(call.provider, `${path}.provider`, route, left);
    if (call.arguments === null) left.push({ path: `${path}.arguments`, reason: "repaired" });
    const signature = textAt(replay, "thoughtSignature") ?? (first ? standIn(route.model) : null);
    first = false;
    const functionCall = said({ id: textAt(replay, "id"), name: call.name, args: call.arguments ?? {} });
    return said({ functionCall, thoughtSignature: signature });
  };
  const placed =
    typeof content === "string"
      ? textParts(content)
      : content.flatMap((part, index): readonly JsonObject[] => {
          const call = part.type === "tool_call" && part.providerExecuted === null ? open.get(part.toolCallId) : null;
          if (call !== null) return call === undefined ? [] : [callParts(call)];
          return replyPart(part, `content[${index}]`, route, left);
        });
  return [...placed, ...[...open.values()].map(callParts)];
}

/** What stands in for the signature of a call that Gemini did not make: its documented word for "do not look". */
function standIn(model: string): string | null {
  return model.includes("gemini") && !isBeforeGemini3(model) ? "skip_thought_signature_validator" : null;
}

function replyPart(part: AssistantPart, path: string, route: ProviderRoute, left: LeftOut[]): readonly JsonObject[] {
  switch (part.type) {
    case "text": {
      const text = visibleText(part.text, part.pruneState);
      const replay = part.pruneState === null ? replayAt(part.provider, `${path}.provider`, route, left) : null;
      const thoughtSignature = textAt(replay, "thoughtSignature");
      return thoughtSignature === null ? textParts(text) : [{ text, thoughtSignature }];
    }
    case "reasoning": {
      const thoughtSignature = textAt(replayAt(part.provider, path, route, left), "thoughtSignature");
      return thoughtSignature === null ? [] : [{ text: part.text, thought: true, thoughtSignature }];
    }
    case "image":
    case "file":
      return userPart(part, path, route, left);
    case "tool_call":
      return whole(replayAt(part.providerExecuted?.provider ?? null, path, route, left));
    case "tool_result":
      return part.pruneState === null ? whole(replayAt(part.provider, path, route, left)) : [];
    case "opaque":
      return whole(replayAt(part.provider, path, route, left));
  }
}

function whole(replay: JsonObject | null): readonly JsonObject[] {
  return replay === null ? [] : [replay];
}
