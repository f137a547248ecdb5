// Writes a request as a body of Chat Completions.
//
// Rules:
//   1. A message is written once for a route: what it came to is remembered by the identity of the message.
//   2. Instructions that follow each other are one message; those in the middle stay there, so that what stands before them stays cached.
//   3. The API takes only text as the answer to a call. Images and files of answers follow in a message of the user's, behind the last answer.
//   4. Reasoning, signatures and unknown fields go back to the route they came by, in the fields they stood in, and nowhere else.
//   5. Arguments go back as they were written. What is no JSON object is sent as `{}`, since many servers read them and refuse the whole request.
//   6. Empty text is left out, and so is a message with nothing else to send, which is said.
//   7. `quirks.without` names fields of the body and of replies that the server must not get; `options` are the caller's word and come last.

import type {
  AssistantMessage,
  Json,
  JsonObject,
  Message,
  ModelRequest,
  ProviderReplay,
  ToolCall,
  ToolMessage,
  ToolSpec,
  UserMessage,
} from "../../model/internal.ts";
import type { EncodedRequest, LeftOut, WireContext } from "../codec.ts";

import { normalizeContent, replayFor, visibleText } from "../../model/internal.ts";
import { asObject, flagAt, listAt, objectAt, objectsAt, said, textAt } from "../fields.ts";
import { nothingToSend, sendableHistory } from "../history.ts";
import { mediaPiece } from "./media.ts";

/** A message as it is sent. `left` has paths within the message. */
type Written = { readonly left: readonly LeftOut[] } & (
  | { readonly type: "instructions"; readonly text: string }
  | { readonly type: "message"; readonly wire: JsonObject }
  | { readonly type: "nothing" }
  | { readonly type: "answer"; readonly wire: JsonObject; readonly attached: readonly JsonObject[] }
);

const remembered = new WeakMap<Message, Map<string, Written>>();

export function encode(request: ModelRequest, context: WireContext): EncodedRequest {
  const { quirks, route } = context;
  const { messages, left } = encodeMessages(request, context);
  if (messages.length === 0 && request.options["messages"] === undefined) throw nothingToSend(route);
  const settings = encodeSettings(request, context);
  const fields = { model: route.model, messages, ...settings.fields };
  const barred = new Set(quirks.without);
  const kept = Object.fromEntries(Object.entries(fields).filter(([key]) => !barred.has(key)));
  const without = Object.keys(fields).filter((key) => barred.has(key));
  const body = { ...kept, ...request.options };
  // A server that is told not to stream refuses settings of the stream.
  const { stream_options: _, ...unstreamed } = body;
  return {
    path: "/chat/completions",
    body: body["stream"] === true || request.options["stream_options"] !== undefined ? body : unstreamed,
    headers: {},
    left: [...left, ...settings.left, ...without.map((path): LeftOut => ({ path, reason: "unsupported" }))],
  };
}

type Settings = { readonly fields: JsonObject; readonly left: readonly LeftOut[] };

/** Everything but the messages. */
function encodeSettings(request: ModelRequest, context: WireContext): Settings {
  const { quirks } = context;
  const { reasoning, promptCache, stopSequences, maxTokens, toolChoice } = request;
  const tools = encodeTools(request, context);
  const format = encodeFormat(request, context);
  const hasTools = tools.fields["tools"] !== undefined;
  const unsupported = [
    ...(reasoning !== null && reasoning.budgetTokens !== null ? ["reasoning.budgetTokens"] : []),
    ...(reasoning !== null && reasoning.summary !== null ? ["reasoning.summary"] : []),
    ...(!hasTools && toolChoice !== null && toolChoice !== "auto" && toolChoice !== "none" ? ["toolChoice"] : []),
  ];
  const fields = said({
    stream: true,
    stream_options: quirks.streamUsage === false ? null : { include_usage: true },
    [quirks.maxTokensField ?? "max_completion_tokens"]: maxTokens,
    temperature: request.temperature,
    top_p: request.topP,
    stop: stopSequences.length === 0 ? null : stopSequences,
    seed: request.seed,
    reasoning_effort: reasoning?.effort ?? null,
    prompt_cache_key: promptCache === null ? null : (promptCache.key ?? request.scope?.sessionId ?? null),
    prompt_cache_retention: promptCache?.retention === "long" ? "24h" : null,
    parallel_tool_calls: hasTools ? request.parallelToolCalls : null,
  });
  return {
    fields: { ...fields, ...tools.fields, ...format.fields },
    left: [...tools.left, ...format.left, ...unsupported.map((path): LeftOut => ({ path, reason: "unsupported" }))],
  };
}

function encodeTools({ tools, providerTools, toolChoice }: ModelRequest, { route, quirks }: WireContext): Settings {
  const own = providerTools.filter(({ provider }) => provider === route.provider);
  const all = [
    ...tools.map((tool) => encodeTool(tool, quirks.strict !== false)),
    ...own.map(({ name, options }) => ({ type: name, ...options })),
  ];
  const left = providerTools.flatMap(({ provider }, index): LeftOut[] =>
    provider === route.provider ? [] : [{ path: `providerTools[${index}]`, reason: "unsupported" }],
  );
  if (all.length === 0) return { fields: {}, left };
  const choice =
    toolChoice === null || typeof toolChoice === "string"
      ? toolChoice
      : { type: "function", function: { name: toolChoice.name } };
  return { fields: said({ tools: all, tool_choice: choice }), left };
}

