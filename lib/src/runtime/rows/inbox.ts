// What is said to a session while a turn runs (Q11). It waits in the inbox, in its order, until a checkpoint takes it in, or it becomes the next
// turn. Writing to the inbox does not touch the version of the session.
//
// Rules:
//   1. An id is accepted once: the same content under it again is the same input, other content is a conflict.
//   2. A claim holds exactly as long as the lease it was made under; after a takeover the input can be claimed again.
//   3. What was claimed is settled in the very write that records the checkpoint which took it: never lost, never twice.

import type { CheckpointDelivery } from "../../kernel/internal.ts";
import type { AcceptedInput, Message } from "../../model/internal.ts";
import type { Changes } from "./batch.ts";
import type { SessionKey } from "./session-key.ts";
import type { Key, Put, HostStorage } from "./storage.ts";
import type { Accepted, InboxEntry, InboxInput } from "./values.ts";

import { keyOf } from "./session-key.ts";
import { readValue, writeValue } from "./stored.ts";

/** How many inputs one checkpoint takes. */
export const claimedInputs = 64;

/** May this one be claimed by whoever holds the session under that epoch? */
export function claimable({ state, epoch: claimedBy }: InboxEntry, epoch: number): boolean {
  return state === "pending" || claimedBy !== epoch;
}

/** What a checkpoint delivers of these. */
export function deliveryOf(turn: string, entries: readonly InboxEntry[]): CheckpointDelivery {
  const of = <T extends InboxInput["type"]>(type: T) => entries.filter(({ input }) => input.type === type);
  const messages = of("message").flatMap(({ id, input }) =>
    input.type === "message" ? [from(turn, id, input.message)] : [],
  );
  const transientMessages = of("transient").flatMap(({ id, input }) =>
    input.type === "transient" ? [passing(id, input.message)] : [],
  );
  const turnCauses = of("cause").flatMap(({ input }) => (input.type === "cause" ? [input.cause] : []));
  const inputs = [...of("message"), ...of("transient"), ...of("cause")].map(({ id }) => id);
  return { messages, transientMessages, turnCauses, inputs };
}

function from(turnId: string, inputId: string, message: Message): Message {
  return { ...message, id: message.id ?? inputId, origin: message.origin ?? { type: "turn_input", turnId, inputId } };
}

/** The message as one that the model sees in this turn and history does not keep. */
function passing(inputId: string, message: Message): Message {
  return { ...message, id: message.id ?? inputId, origin: { type: "plugin", pluginId: "inbox", transient: true } };
}

/** What was taken in, each with the id of its input; messages that came another way have none. */
export function acceptedInputs(messages: readonly Message[], inputs: readonly string[]): readonly AcceptedInput[] {
  return messages.map((message) => {
    const { origin } = message;
    const id = origin?.type === "turn_input" ? origin.inputId : message.id;
    return { id: id !== null && inputs.includes(id) ? id : null, message };
  });
}

/** Settles inputs: they leave the inbox, and it is written down who took them. */
export async function takenInputs(
  storage: HostStorage,
  key: SessionKey,
  ids: readonly string[],
  turn: string,
): Promise<Changes> {
  const [rows = [], ...known] = await storage.read([
    { table: "inbox", prefix: keyOf(key) },
    ...ids.map((id) => ({ table: "accepted", prefix: [...keyOf(key), id] }) as const),
  ]);
  const taken = rows.filter((row) => ids.includes(readValue("inbox", row).id));
  const marks = known.flat().map((row): Put => {
    const accepted: Accepted = { ...readValue("accepted", row), state: "taken", turn };
    return acceptedPut(key, String(row.key[2]), row.tag + 1, accepted);
  });
  return { checks: [], removals: taken.map((row) => ({ table: "inbox", prefix: row.key })), puts: marks };
}

export function inboxPut(key: Key, tag: number, entry: InboxEntry): Put {
  return { table: "inbox", key, tag, value: writeValue("inbox", entry) };
}

export function acceptedPut(key: SessionKey, id: string, tag: number, accepted: Accepted): Put {
  return { table: "accepted", key: [...keyOf(key), id], tag, value: writeValue("accepted", accepted) };
}
