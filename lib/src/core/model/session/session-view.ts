// The values that the durable runtime returns about sessions and turns, and that its HTTP API sends. They are here, in
// the lowest layer, so that a client in a browser has the same types as the server without importing the runtime.

import type { ModelReply } from "../call/reply.ts";
import type { Usage } from "../call/usage.ts";
import type { Failure } from "../failure/failure.ts";
import type { Json, JsonObject } from "../parse/json.ts";
import type { WordOf } from "../parse/shape.ts";
import type { PendingToolCall } from "../tool/pending.ts";
import type { Attempt, TurnEvent } from "../turn/event.ts";
import type { HaltedReason, TurnOutcome } from "../turn/outcome.ts";
import type { Session } from "./session.ts";

/** An event of a session, as readers of the runtime receive it. `cursor` resumes reading after this event. */
export type RuntimeEvent = {
  /** Pass it to `events` to continue reading after this event. */
  readonly cursor: string;
  /** The turn that emitted the event. */
  readonly turnId: string;
  /** The position in the stored event log; `null` for a live event, which is not stored. */
  readonly sequence: number | null;
  /** For a text delta: the attempt, the part of the reply, and the offset of the delta in the text of that part. */
  readonly delta: { readonly attempt: Attempt; readonly part: string; readonly offset: number } | null;
  /** The event itself. */
  readonly event: TurnEvent;
};

/**
 * The result of a turn. The status `parked` means that the runtime does not continue the turn by itself, for example
 * because its replay diverged from its record; `waiting` means that pending calls need an answer first. `Output` is the
 * type of the structured output.
 */
export type TurnEnd<Output = Json> = {
  /** The id of the turn; `null` if no turn was started. */
  readonly turnId: string | null;
  /** `failure` holds the reason of `parked`. */
  readonly status: "ended" | "parked" | "waiting";
  /** The text of the answer, or of a cancelled turn the text that was received; empty without one. */
  readonly text: string;
  /** The structured output, validated with the schema of the option `output`; `null` if the turn has none. */
  readonly output: Output | null;
  /** Why the turn ended. `completed`: the model answered. */
  readonly haltedReason: HaltedReason;
  /** How the turn ended, with its details. */
  readonly outcome: TurnOutcome;
  /** The last reply; `null` if the turn ended before any reply. */
  readonly finalResponse: ModelReply | null;
  /** The number of steps. */
  readonly steps: number;
  /** Tokens and cost of the turn. */
  readonly usage: Usage;
  /** Details about the end of the turn. */
  readonly metadata: JsonObject;
  /** The failure of a failed or parked turn; otherwise `null`. */
  readonly failure: Failure | null;
  /** The session after the turn, without messages; `get` returns those. */
  readonly session: SessionSummary;
};

/** A session in a list: its status and what it waits for, without messages. */
export type SessionSummary = {
  /** The id of the session. */
  readonly id: string;
  /**
   * `metadata.title` if it is a text, else the beginning of the first user message: one line of at most 120 characters.
   * `null`: there is neither, or an older release created the session.
   */
  readonly title: string | null;
  /** The name of the engine of the newest turn; `null`: no turn was started, or by an older release. */
  readonly engine: string | null;
  /**
   * The caller that the session belongs to (`calledBy` of the runtime); `null`: a program started it, or an older
   * release.
   */
  readonly owner: string | null;
  /**
   * The callers whose input the newest turn has: the one that started it, and those of the turns that it continues.
   * Empty: no caller did, or an older release.
   */
  readonly startedBy: readonly string[];
  /** What the session waits for, as of its last committed turn. `turnStatus` is the state of the open turn. */
  readonly status: Session["status"];
  /** The number of changes. Pass it to a verb to detect a concurrent change. */
  readonly version: number;
  /** The number of messages. */
  readonly length: number;
  /** The calls that wait for an answer or an approval. */
  readonly pendingToolCalls: readonly PendingToolCall[];
  /** The question that waits for an answer; `null` if there is none. */
  readonly pendingQuestion: string | null;
  /** Tokens and cost of all turns. */
  readonly usage: Usage;
  /** Metadata of the session. */
  readonly metadata: JsonObject;
  /** The open turn; `null` if there is none. */
  readonly turnId: string | null;
  /** The state of the open turn: `running` while a process drives it, `queued` or `parked`; `null` if there is none. */
  readonly turnStatus: TurnStatus | null;
  /** The limit that the open turn waits for; `null` if it waits for none. */
  readonly limitWait: LimitWait | null;
  /** The session that this one was forked from; `null`: it is no fork. */
  readonly forkedFrom: ForkOrigin | null;
  /** In milliseconds since 1970-01-01 UTC. */
  readonly createdAt: number;
  /**
   * The time of the last change, in milliseconds since 1970-01-01 UTC: a verb changed the session, or a turn began,
   * ended or was parked. The steps of a turn do not count.
   */
  readonly changedAt: number;
};

