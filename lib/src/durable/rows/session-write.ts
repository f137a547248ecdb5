// Builds the batch that changes a session. Every verb and every commit of a turn calls `writeSession`, so a row of the
// tables `sessions`, `recent`, `attention`, `entries`, `turns`, `starts`, `turn_times`, `contents`, `open`, `events`
// and `rollup_lines`, and a row of `work` about a turn, is built in this file, or in `open-rows.ts`, which
// also moves an open turn in the index of work. One other place writes a turn row: `ActiveTurns` counts takeovers on
// it.
//
// Theory of operation
//   `writeSession` is a pure function from what is stored (`StoredSession`) and what happened (`SessionChange`) to
//     - the batch: compare-and-swap checks, removals and puts,
//     - what is stored after the batch (the next `StoredSession`), so that the writer does not read it back,
//     - the events of the batch with their sequence numbers, for readers in this process.
//   The caller adds the rows that only it knows (journal row, lease, ledger, start marks) in `also`, writes the batch,
//   and keeps `after` if the storage accepted the batch. A refused batch changes nothing; the caller reads again or
//   gives up.
//
// Which rows follow from what
//   every change             events: the events it caused
//   a change of the session  sessions (version + 1), entries (the new messages); unless a turn advances also recent
//                            (moved to now), and attention if it has an owner, waits for an answer or its turn is
//                            parked, or did before
//   a turn begins            starts, turn_times, turns (queued), contents (or a check of it), open, work; and the
//                            session row
//   a turn advances          turns (commit count + 1); the session row only at a boundary, where the history grew
//   a turn ends              turns (ended), sessions, work (retention), rollup_lines; the rows of the next turn, or the
//                            removal of open and work (turn); the removal of cancels
//   a turn is parked         turns (parked), sessions, rollup_lines; open and work (turn) are removed, so no worker
//                            takes the turn
//   a step is restarted      turns (running), sessions, open, work
//
// Invariants
//   1. Every change of the session row is a compare-and-swap on its version; every change of a turn row is one on its
//      commit count (H3).
//   2. Sequence numbers continue the event log without gaps: from the greater of the session row's and the turn row's
//      sequence. Between boundaries only the turn row has the newest.
//   3. The size of a batch depends on what is new, not on the length of the session or of the turn (H5).

import type { TurnHistory } from "../../core/kernel/internal.ts";
import type { Failure, HistoryFrame, JsonObject, Message, Session } from "../../core/model/internal.ts";
import type { Pinned } from "../../core/run/internal.ts";
import type { Changes } from "./batch.ts";
import type { SessionKey } from "./session-key.ts";
import type { Put, Removal } from "./storage.ts";
import type {
  Attention,
  Rollup,
  SessionHead,
  StoredEvent,
  TurnLimit,
  TurnProgress,
  TurnStart,
  TurnSummary,
} from "./values.ts";

import { startHistory } from "../../core/kernel/internal.ts";
import { messageText } from "../../core/model/internal.ts";
import { merge, noChanges } from "./batch.ts";
import { closedTurnRemovals, openTurnPuts } from "./open-rows.ts";
import { linePut } from "./rollup.ts";
import { keyOf, turnKey } from "./session-key.ts";
import { writeValue } from "./stored.ts";
import { tablesOfSession } from "./tables.ts";
import { attentions } from "./values.ts";
import { retainedSession, retainedTurn, workPut, workRemoval } from "./work.ts";

/** The stored session row and turn row, as this process last read or wrote them. */
export type StoredSession = {
  readonly key: SessionKey;
  readonly head: SessionHead;
  /** The tag of the session row; `null`: there is no row yet. */
  readonly version: number | null;
  /** The turn that the writer drives or ends; `null`: the writer changes no existing turn. */
  readonly turn: StoredTurn | null;
};

/** The turn row, and where the turn is in the index of work. */
type StoredTurn = {
  readonly id: string;
  readonly progress: TurnProgress;
  /** The tag of the row: the number of commits. */
  readonly commits: number;
  /** The name of its engine: its queue in `work`. */
  readonly engine: string;
  /** The time in its key in `work`, in milliseconds. */
  readonly due: number;
  readonly limitKey: string | null;
  /** What the limits have decided about the turn, with the slots that it holds. */
  readonly limit: TurnLimit | null;
};

