// The ports of the driver: journal, inbox, sink, scope. In memory each is a few lines (memory-journal.ts,
// memory-ports.ts); the durable runtime implements them over a storage (runtime/drive/). The driver does not know the
// difference.

import type {
  AskCheckpoint,
  Cancellation,
  CheckpointDelivery,
  Effect,
  EffectResponse,
  JournalItem,
  Transition,
  Turn,
} from "../../kernel/internal.ts";
import type { Attempt, Json, TurnEvent } from "../../model/internal.ts";

/** All ports of one run. */
export type Ports = {
  readonly journal: CancellableJournal;
  readonly inbox: Inbox;
  readonly sink: Sink;
  readonly scope: Scope;
  /** The turn was accepted durably: a failure before the first event is then part of its result and is not thrown. */
  readonly accepted: boolean;
};

/** The ordered log of what a turn accepted. `next` is the only promise that the driver waits for between commits. */
export type Journal = {
  /** Performs an effect, unless its response is recorded, and settles its response into the log. Returns at once. */
  readonly order: (effect: Effect, perform: () => Promise<EffectResponse>) => void;
  /**
   * The next item: recorded items in recorded order, then new ones as effects settle. Rejects if a function of the user
   * threw.
   */
  readonly next: () => Promise<JournalItem>;
};

/** A journal that accepts commands from outside the loop. */
export type CancellableJournal = Journal & {
  /** Ends the turn as cancelled. The cancel is the next item; responses that were not handed out yet are dropped. */
  readonly cancel: (cancellation: Cancellation) => void;
  /**
   * Ends the turn as cancelled, after the responses that have settled. Later responses are dropped. `cancellation` is
   * called when the cancel is handed out, so that it can count the usage of the responses that are missing then.
   */
  readonly cancelAfterSettled: (cancellation: () => Cancellation) => void;
  /** Ends a durable turn because a function of the user threw. Without this function the run rejects instead. */
  readonly fail?: (what: string, reason: unknown) => void;
};

export type { JournalItem };

/** The source of input at checkpoints. `claim` is called only if another model call follows (Q11). */
export type Inbox = {
  readonly claim: (checkpoint: AskCheckpoint, turn: Turn) => Promise<CheckpointDelivery>;
};

/** Where events go. A returned promise is backpressure: the caller awaits it before it emits more. */
export type Sink = {
  /**
   * Publishes events that are not stored (deltas, progress, retries), with the attempt of the effect they belong to.
   */
  readonly live: (events: readonly TurnEvent[], of: LiveOrigin) => void | Promise<void>;
  /**
   * Stores a transition with the item that caused it and its events, then publishes the events. Each event is published
   * once in a turn (H2).
   */
  readonly commit: (
    transition: Transition,
    events: readonly TurnEvent[],
    item: JournalItem | null,
  ) => Committed | Replaced | Promise<Committed | Replaced>;
};

/**
 * `fresh`: the transition was stored now. `held`: it is stored with the next commit. `replayed`: it was stored and
 * published before. `unrecorded`: it is not stored, and the turn continues from its last stored transition if it is run
 * again.
 */
export type Committed = "fresh" | "held" | "replayed" | "unrecorded";

/**
 * The transition was not stored: the item that caused it was based on something that has changed meanwhile, such as an
 * empty inbox. The driver applies this item instead, to the same turn. The item answers the same effect.
 */
export type Replaced = { readonly item: JournalItem };

/**
 * The effect and the attempt that a live event belongs to. Events of a higher attempt supersede those of lower ones
 * (Q7).
 */
export type LiveOrigin = { readonly effectId: string; readonly attempt: Attempt };

/** Records inside an effect (Q2): attempts, delays, start marks. What is recorded is not done again. */
export type Scope = {
  /**
   * The tenant of a durable turn or of a chat completion, for resources that tenants share; `null` for other runs in
   * memory.
   */
  readonly tenant: string | null;
  /** The lease epoch (fencing token): grows whenever another process takes the turn over. 0 in memory. */
  readonly epoch: number;
  /**
   * Called before a performer starts and before a request leaves for a provider. Returns at once if this process may
   * act; a durable scope renews an expired lease first, and rejects when another process has claimed the session.
   */
  readonly ensure: () => void | Promise<void>;
  /** The record with this name that existed when this process took the turn over; `null`: none. */
  readonly find: (effectId: string, name: string) => Json;
  /** Writes a record. It is durable when the promise resolves. */
  readonly record: (effectId: string, name: string, value: Json) => Promise<void>;
  /** Called when the handler of a tool starts. The start mark of a call that has not started may be taken back. */
  readonly begin: (effectId: string) => void;
};

/** The scope in memory: no record can outlive the process, so none is written. */
export const memoryScope: Scope = {
  tenant: null,
  epoch: 0,
  ensure: () => undefined,
  find: () => null,
  record: () => Promise.resolve(),
  begin: () => undefined,
};
