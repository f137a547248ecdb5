// Option and result types of the durable runtime, as far as they are part of its public interface. `runtime.ts` lists
// the verbs that take them. Options that are stored with a turn are JSON only: another process may have to build the
// same turn from its row.

import type { ChatOptions, Clock, Engine, OptionsWith, OutputSchema, WhenBusy } from "../../core/engine/internal.ts";
import type { Failure, Json, JsonObject, Message, RuntimeEvent, TurnEnd, Waits } from "../../core/model/internal.ts";
import type { PieceTimings } from "../read/pieces.ts";
import type { LeaseTimings } from "../rows/lease.ts";
import type { RuntimeLimits } from "../rows/limits.ts";
import type { HostStorage } from "../rows/storage.ts";

/** Options of {@link runtime}. `host` and `engines` are required. */
export type RuntimeOptions = {
  /** The storage that holds every row: sessions, journals, events, inboxes and leases. */
  readonly host: HostStorage;
  /**
   * Engines by name. A turn stores the name of its engine, not the engine, so every process that drives turns must be
   * given an engine under each name in use. A turn that names no engine uses `default`. At least one engine is
   * required.
   */
  readonly engines: { readonly [name: string]: Engine };
  /**
   * `"durable"`: building the runtime throws `volatile_storage` if the rows of `host` do not outlive the process.
   * `"volatile"`, and the default, accept every storage.
   */
  readonly durability?: HostStorage["durability"];
  /**
   * Whether this process drives the turns that its verbs accept. `false`: verbs only store the turn, and a process that
   * calls `work` or `recover` drives it. Default: `true`.
   */
  readonly drive?: boolean;
  /**
   * Source of time, delays and random numbers. Default: the system clock. Tests pass a clock that they advance by hand.
   */
  readonly clock?: Clock;
  /**
   * The name of this process in lease rows, for diagnosis only: ownership is decided by the lease epoch. Default: a
   * random name.
   */
  readonly owner?: string;
  /**
   * Lease timings in milliseconds. `ttlMs`: how long a lease lasts without a renewal (default 30,000), and so how long
   * a turn stays unattended after its process has crashed. `renewMs`: how often the lease is renewed (default 10,000).
   * `ttlMs` must be at least `3 * renewMs` and at most ten years; other values throw `MisuseError`. While writes are
   * slow, a lease lasts for six of the slowest recent writes, up to two minutes, and is renewed less often.
   */
  readonly lease?: Partial<LeaseTimings>;
  /**
   * How often a turn may be taken over after an expired lease without adding a journal row. A whole number of 1 or
   * more; default: 5. At the limit the turn is parked, and its failure (`takeover_limit`) names the effects that were
   * open. The limit stops a tool that ends or blocks its process from doing so to all processes. From the second
   * takeover on, the process drives nothing else until the turn has recorded something, for at most one lease time,
   * which doubles with each takeover up to ten minutes; a turn that was driven beside others is parked at four times
   * the limit only, because one of those may have ended the process. With 1, a turn is parked at its first takeover,
   * whatever ended the process.
   */
  readonly maxTakeovers?: number;
  /**
   * How many turns this process drives at once, however they were started. A whole number of 1 or more; default: 4,096.
   * At the limit, further turns are accepted and stored; they are driven when a turn here ends, or by another process.
   * While writes to the storage are slow, the limit is lower: the writes of all turns, sent at once, have to be
   * answered within one renewal interval of the lease.
   */
  readonly maxActiveTurns?: number;
  /**
   * Limits of concurrent turns and of turns per time, by engine, tenant and limit key. They hold over all processes
   * that share the storage. A turn over a limit is accepted and waits; `get` and `list` report it (`limitWait`).
   * Default: no limits, which costs nothing.
   */
  readonly limits?: RuntimeLimits;
  /**
   * How long the journal and the events of a turn are kept after its end, in milliseconds. `export` needs the journal;
   * a reader that comes later gets no events of the turn. Messages, results and usage stay. Workers remove what has
   * expired, also of turns that ended before the option was set. Default: no limit (as is `Infinity`); the maximum is
   * ten years.
   */
  readonly retentionMs?: number;
  /**
   * How long a session is kept after its last change, in milliseconds. Then workers delete it, as `delete` does. A
   * session with an open turn, and one that waits for an answer, is kept for another such time. Default: no limit (as
   * is `Infinity`); the maximum is ten years.
   */
  readonly sessionRetentionMs?: number;
  /**
   * How often the text of unfinished replies is written for readers in other processes: every `everyMs` milliseconds
   * (default 50), and sooner when `bytes` characters per turn wait (default 4,096). `false`: such readers get each
   * reply when it is committed. Readers in this process do not depend on it.
   */
  readonly live?: Partial<PieceTimings> | false;
  /**
   * Called once for each turn that this process drove without success, also for turns that no caller waits for: for
   * logs and metrics. It is called after the commit that stores the failure. An error that it throws is ignored.
   * Default: one line to `console.warn`.
   */
  readonly onTurnFailure?: (report: TurnFailure) => void;
};