/** A turn to be accepted. */
export type NewTurn = {
  readonly id: string;
  readonly start: TurnStart;
  /** The configuration that the turn keeps to its end; stored under the digest `start.pinned`. */
  readonly pinned: Pinned;
  /**
   * How long the configuration is kept after the last turn that was accepted with it, in milliseconds; `null`: without
   * limit.
   */
  readonly pinnedTtlMs: number | null;
  /**
   * The configuration was stored a short time ago (`StoredPinned`): its row is checked instead of written. Default:
   * `false`.
   */
  readonly isPinnedStored?: boolean;
};

/** A change of a session. */
export type SessionChange = {
  /** The time of the write, in milliseconds. */
  readonly now: number;
  /**
   * The session after the change. Absent: the session row keeps its data, and is written only if the change of the turn
   * requires it.
   */
  readonly session?: {
    /** Messages in its thread are ignored. */
    readonly after: Session<JsonObject>;
    /** The new messages, appended to `entries`. */
    readonly messages: readonly Message[];
    /** Length and digest of the history after `messages`. */
    readonly history: Pick<TurnHistory, "length" | "digest">;
  };
  readonly turn?: TurnChange;
  /** Events for the log, in order; the write gives them sequence numbers. */
  readonly events?: readonly StoredEvent[];
  /** Rows of the same batch that only the caller knows. */
  readonly also?: Changes;
};

/** A change of the turn. */
type TurnChange =
  | {
      readonly type: "begin";
      readonly turn: NewTurn;
      /** When a worker examines the turn: now, or when the lease expires under which the turn is driven at once. */
      readonly due: number;
      /**
       * What the limits have decided. The caller adds the rows of slots to the batch. A turn that waits for a limit is
       * not due.
       */
      readonly limit: TurnLimit | null;
    }
  | {
      readonly type: "advance";
      readonly committed: number;
      readonly step: number;
      /** Attempts that were thrown away since the last commit. Default: 0. */
      readonly discarded?: number;
      /** A child turn has recorded a journal row. Default: `false`. */
      readonly hasChildRow?: boolean;
    }
  | {
      readonly type: "end";
      readonly committed: number;
      readonly step: number;
      /** Attempts that were thrown away since the last commit. Default: 0. */
      readonly discarded?: number;
      readonly end: TurnSummary;
      /** The next turn, built from input that arrived too late for this one (Q11). */
      readonly next: NewTurn | null;
      /** The due time of the next turn. */
      readonly nextDue: number;
      /** What the limits have decided about the next turn. */
      readonly nextLimit: TurnLimit | null;
      /** In milliseconds. */
      readonly endedAt: number;
      /** When the turn was accepted, in milliseconds: the time of its row for retention. */
      readonly acceptedAt: number;
      /** What the turn adds to the rollups. */
      readonly rollup: Rollup;
    }
  | { readonly type: "park"; readonly failure: Failure; readonly rollup: Rollup }
  | { readonly type: "restart"; readonly committed: number; readonly due: number };

/** An event with its sequence number. */
export type NumberedEvent = {
  readonly sequence: number;
  readonly stored: StoredEvent;
  /** The length of its row, in characters: how much memory it takes, approximately. */
  readonly length: number;
};

/** A batch to write, and what is true once it is written. */
export type SessionWrite = {
  readonly changes: Changes;
  /** The rows after the batch. After the end of a turn, `turn` is the next one if there is one. */
  readonly after: StoredSession;
  readonly events: readonly NumberedEvent[];
};

/** Builds the batch for a change of a session. Pure. */
export function writeSession(before: StoredSession, change: SessionChange): SessionWrite {
  const { key } = before;
  const first = newestSequence(before) + 1;
  const eventPuts = (change.events ?? []).map((stored, index) => eventPut(key, first + index, stored));
  const events = (change.events ?? []).map((stored, index): NumberedEvent => {
    return { sequence: first + index, stored, length: eventPuts[index]?.value.length ?? 0 };
  });
  const sequence = first + events.length - 1;
  const turn = writeTurn(before, change.turn ?? null, sequence);
  const needsHead = change.session !== undefined || (change.turn !== undefined && change.turn.type !== "advance");
  const head = needsHead ? writeHead(before, change, turn, sequence) : null;
  return {
    changes: merge(
      { ...noChanges, puts: eventPuts },
      turn.changes,
      head?.changes ?? noChanges,
      { ...noChanges, puts: rollupPuts(key, head?.version ?? 0, change) },
      change.also ?? noChanges,
    ),
    after: { key, head: head?.head ?? before.head, version: head?.version ?? before.version, turn: turn.stored },
    events,
  };
}

