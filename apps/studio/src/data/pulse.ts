// Says when the sessions of the server have changed, so that the views read again. One small request asks for the
// newest session; nothing else is asked while that is the same.
//
// Theory of operation
//   Sessions are listed by their last change, so a change of any session changes the first one of the list: a turn that
//   starts, ends, waits or is parked, a fork, a decision. What it does not show, such as a deleted session, is read
//   with every `slowMs`. The interval is `minMs` while the reader acts or sessions change, and grows to `maxMs` when
//   nothing happens. While the newest session runs, views read with every poll: leases and timelines change. A hidden
//   page asks nothing, and at once when it is shown.

import type { EverturnClient } from "everturn/client";

const minMs = 2000;
const maxMs = 10_000;
const growth = 1.5;
/** How often views read without a change. */
const slowMs = 60_000;

const listeners = new Set<() => void>();

/** Calls `changed` when sessions may have changed, until the returned function is called. */
export function onPulse(changed: () => void): () => void {
  listeners.add(changed);
  return () => void listeners.delete(changed);
}

/** Asks the server until the returned function is called. */
export function startPulse(client: EverturnClient): () => void {
  const ending = new AbortController();
  const { signal } = ending;
  let intervalMs = minMs;
  let newest: string | null = null;
  let lastBeat = performance.now();
  let timer: ReturnType<typeof setTimeout> | null = null;
  let isAsking = false;

  const ask = async (): Promise<void> => {
    isAsking = true;
    intervalMs = Math.min(maxMs, intervalMs * growth);
    try {
      const { items } = await client.list({ limit: 1, signal });
      const text = JSON.stringify(items);
      // The views have read before the first answer, and something may have changed between the two.
      const hasChanged = newest !== text;
      const isRunning = items[0]?.turnStatus === "running";
      newest = text;
      if (hasChanged || isRunning) intervalMs = minMs;
      if (hasChanged || isRunning || performance.now() - lastBeat > slowMs) beat();
    } catch {
      // The page says that the server does not answer (online.ts).
      intervalMs = minMs;
    }
    isAsking = false;
    plan();
  };
  const beat = (): void => {
    lastBeat = performance.now();
    for (const changed of listeners) changed();
  };
  const plan = (): void => {
    if (timer !== null) clearTimeout(timer);
    if (!signal.aborted && document.visibilityState === "visible") timer = setTimeout(() => void ask(), intervalMs);
  };
  /** The reader is here: a long wait becomes a short one. */
  const act = (): void => {
    if (intervalMs === minMs) return;
    intervalMs = minMs;
    if (!isAsking) plan();
  };
  const show = (): void => {
    if (document.visibilityState === "visible" && !isAsking) void ask();
  };
  for (const type of ["pointerdown", "keydown", "wheel", "focus"] as const) {
    addEventListener(type, act, { signal, passive: true });
  }
  document.addEventListener("visibilitychange", show, { signal });
  plan();
  return () => {
    ending.abort();
    if (timer !== null) clearTimeout(timer);
  };
}
