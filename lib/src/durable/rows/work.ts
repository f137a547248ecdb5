// The index of work: rows that say what a process has to do at a time, or when a slot is free. Pure.
//
//   reason      queue        lane     at                          item   what is done
//   turn        its engine   tenant   when a worker examines it   ""     the open turn of the session is driven
//   limit       a scope      tenant   since when it waits         ""     the open turn starts when the scope has a slot
//   deadline    ""           by hash  when the wait ends          call   the call is answered as its policy says
//   retention   ""           by hash  when it may be removed      turn   journal and events of the turn are removed
//                                                                 ""     the session is removed
//
// A queue is served by the processes that can do its work, for example those with the engine. The lanes of a queue are
// served round robin, so that the backlog of one does not delay the others. Turns have a lane for each tenant: few
// tenants have open turns at a time. Nearly every tenant has rows of the last two reasons, most of them due in days, so
// these have a fixed number of lanes, which tenants share: finding the lanes with due work then costs the same however
// many tenants there are.
//
// Invariant: a row only says where to look. Whoever handles it reads the rows of the session, which decide; a row that
// is out of date is removed.

import type { SessionKey } from "./session-key.ts";
import type { Key, Put, Removal, Row } from "./storage.ts";

import { fnv1a } from "./digest.ts";

/** Why a row is in the index. */
export type WorkReason = "turn" | "limit" | "deadline" | "retention";

/** A row of the index. */
export type WorkItem = {
  readonly reason: WorkReason;
  /** The engine of a turn, the scope of a limit, or "". */
  readonly queue: string;
  readonly key: SessionKey;
  /** In milliseconds, by the clock of the storage. */
  readonly at: number;
  /** The call or the turn; "": the row is about the open turn, or the session. */
  readonly item: string;
};

/** How many lanes the reasons have whose rows are due in days. */
const sharedLanes = 16;

/** The lanes of a reason; `null`: one for each tenant that has rows. */
export function lanesOf(reason: WorkReason): readonly string[] | null {
  return reason === "turn" || reason === "limit" ? null : allShared;
}

const allShared: readonly string[] = Array.from({ length: sharedLanes }, (_, lane) => String(lane));

/** The lane of the rows of a tenant. */
export function laneOf(reason: WorkReason, tenant: string): string {
  return lanesOf(reason) === null ? tenant : String(fnv1a(tenant) % sharedLanes);
}

/** The key of a row of the index. */
export function workKey({ reason, queue, key: { tenant, session }, at, item }: WorkItem): Key {
  return [reason, queue, laneOf(reason, tenant), at, tenant, session, item];
}

/** The item of a row that was read with this reason. */
export function workItem(reason: WorkReason, { key }: Pick<Row, "key">): WorkItem {
  const [, queue = "", , at = 0, tenant = "", session = "", item = ""] = key;
  return {
    reason,
    queue: String(queue),
    key: { tenant: String(tenant), session: String(session) },
    at: Number(at),
    item: String(item),
  };
}

/** The row of an item. */
export function workPut(item: WorkItem, { tag = 0, value = "" }: Partial<Pick<Put, "tag" | "value">> = {}): Put {
  return { table: "work", key: workKey(item), tag, value };
}

/** The removal of the row of an item. */
export function workRemoval(item: WorkItem): Removal {
  return { table: "work", prefix: workKey(item) };
}

/** The item of a turn whose journal and events expire. Deletion finds it by the start row, which has the time. */
export function retainedTurn(key: SessionKey, turn: string, acceptedAt: number): WorkItem {
  return { reason: "retention", queue: "turns", key, at: acceptedAt, item: turn };
}

/** The item of a session that expires. Deletion finds it by the session row, which has the time. */
export function retainedSession(key: SessionKey, createdAt: number): WorkItem {
  return { reason: "retention", queue: "sessions", key, at: createdAt, item: "" };
}