/** The line that a turn which ends or is parked adds to the rollups. */
function rollupPuts(key: SessionKey, version: number, { turn, now }: SessionChange): readonly Put[] {
  return turn?.type === "end" || turn?.type === "park" ? [linePut(key, version, turn.rollup, now)] : [];
}

/** The sequence number of the newest event of the session. */
function newestSequence({ head, turn }: StoredSession): number {
  return Math.max(head.sequence, turn?.progress.sequence ?? 0);
}

type WrittenTurn = {
  readonly changes: Changes;
  readonly stored: StoredTurn | null;
  /** `turn` of the session row after the change. */
  readonly open: string | null;
  /** `lastTurn` of the session row after the change. */
  readonly last: string | null;
  /** The start row of a turn that the change begins; `null`: it begins none. */
  readonly begun: TurnStart | null;
};

/** The rows of the turn for a change, and the turn ids for the session row. */
function writeTurn({ key, head, turn }: StoredSession, change: TurnChange | null, sequence: number): WrittenTurn {
  if (change === null) return { changes: noChanges, stored: turn, open: head.turn, last: head.lastTurn, begun: null };
  if (change.type === "begin") {
    const begun = beginTurn(key, change.turn, sequence, change.due, change.limit);
    return { ...begun, open: change.turn.id, last: head.lastTurn, begun: change.turn.start };
  }
  if (turn === null) throw new Error(`${change.type}: the row of the turn has not been read`);
  const { id, commits, engine, due, limitKey, limit } = turn;
  const at = turnKey(key, id);
  const progress: TurnProgress = { ...turn.progress, ...progressAfter(change, turn.progress), sequence };
  const row: Changes = {
    checks: [{ table: "turns", key: at, tag: commits }],
    removals: [],
    puts: [{ table: "turns", key: at, tag: commits + 1, value: writeValue("turns", progress) }],
  };
  const stored = { id, progress, commits: commits + 1, engine, due, limitKey, limit };
  const closed = closedTurnRemovals(key, turn);
  switch (change.type) {
    case "advance":
      return { changes: row, stored, open: id, last: head.lastTurn, begun: null };
    case "park":
      return {
        changes: merge(row, { ...noChanges, removals: closed }),
        stored: { ...stored, limit: null },
        open: id,
        last: head.lastTurn,
        begun: null,
      };
    case "restart": {
      // The slots were released when the turn was parked. The process that claims the turn takes new ones.
      const puts = openTurnPuts(key, { turn: id, engine, due: change.due, limitKey, limit: null });
      return {
        changes: merge(row, { ...noChanges, puts }),
        stored: { ...stored, due: change.due, limit: null },
        open: id,
        last: head.lastTurn,
        begun: null,
      };
    }
    case "end": {
      const next =
        change.next === null ? null : beginTurn(key, change.next, sequence, change.nextDue, change.nextLimit);
      const ended: Changes = {
        checks: [],
        removals: [{ table: "cancels", prefix: at }, ...closed],
        puts: [workPut(retainedTurn(key, id, change.acceptedAt))],
      };
      const changes = merge(row, ended, next?.changes ?? noChanges);
      return {
        changes,
        stored: next?.stored ?? { ...stored, limit: null },
        open: change.next?.id ?? null,
        last: id,
        begun: change.next?.start ?? null,
      };
    }
  }
}

/**
 * The fields of the turn row that a change sets. An advance that adds a journal row, also one of a child turn, resets
 * the count of takeovers (Q17). The first commit of a turn, which has start marks and messages only, does not: a
 * process that crashes after it has made no progress.
 */
function progressAfter(change: Exclude<TurnChange, { type: "begin" }>, before: TurnProgress): Partial<TurnProgress> {
  switch (change.type) {
    case "advance": {
      const isProgress = change.committed > before.committed || change.hasChildRow === true;
      const takeovers = isProgress ? 0 : before.takeovers;
      const discarded = before.discarded + (change.discarded ?? 0);
      return { status: "running", committed: change.committed, step: change.step, takeovers, discarded };
    }
    case "end":
      return {
        status: "ended",
        committed: change.committed,
        step: change.step,
        discarded: before.discarded + (change.discarded ?? 0),
        end: change.end,
        endedAt: change.endedAt,
      };
    case "park":
      return { status: "parked", failure: change.failure };
    case "restart":
      return {
        status: "running",
        committed: change.committed,
        takeovers: 0,
        discarded: before.discarded + 1,
        failure: null,
      };
  }
}

