// Accepts a verb: one conditional batch changes the session, stores the turn that the verb starts and, if this process drives turns, claims the
// lease. The process then drives the turn from the rows it wrote; nothing is read back.
//
// The batch
//   checks   version of the session, absence of the idempotency key, absence of the turn, and the lease row if it is claimed
//   puts     session row, recent, new messages, start, turn row, pinned configuration (or a check of it), open, due, the idempotency key, the first event,
//            the lease
//
// Failure cases
//   the session has changed      `conflict`; nothing is written. The caller reads again
//   a limit does not admit it    the turn is accepted and waits for the limit (`drive/admission.ts`)
//   a slot of a limit was taken  another turn was faster; the limits are read again
//   the lease has changed        another process claimed it. The turn is accepted without the lease, and that process or a worker drives it
//   the configuration is gone    its row expired and was removed. The batch is written again, with the row
//   crash after the batch        the turn is open and due when the lease expires; a worker drives it
//   no free place in the process the turn is stored as due now, and queued here (`ActiveTurns.driveStored`)
//   this process cannot drive it the verb succeeds, because the batch is written; `result` of the handle rejects with the error

import type { TurnHistory } from "../../core/kernel/internal.ts";
import type { JsonObject, Session } from "../../core/model/internal.ts";
import type { Decision } from "../drive/admission.ts";
import type { VerbContext } from "../drive/context.ts";
import type { PlannedTurn } from "../drive/new-turn.ts";
import type { ExistingSession } from "../drive/session-rows.ts";
import type { TurnHandle } from "../drive/types.ts";
import type { Changes } from "../rows/batch.ts";
import type { StoredSession } from "../rows/session-write.ts";
import type { Row } from "../rows/storage.ts";
import type { InboxEntry, TurnStart } from "../rows/values.ts";
import type { AcceptedKey } from "./idempotency.ts";

import { monotonicNow } from "../../core/clock/clock.ts";
import { RuntimeError } from "../../core/model/internal.ts";
import { checkNotBlank, decisionsOf, isOpen } from "../../core/session/internal.ts";
import { admit } from "../drive/admission.ts";
import { readOne } from "../drive/context.ts";
import { acceptedTurn } from "../drive/driven-turn.ts";
import { continuedTrace, inputOf, newTurn, newTurnId, plainRequest } from "../drive/new-turn.ts";
import { writeConflict, extendHistory, historyOf } from "../drive/session-rows.ts";
import { merge, noChanges } from "../rows/batch.ts";
import { acceptedPut } from "../rows/inbox.ts";
import { claim, epochOf } from "../rows/lease.ts";
import { keyOf, nameOf } from "../rows/session-key.ts";
import { limitKeyOf, writeSession } from "../rows/session-write.ts";
import { checkReadable } from "../rows/stored.ts";
import { turnStarted } from "../rows/turn-events.ts";
import { handle } from "../sessions/handles.ts";

/** What a verb does to a session. */
export type Acceptance = {
  /** The session after the verb; its thread holds the new messages only. */
  readonly session: Session<JsonObject>;
  /** The kind of turn to start; `null`: none. No turn is started either while a call or a question is pending. */
  readonly verb: "chat" | "step" | null;
  /** The options to store with the turn. */
  readonly options: JsonObject;
  /** The name of the engine. */
  readonly engine: string;
  /** The context of the turn; `null`: that of the session. */
  readonly context: JsonObject | null;
  /** The idempotency key; `null`: none. */
  readonly key: AcceptedKey | null;
  /** The start row of the turn that the verb continues: the trace of that turn goes on. Default: `null`, the verb starts something new. */
  readonly continues?: TurnStart | null;
  /** `true`: the caller decides about a pending call, which adds no input, so the caller is not among those that started the turn. Default: `false`. */
  readonly isDecision?: boolean;
  /** Input that the turn starts with and that the history does not keep: a transient message or a turn cause. */
  readonly input?: InboxEntry;
  /** Further rows of the same batch. */
  readonly also?: Changes;
};

/**
 * Accepts a verb, and drives the turn if this process drives turns and has a free place. Rejects with `conflict` if the session has changed
 * since it was read, with `ValidationError` for a blank user message, and with what `planRun` throws; nothing is written then.
 */
