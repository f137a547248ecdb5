// The chunks of the AI SDK's UI message stream that this library sends. Names and fields are those of the SDK: its client rejects the
// whole stream for a chunk that does not match its schema.

import type { HaltedReason, Json, JsonObject, SessionStatus, Usage } from "../../model/internal.ts";
import type { UiApproval, UiFilePart, UiProgress, UiQuestion, UiTextPart, UiToolMetadata } from "./parts.ts";

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
      /** The decision is made by a policy; no user is asked. */
      readonly isAutomatic?: boolean;
    }
  | {
      readonly type: "tool-approval-response";
      readonly approvalId: string;
      readonly approved: boolean;
      readonly reason?: string;
    }
  | {
      readonly type: "tool-output-available";
      readonly toolCallId: string;
      readonly output: Json;
      readonly providerExecuted?: boolean;
    }
  | { readonly type: "tool-output-error"; readonly toolCallId: string; readonly errorText: string }
  | { readonly type: "tool-output-denied"; readonly toolCallId: string }
  | { readonly type: "data-tool-progress"; readonly id: string; readonly data: UiProgress }
  | { readonly type: "data-question"; readonly id: string; readonly data: UiQuestion }
  | {
      readonly type: "steering-message";
      readonly id: string;
      readonly parts: readonly (UiTextPart | UiFilePart)[];
    }
  | { readonly type: "message-metadata"; readonly messageMetadata: UiMetadata }
  | { readonly type: "error"; readonly errorText: string }
  | { readonly type: "abort"; readonly reason: string }
  | { readonly type: "finish"; readonly finishReason: UiFinishReason; readonly messageMetadata?: UiMetadata };

/** `interrupted` keeps the client from continuing by itself (`sendAutomaticallyWhen`) when no call is pending. */
export type UiFinishReason = "stop" | "length" | "content-filter" | "tool-calls" | "error" | "interrupted" | "other";

/** The metadata of a message, from the newest turn that extended it. */
export type UiMetadata = {
  readonly turnId: string;
  readonly status?: SessionStatus;
  readonly haltedReason?: HaltedReason;
  readonly usage?: Usage;
  /** The version of the session after the turn. */
  readonly version?: number;
};

/** Requests an approval. */
export function requestChunk(toolCallId: string, { id: approvalId, requestReason, descriptor }: UiApproval): UiChunk {
  const why = requestReason === undefined ? {} : { reason: requestReason };
  const hints = descriptor === undefined ? {} : { approvalDescriptor: descriptor };
  return { type: "tool-approval-request", toolCallId, approvalId, ...why, ...hints };
}

/** The chunks of a denied call for a reader that did not receive the request: the SDK accepts a denial only after a request and a response. */
export function deniedChunks(
  toolCallId: string,
  approvalId: string,
  why: string | null,
  how: { readonly isAutomatic?: true } = {},
): readonly UiChunk[] {
  const reason = why === null ? {} : { reason: why };
  return [
    { type: "tool-approval-request", toolCallId, approvalId, ...how },
    { type: "tool-approval-response", approvalId, approved: false, ...reason },
    { type: "tool-output-denied", toolCallId },
  ];
}
