// Names of this folder that sibling folders of lib/src import besides the public ones. Not an entry point of the
// package: the rules for public names do not cover this list, and any release may change it.

export * from "./index.ts";
export * from "./advanced.ts";

export type { AnswerOptions } from "./drive/types.ts";

// drive
export { readOne } from "./drive/context.ts";
export { readDiscarded } from "./drive/discarded-texts.ts";
export { divergentPaths } from "./drive/divergence.ts";
export { headOf, limitWaitOf, sessionKey, visibleStatus } from "./drive/session-rows.ts";
export { oneLine } from "./drive/warn-turn-failure.ts";

// read
export { parseCursor } from "./read/cursor.ts";
export { pageLength, readsAtOnce } from "./read/page-budget.ts";

// replay
export { rebuildRequest } from "./replay/rebuild-request.ts";
export { readRecord } from "./replay/replay-turn.ts";

// rows
export { auditRow } from "./rows/audit.ts";
export type { Changes } from "./rows/batch.ts";
export { merge } from "./rows/batch.ts";
export { randomText, sha256 } from "./rows/digest.ts";
export { withFormat } from "./rows/format.ts";
export { rowLength, withLargeValues } from "./rows/large-values.ts";
export { epochOf, nextToken, tenYearsMs } from "./rows/lease.ts";
export { isLimitKey, limitKeyRule } from "./rows/limits.ts";
export { foldedWords, foldWord, maxIndexedLength, wordPattern } from "./rows/message-words.ts";
export type { Rollup } from "./rows/values.ts";
export {
  addRollups,
  allTenants,
  fiveMinutes,
  forAllTenants,
  oneHour,
  periodOf,
  rollupKey,
  sumView,
  tenantScope,
  toolView,
  totalOf,
} from "./rows/rollup.ts";
export type { SessionKey } from "./rows/session-key.ts";
export { keyOf, turnKey } from "./rows/session-key.ts";
export { storageClock } from "./rows/storage-clock.ts";
export type { Batch, Check, Key, Put, Query, Row, Written } from "./rows/storage.ts";
export { readValue, writeValue } from "./rows/stored.ts";
export { workItem } from "./rows/work.ts";
export type { TableName } from "./rows/tables.ts";
export type { JournalRow, SessionHead, TurnProgress, TurnStart } from "./rows/values.ts";

export { longestCallerName } from "./runtime.ts";

// work
export { fineMs, fineQuery, foldRollups, keepMs, readable } from "./work/fold-rollups.ts";

// verbs
export { branchId, isForkOfChat } from "./sessions/branches.ts";
export type { SessionChoice } from "./sessions/browse.ts";
export { readableHead } from "./sessions/browse.ts";
export { summary as sessionSummary } from "./sessions/session-summary.ts";
export type { VerbOptionsWith } from "./drive/durable-options.ts";
export { verbOptionTable } from "./drive/durable-options.ts";
export type { TokenAnswer } from "./accept/tokens.ts";
export { defaultTokenMs } from "./accept/tokens.ts";