/** The rows of a new turn. The check that the turn row is absent makes acceptance fail if the id is taken. */
function beginTurn(
  key: SessionKey,
  { id, start, pinned, pinnedTtlMs, isPinnedStored = false }: NewTurn,
  sequence: number,
  due: number,
  limit: TurnLimit | null,
): { readonly changes: Changes; readonly stored: StoredTurn } {
  const at = turnKey(key, id);
  const contents = { table: "contents", key: [key.tenant, start.pinned], tag: 0 } as const;
  const progress: TurnProgress = {
    status: "queued",
    committed: 0,
    sequence,
    step: 0,
    takeovers: 0,
    discarded: 0,
    end: null,
    endedAt: null,
    failure: null,
  };
  const limitKey = limitKeyOf(start.options);
  return {
    stored: { id, progress, commits: 0, engine: start.engine, due, limitKey, limit },
    changes: {
      checks: [
        { table: "turns", key: at, tag: null },
        // The row is shared by all turns with this configuration. Writing it with each of them would make their batches
        // wait for each other.
        ...(isPinnedStored ? [{ ...contents, alive: true } as const] : []),
      ],
      removals: [],
      puts: [
        { table: "starts", key: at, tag: 0, value: writeValue("starts", start) },
        { table: "turns", key: at, tag: 0, value: writeValue("turns", progress) },
        { table: "turn_times", key: [...keyOf(key), start.acceptedAt, id], tag: 0, value: "" },
        ...(isPinnedStored
          ? []
          : [{ ...contents, ttlMs: pinnedTtlMs, value: writeValue("contents", pinned) } as const]),
        ...openTurnPuts(key, { turn: id, engine: start.engine, due, limitKey, limit }),
      ],
    },
  };
}

/** The session row after a change, its entry in `recent`, and the rows of the new messages. */
function writeHead(
  { key, head: before, version }: StoredSession,
  { session, now, turn }: SessionChange,
  { open, last, begun }: WrittenTurn,
  sequence: number,
): { readonly head: SessionHead; readonly version: number; readonly changes: Changes } {
  const { after = before.session, messages = [], history = before } = session ?? {};
  // The steps of a turn do not move the session in the indexes of `list`.
  const isListed = turn?.type !== "advance";
  const attention = isListed ? attentionAfter(before, after, turn ?? null, open) : before.attention;
  const head: SessionHead = {
    ...before,
    title: before.title ?? (before.length === 0 ? firstUserText(messages) : null),
    attention,
    session: { ...after, thread: { ...after.thread, messages: [] } },
    engine: begun?.engine ?? before.engine,
    startedBy: begun?.startedBy ?? before.startedBy,
    length: history.length,
    digest: history.digest,
    turn: open,
    lastTurn: last,
    sequence,
    changedAt: isListed ? now : before.changedAt,
  };
  const tag = (version ?? 0) + 1;
  const row = sessionRow(key, version, head);
  return {
    head,
    version: tag,
    changes: {
      checks: row.checks,
      removals: isListed && version !== null ? listRemovals(key, before) : [],
      puts: [
        ...row.puts,
        ...(isListed ? listPuts(key, head) : []),
        ...(isNew(before) ? [workPut(retainedSession(key, before.createdAt))] : []),
        ...messages.map((message, index): Put => {
          const at = [...keyOf(key), before.length + index];
          return { table: "entries", key: at, tag: 0, value: writeValue("entries", message) };
        }),
      ],
    },
  };
}

/**
 * Deletes a session. The session row becomes a tombstone, which keeps the version and the sequence: a writer that still
 * has the old version fails its compare-and-swap, and a reader's cursor stays valid.
 */
export function deleteRows({ key, head, version }: StoredSession, empty: Session<JsonObject>): Changes {
  const { length, digest } = startHistory([]);
  const cleared = { session: empty, length, digest, turn: null, lastTurn: null, title: null, attention: null };
  const tombstone = { ...head, ...cleared, owner: null, startedBy: [], deleted: true };
  return merge(sessionRow(key, version, tombstone), {
    ...noChanges,
    removals: [
      ...tablesOfSession.map((table): Removal => ({ table, prefix: keyOf(key) })),
      ...listRemovals(key, head),
      workRemoval(retainedSession(key, head.createdAt)),
    ],
  });
}

