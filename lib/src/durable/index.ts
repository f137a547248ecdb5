// Entry point `everturn/runtime`: the durable runtime, the storage in memory, and the storage contract that a host
// implements.

export type {
  AuditAction,
  AuditEntry,
  Cancelled,
  LedgerSum,
  ForkOrigin,
  LimitWait,
  Page,
  Recovered,
  RuntimeEvent,
  SessionFilter,
  SessionSummary,
  SessionView,
  TurnEnd,
  Withdrawn,
} from "../core/model/internal.ts";
export type { Driven, DriveOptions } from "./work/drive-session.ts";
export type { FinalizedStorage } from "./work/finalize.ts";
export type { ForkOptions } from "./sessions/fork.ts";
export type { Swept, SweepOptions } from "./work/sweep.ts";
export type { WorkOptions } from "./work/work.ts";
export type { ReplayedTurn, TurnRecord } from "./replay/replay-turn.ts";
export type { OpenTurnReplay } from "./replay/replay-open.ts";
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
export type { AuditPageOptions } from "./rows/audit.ts";
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

export type { MemoryOptions } from "./host/memory/memory.ts";
export { memoryStorage } from "./host/memory/memory.ts";
export { finalizeStorage } from "./work/finalize.ts";
export { replayTurn } from "./replay/replay-turn.ts";
export { replayOpenTurns } from "./replay/replay-open.ts";
export { runtime } from "./runtime.ts";
export { sessionName } from "./rows/storage.ts";
export { tables as storageTables } from "./rows/tables.ts";
