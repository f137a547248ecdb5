// Names of this folder that sibling folders of lib/src import. Not an entry point of the package: any release may
// change this list.

export type { TurnRecordPart } from "./export-turn.ts";
export type { Inspection } from "./inspection.ts";
export { inspection } from "./inspection.ts";
export { readTurnRecord } from "./read-record.ts";
