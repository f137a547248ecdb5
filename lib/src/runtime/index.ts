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
} from "../model/index.ts";
export type { Host } from "./context.ts";
export type { Cursor, Position } from "./cursor.ts";
export type { Lease, LeaseTimings } from "./lease.ts";
export type { PieceTimings } from "./pieces.ts";
export type { ReplayedTurn, ReplayOptions, TurnRecord } from "./record.ts";
export type { Runtime } from "./runtime.ts";
export type { CancelOptions } from "./steering.ts";
export type { Completion, TokenAnswer } from "./tokens.ts";
export type { Batch, Check, Key, KeyPart, Put, Query, Removal, Row, HostStorage, Written } from "./storage.ts";
export type { Column, TableName } from "./tables.ts";
export type { DurableOptions, EventOptions, RuntimeOptions, StartOptions, SteerInput, TurnHandle } from "./types.ts";
export type { WaitPolicy, Waits } from "./waits.ts";

export { parseCursor, renderCursor } from "./cursor.ts";
export { divergentPaths } from "./divergence.ts";
export { replayTurn } from "./record.ts";
export { runtime } from "./runtime.ts";
export { sessionName } from "./storage.ts";
export { tables } from "./tables.ts";
