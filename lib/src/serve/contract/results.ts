// What operations return: each result by its name, as a type. result-schemas.ts has their JSON Schemas.

import type {
  AuditEntry,
  Cancelled,
  Compaction,
  EffectDetail,
  EngineView,
  Failure,
  HistoryFrame,
  JsonObject,
  LedgerSum,
  Message,
  Overview,
  Page,
  PendingToolCall,
  Recovered,
  RequestView,
  RuntimeEvent,
  SearchHit,
  SessionSummary,
  SessionView,
  TimelineEffect,
  TurnEnd,
  TurnSummaryView,
  TurnTimeline,
  Usage,
  UserMessage,
  Withdrawn,
  WorkerView,
} from "../../core/model/internal.ts";
import type { Scope } from "./operation.ts";
import type { Described } from "./schema.ts";
import type { ServerView } from "./server-view.ts";

/** A turn record as one JSON value; `replayTurn` of `everturn/testing` replays it. */
type ExportedTurn = { readonly everturn: "turn_record"; readonly version: number; readonly data: JsonObject };

/**
 * The result of `complete`. `revoked`: the call is no longer pending, or has other arguments. `expired`: the token has
 * expired.
 */
export type Completed = "completed" | "already_completed" | "revoked" | "expired" | "unknown";

/** An API key without its secret. */
export type KeyView = {
  readonly id: string;
  readonly name: string;
  /** `null`: the key names no tenant. */
  readonly tenant: string | null;
  /** `null`: all, and `admin` for operators only. */
  readonly scopes: readonly Scope[] | null;
  /** `null`: all. */
  readonly engines: readonly string[] | null;
  readonly operator: boolean;
  readonly context: JsonObject;
  /** In milliseconds, by the clock of the storage. */
  readonly createdAt: number;
  /** `null`: the key does not expire. */
  readonly expiresAt: number | null;
  readonly state: "valid" | "expired" | "revoked";
};

/** A list that has one page. */
type Items<T> = { readonly items: readonly T[] };

/** The results by their names in the OpenAPI document. */
export type Results = {
  readonly UserMessage: UserMessage;
  readonly Message: Message;
  readonly Usage: Usage;
  readonly PendingToolCall: PendingToolCall;
  readonly Failure: Failure;
  readonly Error: { readonly error: Failure };
  readonly SessionSummary: SessionSummary;
  readonly SessionPage: Page<SessionSummary>;
  readonly MessagePage: Page<Message>;
  readonly SessionView: SessionView;
  readonly SessionId: { readonly id: string };
  readonly Compaction: Compaction;
  readonly FramePage: Page<HistoryFrame>;
  readonly LedgerSum: LedgerSum;
  readonly Recovered: Recovered;
  readonly TurnAccepted: { readonly sessionId: string; readonly turnId: string };
  readonly TurnEnd: TurnEnd;
  readonly Event: Omit<RuntimeEvent, "cursor">;
  readonly TurnRecord: ExportedTurn;
  readonly CancelAnswer: { readonly result: Cancelled };
  readonly SteerAnswer: { readonly inputId: string; readonly turnId: string };
  readonly WithdrawAnswer: { readonly result: Withdrawn };
  readonly TokenAnswer: {
    readonly token: string;
    readonly sessionId: string;
    readonly toolCallId: string;
    /** How long the token is valid, in milliseconds. */
    readonly expiresInMs: number;
  };
  readonly CompletionAnswer: {
    readonly result: Completed;
    /** The call of the token; `null`: there is no such token. */
    readonly sessionId: string | null;
    readonly toolCallId: string | null;
  };
  readonly ServerView: ServerView;
  readonly EngineList: Items<EngineView>;
  readonly TurnPage: Page<TurnSummaryView>;
  readonly TurnSummary: TurnSummaryView;
  readonly Timeline: TurnTimeline;
  readonly TimelineEffect: TimelineEffect;
  readonly EffectDetail: EffectDetail;
  readonly RequestView: RequestView;
  readonly WorkerList: Items<WorkerView>;
  readonly ScenarioStarted: { readonly sessionId: string };
  readonly Overview: Overview;
  readonly SearchHitList: Items<SearchHit>;
  readonly StoredKey: KeyView;
  readonly KeyList: Items<KeyView>;
  readonly NewKey: { readonly key: KeyView; readonly token: string };
  readonly AuditPage: Page<AuditEntry>;
  readonly TenantPage: Page<string>;
  readonly DeletedSessions: { readonly sessions: number; readonly keys: number };
  readonly Health: { readonly status: "ok" };
};

/** A reference to a result. */
export function resultRef<N extends keyof Results>(name: N): Described<Results[N]> {
  return { schema: { $ref: `#/components/schemas/${name}` } };
}
