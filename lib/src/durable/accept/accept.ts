// Accepts calls: the one path from a verb to its batch.
//
// Theory of operation
//   1. read     one read of the session, its lease, the row of the idempotency key, the limits of the turn, and the
//               history if this process does not have it
//   2. repeat   a call whose key was recorded with the same content returns the turn of that call; other content is a
//               `conflict`
//   3. decide   the verb decides from the rows (`Call.decide`): it changes the session and starts a turn, or adds input
//               to the inbox of the open turn (steer, queue, interrupt), or throws
//   4. write    one conditional batch. If this process drives turns, the batch also claims the lease, and the process
//               then drives the turn from the rows it wrote; nothing is read back
//   A batch that is refused because another writer has changed one of these rows leads back to 1. An error of the
//   storage may hide a batch that was written (Q1): with a key the rows are read again, and the call succeeds if its
//   key is recorded; its turn is driven as if the answer had arrived. There are no other reads for a turn that starts
//   something new; a verb that continues a turn, or adds input to one, also reads the rows of that turn.
//
// The batch that starts a turn
//   checks   version of the session, absence of the idempotency key, absence of the turn, and the lease row if it is
//            claimed
//   puts     session row, recent, new messages, start, turn row, pinned configuration (or a check of it), open, work,
//            turn times, the idempotency key, the first event, the lease
//
// Failure cases
//   the session has changed      nothing is written, and the verb decides again
//   a limit does not admit it    the turn is accepted and waits for the limit (`drive/admission.ts`)
//   a slot of a limit was taken  another turn was faster; the limits are read again
//   the lease has changed        another process claimed it. The turn is accepted without the lease, and that process
//                                or a worker drives it
//   the configuration is gone    its row expired and was removed. The batch is written again, with the row
//   crash after the batch        the turn is open and due when the lease expires; a worker drives it
//   no free place here           the turn is stored as due now, and queued here (`ActiveTurns.driveStored`)
//   it cannot be driven here     the verb succeeds, because the batch is written; `result` of the handle rejects with
//                                the error
//
// Idempotency keys
//   A verb that is called again with the same key and the same content is accepted once, and every call returns the
//   same turn; so a client may retry after a lost answer. The row in `accepted` is written in the batch that accepts
//   the verb, and lives as long as the session.

import type { TurnHistory } from "../../core/kernel/internal.ts";
import type { Json, JsonObject, Session } from "../../core/model/internal.ts";
import type { Decision as LimitDecision } from "../drive/admission.ts";
import type { VerbContext } from "../drive/context.ts";
import type { PlannedTurn } from "../drive/new-turn.ts";
import type { ExistingSession, SessionRows } from "../drive/session-rows.ts";
import type { TurnHandle, VerbOptions } from "../drive/types.ts";
import type { Changes } from "../rows/batch.ts";
import type { SessionKey } from "../rows/session-key.ts";
import type { StoredSession } from "../rows/session-write.ts";
import type { Check, Written } from "../rows/storage.ts";
import type { InboxEntry, TurnStart } from "../rows/values.ts";

import { monotonicNow } from "../../core/clock/clock.ts";
import { canonicalJson } from "../../core/kernel/internal.ts";
import { MisuseError, RuntimeError } from "../../core/model/internal.ts";
import { checkNotBlank, decisionsOf, isOpen } from "../../core/session/internal.ts";
import { admit } from "../drive/admission.ts";
import { acceptedTurn } from "../drive/driven-turn.ts";
import { continuedTrace, inputOf, newTurn, newTurnId, plainRequest } from "../drive/new-turn.ts";
import { existingSession, extendHistory, historyOf, readSession, writeConflict } from "../drive/session-rows.ts";
import { merge, noChanges } from "../rows/batch.ts";
import { sha256 } from "../rows/digest.ts";
import { acceptedPut } from "../rows/inbox.ts";
import { claim, epochOf } from "../rows/lease.ts";
import { keyOf, nameOf, turnKey } from "../rows/session-key.ts";
import { limitKeyOf, writeSession } from "../rows/session-write.ts";
import { checkReadable, readValue } from "../rows/stored.ts";
import { turnStarted } from "../rows/turn-events.ts";
import { attach, handle } from "../sessions/handles.ts";

