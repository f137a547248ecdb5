// Requests of the OpenAI Responses API.
//
// Rules:
//   1. The provider stores nothing (`store: false`), so reasoning is requested in encrypted form and is sent back with the history. A response in the
//      background is stored (`store: true`), because it is read by its id. `options` can override all of these.
//   2. Items of the same route go back as they came. Reasoning that cannot go back takes the ids of its reply with it: the API misses the
//      reasoning of an item whose id it knows.
//   3. System messages at the start are the instructions; later ones stay where they are.
//   4. A message is converted once for each way of sending it, and remembered by identity.
//   5. Empty text is left out, and so is a message with nothing else to send, which is said.

import type {
  AssistantMessage,
  AssistantPart,
  ContentSource,
  Json,
  JsonObject,
  Message,
  ModelRequest,
  ProviderReplay,
  ToolCall,
  ToolMessage,
  UserPart,
} from "../../model/internal.ts";
import type { EncodedRequest, LeftOut, WireContext } from "../codec.ts";

import { AdapterError, messageText, normalizeContent, replayFor, visibleText } from "../../model/internal.ts";
import { asObject, flagAt, objectAt, said, textAt } from "../fields.ts";
import { nothingToSend, sendableHistory } from "../history.ts";
import { resultField } from "./items.ts";

/** A message as it is sent. Paths of what is left out begin at the message. */
type Wire = { readonly items: readonly JsonObject[]; readonly left: readonly LeftOut[] };

/** What decides how messages are sent, besides themselves. */
type Way = {
  readonly context: WireContext;
  /** The provider keeps responses, and knows items by their ids. */
  readonly stores: boolean;
  readonly key: string;
};

export function encode(request: ModelRequest, context: WireContext): EncodedRequest {
  const { route, quirks } = context;
  const background = flagAt(request.options, "background") ?? context.background ?? false;
  const stores = flagAt(request.options, "store") ?? background;
  const key = JSON.stringify([route.provider, route.endpoint, route.model, stores, quirks.systemRole ?? null]);
  const left: LeftOut[] = [];
  const { input, instructions } = encodeMessages(request.messages, { context, stores, key }, left);
  if (input.length === 0 && instructions === null && !others.some((name) => Object.hasOwn(request.options, name)))
    throw nothingToSend(route);
  const fields = said({
    model: route.model,
    instructions,
    input,
    stream: true,
    store: stores,
    background: background ? true : null,
    include: ["reasoning.encrypted_content"],
    ...encodeTools(request, context, left),
    ...encodeSettings(request, context, left),
  });
  const { options } = request;
  const merged: JsonObject = {
    ...fields,
    ...options,
    ...nested("text", fields, options),
    ...nested("reasoning", fields, options),
  };
  const without = new Set(quirks.without ?? []);
  const body = Object.fromEntries(
    Object.entries(merged).filter(([name]) => !without.has(name) || Object.hasOwn(options, name)),
  );
  return { path: "/responses", body, headers: {}, left };
}

/** Options that say what the model is asked in other ways than by messages. */
const others = ["input", "instructions", "prompt", "previous_response_id", "conversation"] as const;

/** Settings that are objects are merged field by field: a verbosity does not undo a format. */
function nested(name: string, fields: JsonObject, options: JsonObject): JsonObject {
  const ours = objectAt(fields, name);
  const theirs = objectAt(options, name);
  return ours === null || theirs === null ? {} : { [name]: { ...ours, ...theirs } };
}

function encodeSettings(request: ModelRequest, { quirks }: WireContext, left: LeftOut[]): JsonObject {
  const { reasoning, promptCache, responseFormat, stopSequences, seed, scope } = request;
  if (stopSequences.length > 0) left.push({ path: "stopSequences", reason: "unsupported" });
  if (seed !== null) left.push({ path: "seed", reason: "unsupported" });
  if (reasoning !== null && reasoning.budgetTokens !== null)
    left.push({ path: "reasoning.budgetTokens", reason: "unsupported" });
  const thinking = said({ effort: reasoning?.effort, summary: reasoning?.summary });
  const hasSchema = quirks.jsonSchema ?? true;
  if (responseFormat?.type === "json_schema" && !hasSchema)
    left.push({ path: "responseFormat", reason: "unsupported" });
  const own = scope !== null && scope.sessionId.length <= maxKeyLength ? scope.sessionId : null;
  return said({
    temperature: request.temperature,
    top_p: request.topP,
    max_output_tokens: request.maxTokens,
    reasoning: Object.keys(thinking).length === 0 ? null : thinking,
    prompt_cache_key: promptCache === null ? null : (promptCache.key ?? own),
    prompt_cache_retention: promptCache?.retention === "long" ? "24h" : null,
    text: encodeFormat(responseFormat, hasSchema, quirks.strict ?? true),
  });
}

