// The turns that this process left before their end: it failed at them, lost their session, or handed them over.
// Handles in this process reject with the reason, and workers do not try the turn again at once.

import type { SessionKey } from "../rows/session-key.ts";
import type { RuntimeContext } from "./context.ts";

import { isEverturnError } from "../../core/model/internal.ts";
import { nameOf } from "../rows/session-key.ts";
import { HandedOver } from "./turn-committer.ts";

/** Why and when this process left a turn before its end, and under which lease epoch. */
type LeftTurn = { readonly turn: string; readonly error: unknown; readonly at: number; readonly epoch: number };

/** How many reasons are kept; the oldest is dropped. */
const maxLeftTurns = 1000;

/** The newest reasons for leaving turns, one for each session. */
export class LeftTurns {
  readonly #context: Pick<RuntimeContext, "clock" | "lease" | "reportFailure">;
  readonly #left = new Map<string, LeftTurn>();
  readonly #listeners = new Set<() => void>();

  constructor(context: Pick<RuntimeContext, "clock" | "lease" | "reportFailure">) {
    this.#context = context;
  }

  /** Calls back when this process leaves any turn before its end. Returns the function that ends it. */
  onLeft(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /**
   * Why this process left the turn; `null`: it did not, or another process has held the session since (`epoch` of the
   * lease row is higher).
   */
  reason(key: SessionKey, turn: string, epoch: number): unknown {
    const left = this.#left.get(nameOf(key));
    return left?.turn === turn && left.epoch >= epoch ? left.error : null;
  }

  /**
   * Returns whether a worker should skip the turn: for one renewal interval after this process failed at it, and always
   * if a newer release wrote it.
   */
  hasJustFailed(key: SessionKey, turn: string): boolean {
    const left = this.#left.get(nameOf(key));
    if (left?.turn !== turn || isHeldElsewhere(left.error) || isHandedOver(left.error)) return false;
    if (isEverturnError(left.error) && left.error.reason === "newer_schema") return true;
    return this.#context.clock.now() < left.at + this.#context.lease.renewMs;
  }

  /** Records why the turn was left, for handles in this process. */
  add(key: SessionKey, turn: string, epoch: number, error: unknown): void {
    const name = nameOf(key);
    this.#left.delete(name);
    this.#left.set(name, { turn, error, at: this.#context.clock.now(), epoch });
    const [oldest] = this.#left.keys();
    if (this.#left.size > maxLeftTurns && oldest !== undefined) this.#left.delete(oldest);
    this.report();
    if (isHeldElsewhere(error) || isHandedOver(error)) return;
    const failure = isEverturnError(error) ? error.failure : null;
    const { tenant, session: sessionId } = key;
    this.#context.reportFailure({ tenant, sessionId, turnId: turn, status: "left", failure, error });
  }

  /** Calls the listeners. */
  report(): void {
    for (const listener of this.#listeners) listener();
  }
}

/**
 * Returns whether an error means that another process drives the turn now: a handle then continues to wait for its end.
 */
export function isHeldElsewhere(error: unknown): boolean {
  return isEverturnError(error) && (error.reason === "lease_lost" || error.reason === "conflict");
}

/** Returns whether an error means that this process shuts down and has handed the turn over. */
export function isHandedOver(error: unknown): boolean {
  return error instanceof HandedOver;
}
