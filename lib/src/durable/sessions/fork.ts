// Forks a session: copies its messages, or the first of them, to a new session in one batch. With a quota, the same
// batch counts what it copies.
//
// A fork of a long session takes memory and time in proportion to its messages. Forks of a tenant run one after the
// other, and the quota is checked before the work, so many requests for forks cost little more than the forks that the
// quota allows.

import type { TurnHistory } from "../../core/kernel/internal.ts";
import type { JsonObject, Message, PendingToolCall, ProtocolEvent, Session } from "../../core/model/internal.ts";
import type { VerbContext } from "../drive/context.ts";
import type { ExistingSession } from "../drive/session-rows.ts";
import type { Changes } from "../rows/batch.ts";
import type { TableName } from "../rows/tables.ts";
import type { TurnStart } from "../rows/values.ts";

import { nextTask } from "../../core/clock/clock.ts";
import { appendHistory, pendingCall, startHistory } from "../../core/kernel/internal.ts";
import {
  MisuseError,
  parse,
  newSession,
  noUsage,
  storedWindow,
  validateSession,
  windowUpTo,
  withDigest,
} from "../../core/model/internal.ts";
import { readOne } from "../drive/context.ts";
import {
  writeConflict,
  engineOfSession,
  find,
  forkedStart,
  lastStart,
  readSession,
  sessionKey,
  absentSession,
} from "../drive/session-rows.ts";
import { merge, noChanges, putting } from "../rows/batch.ts";
import { checkCopy, countCopy, quotaQuery } from "../rows/copy-quota.ts";
import { randomText } from "../rows/digest.ts";
import { loadHistory, textLength } from "../rows/history-cache.ts";
import { keyOf, nameOf, turnKey } from "../rows/session-key.ts";
import { framePuts, writeSession } from "../rows/session-write.ts";
import { checkReadable, readValue, writeValue } from "../rows/stored.ts";
import { forkMetadata } from "./fork-origin.ts";

/** Options of `fork`: how much of the session is copied, to which id, and within which quota. */
export type ForkOptions = {
  /** The id of the new session. Default: a random id. */
  readonly id?: string;
  /** Copies only the first `at` messages. Default: all. */
  readonly at?: number;
  /**
   * The id of a call of the last copied message. The call waits in the fork as one whose outcome is unknown: a decision
   * runs it, with other arguments if given, or gives it another result. The answers to the other calls of the message
   * are copied too. Default: none; a fork cannot end between a call and its result.
   */
  readonly redo?: string;
  /**
   * The largest number of characters that forks of the tenant with this option may copy in one hour, over all processes
   * that share the storage. A fork that would exceed it rejects with `quota_exceeded`. Default: no limit.
   */
  readonly copiedLengthPerHour?: number;
};

/**
 * Creates a session with the same messages, or the first `at` of them, and returns its id. Approvals are not copied: an
 * approved call is pending again in the fork, under an idempotency key of its own, so that one approval cannot run a
 * tool twice. Tokens and deadlines stay with the original.
 */
export async function fork(context: VerbContext, id: string, options: ForkOptions = {}): Promise<string> {
  return context.forkPermits.run(context.tenant, () => forkNow(context, id, options));
}

