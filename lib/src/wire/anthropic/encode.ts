// History in the words of Anthropic Messages.
//
// Rules:
//   1. The API takes turns: what follows in the same role is one message, and the results of a step come first in the one that answers it.
//   2. Blank text is refused by the API and says nothing: it is left out. So is a message of nothing else, and that is said.
//   3. Reasoning goes back as the very block it was, in the place it had. A call the provider ran goes back only together with its result.
//   4. What a message looks like is remembered by its identity and route, so a long history is converted once.

import type {
  AssistantMessage,
  AssistantPart,
  ContentSource,
  Json,
  JsonObject,
  Message,
  ProviderRoute,
  ToolCall,
  ToolMessage,
  UserPart,
} from "../../model/internal.ts";
import type { LeftOut, WireContext } from "../codec.ts";

import {
  AdapterError,
  imageFromBase64,
  imageToBinary,
  messageText,
  replayFor,
  visibleText,
} from "../../model/internal.ts";
import { asObject, said } from "../fields.ts";
import { nothingToSend, sendableHistory } from "../history.ts";

const defaultCallIds = { maxLength: 64, pattern: "alphanumeric" } as const;

/** A message as the API has it. Paths in `left` are those within the message. */
type Wire = {
  readonly role: "user" | "assistant";
  readonly blocks: readonly JsonObject[];
  readonly left: readonly LeftOut[];
};

// The newest route a message was sent by, and what it looked like there.
const memory = new WeakMap<Message, { readonly key: string; readonly wire: Wire }>();

/** The messages of a request but for its instructions. What is not sent is added to `left`. */
export function encodeMessages(messages: readonly Message[], context: WireContext, left: LeftOut[]): Json {
  const { provider, endpoint, model } = context.route;
  const key = JSON.stringify([provider, endpoint, model]);
  const sendable = sendableHistory(messages, context.quirks.callIds ?? defaultCallIds);
  left.push(...sendable.left);
  const turns: { readonly role: Wire["role"]; readonly content: JsonObject[] }[] = [];
  for (const [index, message] of sendable.messages.entries()) {
    const at = `messages[${sendable.places[index] ?? index}]`;
    if (message.role === "system") {
      if (messageText(message).trim() === "") left.push({ path: at, reason: "repaired" });
      continue;
    }
    const wire = remembered(message, key, context.route);
    left.push(...wire.left.map(({ path, reason }) => ({ path: `${at}.${path}`, reason })));
    if (wire.blocks.length === 0) {
      left.push({ path: at, reason: "repaired" });
      continue;
    }
    const last = turns.at(-1);
    if (last?.role === wire.role) last.content.push(...wire.blocks);
    else turns.push({ role: wire.role, content: [...wire.blocks] });
  }
  if (turns.length === 0) throw nothingToSend(context.route);
  return turns.map(({ role, content }, index) => ({
    role,
    content: role === "assistant" && index === turns.length - 1 ? prefill(content) : content,
  }));
}

/** A reply the model is to go on with must not end in white space. */
function prefill(content: readonly JsonObject[]): readonly JsonObject[] {
  const last = content.at(-1);
  const text = last?.["text"];
  return last?.["type"] === "text" && typeof text === "string"
    ? [...content.slice(0, -1), { ...last, text: text.trimEnd() }]
    : content;
}

type Said = Exclude<Message, { readonly role: "system" }>;

function remembered(message: Said, key: string, route: ProviderRoute): Wire {
  const known = memory.get(message);
  if (known?.key === key) return known.wire;
  const wire = wireOf(message, route);
  memory.set(message, { key, wire });
  return wire;
}

function wireOf(message: Said, route: ProviderRoute): Wire {
  switch (message.role) {
    case "user":
    case "event":
      return { role: "user", blocks: userBlocks(message.content, route), left: [] };
    case "tool":
      return { role: "user", blocks: [resultBlock(message, route)], left: [] };
    case "assistant":
      return assistantWire(message, route);
  }
}

function textBlocks(text: string): readonly JsonObject[] {
  return text.trim() === "" ? [] : [{ type: "text", text }];
}

