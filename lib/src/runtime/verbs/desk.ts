// What every verb stands at: one tenant of one runtime, and the sessions it can see.

import type { TurnHistory } from "../../kernel/internal.ts";
import type { JsonObject, Message, OpenTurnView, Session } from "../../model/internal.ts";
import type { RuntimeContext, SessionKey } from "../context.ts";
import type { Pilots } from "../drive/pilots.ts";
import type { Changes } from "../rows/changes.ts";
import type { Put, Row } from "../rows/storage.ts";
import type { SessionHead, TurnStart } from "../rows/stored.ts";

import { appendHistory } from "../../kernel/internal.ts";
import { MisuseError, RuntimeError } from "../../model/internal.ts";
import { keyOf, loadHistory, readOne } from "../context.ts";
import { merge } from "../rows/changes.ts";
import { readValue, writeHead, writeValue } from "../rows/stored.ts";

export type Desk = {
  readonly context: RuntimeContext;
  readonly pilots: Pilots;
  readonly tenant: string;
  /** Does this process drive, or does it only accept? */
  readonly drives: boolean;
};

/** The same for another tenant. */
export function tenantDesk(desk: Desk, tenant: string): Desk {
  return { ...desk, tenant };
}

/** A session as a verb found it. */
export type Found = {
  readonly key: SessionKey;
  readonly head: SessionHead;
  readonly version: number;
  readonly leaseRow: Row | null;
};

/** New messages of a session, at their places. */
export function entryPuts(key: SessionKey, from: number, messages: readonly Message[]): readonly Put[] {
  return messages.map((message, index): Put => {
    return { table: "entries", key: [...keyOf(key), from + index], tag: 0, value: writeValue("entries", message) };
  });
}

export function keyFor(desk: Desk, session: string): SessionKey {
  if (typeof session === "string" && session !== "") return { tenant: desk.tenant, session };
  throw new MisuseError("invalid_argument", "a session is named by its id, a text that is not empty", { path: ["id"] });
}

export async function find(desk: Desk, id: string): Promise<Found> {
  const key = keyFor(desk, id);
  const [heads = [], leases = []] = await desk.context.storage.read([
    { table: "sessions", prefix: keyOf(key) },
    { table: "leases", prefix: keyOf(key) },
  ]);
  return { key, ...headOf(id, heads[0]), leaseRow: leases[0] ?? null };
}

export function headOf(id: string, row: Row | undefined): { readonly head: SessionHead; readonly version: number } {
  const head = row === undefined ? null : readValue("sessions", row);
  if (row === undefined || head === null || head.deleted) {
    throw new RuntimeError("not_found", { message: `there is no session ${JSON.stringify(id)}` });
  }
  return { head, version: row.tag };
}

/** Where a fork keeps what the turn that asked was told: it was no turn of its own. */
export const forkedStart = "forked";

/** What the newest turn was told, its own or the one it was forked behind; `null`: there was none. */
export async function lastStart(desk: Desk, { key, head }: Pick<Found, "key" | "head">): Promise<TurnStart | null> {
  const prefix = [...keyOf(key), head.lastTurn ?? forkedStart];
  const row = await readOne(desk.context.storage, { table: "starts", prefix });
  return row === null ? null : readValue("starts", row);
}

export async function lastEngine(desk: Desk, id: string): Promise<string> {
  return (await lastStart(desk, await find(desk, id)))?.engine ?? "default";
}

export async function leaseRow(desk: Desk, key: SessionKey): Promise<Row | null> {
  return readOne(desk.context.storage, { table: "leases", prefix: keyOf(key) });
}

/** The history of a session. One who does not drive need not read it: its length and digest are enough. */
export async function historyOf(desk: Desk, key: SessionKey, { length, digest }: SessionHead): Promise<TurnHistory> {
  if (!desk.drives) return { entries: [], length, digest };
  return loadHistory(desk.context, key, length, digest);
}

/** The history with more behind it, also where only its length and digest are known. */
export function extended(history: TurnHistory, said: readonly Message[]): TurnHistory {
  if (history.entries.length >= history.length) return appendHistory(history, said);
  const { digest } = appendHistory({ entries: [], length: 0, digest: history.digest }, said);
  return { entries: [], length: history.length + said.length, digest };
}

export async function openTurn(desk: Desk, key: SessionKey, turn: string | null): Promise<OpenTurnView | null> {
  if (turn === null) return null;
  const [turns = [], starts = []] = await desk.context.storage.read([
    { table: "turns", prefix: [...keyOf(key), turn] },
    { table: "starts", prefix: [...keyOf(key), turn] },
  ]);
  const [turnRow, startRow] = [turns[0], starts[0]];
  if (turnRow === undefined || startRow === undefined) return null;
  const { status, step, failure } = readValue("turns", turnRow);
  return { turnId: turn, status, step, failure, engine: readValue("starts", startRow).engine };
}

/** Writes a session's head, without a turn. */
export async function commitHead(
  desk: Desk,
  { key, head, version }: Found,
  session: Session<JsonObject>,
  also: Changes,
): Promise<void> {
  const now = desk.context.clock.now();
  const nextHead: SessionHead = {
    ...head,
    session: { ...session, thread: { ...session.thread, messages: [] } },
    changedAt: now,
  };
  const said = session.thread.messages;
  const history =
    said.length === 0 ? null : appendHistory(await loadHistory(desk.context, key, head.length, head.digest), said);
  const whole: SessionHead =
    history === null ? nextHead : { ...nextHead, length: history.length, digest: history.digest };
  const written = await desk.context.storage.write(
    merge(also, {
      checks: [{ table: "sessions", key: keyOf(key), tag: version }],
      removals: [{ table: "recent", prefix: [key.tenant, head.changedAt, key.session] }],
      puts: [
        { table: "sessions", key: keyOf(key), tag: version + 1, value: writeHead(whole) },
        { table: "recent", key: [key.tenant, now, key.session], tag: 0, value: "" },
        ...entryPuts(key, head.length, said),
      ],
    }),
  );
  if (!written.ok)
    throw new RuntimeError("conflict", { message: `somebody else wrote to session ${key.session} in this moment` });
}