async function forkNow(context: VerbContext, id: string, options: ForkOptions): Promise<string> {
  const original = await find(context, id);
  const { key, head } = original;
  // The copy belongs to the owner of the original, whoever makes it.
  const { length, session, owner } = head;
  const { at = length, redo, copiedLengthPerHour } = options;
  if (!Number.isSafeInteger(at) || at < 0 || at > length) {
    throw new MisuseError(
      "invalid_argument",
      `fork: at must be a whole number from 0 to ${length}, the number of messages, not ${String(at)}`,
      {
        path: ["at"],
      },
    );
  }
  const counted = copiedLengthPerHour === undefined ? null : await readOne(context.storage, quotaQuery(context.tenant));
  if (copiedLengthPerHour !== undefined) checkCopy(counted, 0, copiedLengthPerHour);
  const { entries } = await loadHistory(context, key, head);
  const redone = redo === undefined ? null : redoneCall(entries, at, redo);
  const messages = redone === null ? entries.slice(0, at) : [...entries.slice(0, at), ...redone.answers];
  if (copiedLengthPerHour !== undefined) checkCopy(counted, textLength(messages), copiedLengthPerHour);
  const isComplete = at === length && redone === null;
  const forked = newSession({
    ...(isComplete ? await withoutApprovals(context, original) : {}),
    ...(redone === null ? {} : { status: "awaiting_tools", pendingToolCalls: [redone.call] }),
    id: options.id ?? `session-${randomText(10)}`,
    thread: { ...session.thread, messages: [] },
    context: session.context,
    // A fork has not used anything yet.
    contextWindow: storedWindow({ ...windowUpTo(session.contextWindow, at), summaryUsage: noUsage }),
    protocolEvents: isComplete ? session.protocolEvents : await eventsBefore(context, original, entries, at),
    metadata: {
      ...(isComplete ? session.metadata : withoutError(session.metadata)),
      ...forkMetadata({ sessionId: id, at }),
    },
  });
  checkEnd({ ...forked, thread: { ...forked.thread, messages } }, at);
  const target = sessionKey(context, forked.id ?? "");
  const now = context.clock.now();
  const history = isComplete ? { entries: messages, length, digest: head.digest } : await historyOfPrefix(messages);
  // An answer uses the options of the turn that made the call, so the fork keeps the start row of that turn.
  const last = isComplete
    ? await lastStart(context, original)
    : redone === null
      ? null
      : await startBefore(context, original, at);
  const start = { table: "starts", key: turnKey(target, forkedStart), tag: 0 } as const;
  const absent = absentSession(await readSession(context, target), forked, now);
  // The fork continues with the engine of the original, also if it ends earlier.
  const engine = await engineOfSession(context, original);
  const write = writeSession(
    { ...absent, head: { ...absent.head, engine, owner, startedBy: isComplete ? head.startedBy : [] } },
    {
      now,
      session: { after: forked, messages, history },
      also: putting(
        ...(last === null ? [] : [{ ...start, value: writeValue("starts", last) }]),
        ...framePuts(target, forked.contextWindow?.frame ?? null),
      ),
    },
  );
  checkReadable("sessions", write.after.head);
  const refusedTable = await writeFork(context, target.tenant, write.changes, copiedLengthPerHour);
  if (refusedTable !== null) throw writeConflict(target, refusedTable);
  context.histories.keep(nameOf(target), history);
  return target.session;
}

/** The call of the last copied message that waits in the fork, and the answers to the other calls of that message. */
function redoneCall(
  entries: readonly Message[],
  at: number,
  id: string,
): { readonly call: PendingToolCall; readonly answers: readonly Message[] } {
  const reply = entries[at - 1];
  const calls = reply?.role === "assistant" ? reply.toolCalls : [];
  const call = calls.find((other) => other.id === id);
  if (call === undefined) {
    const message = `fork: message ${at} has no call ${JSON.stringify(id)}; at is the number of messages up to the reply that makes the call`;
    throw new MisuseError("invalid_argument", message, { path: ["redo"] });
  }
  const isOther = (message: Message): boolean =>
    message.role === "tool" && message.toolCallId !== id && calls.some((other) => other.id === message.toolCallId);
  const next = entries.findIndex((message, index) => index >= at && message.role === "assistant");
  const answers = entries.slice(at, next === -1 ? undefined : next).filter(isOther);
  return { call: pendingCall(call, "outcome_unknown"), answers };
}

/** The start of the turn that was running after the first `at` messages; `null`: it is no longer stored. */
async function startBefore({ storage }: VerbContext, { key }: ExistingSession, at: number): Promise<TurnStart | null> {
  const [rows = []] = await storage.read([{ table: "starts", prefix: keyOf(key) }]);
  const starts = rows.map((row) => readValue("starts", row)).filter(({ base }) => base < at);
  return starts.toSorted((one, other) => one.base - other.base).at(-1) ?? null;
}

/**
 * The records of protocols that a session had after its first `at` messages: those of the turns that had ended then. A
 * turn in the middle of which the fork ends adds none. The messages that a turn was accepted with are before its base.
 */
