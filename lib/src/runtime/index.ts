// Entry point `everturn/runtime`: the durable runtime, and the storage contract that a host implements.

export type {
  Cancelled,
  LedgerSum,
  ForkOrigin,
  LimitWait,
  Overview,
  Page,
  Recovered,
  RuntimeEvent,
  SessionFilter,
  SearchHit,
  SessionSummary,
  SessionView,
  TurnEnd,
  Withdrawn,
} from "../model/internal.ts";
export type { Driven, DriveOptions } from "./verbs/drive-session.ts";
export type { ForkOptions } from "./verbs/fork.ts";
export type { OverviewOptions } from "./verbs/overview.ts";
export type { SearchOptions } from "./verbs/search.ts";
export type { Swept, SweepOptions } from "./verbs/sweep.ts";
export type { WorkOptions } from "./verbs/work.ts";
export type { ReplayedTurn, TurnRecord, TurnRecordPart } from "./verbs/record.ts";
export type { OpenTurnReplay } from "./verbs/replay-open.ts";
export type { Runtime } from "./runtime.ts";
export type {
  Batch as StorageBatch,
  Query as StorageQuery,
  Row as StorageRow,
  HostStorage,
  Liveness,
  StorageHit,
  StorageSearch,
  TableSize,
} from "./rows/storage.ts";
export type { Limit, RuntimeLimits } from "./rows/limits.ts";
export type { Completion } from "./verbs/tokens.ts";
export type {
  DurableOptions,
  MessageOptions,
  RuntimeOptions,
  StartOptions,
  SteerInput,
  TurnFailure,
  TurnHandle,
} from "./types.ts";

export { replayTurn } from "./verbs/record.ts";
export { replayOpenTurns } from "./verbs/replay-open.ts";
export { runtime } from "./runtime.ts";
export { sessionName } from "./rows/storage.ts";
export { tables as storageTables } from "./rows/tables.ts";
