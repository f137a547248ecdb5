// Accepts a verb: one batch changes the session, stores the turn that follows, and, if this process drives, claims the lease for it. A process that holds
// the lease drives the turn from what it wrote; nothing is read back.

import type { TurnHistory } from "../../kernel/internal.ts";
import type { JsonObject, Session } from "../../model/internal.ts";
import type { VerbContext } from "../context.ts";
import type { PlannedTurn } from "../drive/new-turn.ts";
import type { Changes } from "../rows/batch.ts";
import type { StoredSession } from "../rows/session-write.ts";
import type { Row } from "../rows/storage.ts";
import type { InboxEntry } from "../rows/values.ts";
import type { TurnHandle } from "../types.ts";
import type { AcceptedKey } from "./idempotency.ts";
import type { Found } from "./session-rows.ts";

import { RuntimeError } from "../../model/internal.ts";
import { decisionsOf, isOpen } from "../../session/internal.ts";
import { readOne } from "../context.ts";
import { acceptedTurn } from "../drive/driven-turn.ts";
import { inputOf, newTurn, newTurnId, plainRequest } from "../drive/new-turn.ts";
import { merge, noChanges } from "../rows/batch.ts";
import { acceptedPut } from "../rows/inbox.ts";
import { claim, instantOf } from "../rows/lease.ts";
import { keyOf, nameOf } from "../rows/session-key.ts";
import { writeSession } from "../rows/session-write.ts";
import { checkReadable } from "../rows/stored.ts";
import { turnStarted } from "../rows/turn-events.ts";
import { handle } from "./handles.ts";
import { concurrentWrite, extended, historyOf } from "./session-rows.ts";

/** What a verb makes of a session. */
export type Acceptance = {
  /** The session after it; its thread holds the new messages and no others. */
  readonly session: Session<JsonObject>;
  /** Which kind of turn to begin; `null`: none. None is begun either while a call or a question waits for an answer. */
  readonly verb: "chat" | "step" | null;
  readonly options: JsonObject;
  readonly engine: string;
  readonly key: AcceptedKey | null;
  /** Input that the turn begins with and the history does not keep: a transient message or a turn cause. */
  readonly input?: InboxEntry;
  /** Further rows of the same batch. */
  readonly also?: Changes;
};

/**
 * Accepts a verb, and drives the turn if this process may. Rejects with `conflict` when the session was changed in between, and with what `planRun`
 * throws; nothing is written then.
 */
export async function accept(
  context: VerbContext,
  before: StoredSession & { readonly leaseRow: Row | null },
  wanted: Acceptance,
): Promise<TurnHandle> {
  const { session, verb } = wanted;
  const now = context.clock.now();
  const history = extended(await historyOf(context, before), session.thread.messages);
  const begins = verb !== null && !isWaiting(session);
  const turn = begins ? await turnOf(context, before, { ...wanted, verb }, history, now) : null;
  const free = turn === null || !context.drives || context.turns.closing ? null : context.turns.reserve();
  try {
    return await acceptTurn(context, before, wanted, turn, history, now, free !== null);
  } finally {
    free?.();
  }
}

async function acceptTurn(
  context: VerbContext,
  before: StoredSession & { readonly leaseRow: Row | null },
  wanted: Acceptance,
  turn: PlannedTurn | null,
  history: TurnHistory,
  now: number,
  drives: boolean,
): Promise<TurnHandle> {
  const { key, head } = before;
  const { session } = wanted;
  const { messages } = session.thread;
  const lease = turn === null || !drives ? null : claimFor(context, before);
  const write = writeSession(before, {
    now,
    session: { after: session, messages, history },
    ...(turn === null ? {} : { turn: { type: "begin", turn, due: lease === null ? now : now + context.lease.ttlMs } }),
    // The first commit of a turn made of input says so in events of its own.
    events: turn === null || wanted.input !== undefined ? [] : [turnStarted(turn.id, key.session)],
    also: merge(lease?.changes ?? noChanges, acceptedRow(wanted.key, before, turn), wanted.also ?? noChanges),
  });
  checkReadable("sessions", write.after.head);
  const written = await context.storage.write(write.changes);
  if (!written.ok) {
    const table = write.changes.checks[written.check]?.table;
    if (table !== "leases") throw concurrentWrite(key, table);
    // Another process claimed the lease in between. The turn can still be accepted; that process or a worker drives it.
    const leaseRow = await readOne(context.storage, { table: "leases", prefix: keyOf(key) });
    return accept(context, { ...before, leaseRow }, wanted);
  }
  context.histories.keep(nameOf(key), history);
  if (turn !== null && lease !== null) context.turns.drive(key, acceptedTurn(write, turn), lease.lease);
  // The holder of the lease looks for a turn that was accepted meanwhile when it releases the lease, but it may have done so already.
  // The batch is written: the verb has succeeded, also if this process fails to drive the turn.
  else if (turn !== null && context.drives) {
    await context.turns.driveStored({ key, turn: turn.id, epoch: before.leaseRow?.tag ?? 0 });
  }
  return handle(context, key, turn?.id ?? null, { sequence: head.sequence, position: null });
}

function turnOf(
  context: VerbContext,
  { key }: StoredSession,
  { session, verb, engine, options, input }: Acceptance & { readonly verb: "chat" | "step" },
  history: TurnHistory,
  now: number,
): Promise<PlannedTurn> {
  const id = newTurnId();
  const answers = { answers: decisionsOf(session), cell: session.suspendedCell };
  const given = input === undefined ? answers : inputOf(id, [input]);
  return newTurn(context, key, id, session, history, { ...plainRequest, verb, engine, options, ...given }, now);
}

function claimFor(context: VerbContext, { key, leaseRow }: { key: Found["key"]; leaseRow: Row | null }) {
  const claimed = claim(keyOf(key), leaseRow, context.owner(), instantOf(context.clock), context.lease);
  if (claimed.type === "busy") return null;
  return { lease: claimed.lease, changes: { checks: [claimed.check], removals: [], puts: [claimed.put] } };
}

function acceptedRow(accepted: AcceptedKey | null, { key }: StoredSession, turn: PlannedTurn | null): Changes {
  if (accepted === null) return noChanges;
  const { name, digest } = accepted;
  return {
    checks: [{ table: "accepted", key: [...keyOf(key), name], tag: null }],
    removals: [],
    puts: [acceptedPut(key, name, 0, { digest, state: "taken", turn: turn?.id ?? null })],
  };
}

/** Rejects a verb while a turn is open, or when the session is not at the version that the caller relies on. */
export function checkFree({ key, head, version }: Found, wanted: number | undefined): void {
  if (wanted !== undefined && wanted !== version) {
    throw new RuntimeError("conflict", {
      message: `session ${key.session} is at version ${version}, not ${wanted}: it was changed in between; read it again`,
      metadata: { version, wanted },
    });
  }
  if (head.turn === null) return;
  const isParked = head.session.status === "error";
  throw new RuntimeError("conflict", {
    message: `a turn (${head.turn}) is ${isParked ? "parked" : "open"} in session ${key.session}; ${isParked ? "recover the session" : "wait for it, steer it, or cancel it"}`,
    metadata: { turnId: head.turn },
  });
}

function isWaiting({ status, pendingToolCalls }: Session): boolean {
  return status === "awaiting_user" || pendingToolCalls.some(isOpen);
}