/** Longest key of a prompt cache, and longest id of a call, the API takes. */
const maxKeyLength = 64;

function encodeFormat(
  format: ModelRequest["responseFormat"],
  hasSchema: boolean,
  takesStrict: boolean,
): JsonObject | null {
  if (format === null || format.type === "text") return null;
  if (format.type === "json_object" || !hasSchema) return { format: { type: "json_object" } };
  const { name, schema, strict } = format;
  return { format: { type: "json_schema", name, schema, ...(takesStrict ? { strict } : {}) } };
}

function encodeTools(request: ModelRequest, { route, quirks }: WireContext, left: LeftOut[]): JsonObject {
  const takesStrict = quirks.strict ?? true;
  const functions = request.tools.map(({ name, description, schema, metadata }): JsonObject => ({
    type: "function",
    name,
    description,
    parameters: schema,
    // Left unsaid, the API makes a schema strict by itself and changes what it allows.
    ...(takesStrict ? { strict: metadata["strict"] === true } : {}),
  }));
  const hosted = request.providerTools.flatMap(({ provider, name, options }, at): readonly JsonObject[] => {
    if (provider === route.provider) return [{ type: name, ...options }];
    left.push({ path: `providerTools[${at}]`, reason: "unsupported" });
    return [];
  });
  const tools = [...functions, ...hosted];
  if (tools.length === 0) {
    if (request.toolChoice === "required" || typeof request.toolChoice === "object")
      if (request.toolChoice !== null) left.push({ path: "toolChoice", reason: "unsupported" });
    return {};
  }
  return said({
    tools,
    tool_choice: encodeToolChoice(request, hosted),
    parallel_tool_calls: request.parallelToolCalls,
  });
}

function encodeToolChoice({ toolChoice, tools }: ModelRequest, hosted: readonly JsonObject[]): Json {
  if (toolChoice === null || typeof toolChoice === "string") return toolChoice;
  const { name } = toolChoice;
  if (tools.some((tool) => tool.name === name)) return { type: "function", name };
  const custom = hosted.find((tool) => textAt(tool, "name") === name);
  if (custom !== undefined) return { type: textAt(custom, "type") ?? "custom", name };
  return hosted.some((tool) => textAt(tool, "type") === name) ? { type: name } : { type: "function", name };
}

function encodeMessages(
  messages: readonly Message[],
  way: Way,
  left: LeftOut[],
): { readonly input: readonly JsonObject[]; readonly instructions: string | null } {
  const { quirks } = way.context;
  const callIds = quirks.callIds ?? { maxLength: maxKeyLength, pattern: "any" };
  const history = sendableHistory(messages, callIds);
  left.push(...history.left);
  const body = history.messages.findIndex(({ role }) => role !== "system");
  const start = body === -1 ? history.messages.length : body;
  const texts = history.messages.slice(0, start).map(messageText);
  const instructions = texts.filter((text) => text !== "").join("\n\n");
  const input: JsonObject[] = [];
  let calls: readonly ToolCall[] = [];
  for (const [at, message] of history.messages.entries()) {
    const path = `messages[${history.places[at] ?? at}]`;
    if (at < start) {
      if (texts[at] === "") left.push({ path, reason: "repaired" });
      continue;
    }
    if (message.role === "assistant") calls = message.toolCalls;
    const wire = remembered(message, way);
    left.push(...wire.left.map(({ path: rest, reason }) => ({ path: `${path}${rest}`, reason })));
    if (wire.items.length === 0 && wire.left.every(({ path: rest }) => rest !== ""))
      left.push({ path, reason: "repaired" });
    if (message.role !== "tool") input.push(...wire.items);
    else input.push(...wire.items.map((item) => answering(item, calls, way)));
  }
  return { input, instructions: instructions === "" ? null : instructions };
}

const memory = new WeakMap<Message, Map<string, Wire>>();

