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
} from "../core/model/internal.ts";
export type { Driven, DriveOptions } from "./work/drive-session.ts";
export type { FinalizedStorage } from "./work/finalize.ts";
export type { ForkOptions } from "./sessions/fork.ts";
export type { OverviewOptions } from "./inspect/overview.ts";
export type { SearchOptions } from "./inspect/search.ts";
export type { Swept, SweepOptions } from "./work/sweep.ts";
export type { WorkOptions } from "./work/work.ts";
export type { ReplayedTurn, TurnRecord, TurnRecordPart } from "./inspect/record.ts";
export type { OpenTurnReplay } from "./inspect/replay-open.ts";
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
export type { Completion } from "./accept/tokens.ts";
export type {
  DurableOptions,
  MessageOptions,
  RuntimeOptions,
  StartOptions,
  SteerInput,
  TurnFailure,
  TurnHandle,
} from "./drive/types.ts";

export { finalizeStorage } from "./work/finalize.ts";
export { replayTurn } from "./inspect/record.ts";
export { replayOpenTurns } from "./inspect/replay-open.ts";
export { runtime } from "./runtime.ts";
export { sessionName } from "./rows/storage.ts";
export { tables as storageTables } from "./rows/tables.ts";
