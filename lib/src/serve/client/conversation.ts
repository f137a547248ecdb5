// A conversation in a page or program, without a framework: the messages of a session, the turn that is running, and
// the verbs of a person.
//
// Theory of operation
//   The first subscriber connects. The store reads the session; while a turn is open it reads the events of that turn
//   from the first one and folds them into a `TurnView`; when the turn has ended it reads the session again. While no
//   turn is open it waits for `turn_started` on the events of the session, after the last event that it knows; while a
//   turn is parked, for any event. A turn that is still open after a lost connection is read on after its last event.
//   The last subscriber that leaves disconnects. The session on the server is the only state, so a reload or another
//   page loses nothing.
//
// Invariants
//   1. The snapshot is the same object until something changes, as `useSyncExternalStore` of React expects.
//   2. The messages of an ended turn are replaced by those of the session in one change: no message disappears or is
//      shown twice. While a turn is open, the messages that it has committed are shown from its view, which has the
//      uncommitted ones too.
//   3. A decision carries the digest of the call that was passed to `decide`, which is the one that was shown (A1).

import type { Clock } from "../../core/clock/clock.ts";
import type {
  Cancelled,
  Json,
  Message,
  PendingToolCall,
  SessionView,
  TurnSnapshot,
} from "../../core/model/internal.ts";
import type { FollowState } from "./session-follower.ts";
import type { ClientDecision, ClientTurn, EverturnClient } from "./types.ts";

import { systemClock } from "../../core/clock/clock.ts";
import { MisuseError } from "../../core/model/internal.ts";
import { recoverFailed } from "../contract/internal.ts";
import { SessionFollower } from "./session-follower.ts";

/** Options of {@link conversation}. */
export type ConversationOptions = {
  /** How many of the newest messages of the session are read. Default: all. */
  readonly messages?: number;
  /**
   * How long the store waits before it connects again after the client has given up, in milliseconds. Default: 2,000.
   */
  readonly retryMs?: number;
  /** Default: the system clock. */
  readonly clock?: Clock;
};

/** What a conversation shows at one time. */
export type ConversationSnapshot = {
  /**
   * `live`: what is shown is the session as the server has it; a session that does not exist yet is an empty
   * conversation, which the first message starts, and which is asked for every 10 seconds. `reconnecting`: the server
   * cannot be reached, see `error`. `gone`: the session was deleted; `reconnect` looks again. `idle`: there is no
   * subscriber.
   */
  readonly connection: "idle" | "loading" | "live" | "reconnecting" | "gone";
  /** Why the store is reconnecting; otherwise `null`. */
  readonly error: Error | null;
  /**
   * The messages of the session before the open turn, and after them those of the turn ({@link TurnSnapshot.messages}).
   */
  readonly messages: readonly Message[];
  /** The turn that is open; `null`: none is. Its `blocks` are the reply that is being received. */
  readonly turn: TurnSnapshot | null;
  /** The calls that wait for a decision, an answer or a result. Empty while a turn is open. */
  readonly pending: readonly PendingToolCall[];
  /** The question that the session asks; `null`: none. `answer` answers it. */
  readonly question: string | null;
  /** The session as it was last read; `null`: it was not read yet, or does not exist. */
  readonly session: SessionView | null;
};

/** A conversation that follows its session while it has subscribers. */
export type Conversation = {
  /** The id of the session. */
  readonly id: string;
  /**
   * Calls `changed` after every change. The first subscriber connects, the last one disconnects. Returns a function
   * that ends the subscription.
   */
  readonly subscribe: (changed: () => void) => () => void;
  /** What the conversation shows now: the same object until something changes. */
  readonly snapshot: () => ConversationSnapshot;
  /**
   * Sends a user message. An open turn gets it at its next checkpoint. A session that has failed is made usable first;
   * one that does not exist is started.
   */
  readonly send: (message: string) => Promise<ClientTurn>;
  /** Decides a call of `pending`. Refused with `call_changed` if the call is no longer the one that was shown. */
  readonly decide: (call: PendingToolCall, decision: ClientDecision) => Promise<ClientTurn>;
  /**
   * Answers the question of the session (`question`), or gives the result of a manual call of `pending`. With several
   * questions in `pending`, those after the first one are asked when it is answered.
   */
  readonly answer: (answer: Json, call?: PendingToolCall) => Promise<ClientTurn>;
  /** Adds a message to the open turn at its next checkpoint, or to the next turn. */
  readonly steer: (message: string) => Promise<void>;
  /** Cancels the open turn. */
  readonly stop: () => Promise<Cancelled>;
  /** Reads the session again and connects again at once, for example when the page is shown again. */
  readonly reconnect: () => void;
};