/**
 * A turn that this process drove without success; `onTurnFailure` of {@link RuntimeOptions} receives it. API keys are
 * redacted from failures.
 */
export type TurnFailure = {
  /** The tenant of the session; empty: the default tenant. */
  readonly tenant: string;
  /** The id of the session. */
  readonly sessionId: string;
  /** The id of the turn. */
  readonly turnId: string;
  /**
   * `failed`: the turn has ended with a failure. `parked`: no process can continue the turn until `recover`. `left`:
   * this process stopped at an error, for example of the storage; the turn is open, and a worker tries it again.
   * `call_not_run`: an approved call did not run, because the engine has its tool no longer; the call is answered
   * `not_found`, and the turn continues.
   */
  readonly status: "failed" | "parked" | "left" | "call_not_run";
  /**
   * The stored failure, with its cause; `null`: the turn was left because of an error that is no failure of this
   * library.
   */
  readonly failure: Failure | null;
  /** The error because of which the turn was left; `null` for a turn that failed or was parked. */
  readonly error: unknown;
};

type StoredOption = OptionsWith<{ readonly durable: "stored" }>;

/** Options that durable verbs take in a JSON form only. */
type JsonForms = {
  readonly onToolError: "continue" | "halt";
};

/**
 * Options of a run that are stored with the turn. All of them are JSON; functions come from the named engine, which
 * every driving process has. Derived from the rows of the option table whose `durable` is `stored`.
 */
type StoredRunOptions = {
  readonly [Name in keyof Pick<ChatOptions, Exclude<StoredOption, "output">>]: Name extends keyof JsonForms
    ? JsonForms[Name]
    : ChatOptions[Name];
};

/** The option `output` of the durable verbs. */
export type OutputOption<Output> = {
  /**
   * The schema of the answer: a Standard Schema (Zod, ArkType, Valibot) or a plain JSON Schema. It is stored with the
   * turn as JSON Schema, and the process that drives the turn validates the answer with that. `result` of the returned
   * handle also validates and converts `output` with the schema itself. Default: that of the engine.
   */
  readonly output?: OutputSchema<Output>;
};

/** Options of durable verbs that are not options of the run. `verbOptionTable` has a row for each. */
export type VerbOptions = {
  /**
   * The name of the engine. Default: that of the newest turn of the session; for `start`, `"default"`. Answers to
   * pending calls continue with the engine that made the calls, and reject another one.
   */
  readonly engine?: string;
  /**
   * JSON that tool handlers receive as their context in this turn, for sessions that several callers use. Default: the
   * context of the session, or of the turn that is continued.
   */
  readonly turnContext?: JsonObject;
  /**
   * Idempotency key. A verb is accepted once per key and session: a repeated call returns the turn of the first one.
   * Repeating the key with another verb or other arguments rejects with a conflict. Default: no key, so every call is
   * accepted.
   */
  readonly key?: string;
  /**
   * Optimistic concurrency: the verb rejects with a conflict unless the session has this version. Default: no check.
   */
  readonly version?: number;
  /**
   * What the limits per key count the turn under, for instance the id of a user (`perLimitKey` of
   * {@link RuntimeLimits}). Up to 256 characters; keys of different tenants are different. Stored with the turn: turns
   * that continue it have the same key. Default: that of `limitedBy`, else none.
   */
  readonly limitKey?: string;
  /** Deadlines for pending tool calls, by the reason for which they are pending. Default: no deadline. */
  readonly waits?: Waits;
};

