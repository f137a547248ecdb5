// How a stored session is finished, and the expected result.

import type { Session } from "everturn";
import type { Runtime, TurnHandle } from "everturn/runtime";
import type { HandClock } from "everturn/testing";
import type { TurnEnd } from "../../../src/core/model/internal.ts";

/** A process of the current sources over the stored database. */
export type Stage = {
  readonly sessions: Runtime;
  readonly clock: HandClock;
  /** The token that the older release gave out for the session. */
  readonly token: string;
  /** Recovers the open turn of the session and waits for its end. */
  readonly resume: () => Promise<TurnEnd>;
};

export type Ending = {
  readonly finish: (stage: Stage, id: string) => Promise<unknown>;
  /** `completed` by default. */
  readonly status?: Session["status"];
  /** Every message of the session, as `role text`. */
  readonly thread: readonly string[];
  /** The effects that are performed after the database is opened. Recorded effects must not be among them. */
  readonly performed: { readonly [effect: string]: number };
  /** Tokens billed to the session, before and after. */
  readonly tokens: number;
};

/** Waits for the end of a turn that a verb started. */
export const end = async (turn: Promise<TurnHandle>): Promise<TurnEnd> => (await turn).result;

/**
 * Advances the clock by one second at a time until the condition is true. Modules that are loaded on first use take
 * real time.
 */
export async function passTime(clock: HandClock, isSo: () => boolean | Promise<boolean>): Promise<void> {
  for (let seconds = 0; seconds < 300; seconds += 1) {
    if (await isSo()) return;
    await clock.advance(1000);
  }
  throw new Error("it did not happen in 300 seconds");
}

/** Awaits work while advancing the clock. */
export async function whileTimePasses<T>(clock: HandClock, work: Promise<T>): Promise<T> {
  let isOver = false;
  const settled = work.finally(() => {
    isOver = true;
  });
  await passTime(clock, () => isOver);
  return settled;
}