export async function accept(
  context: VerbContext,
  before: SessionBefore,
  given: Acceptance,
  attempt = 0,
): Promise<TurnHandle> {
  const acceptance = { ...given, options: withLimitKey(context, given.options) };
  const { session, verb } = acceptance;
  checkNotBlank(session.thread.messages);
  const now = context.clock.now();
  const history = extendHistory(await historyOf(context, before), session.thread.messages);
  const startsTurn = verb !== null && !isWaiting(session);
  const turn = startsTurn ? await turnOf(context, before, { ...acceptance, verb }, history, now) : null;
  const releasePlace = turn === null || !context.drives || context.turns.closing ? null : context.turns.reserve();
  try {
    return await acceptTurn(context, before, acceptance, turn, history, now, releasePlace !== null, attempt);
  } finally {
    releasePlace?.();
  }
}

/** The session before the verb, with its lease row and the rows of limits that were read with it. */
type SessionBefore = StoredSession & Pick<ExistingSession, "leaseRow" | "limits">;

async function acceptTurn(
  context: VerbContext,
  before: SessionBefore,
  acceptance: Acceptance,
  turn: PlannedTurn | null,
  history: TurnHistory,
  now: number,
  drives: boolean,
  attempt: number,
): Promise<TurnHandle> {
  const { key, head } = before;
  const { session } = acceptance;
  const { messages } = session.thread;
  const sentAt = monotonicNow(context.clock);
  const isPinnedStored = turn !== null && context.pinned.has(key.tenant, turn);
  const claimed = turn === null || !drives ? null : claimFor(context, before);
  const decision = turn === null || claimed === null ? null : await limitsOf(context, before, turn, attempt);
  const waitsFor = decision?.limit?.type === "waiting" ? decision.limit.scope : null;
  const lease = waitsFor === null ? claimed : null;
  const limit = decision?.limit ?? null;
  const write = writeSession(before, {
    now,
    session: { after: session, messages, history },
    ...(turn === null
      ? {}
      : {
          turn: {
            type: "begin",
            turn: { ...turn, isPinnedStored },
            due: lease === null ? now : now + context.lease.ttlMs,
            limit,
          },
        }),
    // A turn built from input reports its start in its first commit.
    events: turn === null || acceptance.input !== undefined ? [] : [turnStarted(turn.id, key.session)],
    also: merge(
      lease?.changes ?? noChanges,
      decision?.changes ?? noChanges,
      acceptedRow(acceptance.key, before, turn),
      acceptance.also ?? noChanges,
    ),
  });
  checkReadable("sessions", write.after.head);
  const written = await context.storage.write(write.changes);
  if (!written.ok) {
    const table = write.changes.checks[written.check]?.table;
    if (table === "contents" && turn !== null) {
      context.pinned.forget(key.tenant, turn);
      return acceptTurn(context, before, acceptance, turn, history, now, drives, attempt);
    }
    if (table === "slots") return accept(context, { ...before, limits: null }, acceptance, attempt + 1);
    if (table !== "leases") throw writeConflict(key, table);
    // Another process has claimed the lease. The turn can still be accepted; that process or a worker drives it.
    const leaseRow = await readOne(context.storage, { table: "leases", prefix: keyOf(key) });
    return accept(context, { ...before, leaseRow, limits: null }, acceptance, attempt);
  }
  context.histories.keep(nameOf(key), history);
  if (turn !== null && !isPinnedStored) context.pinned.add(key.tenant, turn, sentAt);
  if (turn !== null && lease !== null) context.turns.drive(key, acceptedTurn(write, turn), lease.lease);
  else if (waitsFor !== null) context.turns.serveWaiting([waitsFor]);
  // The holder of the lease looks for accepted turns when it releases the lease, but it may have done so already. The batch is written, so
  // the verb has succeeded even if this process fails to drive the turn.
  else if (turn !== null && context.drives) {
    await context.turns.driveStored({ key, turn: turn.id, epoch: epochOf(before.leaseRow?.tag ?? 0) });
  }
  return handle(context, key, turn?.id ?? null, { sequence: head.sequence, position: null });
}

/** The options of a turn with the limit key of the runtime (`limitedBy`), unless the verb or the turn that it continues has one. */
export function withLimitKey({ limitKey }: Pick<VerbContext, "limitKey">, options: JsonObject): JsonObject {
  return limitKey === null || "limitKey" in options ? options : { ...options, limitKey };
}

