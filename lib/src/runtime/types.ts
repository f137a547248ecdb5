// What the durable runtime takes and gives.

import type { Budgets, Clock, Engine, JsonSchema, RequestOptions, RetryPolicy } from "../engine/internal.ts";
import type {
  JsonObject,
  Message,
  ModelName,
  ResponseFormat,
  RuntimeEvent,
  ToolMode,
  TurnEnd,
} from "../model/internal.ts";
import type { PieceTimings } from "./read/pieces.ts";
import type { LeaseTimings } from "./rows/lease.ts";
import type { HostStorage } from "./rows/storage.ts";
import type { Waits } from "./verbs/waits.ts";

export type RuntimeOptions = {
  /** The storage that holds every row: sessions, journals, events, inboxes and leases. */
  readonly host: HostStorage;
  /** What turns work with, by the names their rows keep. A turn that names none takes `default`. */
  readonly engines: { readonly [name: string]: Engine };
  /** `durable`: refuse to start over a storage that does not outlive the process. */
  readonly durability?: HostStorage["durability"];
  /** `false`: verbs only accept; a worker, here or elsewhere, drives. */
  readonly drive?: boolean;
  readonly clock?: Clock;
  /** Who this is among those that share the storage. */
  readonly owner?: string;
  readonly lease?: Partial<LeaseTimings>;
  /** How long the journal of a turn is kept after it has ended, for looking at it and for `export`; for ever where it is not said. Workers remove it. */
  readonly retentionMs?: number;
  /** How often what is being said is written down for readers in other processes; `false`: there are none. */
  readonly live?: Partial<PieceTimings> | false;
};

/** What a durable verb may say: JSON only. Functions come from the named engine, which every process that drives has. */
export type DurableOptions = RequestOptions & {
  /** The name of the engine; `default` where it is not said. */
  readonly engine?: string;
  /** The same verb under the same key is accepted once, whoever asks and how often; with anything else said it is a conflict. */
  readonly key?: string;
  /** What the session's version has to be. */
  readonly version?: number;
  /** How long calls may wait for somebody. */
  readonly waits?: Waits;
  readonly model?: ModelName;
  readonly responseFormat?: ResponseFormat;
  readonly output?: JsonSchema;
  readonly repair?: number;
  readonly adapterOptions?: JsonObject;
  readonly params?: JsonObject;
  readonly retry?: "default" | false | Partial<RetryPolicy>;
  readonly instructions?: string;
  readonly mode?: ToolMode;
  readonly toolTimeout?: number;
  readonly maxConcurrency?: number;
  readonly maxToolResultLength?: number;
  readonly onToolError?: "continue" | "halt";
  readonly onUnknownTool?: "error" | "answer";
  readonly onEmptyReply?: "complete" | "error";
  readonly maxTurns?: number;
  readonly turnLimitMessage?: string;
  readonly budgets?: Budgets;
  readonly structuredFinalize?: boolean;
  readonly structuredFinalizeNudge?: string;
};

export type StartOptions = Omit<DurableOptions, "metadata"> & {
  /** Its name; where it is not said, the one that follows from the key, or one nobody can guess. */
  readonly id?: string;
  /** Handed to tool handlers. */
  readonly context?: JsonObject;
  /** Of the session. */
  readonly metadata?: JsonObject;
};

/** A turn that has been accepted. */
export type TurnHandle = {
  readonly sessionId: string;
  /** `null`: nothing was begun, because somebody still has to say something. */
  readonly turnId: string | null;
  /** What happens in it, from its beginning. Leaving only detaches; it can be read as often as one likes. */
  readonly events: AsyncIterable<RuntimeEvent>;
  /** What it comes to, wherever it is driven. */
  readonly result: Promise<TurnEnd>;
};

/** What is said while a turn runs: words, a message, one that history does not keep, or something that happened elsewhere. */
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
