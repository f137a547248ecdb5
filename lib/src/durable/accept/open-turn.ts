// Input for a session whose turn is open: the rows of the open turn that decide about it, and the batch that adds it to
// the inbox.
//
// The batch
//   checks   version of the session (the turn is still open), the count of the inbox, absence of the idempotency key
//   puts     the inbox row, the count, the idempotency key

import type { VerbContext } from "../drive/context.ts";
import type { ExistingSession } from "../drive/session-rows.ts";
import type { Changes } from "../rows/batch.ts";
import type { Row } from "../rows/storage.ts";
import type { InboxEntry, TurnProgress, TurnStart } from "../rows/values.ts";

import { acceptedPut, inboxPut } from "../rows/inbox.ts";
import { keyOf, turnKey } from "../rows/session-key.ts";
import { readValue } from "../rows/stored.ts";

/** The open turn of a session, and its inbox. */
export type OpenTurnRows = {
  readonly session: ExistingSession;
  readonly turn: string;
  readonly start: TurnStart;
  readonly progress: TurnProgress;
  readonly cancel: Row | null;
  /** The row that counts the inputs of the session; `null`: there was none yet. */
  readonly count: Row | null;
  /** The input that waits; empty if it was not read. */
  readonly inbox: readonly InboxEntry[];
};

/**
 * Reads the open turn, in one read; `null`: the turn has ended since the session was read. `withInbox`: what waits in
 * the inbox decides too. Its size is not bounded.
 */
export async function readOpenTurn(
  { storage }: VerbContext,
  session: ExistingSession,
  turn: string,
  { withInbox = true }: { readonly withInbox?: boolean } = {},
): Promise<OpenTurnRows | null> {
  const at = turnKey(session.key, turn);
  const [starts = [], turns = [], cancels = [], counts = [], inbox = []] = await storage.read([
    { table: "starts", prefix: at },
    { table: "turns", prefix: at },
    { table: "cancels", prefix: at },
    { table: "inboxes", prefix: keyOf(session.key) },
    ...(withInbox ? [{ table: "inbox", prefix: keyOf(session.key) } as const] : []),
  ]);
  const [startRow, turnRow] = [starts[0], turns[0]];
  if (startRow === undefined || turnRow === undefined) return null;
  return {
    session,
    turn,
    start: readValue("starts", startRow),
    progress: readValue("turns", turnRow),
    cancel: cancels[0] ?? null,
    count: counts[0] ?? null,
    inbox: inbox.map((row) => readValue("inbox", row)),
  };
}

/**
 * The changes that add input to the inbox. `digest`: that of the content, for the idempotency key, which is the id of
 * the input.
 */
export function inputChanges({ session, count }: OpenTurnRows, entry: InboxEntry, digest: string): Changes {
  const { key, version } = session;
  const position = (count?.tag ?? 0) + 1;
  return {
    checks: [
      { table: "sessions", key: keyOf(key), tag: version },
      { table: "inboxes", key: keyOf(key), tag: count?.tag ?? null },
      { table: "accepted", key: [...keyOf(key), entry.id], tag: null },
    ],
    removals: [],
    puts: [
      inboxPut([...keyOf(key), position], 0, entry),
      { table: "inboxes", key: keyOf(key), tag: position, value: "" },
      acceptedPut(key, entry.id, 0, { digest, state: "pending", turn: entry.ownTurn?.id ?? null }),
    ],
  };
}
