// Turn handles: what verbs return, and what `attach` returns in any process. A handle reads the events of a turn and
// waits for its end.
//
// A handle holds no turn: it can be dropped, and several handles of one turn are independent (H6). The result is read
// from the turn row after the commit that ended or parked the turn, so it is the same in every process.

import type { AnySchema, OutputSchema, StandardSchema } from "../../core/engine/internal.ts";
import type { RuntimeEvent, SessionSummary, TurnEnd } from "../../core/model/internal.ts";
import type { VerbContext } from "../drive/context.ts";
import type { OpenTurnStatus } from "../drive/session-rows.ts";
import type { TurnHandle } from "../drive/types.ts";
import type { Cursor } from "../read/cursor.ts";
import type { SessionKey } from "../rows/session-key.ts";
import type { SessionHead, TurnProgress } from "../rows/values.ts";

import { checkStandard, isStandardSchema } from "../../core/engine/internal.ts";
import {
  noUsage,
  replyText,
  RuntimeError,
  runtimeFailure,
  sessionError,
  validationFailure,
} from "../../core/model/internal.ts";
import { isHandedOver, isHeldElsewhere } from "../drive/left-turns.ts";
import { find, headOf, openTurnStatuses, sessionKey } from "../drive/session-rows.ts";
import { parseCursor } from "../read/cursor.ts";
import { EventReader } from "../read/reader.ts";
import { ChangeSignal } from "../rows/change-signal.ts";
import { epochOf } from "../rows/lease.ts";
import { keyOf, nameOf, turnKey } from "../rows/session-key.ts";
import { titleText } from "../rows/session-write.ts";
import { readValue } from "../rows/stored.ts";
import { forkOriginOf } from "./fork-origin.ts";

/**
 * The turn of a handle: by its id (`exists`: a verb has just stored it, so its existence is not checked; otherwise the
 * handle also waits for a turn that queued input will start); the turn that is open when the handle is used; or none.
 */
type HandleAim =
  | { readonly type: "turn"; readonly turn: string; readonly exists: boolean }
  | { readonly type: "open" }
  | { readonly type: "none" };

/**
 * A handle on a turn by its id, or on the open turn. Nothing is read before the handle is used. `isOpen`: what the
 * caller knows about the turn.
 */
export function attach(
  context: VerbContext,
  id: string,
  turnId: string | null = null,
  isOpen: boolean | null = null,
): TurnHandle {
  const aim: HandleAim = turnId === null ? { type: "open" } : { type: "turn", turn: turnId, exists: false };
  return handleOf(context, sessionKey(context, id), aim, start, isOpen);
}

/**
 * The handle that a verb returns. `turnId` is `null` if the verb started no turn. `from`: the position before the first
 * event of the turn.
 */
export function handle(
  context: VerbContext,
  key: SessionKey,
  turnId: string | null,
  from: Cursor = start,
  isOpen: boolean = turnId !== null,
): TurnHandle {
  const aim: HandleAim = turnId === null ? { type: "none" } : { type: "turn", turn: turnId, exists: true };
  return handleOf(context, key, aim, from, isOpen);
}

/**
 * The handle of a turn that queued input will start. It waits for the turn; it rejects with `not_found` if the input is
 * withdrawn.
 */
export function queuedHandle(context: VerbContext, key: SessionKey, turn: string, from: Cursor): TurnHandle {
  return handleOf(context, key, { type: "turn", turn, exists: false }, from, true);
}

const start: Cursor = { sequence: 0, position: null };

function handleOf(
  context: VerbContext,
  key: SessionKey,
  aim: HandleAim,
  from: Cursor,
  isOpen: boolean | null,
): TurnHandle {
  let result: Promise<TurnEnd> | null = null;
  return {
    sessionId: key.session,
    turnId: aim.type === "turn" ? aim.turn : null,
    isOpen,
    events: turnEvents(context, key.session, aim, from, true, null),
    // Waiting begins at the first access. The empty handler keeps an unhandled rejection from ending the process.
    get result() {
      result ??= turnEnd(context, key, aim);
      result.catch(() => undefined);
      return result;
    },
  };
}

