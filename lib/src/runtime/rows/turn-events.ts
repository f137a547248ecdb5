// The events that the log gets for an accepted journal item. None grows with the turn: threads and earlier steps are left out.

import type { MessageCompleted, ModelReply, TurnEvent } from "../../model/internal.ts";
import type { JournalItem } from "../../run/internal.ts";
import type { JournalRow, StoredEvent, TurnStart } from "./values.ts";

import { assistant, replyText } from "../../model/internal.ts";
import { acceptedInputs } from "./inbox.ts";

/** The attempt at an effect that an event settles. */
type Attempt = NonNullable<StoredEvent["settles"]>;

/**
 * The events of one journal row: the reply it settles, the input it accepted, and what the run reported. The first one names the attempt that the row
 * settles, so that a reader in the middle of that attempt gets only the missing text (Q7).
 */
export function eventsOfItem(
  turn: string,
  ordinal: number,
  item: JournalItem,
  { epoch, attempt }: JournalRow,
  reported: readonly TurnEvent[],
  streaming: Attempt | null,
): readonly StoredEvent[] {
  // A cancel keeps the text of the attempt it interrupted, and of no other (Q9).
  const interrupted = item.type === "cancel" ? (streaming ?? { effectId: "", epoch, n: 0 }) : null;
  const settles = item.type === "response" ? { effectId: item.response.id, epoch, n: attempt } : interrupted;
  const events = [...eventsOfResponse(turn, item), ...reported.map(withoutThread)];
  return events.map((event, index) => ({ turn, ordinal, index, settles: index === 0 ? settles : null, event }));
}

function eventsOfResponse(turnId: string, item: JournalItem): readonly TurnEvent[] {
  if (item.type !== "response") return [];
  const { response } = item;
  if (response.type === "model_replied") return [messageCompleted(response.reply)];
  if (response.type !== "checkpoint_delivered" || response.delivery.inputs.length === 0) return [];
  const { messages, transientMessages, inputs } = response.delivery;
  const checkpoint = response.id.endsWith("before_completion") ? "before_completion" : "after_work";
  const accepted = acceptedInputs([...messages, ...transientMessages], inputs);
  return [{ type: "input_accepted", turnId, checkpoint, inputs: accepted }];
}

/** The event of a turn that a verb accepted. */
export function turnStarted(turnId: string, sessionId: string): StoredEvent {
  return ofTurn(turnId, 0, 0, { type: "turn_started", turnId, sessionId });
}

/** The events of a turn that was made of input: written when a process begins to drive it. */
export function turnStartedByInput(
  turnId: string,
  sessionId: string,
  { messages, inputs }: Pick<TurnStart, "messages" | "inputs">,
): readonly StoredEvent[] {
  const accepted = acceptedInputs(messages, inputs);
  const input = { type: "input_accepted", turnId, checkpoint: null, inputs: accepted } as const;
  return [turnStarted(turnId, sessionId), ofTurn(turnId, 0, 1, input)];
}

/** An event of a turn that settles no attempt. */
export function ofTurn(turn: string, ordinal: number, index: number, event: TurnEvent): StoredEvent {
  return { turn, ordinal, index, settles: null, event };
}

function messageCompleted(reply: ModelReply): MessageCompleted {
  const { finishReason, rawFinishReason, requestId, id: responseId, model, route, output, metadata } = reply;
  const message = reply.message ?? assistant(replyText(reply) ?? "", { toolCalls: reply.toolCalls });
  return {
    type: "message_completed",
    message,
    finishReason,
    rawFinishReason,
    requestId,
    responseId,
    model,
    route,
    output,
    metadata,
  };
}

function withoutThread(event: TurnEvent): TurnEvent {
  if (event.type === "step_completed") return { ...event, thread: { messages: [], metadata: {} } };
  if (event.type !== "chat_completed") return event;
  return { ...event, result: { ...event.result, thread: { messages: [], metadata: {} }, steps: [] } };
}
