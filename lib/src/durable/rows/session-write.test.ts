// `writeSession`: which rows follow from a change of a session or of its turn.

import type { Changes } from "./batch.ts";
import type { StoredSession } from "./session-write.ts";
import type { TurnProgress, TurnStart } from "./values.ts";

import { describe, expect, test } from "vitest";

import { startHistory } from "../../core/kernel/internal.ts";
import { noUsage, runtimeFailure, newSession, user } from "../../core/model/internal.ts";
import { noRollup as rollup } from "./rollup.ts";
import { keyOf } from "./session-key.ts";
import { deleteRows, emptyHead, writeSession } from "./session-write.ts";
import { tables, tablesOfSession } from "./tables.ts";
import { ofTurn, turnStarted } from "./turn-events.ts";

const key = { tenant: "a", session: "s" };
const session = newSession({ id: "s" });
const progress: TurnProgress = {
  status: "running",
  committed: 2,
  sequence: 7,
  step: 1,
  takeovers: 1,
  discarded: 0,
  end: null,
  endedAt: null,
  failure: null,
};
const stored: StoredSession = {
  key,
  head: { ...emptyHead(session, 10), lastTurn: "t0", turn: "t1", sequence: 4 },
  version: 3,
  turn: { id: "t1", progress, commits: 2, engine: "default", due: 40, limitKey: null, limit: null },
};
const idle: StoredSession = { ...stored, head: { ...stored.head, turn: null }, turn: null };
const start: TurnStart = {
  verb: "chat",
  engine: "default",
  options: {},
  context: null,
  startedBy: [],
  revision: 1,
  base: 0,
  digest: "d",
  protocolEvents: 0,
  pinned: "p",
  answers: [],
  cell: null,
  messages: [],
  turnCauses: [],
  inputs: [],
  spentBefore: noUsage,
  contextWindow: null,
  acceptedAt: 20,
  trace: null,
};
const pinned = {
  environment: { instructions: "", model: null, tools: [], providerTools: [], params: {} },
  policy: {
    syncEnvironment: false,
    startCheckpoint: false,
    maxTurns: null,
    maxContextTokens: null,
    turnLimitFinalMessage: null,
    structuredFinalize: null,
  },
  protocol: { type: "chat", mode: "auto", onUnknownTool: "error", stopAfter: null, onEmptyReply: "complete" },
  projector: null,
  limits: {
    budgets: {},
    toolTimeout: null,
    cancelGraceMs: 50,
    maxConcurrency: null,
    maxToolCalls: null,
    maxToolResultLength: 1,
    onToolError: null,
  },
} as const;
const turn = (id: string) => ({ id, start, pinned, pinnedTtlMs: null });
const end = {
  haltedReason: "completed",
  outcome: { type: "empty" },
  finalResponse: null,
  steps: 1,
  usage: noUsage,
  metadata: {},
} as const;

/** The tables that a batch writes to and removes from, each once. */
const puts = ({ puts: rows }: Changes) => [...new Set(rows.map(({ table }) => table))].sort();
const removals = ({ removals: rows }: Changes) => [...new Set(rows.map(({ table }) => table))].sort();

