// The cancel grace of a run (`cancelGraceMs`): the time that running tools have to answer after a cancel.
//
// Theory of operation
//   A cancel aborts the signals of all performers at once. Handlers that have started may still return. Their responses
//   are settled into the journal as usual, and the cancel follows them (run.ts). `wait` resolves when the turn has
//   accepted the response of every started call, or after the grace, whichever is first. A call without a response is
//   then answered as cancelled. Nothing starts within the grace: a call that waits for a permit, a hook, its approval
//   gate or a retry is answered as cancelled.
//
// Invariants
//   1. The grace is bounded: `wait` resolves after `ms` on the clock of the engine, whatever the handlers do.
//   2. A run without a started call has no grace: its cancel is recorded at once.

import type { Clock } from "../../engine/internal.ts";

export class CancelGrace {
  readonly #ms: number;
  readonly #clock: Clock;
  /** Ids of call effects whose handler has started and whose response the turn has not accepted. */
  readonly #started = new Set<string>();
  /** Ends the wait; `null`: none has begun. Most runs are never cancelled, so it is created with the wait. */
  #over: AbortController | null = null;
  #isOver = false;
  #isCancelled = false;

  /** `ms`: the length of the grace in milliseconds; 0: none. */
  constructor(ms: number, clock: Clock) {
    this.#ms = ms;
    this.#clock = clock;
  }

  /** Was the run cancelled while calls had started? */
  get isCancelled(): boolean {
    return this.#isCancelled;
  }

  /** Is the run cancelled, and may its started calls still answer? */
  get isOpen(): boolean {
    return this.#isCancelled && !this.#isOver;
  }

  /** Has a handler started whose response the turn has not accepted? */
  get hasStartedCalls(): boolean {
    return this.#started.size > 0;
  }

  /** Are there started calls, and does the run have a grace? */
  get isNeeded(): boolean {
    return this.#ms > 0 && this.hasStartedCalls;
  }

  /** Has the handler of this call started? */
  hasStarted(effectId: string): boolean {
    return this.#started.has(effectId);
  }

  /** The handler of a call starts. */
  start(effectId: string): void {
    this.#started.add(effectId);
  }

  /** The turn has accepted the response of a call, or the call will have none. The last call ends the grace. */
  end(effectId: string): void {
    this.#started.delete(effectId);
    if (this.#isCancelled && this.#started.size === 0) this.close();
  }

  /** Starts the grace and resolves when it is over. */
  async wait(): Promise<void> {
    this.#isCancelled = true;
    this.#over = new AbortController();
    if (this.#isOver) this.#over.abort();
    // The sleep rejects when the last call ends first.
    await this.#clock.sleep(this.#ms, this.#over.signal).catch(() => undefined);
    this.close();
  }

  /** Ends the grace: after the last call, and when the run is over. */
  close(): void {
    this.#isOver = true;
    this.#over?.abort();
  }
}
