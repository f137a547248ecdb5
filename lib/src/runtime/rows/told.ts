// What readers are told of an item that was accepted: entries, with nothing in them that grows with the turn.

import type { MessageCompleted, ModelReply, TurnEvent } from "../../model/internal.ts";
import type { JournalItem } from "../../run/internal.ts";
import type { SessionKey } from "../context.ts";
import type { Told } from "../read/hub.ts";
import type { Put } from "./storage.ts";
import type { JournalRow, StoredEvent } from "./stored.ts";

import { assistant, replyText } from "../../model/internal.ts";
import { keyOf } from "../context.ts";
import { acceptedInputs } from "./inbox.ts";
import { writeValue } from "./stored.ts";

/** What is told of an item: the reply it settles, what was taken in, and what the run says of it, with nothing in it that grows with the turn. */
export function eventsOf(
  turn: string,
  ordinal: number,
  item: JournalItem,
  { epoch, attempt }: JournalRow,
  entries: readonly TurnEvent[],
  heard: StoredEvent["settles"] = null,
): readonly StoredEvent[] {
  // A cancel keeps what was heard of the try it ended, and nothing of any other (Q9).
  const ended = item.type === "cancel" ? (heard ?? { effectId: "", epoch, n: 0 }) : null;
  const settles = item.type === "response" ? { effectId: item.response.id, epoch, n: attempt } : ended;
  const said: TurnEvent[] = [];
  if (item.type === "response" && item.response.type === "model_replied") said.push(completedOf(item.response.reply));
  if (item.type === "response" && item.response.type === "checkpoint_delivered") {
    const { messages, transientMessages, inputs } = item.response.delivery;
    if (inputs.length > 0) {
      const checkpoint = item.response.id.endsWith("before_completion") ? "before_completion" : "after_work";
      const taken = acceptedInputs([...messages, ...transientMessages], inputs);
      said.push({ type: "input_accepted", turnId: turn, checkpoint, inputs: taken });
    }
  }
  said.push(...entries.map(small));
  return said.map((event, index) => ({ turn, ordinal, index, settles: index === 0 ? settles : null, event }));
}

/** The end of a reply, from the reply. */
function completedOf(reply: ModelReply): MessageCompleted {
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

/** Threads are in the store: what is told of a step or a run does not repeat them. */
function small(event: TurnEvent): TurnEvent {
  if (event.type === "step_completed") return { ...event, thread: { messages: [], metadata: {} } };
  if (event.type !== "chat_completed") return event;
  return { ...event, result: { ...event.result, thread: { messages: [], metadata: {} }, steps: [] } };
}

export function eventPuts(key: SessionKey, told: readonly Told[]): readonly Put[] {
  return told.map(({ sequence, stored }): Put => {
    return { table: "events", key: [...keyOf(key), sequence], tag: 0, value: writeValue("events", stored) };
  });
}
