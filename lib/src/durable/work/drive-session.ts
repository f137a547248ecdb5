// `drive`: drives one session on request, until no turn is open, the time is over, or another process holds the
// session. For queues, cron jobs, serverless functions and other systems that decide where a session runs. Correctness
// does not depend on the call: the turn is stored, and every worker finds it.

import type { Failure } from "../../core/model/internal.ts";
import type { VerbContext } from "../drive/context.ts";
import type { ExistingSession } from "../drive/session-rows.ts";
import type { SessionKey } from "../rows/session-key.ts";

import { EngineError, MisuseError } from "../../core/model/internal.ts";
import { isOpen } from "../../core/session/internal.ts";
import { capacitiesOf } from "../drive/admission.ts";
import { isHandedOver, isHeldElsewhere } from "../drive/left-turns.ts";
import { find, lastStart, openTurn } from "../drive/session-rows.ts";
import { epochOf, tenYearsMs } from "../rows/lease.ts";
import { limitOf } from "../rows/limits.ts";
import { keyOf } from "../rows/session-key.ts";
import { readValue } from "../rows/stored.ts";
import { checkedWaits } from "../rows/waits.ts";

/** Options of `drive` of a {@link Runtime}: how long it drives the session. */
export type DriveOptions = {
  /** The session is handed over when this many milliseconds have passed. Default: no limit. */
  readonly deadlineMs?: number;
  /**
   * How long before the deadline no further effect is started, in milliseconds. An effect that still runs at the
   * deadline is aborted, and the next process treats it as its replay policy says. Default: a tenth of `deadlineMs`, at
   * most 10,000.
   */
  readonly graceMs?: number;
  /** Hands the session over at once when it aborts. */
  readonly signal?: AbortSignal;
};

/**
 * What `drive` did. `idle`: no turn of the session is open; if it waits for an answer that has a deadline (`waits`),
 * `expiresInMs` is the time until the first one, for callers that set a timer: `sweep` applies it. `handed_over`: the
 * time was over, and another call or a worker continues. `busy`: another process holds the session, a takeover has to
 * wait, a limit is reached, or this process drives as many turns as it may; try again after `retryAfterMs`. `parked`:
 * no process can continue the turn until `recover`.
 */
export type Driven =
  | { readonly status: "idle"; readonly expiresInMs?: number }
  | { readonly status: "handed_over" }
  | { readonly status: "busy"; readonly retryAfterMs: number }
  | { readonly status: "parked"; readonly failure: Failure | null };

/** The shortest time after which a caller should try again, in milliseconds. */
const shortestRetryMs = 100;
/** The time after which a caller should try again if this process has no free place. */
const fullRetryMs = 1000;

/** Drives the open turn of a session, and the turns that follow it. */
export async function driveSession(context: VerbContext, id: string, options: DriveOptions = {}): Promise<Driven> {
  const { turns } = context;
  const { key } = await find(context, id);
  const limit = new HandOverTimer(context, key, checkedOptions(options), options.signal ?? null);
  try {
    for (;;) {
      const session = await find(context, id);
      const open = await openTurn(context, key, session.head.turn);
      if (open === null) return idle(context, session);
      if (open.status === "parked") return { status: "parked", failure: open.failure };
      if (limit.isOver || turns.closing) return { status: "handed_over" };
      if (!turns.has(key) && (await turns.tryPickUp(key)) !== "driven" && !turns.has(key)) {
        const retryAfterMs = await retryAfter(context, key);
        // The turn has ended or was parked meanwhile.
        if (retryAfterMs === null) continue;
        return { status: "busy", retryAfterMs };
      }
      limit.begin();
      await turns.done(key);
      const reason = await reasonLeft(context, key, open.turnId);
      if (isHandedOver(reason)) return { status: "handed_over" };
      if (reason !== null && !isHeldElsewhere(reason)) throw reason;
    }
  } finally {
    limit.stop();
  }
}

/**
 * No turn is open. The deadline of a wait is computed from the options of the last turn and the time of the last
 * change. An answer to one of several calls is a change too, so the time may be later than the stored deadline of
 * another call, never sooner.
 */
