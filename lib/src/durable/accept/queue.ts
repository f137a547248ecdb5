// Queues a message that arrives while a turn is open (`whenBusy: "queue"` and `"interrupt"`).
//
// The batch
//   checks   version of the session (the turn is still open), the count of the inbox, absence of the idempotency key,
//            the cancel row
//   puts     the inbox row with the turn that it will start (`ownTurn`), the idempotency key, and for `interrupt` the
//            cancel of the open turn with its row of the audit log
//
// The commit that ends the open turn builds the next turn from the inbox (`followingTurn`), in whichever process. So
// the cancel and the next turn are one stored decision:
//   crash before the batch               nothing has changed
//   crash after the batch                the next holder of the session finds the cancel, ends the turn, and its ending
//                                        commit starts the next one
//   the turn ends before the cancel      the cancel is void (`completion_won`), and the ending commit starts the next
//                                        turn all the same
//
// The message waits longer if the turn ends in a question or with pending calls: it starts its turn when a later turn
// of the session ends. After an error it starts its turn when the session is recovered.
//
// The configuration of the turn is stored with the message. If the process that ends the open turn lacks the engine,
// the turn of the message begins with that configuration, and a process that has the engine drives it.

import type { JsonObject, UserMessage } from "../../core/model/internal.ts";
import type { Pinned } from "../../core/run/internal.ts";
import type { VerbContext } from "../drive/context.ts";
import type { ExistingSession } from "../drive/session-rows.ts";
import type { DurableOptions } from "../drive/types.ts";
import type { Changes } from "../rows/batch.ts";
import type { SessionKey } from "../rows/session-key.ts";
import type { InboxEntry } from "../rows/values.ts";
import type { AcceptingBatch } from "./accept.ts";
import type { OpenTurnRows } from "./open-turn.ts";

import { traceOfTurn } from "../../core/engine/internal.ts";
import { canonicalJson } from "../../core/kernel/internal.ts";
import { RuntimeError } from "../../core/model/internal.ts";
import { actorOf } from "../drive/context.ts";
import { inputOf, newTurn, newTurnId, plainRequest } from "../drive/new-turn.ts";
import { historyOf } from "../drive/session-rows.ts";
import { auditRow } from "../rows/audit.ts";
import { merge, noChanges } from "../rows/batch.ts";
import { epochOf } from "../rows/lease.ts";
import { turnKey } from "../rows/session-key.ts";
import { writeValue } from "../rows/stored.ts";
import { queuedHandle } from "../sessions/handles.ts";
import { contentDigest, openTurnConflict, withLimitKey } from "./accept.ts";
import { inputChanges } from "./open-turn.ts";
import { inboxEntry, newInputId } from "./steer.ts";

const origin = "runtime";
const reason = "a message interrupted the turn";

/** A message that starts a turn of its own, parsed. `content`: what is compared under the idempotency key. */
type QueuedMessage = {
  readonly message: UserMessage;
  readonly options: DurableOptions<unknown>;
  readonly stored: JsonObject;
  readonly content: unknown;
};

/**
 * Decides about a message that is queued after the open turn; `interrupts`: that turn is cancelled. The handle is that
 * of the turn that the message will start. Rejects with `conflict` if the message names another engine than that of the
 * open turn, or if a parked turn would have to be interrupted, and with what the plan of the turn throws.
 */
