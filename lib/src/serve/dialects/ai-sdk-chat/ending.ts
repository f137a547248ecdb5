// The last chunks of a turn: failure, abort, finish with reason, usage and session status, and requests for approvals.
//
// Requests for approvals are the last chunks that change the message. Each chunk makes the client replace the whole
// message by what it has received, so a chunk after a request would undo the arguments that a person has edited
// meanwhile, and an approval would run the original ones.

import type { ChatResult, Failure, FinishReason, SessionStatus } from "../../../core/model/internal.ts";
import type { TurnEnd } from "../../../durable/internal.ts";
import type { UiMetadata } from "../../contract/internal.ts";
import type { UiChunk, UiFinishReason } from "./chunks.ts";

import { sessionStatusOf } from "../../../core/model/internal.ts";
import { failureText } from "./parts.ts";

/**
 * The chunks that end a stream, from the live result of the turn and from its stored end. With neither, the reader was
 * disconnected and the stream has no end.
 *
 * A client with `sendAutomaticallyWhen` posts the message again if the calls of its last step are answered. If the turn
 * has ended after such a step (`lastStepHasCalls`), an empty step follows it. `requests`: those for approvals.
 */
export function endingChunks(
  turnId: string,
  result: ChatResult | null,
  end: TurnEnd | null,
  lastStepHasCalls: boolean,
  requests: readonly UiChunk[],
): readonly UiChunk[] {
  const { outcome, haltedReason, usage, finalResponse } = result ?? end ?? {};
  if (outcome === undefined || haltedReason === undefined || usage === undefined) return [];
  const callsWait = result?.pendingToolCalls.some(({ decision }) => decision === null) ?? false;
  const status = end?.session.status ?? sessionStatusOf(outcome, { callsWait });
  const version = end === null ? {} : { version: end.session.version };
  const messageMetadata: UiMetadata = { turnId, status, haltedReason, usage, ...version };
  const failure = result === null ? (end?.failure ?? null) : failureIn(result);
  const finishReason = finishReasonOf(status, finalResponse?.finishReason ?? null);
  return [
    ...(lastStepHasCalls && finishReason !== "tool-calls" && finishReason !== "error" ? emptyStep : []),
    ...(failure === null ? [] : [metadataChunk(messageMetadata), ...requests, errorChunk(failure)]),
    ...(outcome.type === "cancelled"
      ? [{ type: "abort", reason: outcome.evidence.reason ?? "cancelled" } as const]
      : []),
    { type: "finish", finishReason, messageMetadata },
    ...(failure === null ? requests : []),
  ];
}

const emptyStep: readonly UiChunk[] = [{ type: "start-step" }, { type: "finish-step" }];

/** The client stops reading at an `error` chunk, so the metadata is sent before it. */
function metadataChunk(messageMetadata: UiMetadata): UiChunk {
  return { type: "message-metadata", messageMetadata };
}

function errorChunk(failure: Failure): UiChunk {
  return { type: "error", errorText: failureText(failure) };
}

/** The failure of the turn; `null` if it did not fail. */
export function failureIn({ outcome, metadata }: ChatResult): Failure | null {
  if (sessionStatusOf(outcome) !== "error") return null;
  return "failure" in outcome ? outcome.failure : (metadata.error ?? null);
}

function finishReasonOf(status: SessionStatus, reply: FinishReason | null): UiFinishReason {
  if (status === "error") return "error";
  if (status === "awaiting_user" || status === "awaiting_tools") return "tool-calls";
  switch (reply) {
    case "stop":
    case "length":
    case "error":
      return reply;
    case "content_filter":
      return "content-filter";
    // The turn ended after its tools ran, and no call is pending.
    case "tool_calls":
    case "paused":
    case "other":
    case null:
      return "other";
  }
}
