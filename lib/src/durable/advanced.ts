// The names of this folder that `everturn/advanced` exports: the contract of a storage, and what operators do.

export type { SteerInput } from "./drive/types.ts";
export type { Completion } from "./accept/tokens.ts";
export type { AuditPageOptions } from "./rows/audit.ts";
export type {
  Batch as StorageBatch,
  Liveness,
  Query as StorageQuery,
  Row as StorageRow,
  StorageHit,
  StorageSearch,
  TableSize,
} from "./rows/storage.ts";
export type { Driven, DriveOptions } from "./work/drive-session.ts";
export type { FinalizedStorage } from "./work/finalize.ts";
export type { ForkOptions } from "./sessions/fork.ts";
export type { Swept, SweepOptions } from "./work/sweep.ts";

export { sessionName } from "./rows/storage.ts";
export { tables as storageTables } from "./rows/tables.ts";
