// Names that sibling folders of lib/src use besides the public ones. This is not an entry point of the package: nothing listed here is covered by
// the rules for public names, and any of it can change in any release.

export * from "./index.ts";

export type { EventOptions } from "./types.ts";

// drive
export { divergentPaths } from "./drive/divergence.ts";

// read
export { parseCursor } from "./read/cursor.ts";

// rows
export type { Check, Key, Put, Written } from "./rows/storage.ts";
export { readValue } from "./rows/stored.ts";
export type { TableName } from "./rows/tables.ts";
export type { JournalRow } from "./rows/values.ts";

// verbs
export type { VerbOptionsWith } from "./verbs/durable-options.ts";
export { verbOptionTable } from "./verbs/durable-options.ts";
export type { TokenAnswer } from "./verbs/tokens.ts";
export type { WaitPolicy, Waits } from "./verbs/waits.ts";

// Public as StorageBatch, StorageQuery and StorageRow.
export type { Batch, Query, Row } from "./rows/storage.ts";
