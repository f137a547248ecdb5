// The handlers that drive a session: `drive`, which verbs send, and `resume`, which the sweeper sends.
//
// Theory of operation
//   Restate decides which process calls `runtime.drive`, and calls again after a failure. The turn itself (journal,
//   session, events) is in the storage of the runtime, under its lease. So an invocation that is lost, repeated or runs
//   twice at the same time changes when a turn runs, and nothing else.
//
//   `drive` is exclusive: Restate runs one at a time for a session. It runs one slice (`driveOnce`) as a recorded step,
//   writes what it found to the state of the object, and sends the invocation that continues:
//     idle          nothing; if pending calls have a deadline, a sweep at that time
//     handed_over   `drive` again, at once; after a short pause if the slice was short, because the process may be
//                   shutting down; with backoff if an effect was aborted at the deadline, because the same effect, for
//                   example a model call that costs money, may be aborted again
//     busy          `drive` again, with backoff: another process holds the session
//     failed        `drive` again, with backoff: the storage or the engine failed
//     parked, gone  nothing
//   After `maxRetries` continuations without progress it sends nothing more: the turn is then due for the sweeper.
//   The continuation number n of a turn has the idempotency key `turn/n`, so that a caller can wait for it (client.ts).
//
//   `resume` is shared: it also runs while an invocation of `drive` hangs, for example in a process that is paused. The
//   lease decides who drives. Its result is kept for no time, and its idempotency key is the time in units of
//   `patienceMs`. So while one `resume` of a session is under way, another one is sent at most once in that time: it
//   helps if the first one hangs, too. If later sweeps find the session due again, they send two and then four at once
//   (`resumeRequests`): a proxy that alternates between two processes would pass each single `resume` to the paused
//   one, because the sweep before it was a request to the other one.
//
// Invariants
//   1. Both return normally for every outcome of `runtime.drive`, also for errors. Restate repeats an invocation only
//      if its process ended, could not be reached, or lost its connection.
//   2. When the attempt is over for Restate (`attemptOver`), the session is handed over. The next attempt does not wait
//      for the lease.

import type { Driven } from "../internal.ts";
import type { Invocation, SendRequest } from "./invocation.ts";
import type { ServiceContext } from "./service-context.ts";

import { monotonicNow } from "../../core/clock/clock.ts";
import { isEverturnError } from "../../core/model/internal.ts";
import { RefusedCall } from "./invocation.ts";
import { sessionOfKey, sweeperKey } from "./names.ts";

/** The input of `drive`. */
export type DriveInput = {
  /** The turn for which it was sent; `null`: for whatever is open. */
  readonly turnId: string | null;
  /** How many invocations for this turn preceded. Default: 0. */
  readonly continuation?: number;
  /** How many of them in a row made no progress. Default: 0. */
  readonly retries?: number;
};

/**
 * What an invocation of `drive` did. It is the result of the handler, and the state `progress` of the virtual object,
 * so Restate's user interface shows it.
 */
export type DriveReport = {
  /**
   * `failed`: the storage or the engine failed here. `gone`: there is no such session. The others: see `Driven` of
   * `everturn/runtime`.
   */
  readonly status: Driven["status"] | "failed" | "gone";
  /** The open turn, or the last one; `null`: none. */
  readonly turnId: string | null;
  /** The step of that turn, counted from 0, or the number of its steps if it has ended. */
  readonly step: number | null;
  /** How the last turn ended: its `haltedReason`; `null` while a turn is open. */
  readonly outcome: string | null;
  /**
   * Why the turn is parked or failed here, or that an effect was aborted because it took too long; otherwise `null`.
   */
  readonly failure: string | null;
  /** The time until a pending call of the session expires, in milliseconds; `null`: none does. */
  readonly expiresInMs: number | null;
  /** The time after which another attempt makes sense, in milliseconds; `null` if the session is not busy. */
  readonly retryAfterMs: number | null;
  /** How long it drove, in milliseconds. */
  readonly tookMs: number;
  /** Whether the sweeper should be asked to start. */
  readonly startsSweeper: boolean;
};

/**
 * The result of `drive`: the report, and the idempotency key of the invocation that continues; `null`: none was sent.
 */
export type DriveResult = DriveReport & { readonly next: string | null };

/** The key under which the state of a session is stored. */
const progressState = "progress";

