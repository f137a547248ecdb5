// The turns that wait for a process or for a free slot of a limit, from the summaries of their sessions. Pure.

import type { SessionSummary } from "../data/types.ts";

/** Turns that no process drives yet. */
export type Queue = {
  readonly turns: number;
  /** How many of them wait for a slot of a limit. The others wait for a worker. */
  readonly limited: number;
  /** Since when the oldest one waits; `null`: none does. */
  readonly since: number | null;
};

export function queueOf(sessions: readonly Pick<SessionSummary, "turnStatus" | "limitWait" | "changedAt">[]): Queue {
  const queued = sessions.filter(({ turnStatus }) => turnStatus === "queued");
  const times = queued.map(({ limitWait, changedAt }) => limitWait?.since ?? changedAt);
  return {
    turns: queued.length,
    limited: queued.filter(({ limitWait }) => limitWait !== null).length,
    since: times.length === 0 ? null : Math.min(...times),
  };
}

/** The queue in one sentence. */
export function queueText({ turns, limited }: Queue): string {
  if (turns === 0) return "No turn waits for a worker or a limit.";
  const parts = [
    ...(turns > limited ? [`${turns - limited} for a worker`] : []),
    ...(limited > 0 ? [`${limited} for a limit`] : []),
  ];
  return `${turns === 1 ? "1 turn waits" : `${turns} turns wait`}: ${parts.join(", ")}.`;
}
