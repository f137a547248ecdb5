// The timeline of a turn as it happens: all pages of its rows, and the effects that are being performed. The timeline,
// the inspector and the conversation share one reader for each turn.
//
// Rows are never changed, so after a commit only rows after the last known one are read. A restarted step changes the
// state of earlier rows, and the end of a turn its summary: then all rows are read again. A running turn is read after
// events of the session, at most twice a second, and every few seconds without events. The turns of child agents have
// no events: while one runs, its rows and those of the turn around it are read every second.

import type { SeenEvent } from "../data/session-events.ts";
import type { Inspector, TurnTimeline } from "everturn/client";
import type { OpenEffect } from "everturn/react";

import { readTimeline } from "everturn/client";
import { openEffects } from "everturn/react";
import { useCallback, useSyncExternalStore } from "react";

import { useConnection } from "../data/connection.tsx";
import { listenToSession } from "../data/session-events.ts";
import { liveEffects, noOpenEffects, withEvents, withTimeline } from "./live.ts";
import { isInnerTurn } from "./turns.ts";

/** What is known about a turn. */
export type TurnData = {
  /** All rows; `null`: not read yet. */
  readonly timeline: TurnTimeline | null;
  readonly open: readonly OpenEffect[];
  /** The clock of the server minus the clock of the page, in milliseconds. */
  readonly clockOffset: number;
  readonly error: Error | null;
};

const nothing: TurnData = { timeline: null, open: [], clockOffset: 0, error: null };

/** The shortest time between two reads after events, and the time between reads without events, in milliseconds. */
const minIntervalMs = 500;
const idleIntervalMs = 3000;
/** The time between two reads while a child agent runs. */
const childIntervalMs = 1000;

export type TurnReader = {
  readonly subscribe: (changed: () => void) => () => void;
  readonly current: () => TurnData;
  readonly isActive: () => boolean;
};

const readers = new WeakMap<Inspector, Map<string, TurnReader>>();
/** Readers of turns that were shown before are kept up to this number, so that going back shows them at once. */
const maxReaders = 20;

/** The timeline of a turn, live while the turn runs; `turnId: null`: nothing is read. */
export function useTurnData(sessionId: string, turnId: string | null): TurnData {
  const { inspector } = useConnection();
  const reader = turnId === null ? null : readerOf(inspector, sessionId, turnId);
  const subscribe = useCallback((changed: () => void) => reader?.subscribe(changed) ?? (() => undefined), [reader]);
  return useSyncExternalStore(subscribe, () => reader?.current() ?? nothing);
}

/** The reader of a turn, which all views share. */
export function readerOf(inspector: Inspector, sessionId: string, turnId: string): TurnReader {
  const ofInspector = readers.get(inspector) ?? new Map<string, TurnReader>();
  readers.set(inspector, ofInspector);
  const key = JSON.stringify([sessionId, turnId]);
  const known = ofInspector.get(key);
  if (known !== undefined) return known;
  for (const [oldest, other] of ofInspector) {
    if (ofInspector.size < maxReaders) break;
    if (!other.isActive()) ofInspector.delete(oldest);
  }
  const reader = createReader(inspector, sessionId, turnId);
  ofInspector.set(key, reader);
  return reader;
}

function createReader(inspector: Inspector, sessionId: string, turnId: string): TurnReader {
  const listeners = new Set<() => void>();
  let data = nothing;
  let live = noOpenEffects;
  let isReading = false;
  let isStale = false;
  let readsAll = true;
  let timer: ReturnType<typeof setTimeout> | null = null;
  let lastRead = 0;
  let stop: (() => void) | null = null;

  const publish = (next: TurnData): void => {
    data = next;
    for (const changed of listeners) changed();
  };
  const isActive = (): boolean => listeners.size > 0;
  const isChild = isInnerTurn(turnId);
  const openOf = (timeline: TurnTimeline): readonly OpenEffect[] =>
    isChild ? openEffects(timeline) : liveEffects(live, timeline);

  const read = async (): Promise<void> => {
    isReading = true;
    isStale = false;
    lastRead = Date.now();
    const before = readsAll ? null : data.timeline;
    readsAll = false;
    const liveAtStart = live;
    try {
      const timeline = await readTimeline(inspector, sessionId, turnId, { before });
      live = withTimeline(live, timeline, liveAtStart);
      const clockOffset = timeline.now - Date.now();
      publish({ timeline, open: openOf(timeline), clockOffset, error: null });
    } catch (error) {
      readsAll = true;
      publish({ ...data, error: error instanceof Error ? error : new Error(String(error)) });
    }
    isReading = false;
    schedule();
  };

  /** Plans the next read: soon after an event, later without one, none once the turn has ended. */
  const schedule = (): void => {
    if (timer !== null) clearTimeout(timer);
    timer = null;
    if (!isActive() || isReading) return;
    const hasEnded = data.timeline?.turn.status === "ended";
    if (hasEnded && !isStale) return;
    const hasChild = isChild || data.timeline?.open.some(({ children }) => children.length > 0) === true;
    const interval = isStale ? minIntervalMs : hasChild ? childIntervalMs : idleIntervalMs;
    const wait = Math.max(0, lastRead + interval - Date.now());
    timer = setTimeout(() => void read(), wait);
  };

  const onEvents = (events: readonly SeenEvent[]): void => {
    const own = events.filter((event) => event.turnId === turnId);
    if (own.length === 0) return;
    live = withEvents(live, own, Date.now() + data.clockOffset);
    if (own.some(({ event }) => event.type === "step_reset" || event.type === "chat_completed")) readsAll = true;
    // The start of a tool is not stored, and a child agent begins with it.
    const startsTool = own.some(({ changes }) =>
      changes.some((change) => change.type === "call_changed" && change.call.state === "running"),
    );
    if (startsTool || own.some(({ sequence }) => sequence !== null)) isStale = true;
    if (data.timeline !== null) publish({ ...data, open: openOf(data.timeline) });
    schedule();
  };

  return {
    isActive,
    current: () => data,
    subscribe: (changed) => {
      listeners.add(changed);
      if (listeners.size === 1) {
        stop = listenToSession(sessionId, onEvents);
        if (data.timeline?.turn.status !== "ended") {
          readsAll = true;
          if (!isReading) void read();
        }
      }
      return () => {
        listeners.delete(changed);
        if (listeners.size > 0) return;
        stop?.();
        stop = null;
        if (timer !== null) clearTimeout(timer);
      };
    },
  };
}