/** What the limits decide about a new turn, from the rows that were read with the session if they are those of its engine and limit key. */
async function limitsOf(
  context: VerbContext,
  { key, limits }: SessionBefore,
  { id, start: { engine, options } }: PlannedTurn,
  attempt: number,
): Promise<Decision> {
  const limitKey = limitKeyOf(options);
  if (limits !== null && limits.engine === engine && limits.limitKey === limitKey) {
    return limits.admission.decide(limits.rows, { turn: id, attempt });
  }
  return admit(context, { key, engine, limitKey, limit: null }, { turn: id, attempt });
}

/** Builds the turn: with the decisions of pending calls, or with the input. */
function turnOf(
  context: VerbContext,
  { key, head }: StoredSession,
  {
    session,
    verb,
    engine,
    options,
    context: turnContext,
    input,
    continues = null,
    isDecision = false,
  }: Acceptance & { readonly verb: "chat" | "step" },
  history: TurnHistory,
  now: number,
): Promise<PlannedTurn> {
  const id = newTurnId();
  const answers = { answers: decisionsOf(session), cell: session.suspendedCell };
  const turnInput = input === undefined ? answers : inputOf(id, [input]);
  const trace = continuedTrace({
    id: head.lastTurn ?? "",
    trace: head.lastTurn === null ? null : (continues?.trace ?? null),
  });
  const caller = context.caller === null || isDecision ? [] : [context.caller];
  // A turn without input of its own acts on that of the turn before it.
  const hasInput = input !== undefined || session.thread.messages.length > 0;
  const earlier = continues?.startedBy ?? (hasInput ? [] : head.startedBy);
  const startedBy = [...new Set([...earlier, ...caller])];
  const request = { ...plainRequest, verb, engine, options, context: turnContext, startedBy, ...turnInput, trace };
  return newTurn(context, key, id, session, history, request, now);
}

/** The changes that claim the lease of a session; `null`: another process holds it. */
function claimFor(context: VerbContext, { key, leaseRow }: { key: ExistingSession["key"]; leaseRow: Row | null }) {
  const { owner, clock, storage, lease } = context;
  const claimed = claim(keyOf(key), leaseRow, owner(), clock, lease, null, storage.liveness ?? null);
  if (claimed.type === "busy") return null;
  return { lease: claimed.lease, changes: { checks: [claimed.check], removals: [], puts: [claimed.put] } };
}

/** The row that records the idempotency key. The check that it is absent makes concurrent calls with one key conflict. */
function acceptedRow(accepted: AcceptedKey | null, { key }: StoredSession, turn: PlannedTurn | null): Changes {
  if (accepted === null) return noChanges;
  const { name, digest } = accepted;
  return {
    checks: [{ table: "accepted", key: [...keyOf(key), name], tag: null }],
    removals: [],
    puts: [acceptedPut(key, name, 0, { digest, state: "taken", turn: turn?.id ?? null })],
  };
}

/** Throws `conflict` if a turn is open, or if the session does not have the version that the caller expects. */
export function checkFree(session: ExistingSession, expectedVersion: number | undefined): void {
  checkVersion(session, expectedVersion);
  if (session.head.turn !== null) throw openTurnConflict(session, session.head.turn);
}

/** Throws `conflict` if the session does not have the version that the caller expects (optimistic concurrency). */
export function checkVersion({ key, version }: ExistingSession, expectedVersion: number | undefined): void {
  if (expectedVersion === undefined || expectedVersion === version) return;
  throw new RuntimeError("conflict", {
    message: `session ${key.session} is at version ${version}, not ${expectedVersion}: another call has changed it; read it again`,
    metadata: { version, wanted: expectedVersion },
  });
}

/** The error of a verb that needs a session without an open turn. */
export function openTurnConflict({ key, head }: ExistingSession, turn: string): RuntimeError {
  const isParked = head.session.status === "error";
  return new RuntimeError("conflict", {
    message: `turn ${turn} is ${isParked ? "parked" : "open"} in session ${key.session}; ${isParked ? "recover the session first" : "wait for the turn, steer it, or cancel it"}`,
    metadata: { turnId: turn },
  });
}

/** Returns whether the session waits for an answer, so that no turn can start. */
function isWaiting({ status, pendingToolCalls }: Session): boolean {
  return status === "awaiting_user" || pendingToolCalls.some(isOpen);
}