/**
 * The handle with `output` of the result validated and converted by the schema of the caller. The turn itself was
 * checked with the stored JSON Schema, which cannot express everything: refinements and conversions exist only here.
 */
export function typedHandle<Output>(of: TurnHandle, schema: OutputSchema<Output> | undefined): TurnHandle<Output>;
export function typedHandle(of: TurnHandle, schema: AnySchema | undefined): TurnHandle<unknown> {
  if (schema === undefined || !isStandardSchema(schema)) return of;
  let result: Promise<TurnEnd<unknown>> | null = null;
  const { sessionId, turnId, isOpen, events } = of;
  return {
    sessionId,
    turnId,
    isOpen,
    events,
    get result() {
      result ??= of.result.then((end) => typedEnd(end, schema));
      result.catch(() => undefined);
      return result;
    },
  };
}

async function typedEnd(end: TurnEnd, schema: StandardSchema): Promise<TurnEnd<unknown>> {
  const reply = end.finalResponse?.output ?? null;
  if (reply === null) return end;
  const checked = await checkStandard(schema, reply.value);
  if (checked.ok) return { ...end, output: checked.value };
  const failure = end.failure ?? validationFailure("invalid_output", { issues: checked.issues });
  return { ...end, output: null, failure };
}

/** The events of a session, from the first one or after a cursor. */
export function watch(
  context: VerbContext,
  id: string,
  options: {
    readonly after?: string;
    readonly turnId?: string;
    readonly follow?: boolean;
    readonly signal?: AbortSignal;
  } = {},
): AsyncIterable<RuntimeEvent> {
  const { after, turnId = null, follow = true, signal = null } = options;
  const from = after === undefined ? start : parseCursor(after);
  const aim: HandleAim | null = turnId === null ? null : { type: "turn", turn: turnId, exists: false };
  return turnEvents(context, id, aim, from, follow, signal);
}

/** The events of a turn (`aim`), or of all turns (`null`). */
function turnEvents(
  context: VerbContext,
  id: string,
  aim: HandleAim | null,
  from: Cursor,
  follow: boolean,
  signal: AbortSignal | null,
): AsyncIterable<RuntimeEvent> {
  const key = sessionKey(context, id);
  const { hub, reads, storage, pages, readPermits: permits } = context;
  const readers = { read: reads.read, watch: storage.watch };
  const source = { hub, storage: readers, pages, permits, ...key, name: nameOf(key) };
  const isKnown = aim?.type === "turn" && aim.exists;
  return {
    [Symbol.asyncIterator]: () => {
      const stopped = new AbortController();
      const stopSignal = signal === null ? stopped.signal : AbortSignal.any([signal, stopped.signal]);
      let reader: EventReader | null = null;
      // Nothing is read before the first call of `next` (R4).
      let beginning: Promise<void> | null = null;
      const begin = async (): Promise<void> => {
        const turn = aim === null ? null : await aimedAt(context, key, aim);
        if (aim !== null && turn === null) return;
        if (turn !== null && !isKnown && !(await hasStarted(context, key, turn, follow, stopSignal))) return;
        if (!stopped.signal.aborted) reader = new EventReader(source, { turn, follow }, from, stopSignal);
      };
      return {
        next: async () => {
          if (reader === null && !stopped.signal.aborted) await (beginning ??= begin());
          const value = (await reader?.next()) ?? null;
          return value === null ? { done: true, value: undefined } : { done: false, value };
        },
        return: async () => {
          stopped.abort();
          reader?.stop();
          return { done: true, value: undefined };
        },
      };
    },
  };
}

/**
 * Returns whether a turn has started. Waits for a turn that queued input will start, unless `follow` is `false`, until
 * the signal aborts. Rejects with `not_found` if there is no such turn.
 */
