// The chunks of the AI SDK's UI message stream that this library sends. Names and fields are those of the SDK: its
// client rejects the whole stream for a chunk that does not match its schema.
//
// Clients of version 6 and 7 get the same stream, because a request does not name the version of its client. So chunks
// that only version 7 knows are not used: `tool-approval-response`, `steering-message`, and the finish reason
// `interrupted`. The exception is `reset-step`, for which version 6 has no substitute: a client of version 6 says so
// with the header `ai-sdk-version: 6`.

import type { EventOf, Json, JsonObject, Warning } from "../../../core/model/internal.ts";
import type { UiCompaction, UiMetadata, UiProgress, UiQuestion, UiSteeringMessage } from "../../contract/internal.ts";
import type { UiApproval, UiToolMetadata } from "./parts.ts";

import { deniedText } from "./parts.ts";

/** A chunk of the stream. */
export type UiChunk =
  | { readonly type: "start"; readonly messageId?: string; readonly messageMetadata?: UiMetadata }
  | { readonly type: "start-step" | "finish-step" | "reset-step" }
  | { readonly type: "text-start" | "text-end" | "reasoning-start" | "reasoning-end"; readonly id: string }
  | { readonly type: "text-delta" | "reasoning-delta"; readonly id: string; readonly delta: string }
  | { readonly type: "file"; readonly url: string; readonly mediaType: string }
  | {
      readonly type: "tool-input-start";
      readonly toolCallId: string;
      readonly toolName: string;
      readonly providerExecuted?: boolean;
    }
  | { readonly type: "tool-input-delta"; readonly toolCallId: string; readonly inputTextDelta: string }
  | {
      readonly type: "tool-input-available";
      readonly toolCallId: string;
      readonly toolName: string;
      readonly input: Json;
      readonly toolMetadata?: UiToolMetadata;
      readonly providerExecuted?: boolean;
    }
  | {
      readonly type: "tool-approval-request";
      readonly toolCallId: string;
      readonly approvalId: string;
      readonly reason?: string;
      readonly approvalDescriptor?: JsonObject;
    }
  | {
      readonly type: "tool-output-available";
      readonly toolCallId: string;
      readonly output: Json;
      readonly providerExecuted?: boolean;
    }
  | { readonly type: "tool-output-error"; readonly toolCallId: string; readonly errorText: string }
  | { readonly type: "tool-output-denied"; readonly toolCallId: string }
  | { readonly type: "data-question"; readonly id: string; readonly data: UiQuestion }
  | { readonly type: "data-steering-message"; readonly id: string; readonly data: UiSteeringMessage }
  /** The parts of the step before it are withdrawn. Sent in place of `reset-step` to clients of version 6. */
  | { readonly type: "data-step-reset"; readonly id: string; readonly data: JsonObject }
  /**
   * For `onData` of the client only: a transient chunk does not become a part of the message. Progress is not stored.
   */
  | { readonly type: "data-tool-progress"; readonly data: UiProgress; readonly transient: true }
  | { readonly type: "data-warning"; readonly data: Warning; readonly transient: true }
  /** The stream waits for the next turn of the chat. */
  | { readonly type: "data-waiting"; readonly data: JsonObject; readonly transient: true }
  /** Old messages are being replaced by a summary in requests, or were. Both chunks of a compaction have its id. */
  | { readonly type: "data-compaction"; readonly id: string; readonly data: UiCompaction; readonly transient: true }
  | { readonly type: "message-metadata"; readonly messageMetadata: UiMetadata }
  | { readonly type: "error"; readonly errorText: string }
  | { readonly type: "abort"; readonly reason: string }
  | { readonly type: "finish"; readonly finishReason: UiFinishReason; readonly messageMetadata?: UiMetadata };

export type UiFinishReason = "stop" | "length" | "content-filter" | "tool-calls" | "error" | "other";

/** The chunk of a compaction that begins or has ended. */
export function compactionChunk(
  { frameId, from, to }: EventOf<"compaction_started" | "compaction_ended">,
  status: UiCompaction["status"],
): UiChunk {
  return { type: "data-compaction", id: frameId, data: { status, from, to }, transient: true };
}

/** Requests an approval. */
export function requestChunk(toolCallId: string, { id: approvalId, requestReason, descriptor }: UiApproval): UiChunk {
  const why = requestReason === undefined ? {} : { reason: requestReason };
  const hints = descriptor === undefined ? {} : { approvalDescriptor: descriptor };
  return { type: "tool-approval-request", toolCallId, approvalId, ...why, ...hints };
}

/** A denied call for a reader that did not deny it itself. */
export function deniedChunk(toolCallId: string, reason: string | null): UiChunk {
  return { type: "tool-output-error", toolCallId, errorText: deniedText(reason) };
}