function remembered(message: Message, way: Way): Wire {
  const known = memory.get(message) ?? new Map<string, Wire>();
  memory.set(message, known);
  const wire = known.get(way.key) ?? encodeMessage(message, way);
  known.set(way.key, wire);
  return wire;
}

function encodeMessage(message: Message, way: Way): Wire {
  switch (message.role) {
    case "system": {
      const role = way.context.quirks.systemRole ?? "developer";
      const content = [inputText(messageText(message))].filter(saysSomething);
      return { items: content.length === 0 ? [] : [{ type: "message", role, content }], left: [] };
    }
    case "user":
    case "event": {
      const parts = normalizeContent<UserPart>(message.content);
      const content = parts.map((part) => encodePart(part, way.context)).filter(saysSomething);
      const items = content.length === 0 ? [] : [{ type: "message", role: "user", content }];
      return { items, left: foreign(parts, way) };
    }
    case "tool":
      return { items: [encodeAnswer(message, way.context)], left: [] };
    case "assistant":
      return encodeReply(message, way);
  }
}

function foreign(parts: readonly UserPart[], { context }: Way): readonly LeftOut[] {
  return parts.flatMap(({ provider }, at) =>
    replayFor(provider, context.route).type === "foreign_route"
      ? [{ path: `.content[${at}]`, reason: "foreign_replay" as const }]
      : [],
  );
}

/** The answer to a call; which kind of call it was is said by {@link answering}. */
function encodeAnswer(message: ToolMessage, context: WireContext): JsonObject {
  const parts = normalizeContent<UserPart>(message.content);
  const texts = parts.flatMap((part) => (part.type === "text" ? [visibleText(part.text, part.pruneState)] : []));
  const pieces = parts.map((part) => encodePart(part, context)).filter(saysSomething);
  const output = texts.length === parts.length || pieces.length === 0 ? texts.join("\n") : pieces;
  return { type: "function_call_output", call_id: message.toolCallId, output };
}

/** A custom tool is answered with an item of its own, and a call made by a program says so in its answer too. */
function answering(item: JsonObject, calls: readonly ToolCall[], { context }: Way): JsonObject {
  const call = calls.find(({ id }) => id === item["call_id"]);
  const data = call === undefined ? null : ownData(call.provider, context);
  if (data === null) return item;
  const custom = textAt(data, "type") === "custom_tool_call" ? { type: "custom_tool_call_output" } : {};
  return { ...item, ...custom, ...said({ caller: data["caller"] }) };
}

/** Replay data of this route. */
function ownData(replay: ProviderReplay | null, { route }: WireContext): JsonObject | null {
  const verdict = replayFor(replay, route);
  return verdict.type === "replay" ? asObject(verdict.data) : null;
}

function encodeReply(message: AssistantMessage, way: Way): Wire {
  const { context, stores } = way;
  const left: LeftOut[] = [];
  const items: JsonObject[] = [];
  const parts = normalizeContent<AssistantPart>(message.content);
  const waiting = [...message.toolCalls];
  // Without its reasoning, nothing of a reply may go by its id.
  const lost = parts.some(
    (part) =>
      part.type === "reasoning" && !canReturn(ownData(part.provider, context), stores) && part.provider !== null,
  );
  const call = (one: ToolCall): void => {
    if (replayFor(one.provider, context.route).type === "foreign_route")
      left.push({ path: `.toolCalls[${message.toolCalls.indexOf(one)}]`, reason: "foreign_replay" });
    items.push(encodeCall(one, ownData(one.provider, context), lost));
  };
  for (const [at, part] of parts.entries()) {
    const path = `.content[${at}]`;
    switch (part.type) {
      case "text":
        if (replayFor(part.provider, context.route).type === "foreign_route")
          left.push({ path, reason: "foreign_replay" });
        items.push(...encodeText(part));
        break;
      case "tool_call":
        if (part.providerExecuted === null) {
          const exact = waiting.findIndex(({ id }) => id === part.toolCallId);
          waiting.splice(Math.max(exact, 0), 1).forEach(call);
        } else if (part.providerExecuted.provider !== null) {
          returned(part.providerExecuted.provider, path, null);
        }
        break;
      case "tool_result":
        returned(part.provider, path, part.pruneState === null ? part.content : null);
        break;
      case "reasoning":
      case "opaque":
        returned(part.provider, path, null);
        break;
      case "image":
      case "file":
        left.push({ path, reason: "unsupported" });
        break;
    }
  }
  waiting.forEach(call);
  // Reasoning that led to nothing is refused.
  while (items.at(-1)?.["type"] === "reasoning") {
    items.pop();
    left.push({ path: "", reason: "repaired" });
  }
  return { items, left };

  function returned(replay: ProviderReplay | null, path: string, result: Json): void {
    const data = ownData(replay, context);
    if (data === null) {
      left.push({ path, reason: replay === null ? "unsupported" : "foreign_replay" });
    } else if (textAt(data, "type") === "reasoning" && !canReturn(data, stores)) {
      left.push({ path, reason: "unsupported" });
    } else {
      const field = resultField(textAt(data, "type"));
      // A reasoning item has a status on the way here, and none on the way back.
      const { status: _, ...reasoning } = data;
      if (textAt(data, "type") === "reasoning") items.push(reasoning);
      else items.push(field === null || Object.hasOwn(data, field) ? data : { ...data, [field]: result });
    }
  }
}