/**
 * Options of the durable verbs. They are stored with the turn, so they are JSON only, except the schema of `output`,
 * which is converted; functions come from the named engine, which every driving process must have. A verb that
 * continues a turn that waits (for an answer or a decision) uses the options and the engine of that turn where the call
 * has none.
 */
export type DurableOptions<Output = Json> = StoredRunOptions & VerbOptions & OutputOption<Output>;

/** Options of the verbs that answer pending calls. */
export type AnswerOptions<Output = Json> = DurableOptions<Output> & {
  /** `false`: only records the answer; `continue` runs the turn. Default: `true`. */
  readonly continue?: boolean;
};

/** Options of `reply` and `send`. */
export type MessageOptions<Output = Json> = DurableOptions<Output> & {
  /**
   * What to do with the message while a turn is open: `"steer"` adds it to the turn at its next checkpoint; `"queue"`
   * makes it the next turn; `"interrupt"` cancels the turn and makes it the next turn, in one stored decision;
   * `"reject"` rejects with `conflict`. Without an open turn it has no effect. Not part of what `key` identifies.
   * Default: `whenBusy` of the engine of the open turn, otherwise `"reject"` for `reply` and `"steer"` for `send`.
   */
  readonly whenBusy?: WhenBusy;
};

/** Options of `start` only. */
export type SessionFields = {
  /** The id of the session. Default: derived from `key` if there is one, otherwise random. */
  readonly id?: string;
  /** JSON that tool handlers receive as their context; stored with the session. Default: `{}`. */
  readonly context?: JsonObject;
  /** Metadata of the session, which the library stores and does not interpret. Default: `{}`. */
  readonly metadata?: JsonObject;
};

/** Options of `start`: those of the other durable verbs, and the id, context and metadata of the new session. */
export type StartOptions<Output = Json> = Omit<StoredRunOptions, "metadata"> &
  VerbOptions &
  OutputOption<Output> &
  SessionFields;

/**
 * A handle on an accepted turn: its events and its result, whichever process drives it. Dropping the handle does not
 * affect the turn. `Output` is the type of the structured output.
 */
export type TurnHandle<Output = Json> = {
  /** The id of the session. */
  readonly sessionId: string;
  /** The id of the turn; `null` if no turn was started because tool calls of the session are still pending. */
  readonly turnId: string | null;
  /**
   * Whether the turn had neither ended nor was parked when the verb returned; a queued message counts as open. `null`:
   * not known, for handles of `attach`, which reads nothing.
   */
  readonly isOpen: boolean | null;
  /**
   * The events of the turn, from its first. Ending the iteration early detaches the reader and does not affect the turn
   * (H6). The iterable can be iterated several times; every iteration begins with the first event.
   */
  readonly events: AsyncIterable<RuntimeEvent>;
  /**
   * Resolves when the turn has ended or was parked, after the commit that says so is stored. Rejects if the process
   * that drives the turn is this one and it stopped or failed, and no other process has taken the turn over. Waiting
   * begins at the first access. An answer that fits the stored JSON Schema and is rejected by the schema of the caller
   * has `output: null` and the `failure` `invalid_output`.
   */
  readonly result: Promise<TurnEnd<Output>>;
};

/**
 * Input for the open turn. A string is a user message. `message`: a message that becomes part of the history.
 * `transient`: a message that the model sees in this turn only. `cause`: an event from outside the conversation,
 * rendered to the model as a turn cause.
 */
export type SteerInput =
  | string
  | { readonly type: "message"; readonly message: Message }
  | { readonly type: "transient"; readonly message: Message }
  | {
      readonly type: "cause";
      readonly cause: {
        readonly id: string;
        readonly eventType: string;
        readonly origin: NonNullable<Message["origin"]>;
        readonly text: string;
      };
    };

/** Selects the events that `events` reads. */
export type EventOptions = {
  /**
   * Reads the events after this cursor, which is the `cursor` of an earlier event. Default: from the first event of the
   * session.
   */
  readonly after?: string;
  /** Reads only the events of this turn, and completes when the turn has ended. Default: the events of all turns. */
  readonly turnId?: string;
  /** `false`: completes after the events that exist now. Default: `true`, which waits for new events. */
  readonly follow?: boolean;
  /** Ends the iteration without an error when it aborts. */
  readonly signal?: AbortSignal;
};
