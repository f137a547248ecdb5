// Queues a message that arrives while a turn is open (`whenBusy: "queue"` and `"interrupt"`).
//
// The batch
//   checks   version of the session (the turn is still open), the count of the inbox, absence of the idempotency key, the cancel row
//   puts     the inbox row with the turn that it will start (`ownTurn`), the idempotency key, and for `interrupt` the cancel of the open turn
//
// The commit that ends the open turn builds the next turn from the inbox (`followingTurn`), in whichever process. So the cancel and the next
// turn are one stored decision:
//   crash before the batch               nothing has changed
//   crash after the batch                the next holder of the session finds the cancel, ends the turn, and its ending commit starts the next one
//   the turn ends before the cancel      the cancel is void (`completion_won`), and the ending commit starts the next turn all the same
//
// The message waits longer if the turn ends in a question or with pending calls: it starts its turn when a later turn of the session ends. After an error it
// starts its turn when the session is recovered.
//
// The configuration of the turn is stored with the message. If the process that ends the open turn lacks the engine, the turn of the message begins with that
// configuration, and a process that has the engine drives it.

import type { JsonObject, UserMessage } from "../../core/model/internal.ts";
import type { Pinned } from "../../core/run/internal.ts";
import type { VerbContext } from "../drive/context.ts";
import type { ExistingSession } from "../drive/session-rows.ts";
import type { DurableOptions, TurnHandle } from "../drive/types.ts";
import type { SessionKey } from "../rows/session-key.ts";
import type { Put } from "../rows/storage.ts";
import type { InboxEntry } from "../rows/values.ts";

import { traceOfTurn } from "../../core/engine/internal.ts";
import { canonicalJson } from "../../core/kernel/internal.ts";
import { RuntimeError } from "../../core/model/internal.ts";
import { storedOptions } from "../drive/durable-options.ts";
import { inputOf, newTurn, newTurnId, plainRequest } from "../drive/new-turn.ts";
import { historyOf } from "../drive/session-rows.ts";
import { randomText } from "../rows/digest.ts";
import { acceptedPut, inboxPut } from "../rows/inbox.ts";
import { epochOf } from "../rows/lease.ts";
import { keyOf, turnKey } from "../rows/session-key.ts";
import { readValue, writeValue } from "../rows/stored.ts";
import { queuedHandle } from "../sessions/handles.ts";
import { openTurnConflict, withLimitKey } from "./accept.ts";
import { verbContent } from "./drive-verbs.ts";
import { contentDigest } from "./idempotency.ts";
import { inboxInput } from "./steer.ts";

const origin = "runtime";
const reason = "a message interrupted the turn";

/**
 * Queues the message behind the open turn, and with `interrupts` cancels that turn. Returns the handle of the turn that the message will start;
 * `null`: another writer has changed the session since it was read. Rejects with `conflict` if the message names another engine than that of the
 * open turn, or if a parked turn would have to be interrupted, and with what the plan of the turn throws.
 */