/** Opens the conversation of a session. Nothing is requested before there is a subscriber or a verb is called. */
export function conversation(client: EverturnClient, id: string, options: ConversationOptions = {}): Conversation {
  const { messages: limit, retryMs = 2000, clock = systemClock } = options;
  const listeners = new Set<() => void>();
  let snapshot: ConversationSnapshot | null = null;
  let following: AbortController | null = null;

  const onChange = (): void => {
    snapshot = null;
    // Those of this moment: a subscriber that ends its subscription and subscribes again is not called twice.
    const subscribers = [...listeners];
    for (const changed of subscribers) {
      try {
        changed();
      } catch (thrown) {
        // An error of one subscriber must not end the connection of all. It is thrown where the page reports errors.
        queueMicrotask(() => {
          throw thrown;
        });
      }
    }
  };
  const follower = new SessionFollower({ client, id, limit, retryMs, clock, onChange });

  const reconnect = (): void => {
    following?.abort();
    following = null;
    if (listeners.size === 0) return;
    following = new AbortController();
    void follower.follow(following.signal);
  };

  /**
   * Runs a verb. While no turn is open the session is read at once: a decision about one of several calls has no event,
   * and a refused one shows an old call.
   */
  const act = async <T>(verb: () => Promise<T>): Promise<T> => {
    try {
      return await verb();
    } finally {
      if (follower.openTurnId === null) reconnect();
    }
  };

  return {
    id,
    subscribe: (changed) => {
      // A function that subscribes twice has two subscriptions.
      const listener = (): void => changed();
      listeners.add(listener);
      if (following === null) {
        follower.mark("loading");
        snapshot = null;
        reconnect();
      }
      return () => {
        listeners.delete(listener);
        if (listeners.size > 0) return;
        follower.mark("idle");
        snapshot = null;
        reconnect();
      };
    },
    snapshot: () => {
      snapshot ??= snapshotOf(follower.state);
      return snapshot;
    },
    send: (message) =>
      act(async () => {
        const read = follower.state.session ?? (await client.get(id, { messages: 0 }));
        // The message would steer the turn, which no process drives.
        if (read?.openTurn?.status === "parked") await client.recover(id);
        if (read === null) return client.start(message, { id });
        return recoverFailed(client, id, () => client.send(id, message));
      }),
    decide: ({ id: toolCallId, digest }, decision) => act(() => client.decide(id, toolCallId, { ...decision, digest })),
    answer: (answer, call) =>
      act(async () => {
        if (call !== undefined && call.reason !== "question") return client.submitToolResults(id, [[call.id, answer]]);
        const asked = follower.state.session?.session.pendingToolCallId ?? null;
        if (call !== undefined && call.id !== asked) {
          const message = `answer: the call ${JSON.stringify(call.id)} is not the one whose question is asked now; questions are answered one after the other`;
          throw new MisuseError("invalid_argument", message, { path: ["call"] });
        }
        return client.reply(id, typeof answer === "string" ? answer : JSON.stringify(answer));
      }),
    steer: async (message) => {
      await client.steer(id, message);
    },
    stop: () => {
      const turnId = follower.openTurnId;
      return client.cancel(id, turnId === null ? {} : { turnId });
    },
    reconnect,
  };
}

function pendingOf(session: SessionView | null): readonly PendingToolCall[] {
  return session?.session.pendingToolCalls.filter(({ decision }) => decision === null) ?? [];
}

function snapshotOf(shown: FollowState): ConversationSnapshot {
  const { session, turn } = shown;
  const committed = session?.session.thread.messages ?? [];
  const openTurn = turn === null ? null : (session?.openTurn ?? null);
  if (session === null || turn === null || openTurn === null) {
    const pending = pendingOf(session);
    const asked = pending.find(({ reason }) => reason === "question")?.question ?? null;
    return { ...shown, messages: committed, pending, question: session?.session.pendingQuestion ?? asked };
  }
  // The session has the messages of steps that are committed, and the thread may have only its newest messages.
  const before = committed.slice(0, Math.max(0, openTurn.base - (session.length - committed.length)));
  return { ...shown, messages: [...before, ...turn.messages], pending: [], question: null };
}
