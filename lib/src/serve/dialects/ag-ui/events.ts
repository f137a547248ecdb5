// The events of the AG-UI protocol, version 1.0, that this server sends, and the input of a run. Structural types of
// our own: the package @ag-ui/core is not needed. The tests validate every sent event with its schemas.

import type { Json, JsonObject } from "../../../core/model/internal.ts";

export const protocolVersion = "1.0";

/** An event of a run. */
export type AgUiEvent =
  | {
      readonly type: "RUN_STARTED";
      readonly threadId: string;
      readonly runId: string;
      readonly protocolVersion: string;
    }
  | {
      readonly type: "RUN_FINISHED";
      readonly threadId: string;
      readonly runId: string;
      readonly outcome: AgUiOutcome;
      readonly usage?: readonly AgUiUsage[];
    }
  | { readonly type: "RUN_ERROR"; readonly message: string; readonly code: string }
  | { readonly type: "STEP_STARTED" | "STEP_FINISHED"; readonly stepName: string }
  | { readonly type: "STATE_SNAPSHOT"; readonly snapshot: JsonObject }
  | { readonly type: "MESSAGES_SNAPSHOT"; readonly messages: readonly Json[] }
  | { readonly type: "TEXT_MESSAGE_START"; readonly messageId: string; readonly role: "assistant" | "user" }
  | { readonly type: "REASONING_MESSAGE_START"; readonly messageId: string; readonly role: "reasoning" }
  | {
      readonly type: "TEXT_MESSAGE_CONTENT" | "REASONING_MESSAGE_CONTENT";
      readonly messageId: string;
      readonly delta: string;
    }
  | {
      readonly type: "TEXT_MESSAGE_END" | "REASONING_START" | "REASONING_MESSAGE_END" | "REASONING_END";
      readonly messageId: string;
    }
  | {
      readonly type: "TOOL_CALL_START";
      readonly toolCallId: string;
      readonly toolCallName: string;
      readonly parentMessageId: string;
    }
  | { readonly type: "TOOL_CALL_ARGS"; readonly toolCallId: string; readonly delta: string }
  | { readonly type: "TOOL_CALL_END"; readonly toolCallId: string }
  | {
      readonly type: "TOOL_CALL_RESULT";
      readonly messageId: string;
      readonly toolCallId: string;
      readonly content: string;
      readonly role: "tool";
    }
  | { readonly type: "CUSTOM"; readonly name: string; readonly value: Json };

/** How a run ended. */
export type AgUiOutcome =
  | { readonly type: "success"; readonly pendingToolCallIds?: readonly string[] }
  | { readonly type: "interrupt"; readonly interrupts: readonly AgUiInterrupt[] }
  | { readonly type: "cancelled" };

/** A wait for a person. The next run answers it: `resume: [{ interruptId, status: "resolved", payload }]`. */
export type AgUiInterrupt = {
  /** Names one wait of one call. */
  readonly id: string;
  readonly reason: "approval" | "question" | "outcome_unknown";
  readonly message?: string;
  readonly toolCallId?: string;
  /** The JSON Schema of `payload`. */
  readonly responseSchema: JsonObject;
  readonly metadata?: JsonObject;
};

/** The tokens of a run. */
export type AgUiUsage = {
  readonly inputTokens?: number;
  readonly outputTokens?: number;
  readonly totalTokens?: number;
};
