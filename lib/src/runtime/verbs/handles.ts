// What a verb gives back: a turn that can be watched, left, come back to and waited for, from any process.

import type { RuntimeEvent, SessionSummary, TurnEnd } from "../../model/internal.ts";
import type { SessionKey } from "../context.ts";
import type { Cursor } from "../read/cursor.ts";
import type { Row } from "../rows/storage.ts";
import type { SessionHead, TurnProgress } from "../rows/stored.ts";
import type { TurnHandle } from "../types.ts";
import type { Desk } from "./desk.ts";

import { noUsage, replyText, RuntimeError, runtimeFailure, sessionError } from "../../model/internal.ts";
import { keyOf, nameOf, readOne } from "../context.ts";
import { isElsewhere, isHandedOver } from "../drive/pilots.ts";
import { parseCursor } from "../read/cursor.ts";
import { EventReader } from "../read/reader.ts";
import { Ring } from "../ring.ts";
import { readValue } from "../rows/stored.ts";
import { find, headOf, keyFor } from "./desk.ts";

/** Which turn a handle is of: that one; the one that is open when somebody asks; none, because nothing was begun. */
type HandleAim =
  | { readonly type: "turn"; readonly turn: string }
  | { readonly type: "open" }
  | { readonly type: "none" };

/** A turn, from any process: the one that is open, or that one. */
export function attach(desk: Desk, id: string, turnId: string | null = null): TurnHandle {
  const aim: HandleAim = turnId === null ? { type: "open" } : { type: "turn", turn: turnId };
  return handleOf(desk, keyFor(desk, id), aim, start);
}

/** What a verb gives back: the turn it began, if it began one. */
export function handle(desk: Desk, key: SessionKey, turnId: string | null, from: Cursor): TurnHandle {
  return handleOf(desk, key, turnId === null ? { type: "none" } : { type: "turn", turn: turnId }, from);
}

const start: Cursor = { sequence: 0, position: null };

function handleOf(desk: Desk, key: SessionKey, aim: HandleAim, from: Cursor): TurnHandle {
  let result: Promise<TurnEnd> | null = null;
  return {
    sessionId: key.session,
    turnId: aim.type === "turn" ? aim.turn : null,
    events: eventsOf(desk, key.session, aim, from, true, null),
    // Asked for when somebody wants it, and once. Whoever takes it and does not look is not told by the process ending.
    get result() {
      result ??= ended(desk, key, aim);
      result.catch(() => undefined);
      return result;
    },
  };
}

/** What happens in a session, from its first event or from behind a cursor, for as long as somebody reads. */
export function watch(
  desk: Desk,
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
  const aim: HandleAim | null = turnId === null ? null : { type: "turn", turn: turnId };
  return eventsOf(desk, id, aim, from, follow, signal);
}

/** Of a turn, or, without one, of the whole session. */
function eventsOf(
  desk: Desk,
  id: string,
  aim: HandleAim | null,
  from: Cursor,
  follow: boolean,
  signal: AbortSignal | null,
): AsyncIterable<RuntimeEvent> {
  const key = keyFor(desk, id);
  const { hub, storage } = desk.context;
  const source = { hub, storage, ...key, name: nameOf(key) };
  return {
    [Symbol.asyncIterator]: () => {
      const left = new AbortController();
      const either = signal === null ? left.signal : AbortSignal.any([signal, left.signal]);
      let reader: EventReader | null = null;
      // Nothing is looked at before somebody asks.
      let beginning: Promise<void> | null = null;
      const begin = async (): Promise<void> => {
        const turn = aim === null ? null : await aimedAt(desk, key, aim);
        if (aim !== null && turn === null) return;
        if (turn !== null && (await turnRow(desk, key, turn)) === null) throw noTurn(key, turn);
        if (!left.signal.aborted) reader = new EventReader(source, { turn, follow }, from, either);
      };
      return {
        next: async () => {
          if (reader === null && !left.signal.aborted) await (beginning ??= begin());
          const value = (await reader?.next()) ?? null;
          return value === null ? { done: true, value: undefined } : { done: false, value };
        },
        return: async () => {
          left.abort();
          reader?.stop();
          return { done: true, value: undefined };
        },
      };
    },
  };
}

