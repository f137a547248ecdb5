// What the loop stands on. In memory each of these is a few lines; over a host they are durable, and the loop does not know the difference.

import type {
  AskCheckpoint,
  Cancellation,
  CheckpointDelivery,
  Effect,
  EffectResponse,
  Transition,
  Turn,
} from "../kernel/index.ts";
import type { Failure, Json, TurnEvent } from "../model/index.ts";

export type Ports = {
  readonly journal: Journal;
  readonly inbox: Inbox;
  readonly sink: Sink;
  readonly scope: Scope;
};

/** The ordered log of what a turn accepted. Asking it for the next item is the only thing the loop ever waits for. */
export type Journal = {
  /** Has an effect performed, unless what came of it is on record, and settles what comes of it. Returns at once. */
  readonly order: (effect: Effect, perform: () => Promise<EffectResponse>) => void;
  /** The next item: in recorded order on a replay, then as things settle. Rejects when a function of the user's threw. */
  readonly next: () => Promise<JournalItem>;
};

/** What a turn accepts: an answer, a cancel, or that something on the host's side broke. */
export type JournalItem =
  | { readonly type: "response"; readonly response: EffectResponse }
  | { readonly type: "cancel"; readonly cancellation: Cancellation }
  | { readonly type: "failure"; readonly failure: Failure };

/** What may be added to a turn at a checkpoint. Asked only where it will be read. */
export type Inbox = {
  readonly claim: (asked: AskCheckpoint, turn: Turn) => Promise<CheckpointDelivery>;
};

/** Where events go. Both may return a promise to slow down whoever says more than anybody reads. */
export type Sink = {
  /** What is only worth seeing now: deltas, progress, retries. */
  readonly live: (events: readonly TurnEvent[]) => void | Promise<void>;
  /** What a transition came to, after it has been stored: entries, each said once in the life of a turn. */
  readonly commit: (step: Transition, entries: readonly TurnEvent[]) => void | Promise<void>;
};

/** Records inside an effect: what is on record is not done again. */
export type Scope = {
  readonly record: <T extends Json>(effectId: string, key: string, work: () => Promise<T>) => Promise<T>;
};