/** Which sessions `list` returns. */
export type SessionFilter = {
  /**
   * `running`: a turn is open and not parked. `parked`: the open turn is parked. Without an open turn: `waiting` for an
   * answer, an approval or a result; `failed`: the session needs `recover`; `ended`: it waits for the next message.
   * Default: all.
   */
  readonly status?: SessionFilterStatus;
  /** The name of the engine of the newest turn. Default: all. */
  readonly engine?: string;
  /** The caller that the session belongs to. Default: all. */
  readonly owner?: string;
  /** Values that the metadata has: texts as they are, other values as JSON. Default: all. */
  readonly metadata?: { readonly [name: string]: string };
};

/** A status that `list` selects. */
export type SessionFilterStatus = (typeof sessionFilterStatuses)[number];
export const sessionFilterStatuses = ["running", "waiting", "failed", "parked", "ended"] as const;

/** A session as of its last committed turn, and its open turn if there is one. */
export type SessionView = {
  /** The session, with the requested number of messages. */
  readonly session: Session<JsonObject>;
  /** The number of changes. Pass it to a verb to detect a concurrent change. */
  readonly version: number;
  /** The number of messages. The thread holds the newest of them, or all. */
  readonly length: number;
  /** The name of the engine that the session continues with. */
  readonly engine: string;
  /**
   * The caller that the session belongs to (`calledBy` of the runtime); `null`: a program started it, or an older
   * release.
   */
  readonly owner: string | null;
  /**
   * The callers whose input the newest turn has: the one that started it, and those of the turns that it continues.
   * Empty: no caller did, or an older release.
   */
  readonly startedBy: readonly string[];
  /** The turn that is running, queued or parked; `null` if there is none. */
  readonly openTurn: OpenTurnView | null;
  /**
   * The ids of the turns that queued messages will start, in order of arrival. A turn is removed from the list when it
   * starts.
   */
  readonly queuedTurns: readonly string[];
  /** The session that this one was forked from; `null`: it is no fork. */
  readonly forkedFrom: ForkOrigin | null;
};

/**
 * Where a fork comes from. `fork` stores it in the metadata of the new session, as `forkedFrom`. The original may have
 * been deleted since.
 */
export type ForkOrigin = {
  readonly sessionId: string;
  /** The number of messages that were copied. */
  readonly at: number;
};

/** The open turn of a session. */
export type OpenTurnView = {
  readonly turnId: string;
  /** `running` while a process drives the turn, also before its first commit. */
  readonly status: TurnStatus;
  readonly step: number;
  readonly engine: string;
  /** The number of messages of the session before the turn: the index of the first message that the turn adds. */
  readonly base: number;
  /** Why the turn is parked; otherwise `null`. */
  readonly failure: Failure | null;
  /** The limit that the turn waits for; `null` if it waits for none. */
  readonly limitWait: LimitWait | null;
};

/** A turn that was accepted and waits because a limit of the runtime is reached. Its status is `queued`. */
export type LimitWait = {
  /**
   * What the limit counts: the turns of an engine, of a tenant, or of a limit key. A turn may be subject to several
   * limits; this is one that it waits for.
   */
  readonly limit: "engine" | "tenant" | "key";
  /** Since when the turn waits, in milliseconds since 1970-01-01 UTC. */
  readonly since: number;
};

/** One page of a list (cursor pagination). */
export type Page<T> = {
  readonly items: readonly T[];
  /** The cursor of the next page; `null` on the last page. */
  readonly next: string | null;
};

/** The state of a turn. `parked`: the runtime does not continue it until `recover` or `cancel` is called. */
export type TurnStatus = WordOf<typeof turnStatuses>;
export const turnStatuses = ["queued", "running", "ended", "parked"] as const;

/**
 * The result of `cancel`. `completion_won` means that the end of the turn was recorded before the cancel;
 * `nothing_open` that no turn was open; `stored` that the cancel is stored and the turn did not end within the time the
 * caller waits: the process that runs the turn, or the next one, ends it.
 */
export type Cancelled = "cancelled" | "completion_won" | "nothing_open" | "stored";

/**
 * The result of `withdraw`. `already_claimed` means that a checkpoint is accepting the input at this moment;
 * `already_taken` that a turn has accepted it.
 */
export type Withdrawn = "cancelled" | "already_claimed" | "already_taken" | "already_cancelled" | "not_found";

/**
 * The result of `recover`: how many turns continue, whether a failed session is usable again, and which effects
 * may run twice.
 */
export type Recovered = {
  /** The number of turns that continue. */
  readonly pickedUp: number;
  /** Whether a session in the status `error` can be used again. */
  readonly usable: boolean;
  /** Ids of effects that have a recorded result and will be performed again. */
  readonly mayRunTwice: readonly string[];
};

/** The usage of a session: in total, and by source and model. */
export type LedgerSum = {
  /** The sum of all lines. */
  readonly total: Usage;
  /** One line for each source (`model`, `tool`, `cancelled`) and model. */
  readonly lines: readonly { readonly source: string; readonly model: string | null; readonly usage: Usage }[];
};
