// Names of this folder that sibling folders of lib/src import besides the public ones. Not an entry point of the package: the rules for
// public names do not cover this list, and any release may change it.

export * from "./index.ts";

export type { AnswerOptions, EventOptions } from "./drive/types.ts";

// drive
export { divergentPaths } from "./drive/divergence.ts";

// read
export { parseCursor } from "./read/cursor.ts";
export { ReadSlots } from "./read/page-budget.ts";

// rows
export { randomText } from "./rows/digest.ts";
export { epochOf, nextToken } from "./rows/lease.ts";
export { isLimitKey, limitKeyRule } from "./rows/limits.ts";
export type { Check, Key, Put, Written } from "./rows/storage.ts";
export { readValue } from "./rows/stored.ts";
export type { TableName } from "./rows/tables.ts";
export type { JournalRow } from "./rows/values.ts";

export { longestCallerName } from "./runtime.ts";

// verbs
export { branchId, isForkOfChat } from "./sessions/branches.ts";
export type { VerbOptionsWith } from "./drive/durable-options.ts";
export { verbOptionTable } from "./drive/durable-options.ts";
export type { TokenAnswer } from "./accept/tokens.ts";
export type { WaitPolicy, Waits } from "./rows/waits.ts";

// Public as StorageBatch, StorageQuery and StorageRow.
export type { Batch, Query, Row } from "./rows/storage.ts";
