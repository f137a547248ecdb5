// What a verb gives back: a turn that can be watched, left, come back to and waited for, from any process.

import type { SessionKey } from "./context.ts";
import type { Cursor } from "./cursor.ts";
import type { Desk } from "./desk.ts";
import type { RuntimeEvent } from "./reader.ts";
import type { SessionHead, TurnProgress } from "./stored.ts";
import type { SessionSummary, TurnEnd, TurnHandle } from "./types.ts";

import { noUsage, replyText, RuntimeError, runtimeFailure, sessionError } from "../model/index.ts";
import { keyOf, nameOf } from "./context.ts";
import { parseCursor } from "./cursor.ts";
import { find, headOf, keyFor } from "./desk.ts";
import { isElsewhere, isHandedOver } from "./pilots.ts";
import { readEvents } from "./reader.ts";
import { readValue } from "./stored.ts";

/** A turn, from any process: the one that is open, or that one. */
export function attach(desk: Desk, id: string, turnId: string | null = null): TurnHandle {
  return handle(desk, keyFor(desk, id), turnId, { sequence: 0, position: null });
}

export function handle(desk: Desk, key: SessionKey, turnId: string | null, from: Cursor): TurnHandle {
  const events = (): AsyncIterable<RuntimeEvent> => eventsOf(desk, key.session, turnId, from, turnId !== null, null);
  const result = (): Promise<TurnEnd> => ended(desk, key, turnId);
  return {
    sessionId: key.session,
    turnId,
    get events() {
      return events();
    },
    get result() {
      return result();
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
  const from = after === undefined ? { sequence: 0, position: null } : parseCursor(after);
  return eventsOf(desk, id, turnId, from, follow, signal);
}

function eventsOf(
  desk: Desk,
  id: string,
  turn: string | null,
  from: Cursor,
  follow: boolean,
  signal: AbortSignal | null,
): AsyncIterable<RuntimeEvent> {
  const key = keyFor(desk, id);
  const { hub, host } = desk.context;
  const source = { hub, store: host.store, events: host.events, ...key, name: nameOf(key) };
  return {
    [Symbol.asyncIterator]: () => {
      const left = new AbortController();
      const either = signal === null ? left.signal : AbortSignal.any([signal, left.signal]);
      const reading = readEvents(source, { turn, follow }, from, either);
      return {
        next: () => reading.next(),
        return: async () => {
          left.abort();
          await reading.return(undefined);
          return { done: true, value: undefined };
        },
      };
    },
  };
}

/** Waits until a turn has ended, wherever it is driven. */
async function ended(desk: Desk, key: SessionKey, given: string | null): Promise<TurnEnd> {
  const { store } = desk.context.host;
  let changed = true;
  let wake: (() => void) | null = null;
  const unwatch = store.watch(() => {
    changed = true;
    wake?.();
  });
  try {
    // The one that is open now, also if it has ended by the time it is looked at.
    const turn = given ?? (await find(desk, key.session)).head.turn;
    for (;;) {
      changed = false;
      if (turn !== null) await desk.pilots.landed(key, turn);
      const [heads = [], turns = []] = await store.read([
        { table: "sessions", prefix: keyOf(key) },
        { table: "turns", prefix: [...keyOf(key), turn ?? ""] },
      ]);
      const { head, version } = headOf(key.session, heads[0]);
      const [turnRow] = turns;
      const progress = turnRow === undefined ? null : readValue("turns", turnRow);
      if (turn === null || progress === null) return waiting(head, version);
      if (progress.status === "ended" || progress.status === "parked") return endOf(turn, progress, head, version);
      const error = desk.pilots.leftBecause(key, turn);
      if (isHandedOver(error)) {
        throw new RuntimeError("lease_lost", {
          message: `this process stopped; the turn ${turn} goes on elsewhere: attach to it there`,
        });
      }
      if (error !== null && !isElsewhere(error)) throw error;
      if (!changed) {
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
      }
    }
  } finally {
    unwatch();
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