/** A call of a verb, parsed. */
export type Call = {
  readonly session: SessionKey;
  /** The idempotency key, and the engine and limit key of the turn that the verb is expected to start. */
  readonly options: Pick<VerbOptions, "key" | "engine" | "limitKey">;
  /** What is compared under the key. A message has two forms: as the start of a turn, and as input of one. */
  readonly contents: readonly unknown[];
  /**
   * Decides from the rows; `null`: rows that were read later do not fit to them, and all are read again. Throws if the
   * verb is not possible.
   */
  readonly decide: (rows: SessionRows) => Promise<Decision | null>;
};

/**
 * What a verb does with the session that it has read: it starts a turn, or writes a batch of its own, which adds input
 * to the open turn.
 */
type Decision = TurnDecision | AcceptingBatch;

/** The verb changes the session, and starts a turn unless a call or a question is pending. */
export type TurnDecision = {
  readonly type: "turn";
  readonly before: SessionBefore;
  /** The session after the verb; its thread holds the new messages only. */
  readonly session: Session<JsonObject>;
  /** The kind of turn to start; `null`: none. */
  readonly verb: "chat" | "step" | null;
  /** The options to store with the turn. */
  readonly options: JsonObject;
  /** The name of the engine. */
  readonly engine: string;
  /** The context of the turn; `null`: that of the session. */
  readonly context: JsonObject | null;
  /** The idempotency key; `null`: none. */
  readonly key: AcceptedKey | null;
  /**
   * The start row of the turn that the verb continues: the trace of that turn goes on. Default: `null`, the verb starts
   * something new.
   */
  readonly continues?: TurnStart | null;
  /**
   * `true`: the caller decides about a pending call, which adds no input, so the caller is not among those that started
   * the turn. Default: `false`.
   */
  readonly isDecision?: boolean;
  /** Input that the turn starts with and that the history does not keep: a transient message or a turn cause. */
  readonly input?: InboxEntry;
  /** Further rows of the same batch. The call rejects with `conflict` if one of their checks fails. */
  readonly also?: Changes;
};

/** The batch that accepts a call. */
export type AcceptingBatch = {
  readonly type: "batch";
  readonly changes: Changes;
  /** The turn that the batch starts or queues; `null`: none. */
  readonly turn: string | null;
  /** Called when the batch is written. */
  readonly written: () => TurnHandle | Promise<TurnHandle>;
  /** Called if the batch is refused, with the check that failed. Throws if reading again does not help. */
  readonly refused?: (check: Check | undefined) => void;
  /** Called in any case, at last. */
  readonly release?: () => void;
};

/** A key, and the digest of the content that was accepted under it. */
export type AcceptedKey = { readonly name: string; readonly digest: string };

/** The session before the verb, with the rows that were read with it. `version` is `null` if the session is new. */
type SessionBefore = StoredSession & Pick<ExistingSession, "leaseRow" | "limits" | "entries">;

/**
 * Accepts a call, and drives the turn if this process drives turns and has a free place. Rejects with what the verb
 * throws, with `ValidationError` for a blank user message, and with what `planRun` throws; nothing is written then.
 */
export async function accept(context: VerbContext, call: Call): Promise<TurnHandle> {
  for (let attempt = 0; ; attempt += 1) {
    const rows = await readSession(context, call.session, call.options.key, call.options);
    const repeated = await repeatedCall(context, rows, call);
    if (repeated !== null) return repeated;
    const decision = await call.decide(rows);
    if (decision === null) continue;
    const batch = decision.type === "turn" ? await acceptTurn(context, decision, attempt) : decision;
    try {
      const accepted = await writeBatch(context, call, batch);
      if (accepted !== null) return accepted;
    } finally {
      batch.release?.();
    }
  }
}

