// The rules of takeovers (Q17): when a turn waits, when it is driven alone, and when it is parked.
//
// Theory of operation
//   A tool that ends or blocks its process would do so in every process that takes the turn over, so takeovers without
//   a new journal row are counted and bounded. A journal row of a child turn counts, too. But a process that ends takes
//   all of its turns with it: each of them is taken over, whether or not it was the cause. The cause is found by
//   isolation. A turn that was taken over twice without a new journal row is a suspect, and is driven alone: its
//   process drives nothing else until the suspect has recorded a journal row, for a limited time (`aloneMs`). The lease
//   row says so (`alone`). A turn at the limit is parked only if it was alone when its process ended. Its healthy
//   neighbours record a journal row while they are alone, which resets their count. Loading counts like an effect: also
//   a turn that is too large to be loaded ends its process.
//
// Bounds
//   A suspect waits at most one lease time until its process drives nothing else, and is then driven beside the other
//   turns: a process with long turns would otherwise never drive it. Workers take no other turns meanwhile. A turn that
//   a verb of the process has accepted does not wait for suspects that wait, but for a suspect that is driven alone.
//   The time alone is one lease time, and doubles with each takeover, up to `longestAloneMs`. So also a turn that ends
//   its process late is alone when it does, and a healthy turn with a slow effect gets the time to record it. A turn
//   that was not alone when its process ended is parked at `besideFactor` times the limit. A healthy turn gets there
//   only if, that many times, the process ended before its effect: either both take longer than `longestAloneMs`, or
//   the processes always drive other turns that verbs have accepted.

/** The number of takeovers from which on a turn is a suspect, unless the limit is lower. */
const suspectTakeovers = 2;

/** How many times the limit of takeovers applies to a turn that was not driven alone. */
const besideFactor = 4;

/** The longest time for which a suspect is driven alone, in milliseconds, unless a lease lasts longer. */
const longestAloneMs = 600_000;

/** The longest backoff in milliseconds, without its jitter. */
const longestBackoffMs = 60_000;

/** Is a turn with this number of takeovers driven alone? */
export function isSuspect(takeovers: number, maxTakeovers: number): boolean {
  return takeovers >= Math.max(1, Math.min(suspectTakeovers, maxTakeovers - 1));
}

/**
 * For how long a suspect is driven alone at most, in milliseconds: one lease time, doubled with each takeover after the
 * one that made it a suspect.
 */
export function aloneMs(takeovers: number, ttlMs: number): number {
  return Math.max(ttlMs, Math.min(longestAloneMs, ttlMs * 2 ** (takeovers - suspectTakeovers)));
}

/**
 * Is a turn parked at this number of takeovers? `wasAlone`: its last process drove nothing else. With a limit of 1 the
 * first takeover parks a turn.
 */
export function isAtLimit(takeovers: number, wasAlone: boolean, maxTakeovers: number): boolean {
  return takeovers >= (wasAlone || maxTakeovers === 1 ? maxTakeovers : besideFactor * maxTakeovers);
}

/**
 * Exponential backoff before another takeover, in milliseconds since the lease became free (`Claim`): 500 ms, doubled
 * each time, at most one minute, and up to a half more. That part depends on the session, so that turns of one process
 * do not come together again, and all processes compute the same time. It does not depend on the id of the turn, which
 * is random: a run of the simulator depends on its seed alone.
 */
export function backoffMs(session: string, takeovers: number): number {
  const ms = Math.min(longestBackoffMs, 500 * 2 ** (takeovers - 1));
  return Math.ceil(ms * (1 + 0.5 * fraction(`${session}/${takeovers}`)));
}

/** A number from 0 to 1 that depends on the text alone (FNV-1a). */
function fraction(text: string): number {
  let hash = 0x811c9dc5;
  for (let index = 0; index < text.length; index += 1) {
    hash = Math.imul(hash ^ text.charCodeAt(index), 0x01000193);
  }
  // The last characters of the text affect the low bits only; this mixes them into the high ones.
  hash = Math.imul(hash ^ (hash >>> 15), 0x2c1b3c6d);
  return ((hash ^ (hash >>> 13)) >>> 0) / 2 ** 32;
}
