// What is said of a turn when it is over: how it ended, what it has cost, and why it failed, if it did.

import type { ChatResult, Failure, FinishReason, HaltedReason, SessionStatus } from "../../model/internal.ts";
import type { TurnEnd } from "../../runtime/internal.ts";
import type { UiChunk, UiFinishReason, UiMetadata } from "./chunks.ts";

import { sessionStatusOf } from "../../model/internal.ts";
import { failureText } from "./parts.ts";

/** The end of a stream, by what was told of the turn's end, and by what is stored of it. With neither it has none: the reading was cut. */
export function endingChunks(turnId: string, result: ChatResult | null, end: TurnEnd | null): readonly UiChunk[] {
  const { outcome, haltedReason, usage, finalResponse } = result ?? end ?? {};
  if (outcome === undefined || haltedReason === undefined || usage === undefined) return [];
  const callsWait = result?.pendingToolCalls.some(({ decision }) => decision === null) ?? false;
  const status = end?.session.status ?? sessionStatusOf(outcome, { callsWait });
  const version = end === null ? {} : { version: end.session.version };
  const messageMetadata: UiMetadata = { turnId, status, haltedReason, usage, ...version };
  const failure = result === null ? (end?.failure ?? null) : failureIn(result);
  const reply = finalResponse?.finishReason ?? null;
  return [
    ...(failure === null ? [] : failureChunks(failure, messageMetadata)),
    ...(outcome.type === "cancelled"
      ? [{ type: "abort", reason: outcome.evidence.reason ?? "cancelled" } as const]
      : []),
    { type: "finish", finishReason: finishReasonOf(status, haltedReason, reply), messageMetadata },
  ];
}

/** A client reads nothing behind an error: what it is to know comes first. */
function failureChunks(failure: Failure, messageMetadata: UiMetadata): readonly UiChunk[] {
  return [
    { type: "message-metadata", messageMetadata },
    { type: "error", errorText: failureText(failure) },
  ];
}

/** Why the turn failed; `null`: it did not. */
export function failureIn({ outcome, metadata }: ChatResult): Failure | null {
  if (sessionStatusOf(outcome) !== "error") return null;
  return "failure" in outcome ? outcome.failure : (metadata.error ?? null);
}

function finishReasonOf(status: SessionStatus, haltedReason: HaltedReason, reply: FinishReason | null): UiFinishReason {
  if (status === "error") return "error";
  if (status === "awaiting_user" || status === "awaiting_tools") return "tool-calls";
  if (haltedReason === "cancelled") return "interrupted";
  switch (reply) {
    case "stop":
    case "length":
    case "error":
      return reply;
    case "content_filter":
      return "content-filter";
    // The turn has ended with its tools: a client that sees them all answered is not to send them back.
    case "tool_calls":
      return "interrupted";
    case "other":
    case null:
      return "other";
  }
}