/** Writes the batch of a call; `null`: another writer has changed a row that it depends on. */
async function writeBatch(context: VerbContext, call: Call, batch: AcceptingBatch): Promise<TurnHandle | null> {
  const { changes } = batch;
  let written: Written;
  try {
    written = await context.storage.write(changes);
  } catch (error) {
    const { key } = call.options;
    // The batch may have been written although its answer was lost.
    const meanwhile =
      key === undefined ? null : await repeatedCall(context, await readSession(context, call.session, key), call);
    if (meanwhile === null) throw error;
    // The turn of this batch is driven here; that of an equal call is driven where that call was accepted.
    return batch.turn !== null && batch.turn === meanwhile.turnId ? batch.written() : meanwhile;
  }
  if (written.ok) return batch.written();
  batch.refused?.(changes.checks[written.check]);
  return null;
}

/**
 * The handle of the turn of an equal call that was accepted under the key; `null`: none was. Throws `conflict` if the
 * content differs.
 */
async function repeatedCall(context: VerbContext, rows: SessionRows, call: Call): Promise<TurnHandle | null> {
  const { key } = call.options;
  if (key === undefined || rows.accepted === null) return null;
  const { digest, state, turn } = readValue("accepted", rows.accepted);
  const digests = await Promise.all(call.contents.map(contentDigest));
  if (!digests.includes(digest)) throw keyConflict(key);
  const { head } = existingSession(rows);
  const isOpenTurn = (id: string | null) => id !== null && id === head.turn && head.session.status !== "error";
  if (state === "taken") return handle(context, rows.key, turn, undefined, isOpenTurn(turn));
  // Input that waits for a checkpoint of the open turn, or that will start a turn of its own.
  const expected = turn ?? head.turn;
  return attach(context, rows.key.session, expected, isOpenTurn(expected) || (state === "pending" && turn !== null));
}

/**
 * Plans the turn of a decision, and builds the batch that accepts it. `attempt`: how often a batch of the call was
 * refused.
 */
async function acceptTurn(context: VerbContext, decision: TurnDecision, attempt: number): Promise<AcceptingBatch> {
  const { before, session } = decision;
  const { key, head } = before;
  const { messages } = session.thread;
  checkNotBlank(messages);
  const now = context.clock.now();
  const history = extendHistory(await historyOf(context, before), messages);
  const turn = await turnOf(context, decision, history, now);
  const sentAt = monotonicNow(context.clock);
  const isPinnedStored = turn !== null && context.pinned.has(key.tenant, turn);
  const release =
    turn === null || !context.drives || context.turns.closing ? null : context.turns.places.reserve(key.tenant);
  try {
    const claimed = turn === null || release === null ? null : claimFor(context, before);
    const admission = turn === null || claimed === null ? null : await limitsOf(context, before, turn, attempt);
    const limit = admission?.limit ?? null;
    const lease = limit?.type === "waiting" ? null : claimed;
    const due = lease === null ? now : now + context.lease.ttlMs;
    const write = writeSession(before, {
      now,
      session: { after: session, messages, history },
      ...(turn === null ? {} : { turn: { type: "begin", turn: { ...turn, isPinnedStored }, due, limit } }),
      // A turn built from input reports its start in its first commit.
      events: turn === null || decision.input !== undefined ? [] : [turnStarted(turn.id, key.session)],
      also: merge(
        lease?.changes ?? noChanges,
        admission?.changes ?? noChanges,
        acceptedRow(decision.key, before, turn),
        decision.also ?? noChanges,
      ),
    });
    checkReadable("sessions", write.after.head);
    const endExpected = turn === null || lease === null ? null : context.cancels.expect(turnKey(key, turn.id));
    return {
      type: "batch",
      changes: write.changes,
      turn: turn?.id ?? null,
      written: async () => {
        context.histories.keep(nameOf(key), history);
        if (turn !== null && !isPinnedStored) context.pinned.add(key.tenant, turn, sentAt);
        if (turn !== null && lease !== null) context.turns.drive(key, acceptedTurn(write, turn), lease.lease);
        else if (limit?.type === "waiting") context.turns.serveWaiting([limit.scope]);
        // The holder of the lease looks for accepted turns when it releases the lease, but it may have done so already.
        // The batch is written, so the verb has succeeded even if this process fails to drive the turn.
        else if (turn !== null && context.drives) {
          await context.turns.driveStored({ key, turn: turn.id, epoch: epochOf(before.leaseRow?.tag ?? 0) });
        }
        return handle(context, key, turn?.id ?? null, { sequence: head.sequence, position: null });
      },
      refused: (check) => {
        if (check?.table === "contents" && turn !== null) context.pinned.forget(key.tenant, turn);
        if (check !== undefined && decision.also?.checks.includes(check)) throw writeConflict(key, check.table);
      },
      release: () => {
        endExpected?.();
        release?.();
      },
    };
  } catch (error) {
    release?.();
    throw error;
  }
}