async function hasStarted(
  context: VerbContext,
  key: SessionKey,
  turn: string,
  follow: boolean,
  signal: AbortSignal,
): Promise<boolean> {
  const first = await turnState(context, key, turn);
  if (first !== "queued" || !follow) return first === "stored";
  const changes = new ChangeSignal(context.storage, nameOf(key));
  signal.addEventListener("abort", changes.notify);
  try {
    for (;;) {
      changes.clear();
      if (signal.aborted) return false;
      if ((await turnState(context, key, turn)) === "stored") return true;
      await changes.changed();
    }
  } finally {
    signal.removeEventListener("abort", changes.notify);
    changes.stop();
  }
}

/**
 * Whether a turn is stored, or queued input will start it. Rejects with `not_found` otherwise. One read, because the
 * start moves it from one to the other.
 */
async function turnState({ storage }: VerbContext, key: SessionKey, turn: string): Promise<"stored" | "queued"> {
  const [turns = [], inbox = []] = await storage.read([
    { table: "turns", prefix: turnKey(key, turn) },
    { table: "inbox", prefix: keyOf(key) },
  ]);
  if (turns.length > 0) return "stored";
  if (inbox.some((row) => readValue("inbox", row).ownTurn?.id === turn)) return "queued";
  throw noTurn(key, turn);
}

function noTurn({ session }: SessionKey, turn: string): RuntimeError {
  const message = `there is no turn ${JSON.stringify(turn)} in session ${JSON.stringify(session)}`;
  return new RuntimeError("not_found", { message });
}

/**
 * Waits until a turn has ended or is parked, whichever process drives it. Woken by writes to the session and by this
 * process leaving the turn.
 *
 * Handles of one turn share the wait and its result: hundreds of readers would otherwise read and parse a large result
 * at the same time, and each would hold a copy. A wait is joined only before it reads, so that a handle returns nothing
 * older than its first use.
 */
function turnEnd(context: VerbContext, key: SessionKey, aim: HandleAim): Promise<TurnEnd> {
  const own: Promise<TurnEnd> = waitForEnd(context, key, aim, () => own);
  return own;
}

/** `own`: the promise of this call, which other waits for the turn join. */
async function waitForEnd(
  context: VerbContext,
  key: SessionKey,
  aim: HandleAim,
  own: () => Promise<TurnEnd>,
): Promise<TurnEnd> {
  const { storage, turns: active, endWaits } = context;
  const changes = new ChangeSignal(storage, nameOf(key));
  const stop = active.left.onLeft(changes.notify);
  try {
    // Resolved once: the turn that is open now, also if it has ended by the first read below.
    const turn = await aimedAt(context, key, aim);
    const name = JSON.stringify([...keyOf(key), turn]);
    /** Waits as the one that others join; returns the wait to join if there is one. */
    const joined = async (wait: () => Promise<unknown>): Promise<{ readonly end: Promise<TurnEnd> } | null> => {
      const end = endWaits.get(name);
      if (end !== undefined) return { end };
      endWaits.set(name, own());
      try {
        await wait();
      } finally {
        endWaits.delete(name);
      }
      return null;
    };
    for (;;) {
      changes.clear();
      const first = turn === null ? null : await joined(() => active.over(key, turn));
      if (first !== null) return await first.end;
      const [heads = [], turns = [], leases = []] = await storage.read([
        { table: "sessions", prefix: keyOf(key) },
        { table: "turns", prefix: [...keyOf(key), turn ?? ""] },
        { table: "leases", prefix: keyOf(key) },
      ]);
      const { head, version } = headOf(key.session, heads[0]);
      const [row] = turns;
      if (turn === null) return endWithoutTurn(head, await currentSummary(context, key, head, version));
      if (row === undefined) {
        const state = await turnState(context, key, turn);
        const queued = state === "queued" ? await joined(() => changes.changed()) : null;
        if (queued !== null) return await queued.end;
        continue;
      }
      const progress = readValue("turns", row);
      if (progress.status === "ended" || progress.status === "parked") {
        return endOf(turn, progress, await currentSummary(context, key, head, version));
      }
      const error = active.reasonLeft(key, turn, epochOf(leases[0]?.tag ?? 0));
      // `drive` hands a turn over at its deadline; the result then arrives when a process drives the turn again,
      // perhaps this one.
      if (isHandedOver(error) && active.closing) {
        throw new RuntimeError("lease_lost", {
          message: `this process was closed; another process continues the turn ${turn}: attach to it there`,
        });
      }
      if (error !== null && !isHeldElsewhere(error) && !isHandedOver(error)) throw error;
      const open = await joined(() => changes.changed());
      if (open !== null) return await open.end;
    }
  } finally {
    stop();
    changes.stop();
  }
}

