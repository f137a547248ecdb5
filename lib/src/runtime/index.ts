// The door of the durable runtime: the verbs, and what a host has to be.

export type {
  Cancelled,
  LedgerSum,
  OpenTurnView,
  Page,
  Recovered,
  RuntimeEvent,
  SessionSummary,
  SessionView,
  TurnEnd,
  TurnStatus,
  Withdrawn,
} from "../model/internal.ts";
export type { Cursor, Position } from "./read/cursor.ts";
export type { Lease, LeaseTimings } from "./rows/lease.ts";
export type { PieceTimings } from "./read/pieces.ts";
export type { ReplayedTurn, ReplayOptions, TurnRecord } from "./verbs/record.ts";
export type { Runtime } from "./runtime.ts";
export type { CancelOptions } from "./verbs/cancel.ts";
export type { Completion, TokenAnswer } from "./verbs/tokens.ts";
export type { Batch, Check, Key, KeyPart, Put, Query, Removal, Row, HostStorage, Written } from "./rows/storage.ts";
export type { Column, TableName } from "./rows/tables.ts";
export type { DurableOptions, EventOptions, RuntimeOptions, StartOptions, SteerInput, TurnHandle } from "./types.ts";
export type { WaitPolicy, Waits } from "./verbs/waits.ts";

export { parseCursor, renderCursor } from "./read/cursor.ts";
export { divergentPaths } from "./drive/divergence.ts";
export { replayTurn } from "./verbs/record.ts";
export { runtime } from "./runtime.ts";
export { sessionName } from "./rows/storage.ts";
export { tables } from "./rows/tables.ts";