/**
 * The options of a turn with the limit key of the runtime (`limitedBy`), unless the verb or the turn that it continues
 * has one.
 */
export function withLimitKey({ limitKey }: Pick<VerbContext, "limitKey">, options: JsonObject): JsonObject {
  return limitKey === null || "limitKey" in options ? options : { ...options, limitKey };
}

/**
 * What the limits decide about a new turn, from the rows that were read with the session if they are those of its
 * engine and limit key.
 */
async function limitsOf(
  context: VerbContext,
  { key, limits }: SessionBefore,
  { id, start: { engine, options } }: PlannedTurn,
  attempt: number,
): Promise<LimitDecision> {
  const limitKey = limitKeyOf(options);
  if (limits !== null && limits.engine === engine && limits.limitKey === limitKey) {
    return limits.admission.decide(limits.rows, { turn: id, attempt });
  }
  return admit(context, { key, engine, limitKey, limit: null }, { turn: id, attempt });
}

/**
 * Builds the turn: with the decisions of pending calls, or with the input. `null`: the verb starts none, or the session
 * waits for an answer.
 */
async function turnOf(
  context: VerbContext,
  decision: TurnDecision,
  history: TurnHistory,
  now: number,
): Promise<PlannedTurn | null> {
  const { before, session, verb, engine, context: turnContext, input, continues = null, isDecision = false } = decision;
  if (verb === null || isWaiting(session)) return null;
  const { key, head } = before;
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
  const options = withLimitKey(context, decision.options);
  const request = { ...plainRequest, verb, engine, options, context: turnContext, startedBy, ...turnInput, trace };
  return newTurn(context, { key, id, session, history, request, now });
}

/** The changes that claim the lease of a session; `null`: another process holds it. */
function claimFor(context: VerbContext, { key, leaseRow }: SessionBefore) {
  const { owner, clock, storage, lease } = context;
  const claimed = claim(keyOf(key), leaseRow, owner(), clock, lease, { liveness: storage.liveness ?? null });
  if (claimed.type === "busy") return null;
  return { lease: claimed.lease, changes: { checks: [claimed.check], removals: [], puts: [claimed.put] } };
}

/**
 * The row that records the idempotency key. The check that it is absent makes concurrent calls with one key conflict.
 */
export function acceptedRow(accepted: AcceptedKey | null, { key }: StoredSession, turn: PlannedTurn | null): Changes {
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

/** The context of a verb as part of its content. Absent without one, so that digests of older rows stay valid. */
export function contextContent({ turnContext }: { readonly turnContext?: JsonObject }): readonly unknown[] {
  return turnContext === undefined ? [] : [turnContext];
}

/** The key and the digest of the content, for the row in `accepted`; `null`: the caller gave no key. */
export async function acceptedKey(key: string | undefined, content: unknown): Promise<AcceptedKey | null> {
  return key === undefined ? null : { name: key, digest: await contentDigest(content) };
}

/** The error of a key that was used for other content. */
export function keyConflict(key: string): RuntimeError {
  return new RuntimeError("conflict", {
    message: `the idempotency key ${JSON.stringify(key)} was used with other content; use a new key for new content`,
    metadata: { key },
  });
}

/** The digest of the content of a call. The order of properties does not matter. */
export async function contentDigest(content: unknown): Promise<string> {
  return sha256(canonicalJson(plainJson(content)));
}

function plainJson(content: unknown): Json {
  try {
    return JSON.parse(JSON.stringify(content) ?? "null");
  } catch (cause) {
    throw new MisuseError("not_serializable", "the arguments of a call with an idempotency key must be JSON", {
      cause,
    });
  }
}
