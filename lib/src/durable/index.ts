// Entry point `everturn/runtime`: the durable runtime, and the storage in memory.

export type {
  AuditEntry,
  RuntimeEvent,
  SessionFilter,
  SessionSummary,
  SessionView,
  TurnEnd,
} from "../core/model/internal.ts";
export type { WorkOptions } from "./work/work.ts";
export type { ReplayedTurn, TurnRecord } from "./replay/replay-turn.ts";
export type { OpenTurnReplay } from "./replay/replay-open.ts";
export type { Runtime } from "./runtime.ts";
export type { HostStorage } from "./rows/storage.ts";
export type { Limit, RuntimeLimits } from "./rows/limits.ts";
export type {
  DurableOptions,
  MessageOptions,
  RuntimeOptions,
  StartOptions,
  TurnFailure,
  TurnHandle,
} from "./drive/types.ts";

export type { MemoryOptions } from "./host/memory/memory.ts";
export { memoryStorage } from "./host/memory/memory.ts";
export { finalizeStorage } from "./work/finalize.ts";
export { replayTurn } from "./replay/replay-turn.ts";
export { replayOpenTurns } from "./replay/replay-open.ts";
export { runtime } from "./runtime.ts";
