// Forks a session.

import type { JsonObject, PendingToolCall, Session } from "../../model/internal.ts";
import type { VerbContext } from "../context.ts";
import type { Found } from "./session-rows.ts";

import { startHistory } from "../../kernel/internal.ts";
import { MisuseError, parse, newSession, validateSession } from "../../model/internal.ts";
import { readOne } from "../context.ts";
import { loadHistory } from "../history-cache.ts";
import { noChanges, putting } from "../rows/batch.ts";
import { randomText } from "../rows/digest.ts";
import { nameOf, turnKey } from "../rows/session-key.ts";
import { writeSession } from "../rows/session-write.ts";
import { checkReadable, readValue, writeValue } from "../rows/stored.ts";
import { concurrentWrite, find, forkedStart, lastStart, readSession, sessionKey, unused } from "./session-rows.ts";

/**
 * Creates a session with the same messages, or the first `at` of them, and returns its id. Approvals are not copied: a call that was approved waits again
 * in the fork, under an idempotency key of its own. Tokens and deadlines stay with the original.
 */
export async function fork(
  context: VerbContext,
  id: string,
  options: { readonly id?: string; readonly at?: number } = {},
): Promise<string> {
  const original = await find(context, id);
  const { key, head } = original;
  const { length, session } = head;
  const at = options.at ?? length;
  if (!Number.isSafeInteger(at) || at < 0 || at > length) {
    throw new MisuseError("invalid_argument", `fork: the session has ${length} messages, not ${String(at)}`, {
      path: ["at"],
    });
  }
  const messages = (await loadHistory(context, key, head)).entries.slice(0, at);
  const isWhole = at === length;
  const forked = newSession({
    ...(isWhole ? await withoutApprovals(context, original) : {}),
    id: options.id ?? `session-${randomText(10)}`,
    thread: { ...session.thread, messages: [] },
    context: session.context,
    metadata: {
      ...(isWhole ? session.metadata : withoutError(session.metadata)),
      forkedFrom: { sessionId: id, at },
    },
  });
  checkEnd({ ...forked, thread: { ...forked.thread, messages } }, at);
  const target = sessionKey(context, forked.id ?? "");
  const now = context.clock.now();
  const history = startHistory(messages);
  // An answer continues with the options of the turn that asked, so the fork keeps the start of that turn.
  const last = isWhole ? await lastStart(context, original) : null;
  const start = { table: "starts", key: turnKey(target, forkedStart), tag: 0 } as const;
  const write = writeSession(unused(await readSession(context, target), forked, now), {
    now,
    session: { after: forked, messages, history },
    also: last === null ? noChanges : putting({ ...start, value: writeValue("starts", last) }),
  });
  checkReadable("sessions", write.after.head);
  const written = await context.storage.write(write.changes);
  if (!written.ok) throw concurrentWrite(target, write.changes.checks[written.check]?.table);
  context.histories.keep(nameOf(target), history);
  return target.session;
}

/** Throws `MisuseError` when a session cannot end after these messages, for instance between a call and its result. */
function checkEnd(forked: Session<JsonObject>, at: number): void {
  const read = parse("session", forked);
  if (!read.ok) throw new MisuseError("invalid_argument", `fork: ${read.failure.message}`);
  const valid = validateSession(read.value);
  if (valid.ok) return;
  const message = `fork: a session cannot end at message ${at}: ${valid.failure.message}`;
  throw new MisuseError("invalid_argument", message, { path: ["at"] });
}

/** The session without approvals, and without the calls that its open turn has answered. */
async function withoutApprovals({ storage }: VerbContext, { key, head }: Found): Promise<Session<JsonObject>> {
  const { session, turn, length } = head;
  const own = session.pendingToolCalls.map((call): PendingToolCall => ({ ...call, idempotencyKey: null }));
  if (turn === null && own.every(({ decision }) => decision === null)) return { ...session, pendingToolCalls: own };
  const row = turn === null ? null : await readOne(storage, { table: "starts", prefix: turnKey(key, turn) });
  // A turn that has added messages has answered the calls it began with: their results are among the messages.
  const isUsed = turn !== null && (row === null || length > readValue("starts", row).base);
  if (isUsed) return { ...session, pendingToolCalls: [], suspendedCell: null };
  const pendingToolCalls = own.map((call): PendingToolCall => ({ ...call, decision: null }));
  const asked = pendingToolCalls.find(({ reason }) => reason === "question") ?? null;
  const status = pendingToolCalls.length > 0 ? "awaiting_tools" : session.status;
  return {
    ...session,
    pendingToolCalls,
    status: asked === null ? status : "awaiting_user",
    pendingQuestion: asked?.question ?? null,
    pendingToolCallId: asked?.id ?? null,
  };
}

/** The failure of the session is not that of a fork which ends before it. */
function withoutError(metadata: JsonObject): JsonObject {
  const { error: _, ...rest } = metadata;
  return rest;
}