function encodeTool({ name, description, schema, metadata }: ToolSpec, takesStrict: boolean): JsonObject {
  const strict = takesStrict ? flagAt(metadata, "strict") : null;
  return { type: "function", function: said({ name, description, parameters: schema, strict }) };
}

function encodeFormat({ responseFormat }: ModelRequest, { quirks }: WireContext): Settings {
  if (responseFormat === null || responseFormat.type === "text") return { fields: {}, left: [] };
  const plain = { response_format: { type: "json_object" } };
  if (responseFormat.type === "json_object") return { fields: plain, left: [] };
  const { name, schema, strict } = responseFormat;
  if (quirks.jsonSchema === false) {
    return { fields: plain, left: [{ path: "responseFormat.schema", reason: "unsupported" }] };
  }
  const described = said({ name, schema, strict: quirks.strict === false ? null : strict });
  return { fields: { response_format: { type: "json_schema", json_schema: described } }, left: [] };
}

type Messages = { readonly messages: readonly JsonObject[]; readonly left: readonly LeftOut[] };

function encodeMessages(request: ModelRequest, context: WireContext): Messages {
  const { route, quirks } = context;
  const history = sendableHistory(request.messages, quirks.callIds);
  const { provider, endpoint, model } = route;
  const key = JSON.stringify([provider, endpoint, model, quirks.reasoningField ?? null, quirks.without ?? []]);
  const left: LeftOut[] = [...history.left];
  const out: JsonObject[] = [];
  let instructions: string[] = [];
  let attached: JsonObject[] = [];

  function settle(next: Written["type"] | null): void {
    if (next !== "instructions" && instructions.length > 0) {
      out.push({ role: quirks.systemRole ?? "system", content: instructions.join("\n\n") });
      instructions = [];
    }
    if (next !== "answer" && attached.length > 0) {
      out.push({ role: "user", content: attached });
      attached = [];
    }
  }

  for (const [at, message] of history.messages.entries()) {
    const written = recall(message, key, context);
    const place = `messages[${history.places[at] ?? at}]`;
    left.push(...written.left.map(({ path, reason }) => ({ path: `${place}${path}`, reason })));
    if (written.type === "nothing") {
      left.push({ path: place, reason: "repaired" });
      continue;
    }
    settle(written.type);
    if (written.type === "instructions") instructions.push(written.text);
    else out.push(written.wire);
    if (written.type === "answer") attached.push(...written.attached);
  }
  settle(null);
  return { messages: out, left };
}

/** The message as it was written before, on this route. */
function recall(message: Message, key: string, context: WireContext): Written {
  const known = remembered.get(message) ?? new Map<string, Written>();
  const before = known.get(key);
  if (before !== undefined) return before;
  const written = write(message, context);
  known.set(key, written);
  remembered.set(message, known);
  return written;
}

function write(message: Message, context: WireContext): Written {
  switch (message.role) {
    case "system": {
      const text = textOf(message.content, "\n\n");
      return text === "" ? { type: "nothing", left: [] } : { type: "instructions", text, left: [] };
    }
    case "event": {
      const content = textOf(message.content, "\n\n");
      return content === ""
        ? { type: "nothing", left: [] }
        : { type: "message", wire: { role: "user", content }, left: [] };
    }
    case "user":
      return writeUser(message, context);
    case "assistant":
      return writeReply(message, context);
    case "tool":
      return writeAnswer(message, context);
  }
}

function writeUser({ content, name }: UserMessage, context: WireContext): Written {
  const parts = normalizeContent(content);
  const pieces = parts
    .map((part) =>
      part.type === "text" ? textPiece(visibleText(part.text, part.pruneState)) : mediaPiece(part, context),
    )
    .filter(saysSomething);
  if (pieces.length === 0) return { type: "nothing", left: [] };
  const isText = pieces.length === 1 && parts.every(({ type }) => type === "text");
  const wire = said({
    role: "user",
    name: name !== null && /^[\w-]{1,64}$/.test(name) ? name : null,
    content: isText ? textAt(pieces[0] ?? null, "text") : pieces,
  });
  return { type: "message", wire, left: [] };
}

/** A piece of text without any is refused. */
function saysSomething(piece: JsonObject): boolean {
  return piece["type"] !== "text" || piece["text"] !== "";
}

function writeAnswer({ toolCallId, content }: ToolMessage, context: WireContext): Written {
  const parts = normalizeContent(content);
  const texts = parts.filter((part) => part.type === "text");
  const media = parts
    .flatMap((part) => (part.type === "text" ? [] : [mediaPiece(part, context)]))
    .filter(saysSomething);
  const text = textOf(texts, "\n");
  const told = text === "" && media.length > 0 ? "The result is attached below." : text;
  return {
    type: "answer",
    wire: { role: "tool", tool_call_id: toolCallId, content: told },
    attached: media.length === 0 ? [] : [textPiece(`Attached to the result of ${toolCallId}:`), ...media],
    left: [],
  };
}