describe("writeSession", () => {
  test("a change of the session is a compare-and-swap on its version, and moves its row in recent", () => {
    const messages = [user("one"), user("two")];
    const history = startHistory(messages);
    const { changes, after } = writeSession(idle, { now: 20, session: { after: session, messages, history } });
    expect(changes.checks).toEqual([{ table: "sessions", key: keyOf(key), tag: 3 }]);
    expect(changes.removals).toEqual([{ table: "recent", prefix: ["a", 10, "s"] }]);
    expect(changes.puts.map(({ table, key: at, tag }) => [table, ...at.slice(1), tag])).toEqual([
      ["sessions", "s", 4],
      ["recent", 20, "s", 0],
      ["entries", "s", 0, 0],
      ["entries", "s", 1, 0],
    ]);
    expect(after).toMatchObject({ version: 4, head: { length: 2, digest: history.digest, changedAt: 20 } });
  });

  test("a step of a turn writes the session row and its messages, and does not move the session in lists", () => {
    const owned = { ...idle, head: { ...idle.head, owner: "ann" } };
    const change = { type: "begin", turn: turn("t1"), due: 30, limit: null } as const;
    const begun = writeSession(owned, { now: 20, turn: change }).after;
    const messages = [user("one")];
    const history = startHistory(messages);
    const step = { type: "advance", committed: 1, step: 1 } as const;
    const { changes, after } = writeSession(begun, {
      now: 40,
      session: { after: session, messages, history },
      turn: step,
    });
    expect(puts(changes)).toEqual(["entries", "sessions", "turns"]);
    expect(removals(changes)).toEqual([]);
    expect(after).toMatchObject({ version: 5, head: { length: 1, changedAt: 20 } });
    // The rows that the begin of the turn wrote are the ones that its end removes.
    const last = { type: "park", failure: runtimeFailure("diverged"), rollup } as const;
    const parked = writeSession(after, { now: 60, turn: last });
    expect(parked.changes.removals).toContainEqual({ table: "recent", prefix: ["a", 20, "s"] });
    expect(parked.changes.removals).toContainEqual({ table: "attention", prefix: ["a", "owner:ann", 20, "s"] });
  });

  test("a new session checks that it does not exist, and removes no row", () => {
    const fresh: StoredSession = { key, head: emptyHead(session, 20), version: null, turn: null };
    const { changes, after } = writeSession(fresh, {
      now: 20,
      session: { after: session, messages: [], history: fresh.head },
    });
    expect(changes.checks).toEqual([{ table: "sessions", key: keyOf(key), tag: null }]);
    expect(changes.removals).toEqual([]);
    expect(after.version).toBe(1);
  });

  test("sequence numbers continue the turn row, which is ahead of the session row between boundaries", () => {
    const happened = { now: 20, turn: { type: "advance", committed: 3, step: 1 } } as const;
    const events = [ofTurn("t1", 3, 0, { type: "error", error: runtimeFailure("diverged") })];
    const write = writeSession(stored, { ...happened, events });
    expect(write.events.map(({ sequence }) => sequence)).toEqual([8]);
    expect(puts(write.changes)).toEqual(["events", "turns"]);
    expect(write.changes.checks).toEqual([{ table: "turns", key: [...keyOf(key), "t1"], tag: 2 }]);
    expect(write.after.head.sequence).toBe(4);
    const ended = writeSession(write.after, {
      now: 30,
      turn: {
        type: "end",
        committed: 4,
        step: 1,
        end,
        next: null,
        nextDue: 0,
        nextLimit: null,
        endedAt: 30,
        acceptedAt: 10,
        rollup,
      },
      events,
    });
    expect(ended.events.map(({ sequence }) => sequence)).toEqual([9]);
    expect(ended.after.head).toMatchObject({ sequence: 9, turn: null, lastTurn: "t1" });
  });

  test("a turn that begins is stored with its pinned configuration, and is open", () => {
    const { changes, after } = writeSession(idle, {
      now: 20,
      turn: { type: "begin", turn: turn("t2"), due: 25, limit: null },
      events: [turnStarted("t2", "s")],
    });
    expect(puts(changes)).toEqual([
      "contents",
      "events",
      "open",
      "recent",
      "sessions",
      "starts",
      "turn_times",
      "turns",
      "work",
    ]);
    expect(changes.checks).toContainEqual({ table: "turns", key: [...keyOf(key), "t2"], tag: null });
    expect(after).toMatchObject({
      head: { turn: "t2", sequence: 5 },
      turn: { id: "t2", commits: 0, progress: { status: "queued", sequence: 5 } },
    });
  });

  test("the end of a turn closes it, or opens the next turn in the same batch", () => {
    const ending = {
      type: "end",
      committed: 3,
      step: 1,
      end,
      nextDue: 60,
      nextLimit: null,
      endedAt: 20,
      acceptedAt: 10,
      rollup,
    } as const;
    const last = writeSession(stored, { now: 20, turn: { ...ending, next: null } });
    expect(removals(last.changes)).toEqual(["cancels", "open", "recent", "work"]);
    expect(last.changes.removals).toContainEqual({ table: "work", prefix: ["turn", "default", "a", 40, "a", "s", ""] });
    expect(puts(last.changes)).toEqual(["recent", "rollup_lines", "sessions", "turns", "work"]);
    const followed = writeSession(stored, { now: 20, turn: { ...ending, next: turn("t2") } });
    expect(removals(followed.changes)).toEqual(["cancels", "open", "recent", "work"]);
    expect(puts(followed.changes)).toEqual([
      "contents",
      "open",
      "recent",
      "rollup_lines",
      "sessions",
      "starts",
      "turn_times",
      "turns",
      "work",
    ]);
    expect(followed.after).toMatchObject({ head: { turn: "t2", lastTurn: "t1" }, turn: { id: "t2", commits: 0 } });
  });

  test("Q17 a commit resets the count of takeovers only if it adds a journal row", () => {
    const advance = (committed: number) =>
      writeSession(stored, { now: 20, turn: { type: "advance", committed, step: 1 } }).after.turn?.progress.takeovers;
    expect(advance(2)).toBe(1);
    expect(advance(3)).toBe(0);
  });

  test("a parked turn stays the turn of its session and is not open for workers; restarting a step opens it again", () => {
    const failure = runtimeFailure("diverged");
    const parked = writeSession(stored, { now: 20, turn: { type: "park", failure, rollup } });
    expect(puts(parked.changes)).toEqual(["attention", "recent", "rollup_lines", "sessions", "turns"]);
    expect(removals(parked.changes)).toEqual(["open", "recent", "work"]);
    expect(parked.after).toMatchObject({ head: { turn: "t1" }, turn: { progress: { status: "parked", failure } } });
    const restarted = writeSession(parked.after, {
      now: 30,
      turn: { type: "restart", committed: 4, due: 30 },
    });
    expect(puts(restarted.changes)).toEqual(["open", "recent", "sessions", "turns", "work"]);
    expect(restarted.after.turn?.progress).toMatchObject({ status: "running", committed: 4, failure: null });
  });
});

describe("deleting a session", () => {
  test("removes its rows from every table that is keyed by session, and leaves a tombstone and the lease", () => {
    const changes = deleteRows(stored, session);
    const keyed = Object.entries(tables).flatMap(([name, columns]) =>
      columns[0].name === "tenant" && columns[1]?.name === "session" ? [name] : [],
    );
    expect([...tablesOfSession, "sessions", "leases"].sort()).toEqual(keyed.sort());
    expect(removals(changes)).toEqual([...tablesOfSession, "recent", "work"].sort());
    expect(puts(changes)).toEqual(["sessions"]);
    const { data } = JSON.parse(changes.puts[0]?.value ?? "");
    expect(data).toMatchObject({ deleted: true, sequence: 4 });
    expect(data).not.toHaveProperty("turn");
  });
});
