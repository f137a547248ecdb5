// The options of the services after validation, and what all their handlers share.

import type { Clock } from "../../core/engine/internal.ts";
import type { Runtime } from "../internal.ts";
import type { ServiceNames } from "./names.ts";
import type { Found } from "./sweeper-handlers.ts";

import { systemClock } from "../../core/engine/internal.ts";
import { MisuseError } from "../../core/model/internal.ts";
import { serviceNames } from "./names.ts";

/** Options of {@link restateServices}: the sessions, and how long Restate lets a process drive one. */
export type RestateServiceOptions = {
  /** The runtime that drives the sessions. It needs every engine that open turns use. */
  readonly sessions: Runtime;
  /** The names of the services in Restate begin with this text. Default: `Everturn`. */
  readonly prefix?: string;
  /**
   * How long one invocation drives a session, in milliseconds. Then the session is handed over to the next invocation.
   * An effect (a model call, a tool) that takes longer is aborted and treated as its replay policy says, so the limit
   * has to exceed the longest effect. On a serverless platform set it below the time limit of the platform. Default:
   * 3,600,000 (one hour).
   */
  readonly deadlineMs?: number;
  /**
   * How long before the deadline no further effect is started, in milliseconds: the session is then handed over after
   * the effects that run. Default: half of `deadlineMs`.
   */
  readonly graceMs?: number;
  /**
   * How often the sweeper looks for turns that no process drives, for deadlines of pending calls that have passed, and
   * for expired journals, in milliseconds. Default: 5,000.
   */
  readonly sweepMs?: number;
  /**
   * How long Restate keeps the results of completed invocations, in milliseconds, for its user interface and for
   * callers that wait for a turn. Default: 3,600,000 (one hour).
   */
  readonly resultRetentionMs?: number;
  /** Source of time. Default: the system clock. */
  readonly clock?: Clock;
};

/** What handlers share. */
export type ServiceContext = {
  readonly sessions: Runtime;
  readonly names: ServiceNames;
  readonly deadlineMs: number;
  readonly graceMs: number;
  readonly sweepMs: number;
  /** The largest number of sessions that one sweep sends. */
  readonly sweepLimit: number;
  readonly resultRetentionMs: number;
  /** How long a request may lead to nothing before it is sent again, in milliseconds. */
  readonly patienceMs: number;
  readonly clock: Clock;
  /**
   * `askedAt`: when this process last asked the sweeper to start, in milliseconds of the monotonic clock. `sweeps`: the
   * sweeps that run in this process, by invocation.
   */
  readonly sweeper: { askedAt: number; readonly sweeps: Map<string, Promise<Found>> };
};

/** Validates the options. Throws `MisuseError`. */
export function serviceContext(options: RestateServiceOptions): ServiceContext {
  const { sessions, clock = systemClock } = options;
  const deadlineMs = checkedMs("deadlineMs", options.deadlineMs ?? 3_600_000, 1000);
  const graceMs = checkedMs("graceMs", options.graceMs ?? Math.floor(deadlineMs / 2), 0);
  if (graceMs > deadlineMs) throw refused("graceMs", "graceMs must be at most deadlineMs");
  return {
    sessions,
    names: serviceNames(options.prefix),
    deadlineMs,
    graceMs,
    sweepMs: checkedMs("sweepMs", options.sweepMs ?? 5000, 100),
    sweepLimit: 256,
    resultRetentionMs: checkedMs("resultRetentionMs", options.resultRetentionMs ?? 3_600_000, 0),
    patienceMs: patienceOf(sessions),
    clock,
    sweeper: { askedAt: Number.NEGATIVE_INFINITY, sweeps: new Map() },
  };
}

/**
 * How long Restate goes on waiting after `abortTimeout`, in milliseconds, as measured with server 1.7.12. No setting
 * changes it.
 */
export const serverWaitMs = 5000;

/**
 * The bounds of {@link patienceOf}, in milliseconds. A process that runs needs some time to answer, however short the
 * leases are.
 */
const patience = { leastMs: serverWaitMs + 2000, mostMs: 10_000 };

/**
 * How long a request that drives no session may lead to nothing before it is sent again, in milliseconds: a third of a
 * lease, from 7,000 to 10,000. A process that is paused, or whose host is frozen, accepts requests and answers none. A
 * takeover waits for the end of the lease, and then for as many sweeps and such requests as follow each other in that
 * process.
 */
export function patienceOf({ lease }: Pick<Runtime, "lease">): number {
  return Math.ceil(Math.min(patience.mostMs, Math.max(patience.leastMs, lease.ttlMs / 3)));
}

/** The longest time that Restate's settings are given, in milliseconds: 30 days. */
const longestMs = 30 * 86_400_000;

function checkedMs(name: string, value: number, least: number): number {
  // Restate accepts whole numbers only.
  if (Number.isSafeInteger(value) && value >= least && value <= longestMs) return value;
  throw refused(
    name,
    `${name} must be a whole number of milliseconds from ${least} to ${longestMs}, not ${String(value)}`,
  );
}

function refused(name: string, message: string): MisuseError {
  return new MisuseError("invalid_argument", `Restate: ${message}`, { path: [name] });
}