async function idle(context: VerbContext, session: ExistingSession): Promise<Driven> {
  const { pendingToolCalls, status } = session.head.session;
  const reasons = pendingToolCalls.filter(isOpen).map(({ reason }) => reason);
  if (status === "awaiting_user") reasons.push("question");
  const start = reasons.length === 0 ? null : await lastStart(context, session);
  if (start === null) return { status: "idle" };
  const waits = checkedWaits(start.options["waits"]);
  const afterMs = Math.min(...reasons.map((reason) => waits[reason]?.afterMs ?? Infinity));
  if (afterMs === Infinity) return { status: "idle" };
  return {
    status: "idle",
    expiresInMs: Math.max(0, Math.ceil(session.head.changedAt + afterMs - context.clock.now())),
  };
}

/** Hands a session over when its time is over. */
class HandOverTimer {
  isOver = false;
  readonly #context: VerbContext;
  readonly #key: SessionKey;
  readonly #timers = new AbortController();
  #isEnding = false;

  constructor(
    context: VerbContext,
    key: SessionKey,
    { deadlineMs, graceMs }: { readonly deadlineMs: number | null; readonly graceMs: number },
    signal: AbortSignal | null,
  ) {
    this.#context = context;
    this.#key = key;
    const after = (ms: number, act: () => void) =>
      void context.clock.sleep(ms, this.#timers.signal).then(act, () => undefined);
    const end = () => {
      this.isOver = true;
      context.turns.handOver(key, true);
    };
    if (deadlineMs !== null) {
      after(deadlineMs - graceMs, () => {
        this.#isEnding = true;
        this.begin();
      });
      after(deadlineMs, end);
    }
    if (signal?.aborted === true || deadlineMs === 0) this.isOver = true;
    signal?.addEventListener("abort", end, { signal: this.#timers.signal });
  }

  /** Applies what has happened already to a turn that was just picked up. */
  begin(): void {
    if (this.isOver || this.#isEnding) this.#context.turns.handOver(this.#key, this.isOver);
  }

  stop(): void {
    this.#timers.abort();
  }
}

function checkedOptions({ deadlineMs, graceMs }: DriveOptions): {
  readonly deadlineMs: number | null;
  readonly graceMs: number;
} {
  if (!isTime(deadlineMs) || !isTime(graceMs) || (graceMs ?? 0) > (deadlineMs ?? Infinity)) {
    throw new MisuseError(
      "invalid_argument",
      "drive: deadlineMs and graceMs must be milliseconds of 0 or more and at most ten years, and graceMs at most deadlineMs",
    );
  }
  if (deadlineMs === undefined) return { deadlineMs: null, graceMs: 0 };
  return { deadlineMs, graceMs: graceMs ?? Math.min(10_000, deadlineMs / 10) };
}

function isTime(ms: number | undefined): boolean {
  return ms === undefined || (ms >= 0 && ms <= tenYearsMs);
}

/** Why this process left the turn; `null`: it did not, or another process has held the session since. */
async function reasonLeft({ storage, turns }: VerbContext, key: SessionKey, turn: string): Promise<unknown> {
  const [leases = []] = await storage.read([{ table: "leases", prefix: keyOf(key) }]);
  return turns.reasonLeft(key, turn, epochOf(leases[0]?.tag ?? 0));
}

/**
 * When the open turn can be tried again; `null`: no turn is open. Throws `EngineError` if this process lacks its
 * engine.
 */
async function retryAfter(context: VerbContext, key: SessionKey): Promise<number | null> {
  const { storage, clock, engines } = context;
  const [opened = [], leases = []] = await storage.read([
    { table: "open", prefix: keyOf(key) },
    { table: "leases", prefix: keyOf(key) },
  ]);
  const [openRow] = opened;
  if (openRow === undefined) return null;
  const { engine, due, limit } = readValue("open", openRow);
  if (!Object.hasOwn(engines, engine)) {
    const message = `drive: the open turn of session ${JSON.stringify(key.session)} uses the engine ${JSON.stringify(engine)}, which this runtime does not have; pass it in engines`;
    throw new EngineError("invalid_engine", { message });
  }
  if (limit?.type === "waiting") {
    const { scope } = limit;
    const applied = limitOf(context.limits, scope);
    const [capacity] = await capacitiesOf(context, [applied === null ? null : { scope, limit: applied }]);
    return Math.max(shortestRetryMs, capacity?.freeInMs ?? fullRetryMs);
  }
  const heldMs = leases[0]?.remainingMs ?? 0;
  const waitMs = heldMs > 0 ? heldMs : due - clock.now();
  return waitMs > 0 ? Math.max(shortestRetryMs, Math.ceil(waitMs)) : fullRetryMs;
}
