// What performers write down inside an effect (Q2), and how they read it again: tries that did not answer it, and the waits between them. Each is
// written before anything follows from it. What cannot be read is as if it were not there: then the work is done again.
//
//   attempt/<n>   a try that another one followed
//   reference/<n> work of the provider that goes on without a connection (reference.ts)
//   delay/<n>     the wait between that try and the next
//   prepared      what hooks and a gate said of a call (prepare-tool.ts)
//   started       that a handler may have begun (start-mark.ts)

import type { Clock } from "../../engine/internal.ts";
import type { Failure, Json, ModelReply, ToolFailure, Usage } from "../../model/internal.ts";
import type { Shape } from "../../model/parse/reading.ts";
import type { Scope } from "../ports/ports.ts";

import { noUsage } from "../../model/internal.ts";
import {
  boolean,
  failureShape,
  fallback,
  nullable,
  number,
  object,
  read,
  replyShape,
  required,
  usageShape,
} from "../../model/parse/reading.ts";

/** A model call that did not come to the answer. */
export type ModelAttempt = {
  /** Why not: what went wrong, or what does not fit in the answer that was asked for again. */
  readonly failure: Failure;
  readonly usage: Usage;
  readonly shown: boolean;
  readonly heard: boolean;
  /** The answer that does not fit. */
  readonly reply: ModelReply | null;
  /** It read work that an earlier process had left, and sent no request. */
  readonly resumed: boolean;
};

/** A try of a handler that may be repeated, and what turns that it ran have cost. */
type ToolAttempt = { readonly failure: ToolFailure; readonly usage: Usage };

type Delay = { readonly delayMs: number; readonly dueAt: number };

const modelAttemptShape: Shape<ModelAttempt> = object<ModelAttempt>({
  failure: required(failureShape),
  usage: required(usageShape),
  shown: required(boolean),
  heard: required(boolean),
  reply: fallback(nullable(replyShape), null),
  resumed: fallback(boolean, false),
});

const toolAttemptShape = object<{ readonly failure: Failure; readonly usage: Usage }>({
  failure: required(failureShape),
  usage: fallback(usageShape, noUsage),
});

const delayShape: Shape<Delay> = object<Delay>({ delayMs: required(number), dueAt: required(number) });

/** The name a try is written down under. */
export function attemptName(n: number): string {
  return `attempt/${n}`;
}

export function readModelAttempt(found: Json): ModelAttempt | null {
  return readRecord(modelAttemptShape, found);
}

export function readToolAttempt(found: Json): ToolAttempt | null {
  const record = readRecord(toolAttemptShape, found);
  if (record === null || record.failure.type !== "tool_error") return null;
  return { failure: record.failure, usage: record.usage };
}

/** What was written down, if that is what this is. */
export function readRecord<T>(shape: Shape<T>, found: Json): T | null {
  if (found === null) return null;
  const record = read(shape, found);
  return "value" in record ? record.value : null;
}

/** The wait behind a try. */
type Pause = {
  readonly scope: Scope;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  readonly effectId: string;
  /** The number of the try it is behind. */
  readonly n: number;
  readonly delayOf: () => number;
  readonly tell: (delayMs: number) => void | Promise<void>;
};

/**
 * Waits until it is time for the next try; false when the run was ended meanwhile. A wait on record ends when it was to end in the first
 * place, and is not told again.
 */
export async function pause({ scope, clock, signal, effectId, n, delayOf, tell }: Pause): Promise<boolean> {
  // What followed the wait is on record: it is over, whatever the clock says.
  if (scope.find(effectId, attemptName(n + 1)) !== null) return !signal.aborted;
  const name = `delay/${n}`;
  const known = readRecord(delayShape, scope.find(effectId, name));
  if (known !== null) {
    // A clock that was set back must not make it longer.
    const left = Math.min(known.dueAt - clock.now(), known.delayMs);
    return left > 0 ? sleep(clock, left, signal) : !signal.aborted;
  }
  const delayMs = delayOf();
  await scope.record(effectId, name, { delayMs, dueAt: clock.now() + delayMs });
  await tell(delayMs);
  return sleep(clock, delayMs, signal);
}

function sleep(clock: Clock, ms: number, signal: AbortSignal): Promise<boolean> {
  return clock.sleep(ms, signal).then(
    () => true,
    () => false,
  );
}