/** Returns whether nothing has changed the session since it was created. */
function isNew({ createdAt, changedAt, turn, lastTurn }: SessionHead): boolean {
  return createdAt === changedAt && turn === null && lastTurn === null;
}

/** The session row of a session without messages and turns. */
export function emptyHead(session: Session<JsonObject>, now: number): SessionHead {
  const { length, digest } = startHistory([]);
  const empty = { ...session, thread: { ...session.thread, messages: [] } };
  const none = {
    engine: null,
    owner: null,
    startedBy: [],
    turn: null,
    lastTurn: null,
    title: null,
    attention: null,
    sequence: 0,
    deleted: false,
  };
  return { session: empty, length, digest, ...none, createdAt: now, changedAt: now };
}

/** Compare-and-swap of the session row: checks `version` and writes `version + 1`. */
function sessionRow(key: SessionKey, version: number | null, head: SessionHead): Changes {
  const at = keyOf(key);
  return {
    checks: [{ table: "sessions", key: at, tag: version }],
    removals: [],
    puts: [{ table: "sessions", key: at, tag: (version ?? 0) + 1, value: writeValue("sessions", head) }],
  };
}

/**
 * Removes a session from the indexes of `list`. It is not known under which status an older release would have listed
 * it.
 */
function listRemovals({ tenant, session }: SessionKey, head: SessionHead): readonly Removal[] {
  const { changedAt, attention, owner } = head;
  const statuses = attention === null ? [] : attention === "unknown" ? attentions : [attention];
  const listed = owner === null ? statuses : [...statuses, ownerLabel(owner)];
  return [
    { table: "recent", prefix: [tenant, changedAt, session] },
    ...listed.map((label): Removal => ({ table: "attention", prefix: [tenant, label, changedAt, session] })),
  ];
}

/** The rows that list a session: by the time of its last change, by what it waits for, and by its owner. */
function listPuts({ tenant, session }: SessionKey, { changedAt, attention, owner }: SessionHead): readonly Put[] {
  const labels = [...(attention === null ? [] : [attention]), ...(owner === null ? [] : [ownerLabel(owner)])];
  return [
    { table: "recent", key: [tenant, changedAt, session], tag: 0, value: "" },
    ...labels.map((label): Put => {
      return { table: "attention", key: [tenant, label, changedAt, session], tag: 0, value: "" };
    }),
  ];
}

/** The label under which `attention` lists the sessions of a caller. */
export function ownerLabel(owner: string): string {
  return `owner:${owner}`;
}

/**
 * The status under which `attention` lists a session after a change; `null`: it is not listed. `open`: its open turn
 * after the change.
 */
function attentionAfter(
  before: SessionHead,
  { status }: Session<JsonObject>,
  turn: TurnChange | null,
  open: string | null,
): Attention | null {
  if (turn?.type === "park") return "parked";
  if (open === null) return status === "awaiting_user" || status === "awaiting_tools" ? "waiting" : null;
  // A change of the session alone leaves a parked turn parked.
  return turn === null && before.attention === "parked" ? "parked" : null;
}

/** The beginning of the first user message in one line; `null`: there is none, or it has no text. */
function firstUserText(messages: readonly Message[]): string | null {
  const first = messages.find(({ role }) => role === "user");
  return first === undefined ? null : titleText(messageText(first));
}

/** The length of a title, in characters. */
const titleLength = 120;

/** A text as the title of a session: in one line, and cut off. `null`: it is empty. */
export function titleText(text: string): string | null {
  // Cut off first: the text may have megabytes. A surrogate pair is not split.
  const line = text
    .slice(0, 16 * titleLength)
    .replaceAll(/\s+/g, " ")
    .trim();
  return [...line].slice(0, titleLength).join("") || null;
}

/** The row of a frame; `null`: there is none. */
export function framePuts(key: SessionKey, frame: HistoryFrame | null): readonly Put[] {
  if (frame === null) return [];
  return [{ table: "frames", key: [...keyOf(key), frame.to], tag: 0, value: writeValue("frames", frame) }];
}

function eventPut(key: SessionKey, sequence: number, stored: StoredEvent): Put {
  return { table: "events", key: [...keyOf(key), sequence], tag: 0, value: writeValue("events", stored) };
}

/** The limit key among the stored options of a turn; `null`: none. */
export function limitKeyOf({ limitKey }: JsonObject): string | null {
  return typeof limitKey === "string" ? limitKey : null;
}
