// Records inside an effect (Q2): a write-ahead log of what a performer did before it has a response.
//
// Each record is written before anything follows from it. A process that takes over the effect reads the records, does
// not repeat what they describe, and counts the usage they contain. A record that cannot be read is treated as missing:
// the work is done again.
//
//   attempt/<n>    an attempt that was followed by another one: its failure and its usage
//   reference/<n>  work of the provider that continues without a connection (reference.ts)
//   delay/<n>      the wait between attempt n and n + 1: its length and its end
//   prepared       the decision of hooks and approval gate about a call (prepare-tool.ts)
//   started        the start mark of a tool handler (start-mark.ts)
//
// Names and shapes are stored. Attempts count from 1.

import type { Clock } from "../../engine/internal.ts";
import type { Json } from "../../model/internal.ts";
import type { Infer, Shape } from "../../model/parse/reading.ts";
import type { Scope } from "../ports/ports.ts";

import {
  boolean,
  failureShape,
  fallback,
  nullable,
  number,
  object,
  readOrNull,
  replyShape,
  required,
  usageShape,
} from "../../model/parse/reading.ts";

const modelAttemptFields = {
  /**
   * Why another attempt followed: a failure of the call, or `invalid_output` for a reply that does not match the
   * schema.
   */
  failure: required(failureShape),
  usage: required(usageShape),
  /** A part of the answer may have been published. */
  shown: required(boolean),
  /** At least one event was received. */
  heard: required(boolean),
  /** The reply that does not match the schema; `null`: the call failed. */
  reply: fallback(nullable(replyShape), null),
  /** The attempt read work that an earlier process had started, and sent no request. */
  resumed: fallback(boolean, false),
};

/** The record of an attempt at a model call that was followed by another attempt. */
export type ModelAttempt = Infer<typeof modelAttemptFields>;

const modelAttemptShape: Shape<ModelAttempt> = object(modelAttemptFields);

/** The record of a wait. `dueAt`: its end, in milliseconds since the epoch. */
const delayShape = object({ delayMs: required(number), dueAt: required(number) });

/** The record name of attempt `n`. */
export function attemptName(n: number): string {
  return `attempt/${n}`;
}

/** Reads the record of an attempt at a model call; `null`: none. */
export function readModelAttempt(stored: Json): ModelAttempt | null {
  return readRecord(modelAttemptShape, stored);
}

/** Parses a record; `null` if there is none or it does not have this shape. */
export function readRecord<T>(shape: Shape<T>, stored: Json): T | null {
  return stored === null ? null : readOrNull(shape, stored);
}

/** The wait after an attempt. */
type Pause = {
  readonly scope: Scope;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  readonly effectId: string;
  /** The number of the attempt before the wait. */
  readonly n: number;
  /**
   * The length of the wait in milliseconds; `null`: there is no time left to wait. Called only if no wait is recorded,
   * so jitter is drawn once.
   */
  readonly delayOf: () => number | null;
  /** Announces the retry. Not called for a recorded wait. */
  readonly announce: (delayMs: number) => void | Promise<void>;
};

/**
 * Waits before the next attempt; false if there is no time left, or if the run was aborted meanwhile. The wait is
 * durable: its end is recorded first, and a process that takes over waits only for the rest. The retry is not announced
 * a second time.
 */
export async function pause({ scope, clock, signal, effectId, n, delayOf, announce }: Pause): Promise<boolean> {
  // The next attempt is recorded, so the wait is over, whatever the clock says.
  if (scope.find(effectId, attemptName(n + 1)) !== null) return !signal.aborted;
  const name = `delay/${n}`;
  const recordedDelay = readRecord(delayShape, scope.find(effectId, name));
  if (recordedDelay !== null) {
    // A clock that was set back must not make the wait longer than it was.
    const remainingMs = Math.min(recordedDelay.dueAt - clock.now(), recordedDelay.delayMs);
    return remainingMs > 0 ? sleep(clock, remainingMs, signal) : !signal.aborted;
  }
  const delayMs = delayOf();
  if (delayMs === null) return false;
  await scope.record(effectId, name, { delayMs, dueAt: clock.now() + delayMs });
  await announce(delayMs);
  return sleep(clock, delayMs, signal);
}

/** Sleeps; false if the signal was aborted. */
function sleep(clock: Clock, ms: number, signal: AbortSignal): Promise<boolean> {
  return clock.sleep(ms, signal).then(
    () => true,
    () => false,
  );
}
