// The stored events of a turn: which events the log gets for an accepted journal item, in which order. They are written
// in the batch of the item (H2). Threads and earlier steps are removed from them, so the size of an event does not grow
// with the turn (H5).

import type { ModelReply, TurnEvent } from "../../core/model/internal.ts";
import type { JournalItem } from "../../core/run/internal.ts";
import type { JournalRow, StoredEvent, TurnStart } from "./values.ts";

import { messageCompleted } from "../../core/model/internal.ts";
import { acceptedInputs } from "./inbox.ts";

/**
 * The attempt at an effect that an event settles: the lease epoch and the number of the attempt order attempts (Q7).
 */
type Attempt = NonNullable<StoredEvent["settles"]>;

/**
 * The events of one journal row: the reply or the input it accepted, then the events the run reported for it. The first
 * event names the attempt that the row settles, so that a reader that has received part of that attempt gets only the
 * missing text (Q7).
 *
 * `streaming` is the attempt whose live text was published last.
 */
export function eventsOfItem(
  turn: string,
  ordinal: number,
  item: JournalItem,
  { epoch, attempt }: JournalRow,
  reported: readonly TurnEvent[],
  streaming: Attempt | null,
): readonly StoredEvent[] {
  // A cancel keeps the text of the attempt that it interrupted and of no other (Q9). The empty effect id matches no
  // reader's attempt.
  const interrupted = item.type === "cancel" ? (streaming ?? { effectId: "", epoch, n: 0 }) : null;
  const settles = item.type === "response" ? { effectId: item.response.id, epoch, n: attempt } : interrupted;
  const events = [...eventsOfResponse(turn, item), ...reported.map(withoutThread)];
  return events.map((event, index) => ({ turn, ordinal, index, settles: index === 0 ? settles : null, event }));
}

function eventsOfResponse(turnId: string, item: JournalItem): readonly TurnEvent[] {
  if (item.type !== "response") return [];
  const { response } = item;
  if (response.type === "model_replied") return [messageCompleted(response.reply), ...warningsOf(response.reply)];
  if (response.type === "model_failed")
    return response.error.partial === null ? [] : warningsOf(response.error.partial);
  if (response.type !== "checkpoint_delivered" || response.delivery.inputs.length === 0) return [];
  const { messages, transientMessages, inputs } = response.delivery;
  const checkpoint = response.id.endsWith("before_completion") ? "before_completion" : "after_work";
  const accepted = acceptedInputs([...messages, ...transientMessages], inputs);
  return [{ type: "input_accepted", turnId, checkpoint, inputs: accepted }];
}

/** The first event of a turn that a verb accepted, written with the acceptance. */
export function turnStarted(turnId: string, sessionId: string): StoredEvent {
  return ofTurn(turnId, 0, 0, { type: "turn_started", turnId, sessionId });
}

/** The first events of a turn that was built from inbox input, written when a process begins to drive it. */
export function turnStartedByInput(
  turnId: string,
  sessionId: string,
  { messages, inputs }: Pick<TurnStart, "messages" | "inputs">,
): readonly StoredEvent[] {
  const accepted = acceptedInputs(messages, inputs);
  const input = { type: "input_accepted", turnId, checkpoint: null, inputs: accepted } as const;
  return [turnStarted(turnId, sessionId), ofTurn(turnId, 0, 1, input)];
}

/** The events that a run reported for the first transition of a turn. `first` is the index of the first one. */
export function eventsOfStart(turn: string, first: number, reported: readonly TurnEvent[]): readonly StoredEvent[] {
  return reported.map((event, index) => ofTurn(turn, 0, first + index, withoutThread(event)));
}

/** An event that settles no attempt. */
export function ofTurn(turn: string, ordinal: number, index: number, event: TurnEvent): StoredEvent {
  return { turn, ordinal, index, settles: null, event };
}

/**
 * The `warning` events of a reply. They follow `message_completed`, which must be the first event of the row: it
 * settles the attempt.
 */
function warningsOf({ warnings }: ModelReply): readonly TurnEvent[] {
  return warnings.map((warning) => ({ type: "warning", warning }));
}

/** Removes what grows with the turn. Readers rebuild the thread from the earlier events. */
function withoutThread(event: TurnEvent): TurnEvent {
  if (event.type === "step_completed") return { ...event, thread: { messages: [], metadata: {} } };
  if (event.type !== "chat_completed") return event;
  return { ...event, result: { ...event.result, thread: { messages: [], metadata: {} }, steps: [] } };
}