/** How many continuations without progress are sent before the turn is left to the sweeper. */
const maxRetries = 12;
/**
 * Backoff of continuations without progress, in milliseconds: the first ones are equal, because a storage needs about a
 * second to prove that a process has ended; then it is doubled each time.
 */
const backoff = { firstMs: 300, equal: 4, longestMs: 30_000 };
/** A slice that was handed over sooner is repeated after a pause: a process that shuts down hands over at once. */
const shortSliceMs = 1000;
const shortSlicePauseMs = 250;
/**
 * How long an unsuccessful `resume` stays under way, in milliseconds, so that the sweeper does not send another one
 * meanwhile.
 */
const resumePauseMs = 10_000;
/** How many requests for `resume` one sweep sends for a session at most. */
const maxCopies = 4;
/** How often a process asks the sweeper to start, in milliseconds. */
const askSweeperMs = 60_000;

/** Validates the input of `drive`. Throws `RefusedCall`. */
export function checkedDriveInput(input: { readonly [name: string]: unknown }): DriveInput {
  const { turnId = null, continuation = 0, retries = 0 } = input;
  const isText = turnId === null || (typeof turnId === "string" && turnId !== "");
  if (isText && isCount(continuation) && isCount(retries)) return { turnId, continuation, retries };
  throw new RefusedCall("turnId must be the id of a turn or null; continuation and retries must be whole numbers", 400);
}

function isCount(value: unknown): value is number {
  return typeof value === "number" && Number.isSafeInteger(value) && value >= 0;
}

/** The handler `drive`. */
export async function drive(context: ServiceContext, invocation: Invocation, input: DriveInput): Promise<DriveResult> {
  const { turnId, continuation = 0, retries = 0 } = input;
  invocation.set(progressState, { status: "driving", turnId });
  const report = await invocation.run("drive", () => driveOnce(context, invocation));
  const following = followUp(report, retries);
  const next = following === null ? null : continuationKey(report.turnId ?? turnId ?? invocation.id, continuation + 1);
  invocation.set(progressState, report);
  if (following !== null) {
    const input: DriveInput = {
      turnId: report.turnId ?? turnId,
      continuation: continuation + 1,
      retries: following.retries,
    };
    invocation.send(driveRequest(context, invocation.key, input, next, following.delayMs));
  }
  sendUpkeep(context, invocation, report);
  return { ...report, next };
}

/** The handler `resume`. */
export async function resume(context: ServiceContext, invocation: Invocation): Promise<DriveReport> {
  const report = await invocation.run("drive", () => driveOnce(context, invocation));
  sendUpkeep(context, invocation, report);
  if (report.status === "failed") await invocation.sleep(resumePauseMs);
  return report;
}

/** The idempotency key of the invocation of `drive` number `continuation` for a turn. */
export function continuationKey(turnId: string, continuation: number): string {
  return continuation === 0 ? turnId : `${turnId}/${continuation}`;
}

/** The request that sends `drive`. */
export function driveRequest(
  { names }: Pick<ServiceContext, "names">,
  key: string,
  input: DriveInput,
  idempotencyKey: string | null,
  delayMs = 0,
): SendRequest {
  return { service: names.session, handler: "drive", key, input, idempotencyKey, delayMs };
}

/** The request that sends `resume`. `now` is the time in milliseconds. */
export function resumeRequest(context: ResumeContext, key: string, now: number): SendRequest {
  return resumeAs(context, key, `resume ${Math.floor(now / context.patienceMs)}`);
}

/**
 * The requests that send `resume` to a session that was found due in `sweeps` sweeps before this one, too: the earlier
 * requests may hang in a paused process. They follow each other, so that a proxy passes them to different processes.
 */
export function resumeRequests(
  context: ResumeContext,
  key: string,
  now: number,
  sweeps: number,
): readonly SendRequest[] {
  const first = resumeRequest(context, key, now);
  if (sweeps === 0) return [first];
  const copies = Math.min(maxCopies, 2 ** sweeps);
  return Array.from({ length: copies }, (_, copy) =>
    resumeAs(context, key, `${first.idempotencyKey ?? ""} again ${copy}`),
  );
}

type ResumeContext = Pick<ServiceContext, "names" | "patienceMs">;

function resumeAs({ names }: ResumeContext, key: string, idempotencyKey: string): SendRequest {
  return { service: names.session, handler: "resume", key, input: {}, idempotencyKey, delayMs: 0 };
}