function userBlocks(content: string | readonly UserPart[], route: ProviderRoute): readonly JsonObject[] {
  if (typeof content === "string") return textBlocks(content);
  return content.flatMap((part) => userPart(part, route));
}

function userPart(part: UserPart, route: ProviderRoute): readonly JsonObject[] {
  if (part.type === "text") return textBlocks(visibleText(part.text, part.pruneState));
  if (part.pruneState !== null) return textBlocks(visibleText("", part.pruneState));
  if (part.type === "image") return [imageBlock(part.image.source, part.image.mimeType, route)];
  if (part.mimeType?.startsWith("image/") === true) return [imageBlock(part.source, part.mimeType, route)];
  return [said({ type: "document", source: documentSource(part.source, part.mimeType, route), title: part.name })];
}

function imageBlock(source: ContentSource, mimeType: string | null, route: ProviderRoute): JsonObject {
  const { source: found, mimeType: type } = inlined(source, mimeType);
  if (found.type !== "base64") return { type: "image", source: remoteSource(found, route) };
  const mediaType = type ?? imageTypes.find(([start]) => found.data.startsWith(start))?.[1];
  if (mediaType === undefined) throw refused("invalid_request", route, "an image needs a MIME type");
  return { type: "image", source: { type: "base64", media_type: mediaType, data: found.data } };
}

/** How base64 of the images the API takes begins. */
const imageTypes: readonly (readonly [string, string])[] = [
  ["iVBORw0KGgo", "image/png"],
  ["/9j/", "image/jpeg"],
  ["R0lGOD", "image/gif"],
  ["UklGR", "image/webp"],
];

/** Documents are PDFs or text; anything of another type has no place here. */
function documentSource(given: ContentSource, givenType: string | null, route: ProviderRoute): JsonObject {
  const { source, mimeType } = inlined(given, givenType);
  if (source.type !== "base64") return remoteSource(source, route);
  if (mimeType === null || mimeType === "application/pdf")
    return { type: "base64", media_type: "application/pdf", data: source.data };
  if (!mimeType.startsWith("text/") && mimeType !== "application/json")
    throw refused("unsupported_feature", route, `no files of type ${mimeType}`);
  return { type: "text", media_type: "text/plain", data: decodedText(source.data, route) };
}

function remoteSource(source: Exclude<ContentSource, { readonly type: "base64" }>, route: ProviderRoute): JsonObject {
  switch (source.type) {
    case "url":
      return { type: "url", url: source.url };
    case "provider_file":
      if (source.provider === route.provider) return { type: "file", file_id: source.id };
      throw refused("unsupported_feature", route, `a file of ${source.provider} cannot be sent`);
    case "file":
      throw refused("unsupported_feature", route, "a file on disk has to be read before it is sent");
  }
}

/** A `data:` URL is bytes: the API fetches the web only. */
function inlined(
  source: ContentSource,
  mimeType: string | null,
): { readonly source: ContentSource; readonly mimeType: string | null } {
  const found = source.type === "url" ? /^data:([^;,]*);base64,(.*)$/s.exec(source.url) : null;
  if (found === null) return { source, mimeType };
  const [, type = "", data = ""] = found;
  return { source: { type: "base64", data }, mimeType: mimeType ?? (type === "" ? null : type) };
}

function decodedText(data: string, route: ProviderRoute): string {
  const bytes = imageToBinary(imageFromBase64(data, "text/plain"));
  if (!bytes.ok) throw refused("invalid_request", route, "a file is not the base64 it says it is");
  const escaped = Array.from(bytes.value, (byte) => `%${byte.toString(16).padStart(2, "0")}`);
  try {
    return decodeURIComponent(escaped.join(""));
  } catch {
    throw refused("invalid_request", route, "a text file is not UTF-8");
  }
}

function refused(
  reason: "invalid_request" | "unsupported_feature",
  { provider }: ProviderRoute,
  message: string,
): AdapterError {
  return new AdapterError(reason, { provider, message: `${provider}: ${message}` });
}

