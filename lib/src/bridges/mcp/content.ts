// Converts content of MCP: results of tools to the values of Everturn tools, resources and prompts to data and
// messages.
//
// The value of a tool is the structured content if there is one, the text if there is only text, and otherwise
// `{ content: […] }` with texts, attachments and links. Binary data are attachments, which the model receives as images
// or files. `toModel` gives the model the items of such a list as separate parts.

import type { Directive } from "../../core/engine/internal.ts";
import type { Attachment, Json, Message, ProgramValue, ToolMessage, UserPart } from "../../core/model/internal.ts";
import type { McpResourceContent } from "./types.ts";
import type { CallToolResult, ContentBlock, PromptMessage, ReadResourceResult } from "@modelcontextprotocol/client";

import { fail } from "../../core/engine/internal.ts";
import {
  assistant,
  attachment,
  encodeToolValue,
  isJsonArray,
  orThrow,
  toolValueParts,
  user,
} from "../../core/model/internal.ts";
import { isPlainObject } from "../../core/model/parse/reading.ts";

/** The value of a tool call, or a failure if the tool reported an error. */
export function toolValue({ content = [], structuredContent, isError }: CallToolResult): unknown {
  const items = content.map(itemOf);
  const text = items.filter((item) => typeof item === "string").join("\n");
  if (isError === true) return failure(text, structuredContent);
  const hasOnlyText = items.every((item) => typeof item === "string");
  if (structuredContent !== undefined && structuredContent !== null) {
    // The text repeats the structured content for clients that cannot read it; images and files do not.
    return hasOnlyText
      ? structuredContent
      : { content: [structuredContent, ...items.filter((item) => typeof item !== "string")] };
  }
  return hasOnlyText ? text : { content: items };
}

function failure(text: string, structuredContent: unknown): Directive {
  const message = text === "" && structuredContent !== undefined ? JSON.stringify(structuredContent) : text;
  return fail(message === "" ? "the tool reported an error without a text" : message);
}

/** The content for the model: the items of `{ content: […] }` as separate parts, any other value as JSON. */
export function toolContent(value: Json): ToolMessage["content"] {
  const list = isPlainObject(value) && Object.keys(value).length === 1 ? value["content"] : undefined;
  if (!isJsonArray(list)) return toolValueParts(value);
  const parts = list.flatMap(toolValueParts);
  return parts.length === 0 ? toolValueParts("") : parts;
}

/** One block of content: text, binary data, or a link as an object. */
function itemOf(block: ContentBlock): ProgramValue {
  switch (block.type) {
    case "text":
      return block.text;
    case "image":
    case "audio":
      return binary(block.data, block.mimeType);
    case "resource":
      return "blob" in block.resource
        ? binary(block.resource.blob, block.resource.mimeType, block.resource.uri)
        : block.resource.text;
    case "resource_link": {
      const { uri, name, description = null, mimeType = null } = block;
      return { resource: uri, name, description, mimeType };
    }
  }
}

function binary(data: string, mimeType: string | undefined, uri: string | null = null): Attachment {
  const name = uri === null ? null : (uri.split(/[?#]/)[0]?.split("/").at(-1) ?? null);
  return attachment({ source: { type: "base64", data }, mimeType: mimeType ?? null, name: name === "" ? null : name });
}

/** The contents of a resource. */
export function resourceContents({ contents }: ReadResourceResult): readonly McpResourceContent[] {
  return contents.map((content) => {
    const { uri, mimeType = null } = content;
    if (!("blob" in content)) return { uri, mimeType, text: content.text, attachment: null };
    return { uri, mimeType, text: null, attachment: binary(content.blob, content.mimeType, uri) };
  });
}

/** The messages of a prompt. An assistant message keeps its text only. */
export function promptMessages(messages: readonly PromptMessage[]): readonly Message[] {
  return messages.map(({ role, content }) => {
    const parts = blockParts(content);
    if (role === "user") return user(parts);
    const text = parts.map((part) => (part.type === "text" ? part.text : "")).join("");
    return assistant(text);
  });
}

function blockParts(block: ContentBlock): readonly UserPart[] {
  return toolValueParts(orThrow(encodeToolValue(itemOf(block))));
}
