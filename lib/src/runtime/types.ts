// What the durable runtime takes and gives.

import type { ChatOptions, Clock, Engine, JsonSchema, OptionsWith } from "../engine/internal.ts";
import type { JsonObject, Message, RuntimeEvent, TurnEnd } from "../model/internal.ts";
import type { PieceTimings } from "./read/pieces.ts";
import type { LeaseTimings } from "./rows/lease.ts";
import type { HostStorage } from "./rows/storage.ts";
import type { Waits } from "./verbs/waits.ts";

/** Options of {@link runtime}. `host` and `engines` are required. */
export type RuntimeOptions = {
  /** The storage that holds every row: sessions, journals, events, inboxes and leases. */
  readonly host: HostStorage;
  /** Engines by name. Turns store the name; a turn without one uses `default`. */
  readonly engines: { readonly [name: string]: Engine };
  /** `durable` rejects a storage that does not outlive the process. No requirement by default. */
  readonly durability?: HostStorage["durability"];
  /** `false`: verbs only accept turns, and a worker drives them. Default: true. */
  readonly drive?: boolean;
  /** Time and randomness. Default: the system clock. */
  readonly clock?: Clock;
  /** The name of this process in lease rows. Default: random. */
  readonly owner?: string;
  /**
   * `ttlMs`: how long a lease lasts (default 30,000); `renewMs`: how often it is renewed (default 10,000). A lease
   * must last at least three renewals.
   */
  readonly lease?: Partial<LeaseTimings>;
  /**
   * How often a turn may be taken over after an expired lease without any progress. Default: 5. At the limit the turn is parked, and its failure
   * (`takeover_limit`) names the effect it was in: a tool that ends or blocks its process cannot do so for ever.
   */
  readonly maxTakeovers?: number;
  /** How many turns this process drives at once, however they were started. Default: 4,096. Further turns are accepted and wait for a free place. */
  readonly maxActiveTurns?: number;
  /**
   * How long the journal of a turn is kept after its end, for `export`, in milliseconds. Kept forever by default.
   * Workers remove it.
   */
  readonly retentionMs?: number;
  /**
   * How often live text is written for readers in other processes: every `everyMs` (default 50) or `bytes`
   * (default 4,096). `false` disables it.
   */
  readonly live?: Partial<PieceTimings> | false;
};

type StoredOption = OptionsWith<{ readonly durable: "stored" }>;

/** Options that durable verbs take in a JSON form only. */
type JsonForms = {
  readonly output: JsonSchema;
  readonly onToolError: "continue" | "halt";
};

/** Options of a run that are stored with the turn, all of them JSON. Functions come from the named engine, which every driving process has. */
type StoredRunOptions = {
  readonly [Name in keyof Pick<ChatOptions, StoredOption>]: Name extends keyof JsonForms
    ? JsonForms[Name]
    : ChatOptions[Name];
};

/** Options of durable verbs that are not options of the run. `verbOptionTable` has a row for each. */
export type VerbOptions = {
  /** The name of the engine. Default: `"default"`. */
  readonly engine?: string;
  /** Idempotency key: a verb is accepted once per key. Repeating the key with another verb or other arguments is a conflict. */
  readonly key?: string;
  /** The verb is refused with a conflict unless the session has this version. */
  readonly version?: number;
  /** How long tool calls may wait for an answer, by the reason they wait. */
  readonly waits?: Waits;
};

/**
 * Options of the durable verbs. They are stored with the turn, so they are JSON only; functions come from the
 * named engine, which every driving process must have.
 */
export type DurableOptions = StoredRunOptions & VerbOptions;

/** Options of `start` only. */
export type SessionFields = {
  /** The id of the session. Default: derived from `key`, or random. */
  readonly id?: string;
  /** Passed to tool handlers. */
  readonly context?: JsonObject;
  /** Metadata of the session. */
  readonly metadata?: JsonObject;
};

/** Options of `start`: those of the other durable verbs, and id, context and metadata of the new session. */
export type StartOptions = Omit<DurableOptions, "metadata"> & SessionFields;

/** An accepted turn: its events and its result, whichever process drives it. */
export type TurnHandle = {
  /** The id of the session. */
  readonly sessionId: string;
  /** The id of the turn; `null` if none was started because calls are still pending. */
  readonly turnId: string | null;
  /**
   * The events of the turn from its start. Leaving the iteration detaches the reader and does not affect the turn.
   * It can be iterated several times.
   */
  readonly events: AsyncIterable<RuntimeEvent>;
  /** The result of the turn, whichever process drives it. */
  readonly result: Promise<TurnEnd>;
};

/**
 * Input for a turn that is running: text, a message, a transient message that the history does not keep, or an
 * event from outside.
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

/** Which events to read. */
export type EventOptions = {
  /** From behind this cursor; from the first event where it is not said. */
  readonly after?: string;
  /** Only those of one turn, until it has ended. */
  readonly turnId?: string;
  /** `false`: what there is by now, and no more. */
  readonly follow?: boolean;
  readonly signal?: AbortSignal;
};