/** The answer to a call. An error has to say something. */
function resultBlock(message: ToolMessage, route: ProviderRoute): JsonObject {
  const { toolCallId, status, code } = message;
  const isError = status === "failure" || status === "cancelled" || status === "not_run";
  const blocks = userBlocks(message.content, route);
  const only = blocks.length === 1 && blocks[0]?.["type"] === "text" ? blocks[0]["text"] : null;
  const content = blocks.length > 0 ? (only ?? blocks) : isError ? (code ?? status) : null;
  return said({ type: "tool_result", tool_use_id: toolCallId, content, is_error: isError ? true : null });
}

function assistantWire(message: AssistantMessage, route: ProviderRoute): Wire {
  const { content, toolCalls } = message;
  const left: LeftOut[] = [];
  const placed = new Set<ToolCall>();
  const blocks: JsonObject[] = [];
  const call = (one: ToolCall): void => {
    placed.add(one);
    blocks.push(callBlock(one, `toolCalls[${toolCalls.indexOf(one)}]`, route, left));
  };
  if (typeof content === "string") {
    blocks.push(...textBlocks(content));
  } else {
    const lost = lostResults(content, route);
    content.forEach((part, index) => {
      if (part.type !== "tool_call" || part.providerExecuted !== null) {
        blocks.push(...partBlocks(part, `content[${index}]`, route, lost, left));
        return;
      }
      const found = toolCalls.find(({ id }) => id === part.toolCallId);
      if (found !== undefined && !placed.has(found)) call(found);
    });
  }
  for (const one of toolCalls) if (!placed.has(one)) call(one);
  return { role: "assistant", blocks, left };
}

function callBlock(call: ToolCall, path: string, route: ProviderRoute, left: LeftOut[]): JsonObject {
  const verdict = replayFor(call.provider, route);
  if (verdict.type === "foreign_route") left.push({ path, reason: "foreign_replay" });
  if (call.arguments === null) left.push({ path, reason: "repaired" });
  const kept = verdict.type === "replay" ? asObject(verdict.data) : null;
  return { type: "tool_use", ...kept, id: call.id, name: call.name, input: call.arguments ?? {} };
}

/** Ids of provider-run calls whose result cannot go back: without it the call cannot either. */
function lostResults(content: readonly AssistantPart[], route: ProviderRoute): ReadonlySet<string> {
  return new Set(
    content.flatMap((part) =>
      part.type === "tool_result" && (part.pruneState !== null || replayFor(part.provider, route).type !== "replay")
        ? [part.toolCallId]
        : [],
    ),
  );
}

/** A part of a reply that is no call of ours. */
function partBlocks(
  part: AssistantPart,
  path: string,
  route: ProviderRoute,
  lost: ReadonlySet<string>,
  left: LeftOut[],
): readonly JsonObject[] {
  if (part.type === "image" || part.type === "file") {
    left.push({ path, reason: "unsupported" });
    return [];
  }
  const verdict = replayFor(
    part.type === "tool_call" ? (part.providerExecuted?.provider ?? null) : part.provider,
    route,
  );
  const kept = verdict.type === "replay" ? asObject(verdict.data) : null;
  if (verdict.type === "foreign_route") left.push({ path, reason: "foreign_replay" });
  switch (part.type) {
    case "text": {
      const [block] = textBlocks(visibleText(part.text, part.pruneState));
      if (block === undefined) return [];
      return [part.pruneState === null ? { ...block, ...kept } : block];
    }
    case "reasoning":
      if (kept === null) return [];
      return [kept["type"] === "thinking" ? { ...kept, thinking: part.text } : kept];
    case "tool_call": {
      const ran = part.providerExecuted;
      if (ran === null || kept === null) return [];
      if (!lost.has(part.toolCallId)) return [{ ...kept, id: ran.id, name: ran.name, input: ran.arguments ?? {} }];
      left.push({ path, reason: "repaired" });
      return [];
    }
    case "tool_result":
      return kept === null || lost.has(part.toolCallId) ? [] : [{ ...kept, content: part.content }];
    case "opaque":
      return kept === null ? [] : [kept];
  }
}