export async function queueMessage(
  context: VerbContext,
  open: OpenTurnRows,
  { message, options, stored, content }: QueuedMessage,
  { interrupts }: { readonly interrupts: boolean },
): Promise<AcceptingBatch> {
  const { session, turn: openTurn } = open;
  const { key, head } = session;
  if (interrupts && open.progress.status === "parked") throw openTurnConflict(session, openTurn);
  const engine = checkedEngine(key, openTurn, open.start.engine, options.engine);
  if (interrupts && open.inbox.some(({ ownTurn }) => ownTurn === null))
    checkSteered(context, open, options.turnContext);
  const own = {
    engine,
    options: withLimitKey(context, stored),
    context: options.turnContext ?? null,
    startedBy: context.caller === null ? [] : [context.caller],
  };
  const unplanned = { id: newTurnId(), ...own, interrupts, trace: traceOfTurn(null), pinned: null };
  const waiting = {
    ...inboxEntry(context, options.key ?? newInputId(), { type: "message", message }),
    ownTurn: unplanned,
  };
  const ownTurn = { ...unplanned, pinned: await pinnedFor(context, session, waiting, unplanned) };
  const added = inputChanges(open, { ...waiting, ownTurn }, await contentDigest(content));
  return {
    type: "batch",
    turn: ownTurn.id,
    changes: merge(added, interrupts ? cancelChanges(context, open, waiting.at) : noChanges),
    written: async () => {
      if (interrupts) {
        context.turns.cancel(key, openTurn, origin, reason);
        // If no process holds the turn, it is ended here; otherwise its process finds the cancel.
        if (context.drives) {
          await context.turns.driveStored({ key, turn: openTurn, epoch: epochOf(session.leaseRow?.tag ?? 0) });
        }
      }
      return queuedHandle(context, key, ownTurn.id, { sequence: head.sequence, position: null });
    },
  };
}

/** The changes that cancel the open turn, with the row of the audit log, unless it is cancelled already. */
function cancelChanges(context: VerbContext, { session: { key }, turn, cancel }: OpenTurnRows, at: number): Changes {
  const row = { table: "cancels", key: turnKey(key, turn) } as const;
  if (cancel !== null) return { ...noChanges, checks: [{ ...row, tag: cancel.tag }] };
  const value = writeValue("cancels", { evidence: { requestId: turn, origin, reason }, at });
  const who = { actor: actorOf(context), tenant: key.tenant, sessionId: key.session };
  return merge(auditRow({ action: "cancel", ...who, target: turn }, at), {
    checks: [{ ...row, tag: null }],
    removals: [],
    puts: [{ ...row, tag: 0, value }],
  });
}

/**
 * The engine of the queued turn. It must be that of the open turn: the process that ends the open turn plans the next
 * one, and it may not have another engine.
 */
function checkedEngine({ session }: SessionKey, turn: string, open: string, named: string | undefined): string {
  if (named === undefined || named === open) return open;
  throw new RuntimeError("conflict", {
    message: `turn ${turn} of session ${session} runs with the engine ${open}, and a message for the engine ${named} cannot be queued after it; wait for the end of the turn`,
    metadata: { turnId: turn },
  });
}

/**
 * Throws `conflict` if input that waits for a checkpoint of the open turn may be of another caller, or has another
 * context than the message: the turn of the message would accept that input.
 */
function checkSteered(
  { caller }: VerbContext,
  { session: { key, head }, turn, start }: OpenTurnRows,
  turnContext: JsonObject | undefined,
): void {
  const isOwn = caller === null || (head.startedBy.length === 1 && head.startedBy[0] === caller);
  const inContext =
    turnContext === undefined || canonicalJson(start.context ?? head.session.context) === canonicalJson(turnContext);
  if (isOwn && inContext) return;
  throw new RuntimeError("conflict", {
    message: `input of another caller waits for a checkpoint of turn ${turn} of session ${key.session}, and a turn that interrupts would accept it; queue the message, or cancel the turn first`,
    metadata: { turnId: turn },
  });
}

/**
 * Plans the turn as if it started now, and returns its configuration. Rejects options that could not start it later.
 */
async function pinnedFor(
  context: VerbContext,
  session: ExistingSession,
  entry: InboxEntry,
  { id, engine, options, context: turnContext }: NonNullable<InboxEntry["ownTurn"]>,
): Promise<Pinned> {
  const start = { engine, options, context: turnContext };
  const request = { ...plainRequest, verb: "chat", ...start, ...inputOf(id, [entry]) } as const;
  const history = await historyOf(context, session);
  const { key, head } = session;
  return (await newTurn(context, { key, id, session: head.session, history, request, now: entry.at })).pinned;
}
