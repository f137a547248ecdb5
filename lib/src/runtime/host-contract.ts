// What a host implementation imports from the runtime: the storage contract and the table definitions. It is separate from `internal.ts`
// so that loading a host does not load the runtime. Not an entry point of the package.

export type {
  Batch,
  Check,
  HostStorage,
  Key,
  KeyPart,
  Liveness,
  Put,
  Query,
  Removal,
  Row,
  TableSize,
  Written,
} from "./rows/storage.ts";
export { sessionName } from "./rows/storage.ts";
export type { Column, TableName } from "./rows/tables.ts";
export { tableNames, tables } from "./rows/tables.ts";
