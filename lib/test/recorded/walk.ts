// Reads text, calls and usage of a recorded reply directly from the provider's fields, without the codecs. The result of the codec must agree with it.

import type { WireApi } from "../../src/wire/internal.ts";
import type { Json, JsonObject } from "everturn/model";

export type Said = {
  readonly text: string;
  /** The names of the calls that the client has to run. */
  readonly calls: readonly string[];
  readonly outputTokens: number | null;
};

export function objectOf(value: Json | undefined): JsonObject {
  return typeof value === "object" && value !== null && !isList(value) ? value : {};
}

function isList(value: Json): value is readonly Json[] {
  return Array.isArray(value);
}

const listOf = (value: Json | undefined): readonly Json[] => (value !== undefined && isList(value) ? value : []);
const textOf = (value: Json | undefined): string => (typeof value === "string" ? value : "");
const numberOf = (value: Json | undefined): number | null => (typeof value === "number" ? value : null);

/** The content of one reply, from its chunks or its body. */
export function said(api: WireApi, chunks: readonly JsonObject[]): Said {
  switch (api) {
    case "openai-chat":
      return chat(chunks);
    case "openai-responses":
      return responses(chunks);
    case "anthropic-messages":
      return anthropic(chunks);
    case "gemini":
      return gemini(chunks);
  }
}

function chat(chunks: readonly JsonObject[]): Said {
  let text = "";
  let outputTokens: number | null = null;
  const calls = new Map<string, string>();
  for (const chunk of chunks) {
    const choice = objectOf(listOf(chunk["choices"])[0]);
    for (const part of [objectOf(choice["delta"]), objectOf(choice["message"])]) {
      text += textOf(part["content"]);
      for (const [place, call] of listOf(part["tool_calls"]).map(objectOf).entries()) {
        const name = textOf(objectOf(call["function"])["name"]);
        const key = textOf(call["id"]) === "" ? `${String(call["index"] ?? place)}` : textOf(call["id"]);
        if (name !== "") calls.set(key, name);
      }
    }
    outputTokens = numberOf(objectOf(chunk["usage"])["completion_tokens"]) ?? outputTokens;
  }
  return { text, calls: [...calls.values()], outputTokens };
}

function responses(chunks: readonly JsonObject[]): Said {
  const last = chunks.find((chunk) => /^response\.(?:completed|incomplete|failed)$/.test(textOf(chunk["type"])));
  const whole =
    chunks.length === 1 && "output" in (chunks[0] ?? {})
      ? chunks[0]
      : last === undefined
        ? null
        : objectOf(last["response"]);
  const streamed = chunks
    .filter(({ type }) => type === "response.output_item.done")
    .map((chunk) => objectOf(chunk["item"]));
  const listed = listOf(whole?.["output"]).map(objectOf);
  const items = streamed.length > 0 ? streamed : listed;
  const text = items
    .filter(({ type }) => type === "message")
    .flatMap((item) => listOf(item["content"]).map(objectOf))
    .map((part) => textOf(part["text"]) + textOf(part["refusal"]))
    .join("");
  const calls = items
    .filter(({ type }) => type === "function_call" || type === "custom_tool_call")
    .map((item) => textOf(item["name"]));
  return { text, calls, outputTokens: numberOf(objectOf(whole?.["usage"])["output_tokens"]) };
}

function anthropic(chunks: readonly JsonObject[]): Said {
  let text = "";
  const calls: string[] = [];
  let outputTokens: number | null = null;
  const block = (given: JsonObject) => {
    if (given["type"] === "text") text += textOf(given["text"]);
    if (given["type"] === "tool_use") calls.push(textOf(given["name"]));
  };
  for (const chunk of chunks) {
    if (chunk["type"] === "message") {
      for (const one of listOf(chunk["content"])) block(objectOf(one));
      outputTokens = numberOf(objectOf(chunk["usage"])["output_tokens"]);
    }
    if (chunk["type"] === "message_start") {
      for (const one of listOf(objectOf(chunk["message"])["content"])) block(objectOf(one));
    }
    if (chunk["type"] === "content_block_start") block(objectOf(chunk["content_block"]));
    if (chunk["type"] === "content_block_delta") text += textOf(objectOf(chunk["delta"])["text"]);
    if (chunk["type"] === "message_delta")
      outputTokens = numberOf(objectOf(chunk["usage"])["output_tokens"]) ?? outputTokens;
  }
  return { text, calls, outputTokens };
}

function gemini(chunks: readonly JsonObject[]): Said {
  let text = "";
  const calls: string[] = [];
  let outputTokens: number | null = null;
  for (const chunk of chunks) {
    const candidate = objectOf(listOf(chunk["candidates"])[0]);
    for (const part of listOf(objectOf(candidate["content"])["parts"]).map(objectOf)) {
      if (part["thought"] !== true) text += textOf(part["text"]);
      const name = textOf(objectOf(part["functionCall"])["name"]);
      if (name !== "") calls.push(name);
    }
    const usage = objectOf(chunk["usageMetadata"]);
    const spoken = numberOf(usage["candidatesTokenCount"]);
    const thought = numberOf(usage["thoughtsTokenCount"]);
    if (spoken !== null || thought !== null) outputTokens = (spoken ?? 0) + (thought ?? 0);
  }
  return { text, calls, outputTokens };
}
