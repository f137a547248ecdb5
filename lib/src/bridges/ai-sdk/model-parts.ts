// The parts of a reply of an engine that serves as an AI SDK model: the types of specification v3 that it sends, and
// their conversion from plain data.

import type { AssistantMessage, Usage, Warning } from "../../core/model/internal.ts";
import type { PlainJson } from "./prompt.ts";

import { uncachedInputTokens } from "../../core/model/internal.ts";

/** The metadata of a part. */
export type Metadata = { providerMetadata?: { [provider: string]: { [field: string]: string } } };
/** A call of a tool. */
export type CallContent = {
  type: "tool-call";
  toolCallId: string;
  toolName: string;
  input: string;
  providerExecuted?: boolean;
  dynamic?: boolean;
} & Metadata;
/** The result of a call that the engine ran. */
export type ResultContent = {
  type: "tool-result";
  toolCallId: string;
  toolName: string;
  result: NonNullable<PlainJson>;
  isError?: boolean;
  dynamic?: boolean;
} & Metadata;
/** A file that the model generated. */
export type FileContent = { type: "file"; mediaType: string; data: string };
/** A setting of the call that has no effect. */
export type ModelWarning = { type: "unsupported"; feature: string; details?: string };
/** How the reply ended. */
export type Finish = {
  finishReason: {
    unified: "stop" | "length" | "content-filter" | "tool-calls" | "error" | "other";
    raw: string | undefined;
  };
  usage: {
    inputTokens: { total: Count; noCache: Count; cacheRead: Count; cacheWrite: Count };
    outputTokens: { total: Count; text: Count; reasoning: Count };
  };
};
type Count = number | undefined;

/** A part of the stream of an {@link AiSdkModel}. */
export type AiSdkModelPart =
  | { type: "stream-start"; warnings: ModelWarning[] }
  | ({ type: "response-metadata" } & ResponseMetadata)
  | ({ type: "text-start" | "reasoning-start"; id: string } & Metadata)
  | ({ type: "text-delta" | "reasoning-delta"; id: string; delta: string } & Metadata)
  | ({ type: "text-end" | "reasoning-end"; id: string } & Metadata)
  | { type: "tool-input-start"; id: string; toolName: string; providerExecuted?: boolean; dynamic?: boolean }
  | { type: "tool-input-delta"; id: string; delta: string }
  | { type: "tool-input-end"; id: string }
  | CallContent
  | ResultContent
  | FileContent
  | { type: "raw"; rawValue: unknown }
  | { type: "error"; error: unknown }
  | ({ type: "finish" } & Finish);
type ResponseMetadata = { id?: string; modelId?: string };

/** The result of `doGenerate` of an {@link AiSdkModel}. */
export type AiSdkModelReply = Finish & {
  content: (({ type: "text" | "reasoning"; text: string } & Metadata) | CallContent | ResultContent | FileContent)[];
  response: ResponseMetadata;
  warnings: ModelWarning[];
};

/** A part with metadata, if it is one that can carry the reply. */
export function withMetadata(part: AiSdkModelPart, metadata: Required<Metadata>): AiSdkModelPart {
  switch (part.type) {
    case "text-end":
    case "reasoning-end":
    case "tool-call":
      return { ...part, ...metadata };
    default:
      return part;
  }
}

/** The finish reason of the AI SDK. */
export function unifiedOf(reason: string | null): Finish["finishReason"]["unified"] {
  switch (reason) {
    case "stop":
    case "length":
    case "error":
      return reason;
    case "content_filter":
      return "content-filter";
    default:
      return "other";
  }
}

function count(value: number | null | undefined): Count {
  return value ?? undefined;
}

/** The end of a reply: its reason and its tokens. */
export function finishOf(unified: Finish["finishReason"]["unified"], raw: string | null, usage: Usage | null): Finish {
  return {
    finishReason: { unified, raw: raw ?? undefined },
    usage: {
      inputTokens: {
        total: count(usage?.inputTokens),
        noCache: usage === null ? undefined : count(uncachedInputTokens(usage)),
        cacheRead: count(usage?.cachedInputTokens),
        cacheWrite: count(usage?.cacheWriteInputTokens),
      },
      outputTokens: { total: count(usage?.outputTokens), text: undefined, reasoning: count(usage?.reasoningTokens) },
    },
  };
}

/** A warning of the run. */
export function warningOf({ path, message }: Warning): ModelWarning {
  return { type: "unsupported", feature: path, details: message };
}

/** Images and files that the model generated, as far as their bytes are in the reply. */
export function filesOf({ content }: AssistantMessage): readonly FileContent[] {
  if (typeof content === "string") return [];
  return content.flatMap((part): readonly FileContent[] => {
    if (part.type !== "image" && part.type !== "file") return [];
    const { source, mimeType } = part.type === "image" ? part.image : part;
    if (source.type !== "base64") return [];
    return [{ type: "file", mediaType: mimeType ?? "application/octet-stream", data: source.data }];
  });
}