export async function queueMessage(
  context: VerbContext,
  session: ExistingSession,
  openTurn: string,
  message: UserMessage,
  options: DurableOptions<unknown>,
  { interrupts }: { readonly interrupts: boolean },
): Promise<TurnHandle | null> {
  const { storage, clock } = context;
  const { key, head, version } = session;
  const at = turnKey(key, openTurn);
  const [counts = [], starts = [], turns = [], cancels = [], inbox = []] = await storage.read([
    { table: "inboxes", prefix: keyOf(key) },
    { table: "starts", prefix: at },
    { table: "turns", prefix: at },
    { table: "cancels", prefix: at },
    ...(interrupts ? [{ table: "inbox", prefix: keyOf(key) } as const] : []),
  ]);
  const [startRow, turnRow] = [starts[0], turns[0]];
  if (startRow === undefined || turnRow === undefined) return null;
  if (interrupts && readValue("turns", turnRow).status === "parked") throw openTurnConflict(session, openTurn);
  const open = readValue("starts", startRow);
  const engine = checkedEngine(key, openTurn, open.engine, options.engine);
  const isSteered = inbox.some((row) => readValue("inbox", row).ownTurn === null);
  if (isSteered) checkSteered(context, session, openTurn, open.context, options.turnContext);
  const own = {
    engine,
    options: withLimitKey(context, storedOptions(options)),
    context: options.turnContext ?? null,
    startedBy: context.caller === null ? [] : [context.caller],
  };
  const unplanned = { id: newTurnId(), ...own, interrupts, trace: traceOfTurn(null), pinned: null };
  const now = clock.now();
  const id = options.key ?? `input-${randomText(8)}`;
  const input = inboxInput({ type: "message", message });
  const waiting: InboxEntry = { id, input, state: "pending", turn: null, epoch: null, at: now, ownTurn: unplanned };
  const ownTurn = { ...unplanned, pinned: await pinnedFor(context, session, waiting, unplanned, now) };
  const entry: InboxEntry = { ...waiting, ownTurn };
  const digest = await contentDigest(verbContent("reply", message, options));
  const count = counts[0]?.tag ?? 0;
  const cancel = { evidence: { requestId: openTurn, origin, reason }, at: now };
  const isCancelled = cancels[0] !== undefined;
  const cancelPuts: readonly Put[] =
    interrupts && !isCancelled ? [{ table: "cancels", key: at, tag: 0, value: writeValue("cancels", cancel) }] : [];
  const written = await storage.write({
    checks: [
      { table: "sessions", key: keyOf(key), tag: version },
      { table: "inboxes", key: keyOf(key), tag: counts[0]?.tag ?? null },
      { table: "accepted", key: [...keyOf(key), id], tag: null },
      { table: "cancels", key: at, tag: cancels[0]?.tag ?? null },
    ],
    removals: [],
    puts: [
      inboxPut([...keyOf(key), count + 1], 0, entry),
      { table: "inboxes", key: keyOf(key), tag: count + 1, value: "" },
      acceptedPut(key, id, 0, { digest, state: "pending", turn: ownTurn.id }),
      ...cancelPuts,
    ],
  });
  if (!written.ok) return null;
  if (interrupts) {
    context.turns.cancel(key, openTurn, origin, reason);
    // If no process holds the turn, it is ended here; otherwise its process finds the cancel.
    if (context.drives) {
      await context.turns.driveStored({ key, turn: openTurn, epoch: epochOf(session.leaseRow?.tag ?? 0) });
    }
  }
  return queuedHandle(context, key, ownTurn.id, { sequence: head.sequence, position: null });
}

/**
 * The engine of the queued turn. It must be that of the open turn: the process that ends the open turn plans the next one, and it may not have
 * another engine.
 */
function checkedEngine({ session }: SessionKey, turn: string, open: string, named: string | undefined): string {
  if (named === undefined || named === open) return open;
  throw new RuntimeError("conflict", {
    message: `turn ${turn} of session ${session} runs with the engine ${open}, and a message for the engine ${named} cannot be queued after it; wait for the end of the turn`,
    metadata: { turnId: turn },
  });
}

/**
 * Throws `conflict` if input that waits for a checkpoint of the open turn may be of another caller, or has another context than the message: the turn of the message would
 * accept that input.
 */
function checkSteered(
  { caller }: VerbContext,
  { key, head }: ExistingSession,
  turn: string,
  openContext: JsonObject | null,
  turnContext: JsonObject | undefined,
): void {
  const isOwn = caller === null || (head.startedBy.length === 1 && head.startedBy[0] === caller);
  const inContext =
    turnContext === undefined || canonicalJson(openContext ?? head.session.context) === canonicalJson(turnContext);
  if (isOwn && inContext) return;
  throw new RuntimeError("conflict", {
    message: `input of another caller waits for a checkpoint of turn ${turn} of session ${key.session}, and a turn that interrupts would accept it; queue the message, or cancel the turn first`,
    metadata: { turnId: turn },
  });
}

/** Plans the turn as if it started now, and returns its configuration. Rejects options that could not start it later. */
async function pinnedFor(
  context: VerbContext,
  session: ExistingSession,
  entry: InboxEntry,
  { id, engine, options, context: turnContext }: NonNullable<InboxEntry["ownTurn"]>,
  now: number,
): Promise<Pinned> {
  const start = { engine, options, context: turnContext };
  const request = { ...plainRequest, verb: "chat", ...start, ...inputOf(id, [entry]) } as const;
  const history = await historyOf(context, session);
  return (await newTurn(context, session.key, id, session.head.session, history, request, now)).pinned;
}
