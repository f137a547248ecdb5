// What storages and middleware import from the runtime: the storage contract, the table definitions, digests and the
// words of messages. It is separate from `internal.ts` so that loading them does not load the runtime. Not an entry
// point of the package.

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
  StorageHit,
  StorageSearch,
  TableSize,
  Written,
} from "./storage.ts";
export { sha256 } from "./digest.ts";
export { firstFormat, formatPut, formatQuery } from "./format-row.ts";
export { foldedWords, largeTextsOf, maxIndexedLength, wordsOfEntry } from "./message-words.ts";
export { sessionName } from "./storage.ts";
export { workPutOf } from "./former-index.ts";
export type { Column, TableName } from "./tables.ts";
export { tableNames, tables } from "./tables.ts";
export type { WorkItem } from "./work.ts";
export { retainedSession, retainedTurn, workPut } from "./work.ts";