/**
 * One slice: drives the session, and reads the state of the session afterwards. Never rejects, so that Restate does not
 * repeat it.
 */
async function driveOnce(context: ServiceContext, invocation: Invocation): Promise<DriveReport> {
  const { deadlineMs, graceMs, clock, sweeper } = context;
  const name = sessionOfKey(invocation.key);
  if (name === null) throw new RefusedCall(`${JSON.stringify(invocation.key)} is not the key of a session`, 400);
  const began = monotonicNow(clock);
  const startsSweeper = began >= sweeper.askedAt + askSweeperMs;
  if (startsSweeper) sweeper.askedAt = began;
  const sessions = context.sessions.tenant(name.tenant);
  const rest = { turnId: null, step: null, outcome: null, expiresInMs: null, retryAfterMs: null, startsSweeper };
  try {
    const driven = await sessions.drive(name.sessionId, { deadlineMs, graceMs, signal: invocation.attemptOver });
    const view = await sessions.get(name.sessionId, { messages: 0 });
    const { openTurn = null, session = null } = view ?? {};
    const lastRun = openTurn === null ? (session?.lastRun ?? null) : null;
    const tookMs = Math.round(monotonicNow(clock) - began);
    return {
      status: driven.status,
      turnId: openTurn?.turnId ?? lastRun?.turnId ?? null,
      step: openTurn?.step ?? lastRun?.steps ?? null,
      outcome: lastRun?.haltedReason ?? null,
      failure: driveFailure(driven, tookMs, deadlineMs),
      expiresInMs: driven.status === "idle" ? (driven.expiresInMs ?? null) : null,
      retryAfterMs: driven.status === "busy" ? driven.retryAfterMs : null,
      tookMs,
      startsSweeper,
    };
  } catch (error) {
    const isGone = isEverturnError(error) && error.reason === "not_found";
    const tookMs = Math.round(monotonicNow(clock) - began);
    return { ...rest, status: isGone ? "gone" : "failed", failure: isGone ? null : errorMessage(error), tookMs };
  }
}

function driveFailure(driven: Driven, tookMs: number, deadlineMs: number): string | null {
  if (driven.status === "parked") return driven.failure?.message ?? "the turn is parked";
  // A slice ends before its deadline, when an effect has ended, unless an effect takes longer than the rest of the
  // slice.
  const isAborted = driven.status === "handed_over" && tookMs >= deadlineMs;
  return isAborted ? `an effect was aborted at the deadline of ${deadlineMs} ms: raise deadlineMs, or graceMs` : null;
}

/** Whether and when `drive` is sent again; `null`: it is not. */
function followUp(
  { status, failure, tookMs, retryAfterMs }: DriveReport,
  retries: number,
): { readonly delayMs: number; readonly retries: number } | null {
  const backoffMs = Math.min(backoff.longestMs, backoff.firstMs * 2 ** Math.max(0, retries + 1 - backoff.equal));
  switch (status) {
    case "idle":
    case "parked":
    case "gone":
      return null;
    case "handed_over":
      if (failure !== null) return retries < maxRetries ? { delayMs: backoffMs, retries: retries + 1 } : null;
      if (tookMs >= shortSliceMs) return { delayMs: 0, retries: 0 };
      return retries < maxRetries ? { delayMs: shortSlicePauseMs, retries: retries + 1 } : null;
    case "busy":
      return retries < maxRetries
        ? { delayMs: Math.min(backoffMs, retryAfterMs ?? backoffMs), retries: retries + 1 }
        : null;
    case "failed":
      return retries < maxRetries ? { delayMs: backoffMs, retries: retries + 1 } : null;
  }
}

/** Sends what concerns the sweeper: a sweep at the deadline of a pending call, and its start. */
function sendUpkeep({ names }: ServiceContext, invocation: Invocation, report: DriveReport): void {
  const { expiresInMs, startsSweeper, turnId } = report;
  const sweeper = { service: names.sweeper, key: sweeperKey, input: {} };
  if (expiresInMs !== null) {
    const idempotencyKey = `${invocation.key}/${turnId ?? ""}`;
    invocation.send({ ...sweeper, handler: "sweep", idempotencyKey, delayMs: expiresInMs });
  }
  if (startsSweeper) invocation.send({ ...sweeper, handler: "start", idempotencyKey: null, delayMs: 0 });
}

function errorMessage(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
