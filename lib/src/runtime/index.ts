// The door of the durable runtime: the verbs, and what a host has to be.

export type { Host } from "./context.ts";
export type { Cursor, Position } from "./cursor.ts";
export type { Lease, LeaseTimings } from "./lease.ts";
export type { PieceTimings } from "./pieces.ts";
export type { RuntimeEvent } from "./reader.ts";
export type { LedgerSum } from "./browse.ts";
export type { ReplayedTurn, ReplayOptions, TurnRecord } from "./record.ts";
export type { Recovered } from "./recovery.ts";
export type { Runtime } from "./runtime.ts";
export type { CancelOptions, Cancelled, Withdrawn } from "./steering.ts";
export type { Completion, TokenAnswer } from "./tokens.ts";
export type { Batch, Check, Key, KeyPart, Put, Query, Removal, Row, HostStorage, Written } from "./storage.ts";
export type { TurnStatus } from "./stored.ts";
export type { Column, TableName } from "./tables.ts";
export type {
  DurableOptions,
  EventOptions,
  OpenTurnView,
  Page,
  RuntimeOptions,
  SessionSummary,
  SessionView,
  StartOptions,
  SteerInput,
  TurnEnd,
  TurnHandle,
} from "./types.ts";
export type { WaitPolicy, Waits } from "./waits.ts";

export { parseCursor, renderCursor } from "./cursor.ts";
export { divergentPaths } from "./divergence.ts";
export { replayTurn } from "./record.ts";
export { runtime } from "./runtime.ts";
export { tables } from "./tables.ts";