/** A reply on its way back. */
function writeReply(message: AssistantMessage, context: WireContext): Written {
  const { route, quirks } = context;
  const barred = new Set(quirks.without);
  const left: LeftOut[] = [];
  const pieces: JsonObject[] = [];
  let fields: JsonObject = {};

  /** The data that goes back with a part, or nothing, and why. */
  function replayed(replay: ProviderReplay | null, path: string, needed: boolean): JsonObject | null {
    const verdict = replayFor(replay, route);
    if (verdict.type === "foreign_route") left.push({ path, reason: "foreign_replay" });
    if (verdict.type === "none" && needed) left.push({ path, reason: "unsupported" });
    return verdict.type === "replay" ? asObject(verdict.data) : null;
  }
  function put(more: JsonObject | null): void {
    const allowed = Object.entries(more ?? {}).filter(([key]) => !barred.has(key));
    fields = { ...fields, ...Object.fromEntries(allowed) };
  }

  for (const [index, part] of normalizeContent(message.content).entries()) {
    const path = `.content[${index}]`;
    switch (part.type) {
      case "text": {
        const data = replayed(part.provider, path, false);
        const text = visibleText(part.text, part.pruneState);
        const audio = objectAt(data, "audio");
        if (audio !== null) put({ audio });
        else if (flagAt(data, "refusal") === true) pieces.push({ type: "refusal", refusal: text });
        else if (text !== "") pieces.push(textPiece(text));
        break;
      }
      case "reasoning": {
        const data = replayed(part.provider, path, true);
        const field = textAt(data, "field");
        const details = listAt(data, "details");
        if (flagAt(data, "thinking") === true) {
          pieces.push({ type: "thinking", thinking: [textPiece(part.text)] });
        } else if (details.length > 0) {
          put({ reasoning_details: [...listAt(fields, "reasoning_details"), ...details] });
        } else if (field !== null) {
          put({ [field]: (textAt(fields, field) ?? "") + part.text });
        }
        break;
      }
      case "opaque": {
        const data = replayed(part.provider, path, true);
        pieces.push(...objectsAt(data, "content"));
        put(objectAt(data, "fields"));
        break;
      }
      case "tool_call":
        // Where a call of ours stands says nothing here. A server that runs tools takes none of it back.
        if (part.providerExecuted !== null) replayed(part.providerExecuted.provider, path, true);
        break;
      case "tool_result":
        replayed(part.provider, path, true);
        break;
      case "image":
      case "file":
        left.push({ path, reason: "unsupported" });
        break;
    }
  }
  const calls = message.toolCalls.map((call, index) => {
    const path = `.toolCalls[${index}]`;
    if (call.arguments === null) left.push({ path, reason: "repaired" });
    return writeCall(call, replayed(call.provider, path, false));
  });
  // Servers that have the field and think want it with every call, also with those another model made.
  const field = quirks.reasoningField;
  if (calls.length > 0 && field === "reasoning_content" && !barred.has(field)) fields = { [field]: "", ...fields };
  if (pieces.length === 0 && calls.length === 0 && Object.keys(fields).length === 0) return { type: "nothing", left };
  const hasMore = calls.length > 0 || fields["audio"] !== undefined;
  return {
    type: "message",
    wire: {
      role: "assistant",
      content: contentOf(pieces, hasMore),
      ...fields,
      ...(calls.length === 0 ? {} : { tool_calls: calls }),
    },
    left,
  };
}

/** Text where there is nothing but text; nothing where there are calls instead. */
function contentOf(pieces: readonly JsonObject[], hasMore: boolean): Json {
  if (pieces.length === 0) return hasMore ? null : "";
  const isText = pieces.every((piece) => piece["type"] === "text");
  return isText ? pieces.map((piece) => textAt(piece, "text") ?? "").join("") : pieces;
}

function writeCall({ id, name, arguments: given, rawArguments }: ToolCall, data: JsonObject | null): JsonObject {
  const extra = objectAt(data, "fields") ?? {};
  if (flagAt(data, "custom") === true) {
    return { ...extra, id, type: "custom", custom: { name, input: textAt(given, "input") ?? "" } };
  }
  const isSayable = given !== null && rawArguments !== null && rawArguments.trim() !== "";
  const text = isSayable ? rawArguments : JSON.stringify(given ?? {});
  return { ...extra, id, type: "function", function: { name, arguments: text } };
}

function textPiece(text: string): JsonObject {
  return { type: "text", text };
}

function textOf(content: Extract<Message, { readonly role: "system" }>["content"], between: string): string {
  return normalizeContent(content)
    .map(({ text, pruneState }) => visibleText(text, pruneState))
    .filter((text) => text !== "")
    .join(between);
}
