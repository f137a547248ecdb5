// The inbox of a session: input that arrives while a turn runs (Q11). Pure, except that `settleInputs` reads rows.
//
// Input waits in `inbox` in the order of arrival. There are two kinds:
//   steered   (`ownTurn` is `null`)  a checkpoint of the open turn claims it; what is left when the turn ends becomes
//                                    the next turn
//   queued    (`ownTurn` is set)     no checkpoint claims it; when the open turn has ended, it starts a turn with its
//                                    own options
// Writing to the inbox does not change the version of the session, so input never conflicts with a commit of the turn.
//
// The next turn (`nextInputs`) is that of the first interrupting input; otherwise the first input decides: queued input
// starts its own turn, and steered input starts one turn together with the steered input up to the next queued one.
// Steered input that arrived after queued input is claimed at a checkpoint of the queued turn.
//
// Invariants
//   1. The id of an input is an idempotency key (`accepted`): the same content under the same id is the same input,
//      other content is a conflict.
//   2. A claim is valid for the lease epoch it was made under. After a takeover the input can be claimed again. A
//      holder that claims the next epoch of its own expired lease (Q18) moves its claims to that epoch in the same
//      batch.
//   3. A claimed input is settled in the batch that records the checkpoint which delivered it. Delivery is therefore
//      exactly-once: a crash before that batch leaves the input claimable, and after it the input is no longer in the
//      inbox.

import type { CheckpointDelivery } from "../../core/kernel/internal.ts";
import type { AcceptedInput, Message } from "../../core/model/internal.ts";
import type { Changes } from "./batch.ts";
import type { SessionKey } from "./session-key.ts";
import type { Check, HostStorage, Key, Put, Row } from "./storage.ts";
import type { Accepted, InboxEntry, InboxInput } from "./values.ts";

import { keyOf } from "./session-key.ts";
import { readValue, writeValue } from "./stored.ts";

/** How many inputs one checkpoint claims at most; the others wait for the next checkpoint. */
export const maxClaimedInputs = 64;

/**
 * Returns whether a turn under the lease epoch may claim the input: it is steered, and pending, or claimed under
 * another epoch, or by the turn itself: a claim whose answer was late may have moved to this epoch meanwhile
 * (`movedClaims`), and nothing else would deliver it to this checkpoint.
 */
export function claimable(entry: InboxEntry, epoch: number, turn: string): boolean {
  const { state, epoch: claimedBy, ownTurn } = entry;
  return ownTurn === null && (state === "pending" || claimedBy !== epoch || entry.turn === turn);
}

/** The input that the next turn starts with, from the input that waits at the end of a turn; empty: no input waits. */
export function nextInputs<T extends { readonly entry: InboxEntry }>(waiting: readonly T[]): readonly T[] {
  const first = waiting.find(({ entry }) => entry.ownTurn?.interrupts === true) ?? waiting[0];
  if (first === undefined) return [];
  if (first.entry.ownTurn !== null) return [first];
  const firstQueued = waiting.findIndex(({ entry }) => entry.ownTurn !== null);
  return firstQueued === -1 ? waiting : waiting.slice(0, firstQueued);
}

/** Moves the claims of one epoch to the next. Used by the holder of a lease that claims its own session again (Q18). */
export function movedClaims(rows: readonly Row[], from: number, to: number): Changes {
  const claimed = rows
    .map((row) => ({ row, entry: readValue("inbox", row) }))
    .filter(({ entry }) => entry.state === "claimed" && entry.epoch === from);
  return {
    checks: claimed.map(({ row }): Check => ({ table: "inbox", key: row.key, tag: row.tag })),
    removals: [],
    puts: claimed.map(({ row, entry }) => inboxPut(row.key, row.tag + 1, { ...entry, epoch: to })),
  };
}

/**
 * Builds the delivery of a checkpoint: messages, then transient messages, then turn causes, each in order of arrival.
 */
export function deliveryOf(turn: string, entries: readonly InboxEntry[]): CheckpointDelivery {
  const of = <T extends InboxInput["type"]>(type: T) => entries.filter(({ input }) => input.type === type);
  const messages = of("message").flatMap(({ id, input }) =>
    input.type === "message" ? [withTurnOrigin(turn, id, input.message)] : [],
  );
  const transientMessages = of("transient").flatMap(({ id, input }) =>
    input.type === "transient" ? [asTransient(id, input.message)] : [],
  );
  const turnCauses = of("cause").flatMap(({ input }) => (input.type === "cause" ? [input.cause] : []));
  const inputs = [...of("message"), ...of("transient"), ...of("cause")].map(({ id }) => id);
  return { messages, transientMessages, turnCauses, inputs };
}

/** A message for the history. Its origin names the turn and the input, unless the sender set one. */
function withTurnOrigin(turnId: string, inputId: string, message: Message): Message {
  return { ...message, id: message.id ?? inputId, origin: message.origin ?? { type: "turn_input", turnId, inputId } };
}

/** A message that the model sees in this turn and that the history does not keep. */
function asTransient(inputId: string, message: Message): Message {
  return { ...message, id: message.id ?? inputId, origin: { type: "plugin", pluginId: "inbox", transient: true } };
}

/**
 * The delivered messages with the ids of their inputs; a message that did not come from the inbox has the id `null`.
 */
export function acceptedInputs(messages: readonly Message[], inputs: readonly string[]): readonly AcceptedInput[] {
  return messages.map((message) => {
    const { origin } = message;
    const id = origin?.type === "turn_input" ? origin.inputId : message.id;
    return { id: id !== null && inputs.includes(id) ? id : null, message };
  });
}

/**
 * Builds the changes that settle inputs: the inbox rows are removed, and the rows in `accepted` name the turn that took
 * them.
 */
export async function settleInputs(
  storage: HostStorage,
  key: SessionKey,
  ids: readonly string[],
  turn: string,
): Promise<Changes> {
  const [inboxRows = [], ...acceptedRows] = await storage.read([
    { table: "inbox", prefix: keyOf(key) },
    ...ids.map((id) => ({ table: "accepted", prefix: [...keyOf(key), id] }) as const),
  ]);
  const settledRows = inboxRows.filter((row) => ids.includes(readValue("inbox", row).id));
  const acceptedPuts = acceptedRows.flat().map((row): Put => {
    const accepted: Accepted = { ...readValue("accepted", row), state: "taken", turn };
    return acceptedPut(key, String(row.key[2]), row.tag + 1, accepted);
  });
  return { checks: [], removals: settledRows.map((row) => ({ table: "inbox", prefix: row.key })), puts: acceptedPuts };
}

/** The row of an input, at its position in the inbox. */
export function inboxPut(key: Key, tag: number, entry: InboxEntry): Put {
  return { table: "inbox", key, tag, value: writeValue("inbox", entry) };
}

/** The row that records what was accepted under an idempotency key. */
export function acceptedPut(key: SessionKey, id: string, tag: number, accepted: Accepted): Put {
  return { table: "accepted", key: [...keyOf(key), id], tag, value: writeValue("accepted", accepted) };
}