async function turnRow(desk: Desk, key: SessionKey, turn: string): Promise<Row | null> {
  return readOne(desk.context.storage, { table: "turns", prefix: [...keyOf(key), turn] });
}

function noTurn({ session }: SessionKey, turn: string): RuntimeError {
  const message = `there is no turn ${JSON.stringify(turn)} in session ${JSON.stringify(session)}`;
  return new RuntimeError("not_found", { message });
}

/** Waits until a turn has ended, wherever it is driven. */
async function ended(desk: Desk, key: SessionKey, aim: HandleAim): Promise<TurnEnd> {
  const { storage } = desk.context;
  const ring = new Ring(storage, nameOf(key));
  const stop = desk.pilots.onLeaving(ring.ring);
  try {
    // The one that is open now, also if it has ended by the time it is looked at.
    const turn = await aimedAt(desk, key, aim);
    for (;;) {
      ring.clear();
      if (turn !== null) await desk.pilots.landed(key, turn);
      const [heads = [], turns = [], leases = []] = await storage.read([
        { table: "sessions", prefix: keyOf(key) },
        { table: "turns", prefix: [...keyOf(key), turn ?? ""] },
        { table: "leases", prefix: keyOf(key) },
      ]);
      const { head, version } = headOf(key.session, heads[0]);
      const [row] = turns;
      if (turn === null) return waiting(head, version);
      if (row === undefined) throw noTurn(key, turn);
      const progress = readValue("turns", row);
      if (progress.status === "ended" || progress.status === "parked") return endOf(turn, progress, head, version);
      const error = desk.pilots.leftBecause(key, turn, leases[0]?.tag ?? 0);
      if (isHandedOver(error)) {
        throw new RuntimeError("lease_lost", {
          message: `this process stopped; the turn ${turn} goes on elsewhere: attach to it there`,
        });
      }
      if (error !== null && !isElsewhere(error)) throw error;
      await ring.rung();
    }
  } finally {
    stop();
    ring.stop();
  }
}

async function aimedAt(desk: Desk, key: SessionKey, aim: HandleAim): Promise<string | null> {
  switch (aim.type) {
    case "turn":
      return aim.turn;
    case "open":
      return (await find(desk, key.session)).head.turn;
    case "none":
      return null;
  }
}

export function summary(head: SessionHead, version: number): SessionSummary {
  const { session, length, turn, createdAt, changedAt } = head;
  const { id, status, pendingToolCalls, pendingQuestion, usage, metadata } = session;
  return {
    id: id ?? "",
    status,
    version,
    length,
    pendingToolCalls,
    pendingQuestion,
    usage,
    metadata,
    turnId: turn,
    createdAt,
    changedAt,
  };
}

/** What a verb came to that began nothing. */
function waiting(head: SessionHead, version: number): TurnEnd {
  const { session } = head;
  const { lastRun } = session;
  return {
    turnId: null,
    status: "waiting",
    text: "",
    haltedReason: lastRun?.haltedReason ?? "completed",
    outcome: lastRun?.outcome ?? { type: "empty" },
    finalResponse: null,
    steps: 0,
    usage: noUsage,
    metadata: {},
    failure: sessionError(session),
    session: summary(head, version),
  };
}

function endOf(turnId: string, { status, end, failure }: TurnProgress, head: SessionHead, version: number): TurnEnd {
  const shared = { turnId, session: summary(head, version) };
  if (end === null) {
    const parked = failure ?? runtimeFailure("diverged");
    const outcome = {
      type: "runtime_error",
      failure: parked.type === "runtime_error" ? parked : runtimeFailure("diverged"),
    } as const;
    const rest = { finalResponse: null, steps: 0, usage: noUsage, metadata: {} };
    return { ...shared, ...rest, status: "parked", text: "", haltedReason: "error", outcome, failure: parked };
  }
  const { finalResponse } = end;
  const text = finalResponse === null ? "" : (replyText(finalResponse) ?? "");
  const failed = "failure" in end.outcome ? end.outcome.failure : null;
  return { ...shared, ...end, status: status === "parked" ? "parked" : "ended", text, failure: failed };
}