/** The id of the turn that a handle is for; `null`: none. */
async function aimedAt(context: VerbContext, key: SessionKey, aim: HandleAim): Promise<string | null> {
  switch (aim.type) {
    case "turn":
      return aim.turn;
    case "open":
      return (await find(context, key.session)).head.turn;
    case "none":
      return null;
  }
}

/** A session as `list` and results show it: without messages. */
export function summary(head: SessionHead, version: number, open: OpenTurnStatus | null): SessionSummary {
  const { session, length, turn, engine, owner, startedBy, createdAt, changedAt } = head;
  const { id, status, pendingToolCalls, pendingQuestion, usage, metadata } = session;
  const { title } = metadata;
  return {
    id: id ?? "",
    title: typeof title === "string" ? titleText(title) : head.title,
    engine,
    owner,
    startedBy,
    status,
    version,
    length,
    pendingToolCalls,
    pendingQuestion,
    usage,
    metadata,
    turnId: turn,
    turnStatus: open?.status ?? null,
    limitWait: open?.limitWait ?? null,
    forkedFrom: forkOriginOf(metadata),
    createdAt,
    changedAt,
  };
}

/** The summary of a session whose rows were read just now. Usually no turn is open, and nothing is read. */
async function currentSummary(
  context: VerbContext,
  key: SessionKey,
  head: SessionHead,
  version: number,
): Promise<SessionSummary> {
  const [open = null] = await openTurnStatuses(context, [{ key, turn: head.turn }]);
  return summary(head, version, open);
}

/** The result of a verb that started no turn: the session still waits. */
function endWithoutTurn({ session }: SessionHead, after: SessionSummary): TurnEnd {
  const { lastRun } = session;
  return {
    turnId: null,
    status: "waiting",
    text: "",
    output: null,
    haltedReason: lastRun?.haltedReason ?? "completed",
    outcome: lastRun?.outcome ?? { type: "empty" },
    finalResponse: null,
    steps: 0,
    usage: noUsage,
    metadata: {},
    failure: sessionError(session),
    session: after,
  };
}

/** The result of a turn that has ended or is parked, from its row. */
function endOf(turnId: string, { status, end, failure }: TurnProgress, session: SessionSummary): TurnEnd {
  const shared = { turnId, session };
  if (end === null) {
    const parked = failure ?? runtimeFailure("diverged");
    const outcome = {
      type: "runtime_error",
      failure: parked.type === "runtime_error" ? parked : runtimeFailure("diverged"),
    } as const;
    const empty = { finalResponse: null, steps: 0, usage: noUsage, metadata: {} };
    return {
      ...shared,
      ...empty,
      status: "parked",
      text: "",
      output: null,
      haltedReason: "error",
      outcome,
      failure: parked,
    };
  }
  const { finalResponse } = end;
  const text = finalResponse === null ? "" : (replyText(finalResponse) ?? "");
  const output = finalResponse?.output?.value ?? null;
  const failed = "failure" in end.outcome ? end.outcome.failure : null;
  return { ...shared, ...end, status: status === "parked" ? "parked" : "ended", text, output, failure: failed };
}