async function eventsBefore(
  { storage }: VerbContext,
  { key, head }: ExistingSession,
  entries: readonly Message[],
  at: number,
): Promise<readonly ProtocolEvent[]> {
  const { protocolEvents } = head.session;
  if (protocolEvents.length === 0) return [];
  const [rows = []] = await storage.read([{ table: "starts", prefix: keyOf(key) }]);
  const counts = rows.flatMap((row) => {
    const { base, protocolEvents: count } = readValue("starts", row);
    return entries.slice(at, base).every(({ role }) => role === "user" || role === "event") ? [count] : [];
  });
  return protocolEvents.slice(0, Math.max(0, ...counts));
}

/** How many characters are digested before other tasks of the event loop run. */
const stepLength = 1_048_576;

/**
 * The history of these messages. Digesting takes some milliseconds for each megabyte, so other tasks run in between.
 */
async function historyOfPrefix(messages: readonly Message[]): Promise<TurnHistory> {
  let history = startHistory([]);
  let digested = 0;
  for (const message of messages) {
    history = appendHistory(history, [message]);
    digested += textLength(message);
    if (digested < stepLength) continue;
    digested = 0;
    await nextTask();
  }
  return history;
}

/**
 * Writes the batch of a fork and counts it against the quota. Returns the table of the check that failed; `null`: the
 * batch is written.
 */
async function writeFork(
  { storage }: VerbContext,
  tenant: string,
  changes: Changes,
  perHour: number | undefined,
): Promise<TableName | null> {
  const length = changes.puts.reduce((sum, { value }) => sum + value.length, 0);
  for (;;) {
    const counted =
      perHour === undefined
        ? noChanges
        : countCopy(tenant, await readOne(storage, quotaQuery(tenant)), length, perHour);
    // The checks of the fork come first: if one of them fails, the fork cannot be repeated.
    const batch = merge(changes, counted);
    const written = await storage.write(batch);
    if (written.ok) return null;
    // Another fork of the tenant was counted since the read. One of the two was written, so forks do not block each
    // other.
    const { table } = batch.checks[written.check] ?? { table: "sessions" };
    if (table !== "slots") return table;
  }
}

/** Throws `MisuseError` if a session cannot end after these messages, for example between a call and its result. */
function checkEnd(forked: Session<JsonObject>, at: number): void {
  const read = parse("session", forked);
  if (!read.ok) throw new MisuseError("invalid_argument", `fork: ${read.failure.message}`);
  const valid = validateSession(read.value);
  if (valid.ok) return;
  const message = `fork: a session cannot end at message ${at}: ${valid.failure.message}`;
  throw new MisuseError("invalid_argument", message, { path: ["at"] });
}

/** The session without approvals, and without calls that its open turn has answered. */
async function withoutApprovals(
  { storage }: VerbContext,
  { key, head }: ExistingSession,
): Promise<Session<JsonObject>> {
  const { session, turn, length } = head;
  const calls = session.pendingToolCalls.map((call) => withDigest({ ...call, idempotencyKey: null }));
  if (turn === null && calls.every(({ decision }) => decision === null)) return { ...session, pendingToolCalls: calls };
  const row = turn === null ? null : await readOne(storage, { table: "starts", prefix: turnKey(key, turn) });
  // A turn that has added messages has answered the calls it started with: their results are among the messages.
  const isAnswered = turn !== null && (row === null || length > readValue("starts", row).base);
  if (isAnswered) return { ...session, pendingToolCalls: [], suspendedCell: null };
  const pendingToolCalls = calls.map((call): PendingToolCall => ({ ...call, decision: null }));
  const question = pendingToolCalls.find(({ reason }) => reason === "question") ?? null;
  const status = pendingToolCalls.length > 0 ? "awaiting_tools" : session.status;
  return {
    ...session,
    pendingToolCalls,
    status: question === null ? status : "awaiting_user",
    pendingQuestion: question?.question ?? null,
    pendingToolCallId: question?.id ?? null,
  };
}

/** Removes the failure of the session: a fork that ends earlier does not have it. */
function withoutError(metadata: JsonObject): JsonObject {
  const { error: _, ...others } = metadata;
  return others;
}