/** Reasoning goes back encrypted, or by its id where the provider keeps it. */
function canReturn(item: JsonObject | null, stores: boolean): boolean {
  return item !== null && (stores || textAt(item, "encrypted_content") !== null);
}

function encodeText(part: Extract<AssistantPart, { readonly type: "text" }>): readonly JsonObject[] {
  const text = visibleText(part.text, part.pruneState);
  if (text === "") return [];
  const content =
    part.kind === "refusal" ? { type: "refusal", refusal: text } : { type: "output_text", text, annotations: [] };
  return [{ type: "message", role: "assistant", content: [content], ...said({ phase: part.phase }) }];
}

function encodeCall(call: ToolCall, data: JsonObject | null, lost: boolean): JsonObject {
  const { id: itemId, ...others } = data ?? {};
  const rest = said({ ...others, id: lost ? null : itemId });
  if (textAt(data, "type") === "custom_tool_call") {
    const input = textAt(call.arguments, "input") ?? call.rawArguments ?? "";
    return { ...rest, type: "custom_tool_call", call_id: call.id, name: call.name, input };
  }
  const written = call.rawArguments ?? JSON.stringify(call.arguments ?? {});
  return {
    ...rest,
    type: "function_call",
    call_id: call.id,
    name: call.name,
    arguments: written === "" ? "{}" : written,
  };
}

function inputText(text: string): JsonObject {
  return { type: "input_text", text };
}

function saysSomething(piece: JsonObject): boolean {
  return piece["type"] !== "input_text" || piece["text"] !== "";
}

function encodePart(part: UserPart, context: WireContext): JsonObject {
  if (part.type === "text") return inputText(visibleText(part.text, part.pruneState));
  if (part.pruneState !== null) return inputText(visibleText("", part.pruneState));
  if (part.type === "image") {
    const { source, mimeType } = part.image;
    return { type: "input_image", ...where(source, mimeType, "image_url", "image_url", context), detail: part.detail };
  }
  const { source, mimeType, name } = part;
  if (mimeType?.startsWith("image/") === true)
    return { type: "input_image", ...where(source, mimeType, "image_url", "image_url", context), detail: "auto" };
  const filename = source.type === "base64" ? (name ?? "file") : null;
  return { type: "input_file", ...said({ filename }), ...where(source, mimeType, "file_data", "file_url", context) };
}

/** Where the bytes are, in the words of the API. */
function where(
  source: ContentSource,
  mimeType: string | null,
  dataField: string,
  urlField: string,
  { route }: WireContext,
): JsonObject {
  switch (source.type) {
    case "base64":
      if (mimeType !== null) return { [dataField]: `data:${mimeType};base64,${source.data}` };
      throw new AdapterError("invalid_request", {
        provider: route.provider,
        message: `${route.provider}: an image or a file given as base64 needs its MIME type`,
      });
    case "url":
      return { [urlField]: source.url };
    case "provider_file":
      if (source.provider === route.provider) return { file_id: source.id };
      throw new AdapterError("unsupported_feature", {
        provider: route.provider,
        message: `${route.provider}: a file uploaded to ${source.provider} cannot be sent here`,
      });
    case "file":
      throw new AdapterError("unsupported_feature", {
        provider: route.provider,
        message: `${route.provider}: a path cannot be sent; read the file first`,
      });
  }
}
