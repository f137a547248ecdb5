// What the loop stands on. In memory each of these is a few lines; over a host they are durable, and the loop does not know the difference.

import type {
  AskCheckpoint,
  Cancellation,
  CheckpointDelivery,
  Effect,
  EffectResponse,
  Transition,
  Turn,
} from "../../kernel/internal.ts";
import type { Attempt, Failure, Json, TurnEvent } from "../../model/internal.ts";

export type Ports = {
  readonly journal: CancellableJournal;
  readonly inbox: Inbox;
  readonly sink: Sink;
  readonly scope: Scope;
  /** The turn has been accepted for good: whatever goes wrong from here on is part of what it comes to, and nobody's exception. */
  readonly accepted: boolean;
};

/** The ordered log of what a turn accepted. Asking it for the next item is the only thing the loop ever waits for. */
export type Journal = {
  /** Has an effect performed, unless what came of it is on record, and settles what comes of it. Returns at once. */
  readonly order: (effect: Effect, perform: () => Promise<EffectResponse>) => void;
  /** The next item: in recorded order on a replay, then as things settle. Rejects when a function of the user's threw. */
  readonly next: () => Promise<JournalItem>;
};

/** One that can be told to end the turn: a cancel is the next thing the turn hears, before whatever has not been handed out yet. */
export type CancellableJournal = Journal & {
  readonly cancel: (cancellation: Cancellation) => void;
  /** The same for a function of the user's that threw, where the turn has been accepted for good. */
  readonly fail?: (what: string, reason: unknown) => void;
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
  /** What is only worth seeing now, and which try at which effect it is of: deltas, progress, retries. */
  readonly live: (events: readonly TurnEvent[], of: LiveOrigin) => void | Promise<void>;
  /** What a transition came to, and the item that caused it: stored, then said; each entry once in the life of a turn. */
  readonly commit: (
    step: Transition,
    entries: readonly TurnEvent[],
    item: JournalItem | null,
  ) => Committed | Promise<Committed>;
};

/** `replayed`: it had been stored and said before. */
export type Committed = "fresh" | "replayed";

/** Which try at which effect something was heard of. A higher attempt makes the ones before it void. */
export type LiveOrigin = { readonly effectId: string; readonly attempt: Attempt };

/** Records inside an effect (Q2): attempts, sleeps, the start of a tool. What is on record is not done again. */
export type Scope = {
  /** Who performs, as a number that only grows when a turn changes hands; 0 in memory. */
  readonly epoch: number;
  /**
   * Called before a performer starts and before a request leaves for a provider. Returns at once if this process may act; a durable scope renews an expired
   * lease first, and rejects when another process has claimed the session.
   */
  readonly ensure: () => void | Promise<void>;
  /** What was written down under that name before this process had the turn; `null`: nothing. */
  readonly find: (effectId: string, name: string) => Json;
  /** Writes something down. What follows may rely on its being there. */
  readonly record: (effectId: string, name: string, value: Json) => Promise<void>;
};

/** Where nothing outlives the process, nothing has to be written down. */
export const memoryScope: Scope = {
  epoch: 0,
  ensure: () => undefined,
  find: () => null,
  record: () => Promise.resolve(),
};
