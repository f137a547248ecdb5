// Export of a turn as one JSON value, and its offline replay. A replay performs nothing and rejects at the first difference from the record. It is
// for debugging, and for regression tests of prompts, tools and protocols.

import type { Engine } from "../../core/engine/internal.ts";
import type { ChatResult, Json, JsonObject, Message, ProtocolEvent, TurnEvent } from "../../core/model/internal.ts";
import type { Committed, Pinned, Ports } from "../../core/run/internal.ts";
import type { VerbContext } from "../drive/context.ts";
import type { HostStorage, Key, Row } from "../rows/storage.ts";
import type { JournalRow, TurnStart, TurnSummary } from "../rows/values.ts";

import { MisuseError, orThrow, parse, RuntimeError, storedVersion } from "../../core/model/internal.ts";
import { isPlainObject } from "../../core/model/parse/reading.ts";
import { planRun, readPinned, startRun, memoryScope } from "../../core/run/internal.ts";
import { readOne } from "../drive/context.ts";
import { divergentPaths, diverged } from "../drive/divergence.ts";
import { checkRevision } from "../drive/driven-turn.ts";
import { runOptions } from "../drive/durable-options.ts";
import { effectiveRows, DurableJournal } from "../drive/journal.ts";
import { planDetails } from "../drive/new-turn.ts";
import { offlineEngine } from "../drive/offline-engine.ts";
import { find } from "../drive/session-rows.ts";
import { pageLength } from "../read/page-budget.ts";
import { rowLength } from "../rows/large-values.ts";
import { keyOf, turnKey } from "../rows/session-key.ts";
import { readPart, readValue } from "../rows/stored.ts";
import { summaryOf } from "../rows/summary.ts";

/** The record of a turn as one JSON value, for a file: history, start options, pinned environment and journal. */
export type TurnRecord = {
  /** Identifies the format. */
  readonly everturn: "turn_record";
  /** The format version of the values inside. */
  readonly version: number;
  readonly data: {
    readonly sessionId: string;
    readonly turnId: string;
    /** The messages before the turn. */
    readonly history: readonly Message[];
    /** The records that protocols appended in earlier turns of the session. */
    readonly protocolEvents: readonly ProtocolEvent[];
    /** The input and options of the turn. */
    readonly start: TurnStart;
    /** The pinned configuration: instructions, tools, model, limits. */
    readonly pinned: Pinned;
    /** The context of the session at the export. */
    readonly context: JsonObject;
    /** The journal rows, in order. */
    readonly rows: readonly JournalRow[];
    /** The result; `null`: the turn is open. */
    readonly end: TurnSummary | null;
  };
};

/** A part of a turn record. The first part has all but the two lists, which follow in pages: the messages, then the rows. */
export type TurnRecordPart =
  | { readonly type: "fields"; readonly record: TurnRecord }
  | { readonly type: "history"; readonly items: readonly Message[] }
  | { readonly type: "rows"; readonly items: readonly JournalRow[] };

/** Exports a turn: the given one, the open one, or the one that ended last. An open turn is exported up to its last commit. */
export async function exportTurn(context: VerbContext, id: string, turnId?: string): Promise<TurnRecord> {
  const [history, rows]: [Message[], JournalRow[]] = [[], []];
  let record: TurnRecord | null = null;
  for await (const part of exportParts(context, id, turnId)) {
    if (part.type === "fields") record = part.record;
    else if (part.type === "history") history.push(...part.items);
    else rows.push(...part.items);
  }
  if (record === null) throw new Error("the first part of a turn record is missing");
  return { ...record, data: { ...record.data, history, rows } };
}

/**
 * Exports a turn in parts. A page of messages or rows has about `pageLength` characters, or one item that is longer, and is read when it is asked for. So a record of any length
 * is written to a file or a response with the memory of one page. Rejects with `not_found` if the session or the journal is removed before all pages are read.
 */
export async function* exportParts(
  context: VerbContext,
  id: string,
  turnId?: string,
): AsyncGenerator<TurnRecordPart, void> {
  const { key, head } = await find(context, id);
  const turn = turnId ?? head.turn ?? head.lastTurn;
  const { storage } = context;
  const at = turnKey(key, turn ?? "");
  const [starts = [], turns = [], lastRows = []] = await storage.read([
    { table: "starts", prefix: at },
    { table: "turns", prefix: at },
    { table: "journal", prefix: at, reverse: true, limit: 1 },
  ]);
  const [startRow, turnRow] = [starts[0], turns[0]];
  if (turn === null || startRow === undefined || turnRow === undefined) {
    throw new RuntimeError("not_found", {
      message: `session ${JSON.stringify(id)} has no turn ${JSON.stringify(turn)}`,
    });
  }
  const start = readValue("starts", startRow);
  const contents = await readOne(storage, { table: "contents", prefix: [key.tenant, start.pinned] });
  if (contents === null) {
    throw new RuntimeError("corrupt_row", {
      message: `the pinned configuration of turn ${turn} is not in the storage; it is removed some time after the retention time`,
    });
  }
  const data = {
    sessionId: id,
    turnId: turn,
    history: [],
    protocolEvents: head.session.protocolEvents.slice(0, start.protocolEvents),
    start,
    pinned: orThrow(readPinned(readValue("contents", contents))),
    context: start.context ?? head.session.context,
    rows: [],
    end: readValue("turns", turnRow).end,
  };
  yield { type: "fields", record: { everturn: "turn_record", version: storedVersion, data } };
  for await (const rows of pages(storage, "entries", keyOf(key), { first: 0, last: start.base - 1 })) {
    yield { type: "history", items: rows.map((row) => readValue("entries", row)) };
  }
  // Rows that an open turn commits from here on are not part of the record: its result would be missing.
  const last = Number(lastRows[0]?.key.at(-1) ?? 0);
  for await (const rows of pages(storage, "journal", at, { first: 1, last })) {
    yield { type: "rows", items: rows.map((row) => readValue("journal", row)) };
  }
}

/** The rows of a table whose last key parts are the numbers from `first` to `last`, in pages. Throws if one of them is missing: it was removed meanwhile. */
async function* pages(
  storage: HostStorage,
  table: "entries" | "journal",
  prefix: Key,
  { first, last }: { readonly first: number; readonly last: number },
): AsyncGenerator<readonly Row[], void> {
  let next = first;
  // A storage looks at all rows within the limit to find where a page ends, so the limit is what a page is expected to hold.
  let limit = 16;
  while (next <= last) {
    const query = { table, prefix, after: next - 1, before: last + 1, limit, maxLength: pageLength };
    const [rows = []] = await storage.read([query]);
    const isComplete = rows.length > 0 && rows.every(({ key }, index) => key.at(-1) === next + index);
    if (!isComplete) {
      const message = `row ${next} of the turn is not in the table ${table}: the session or its journal was removed while the record was read`;
      throw new RuntimeError("not_found", { message });
    }
    next += rows.length;
    const length = rows.reduce((sum, row) => sum + rowLength(row), 0);
    limit = Math.min(Math.ceil((pageLength / (length + 1)) * rows.length), 256);
    yield rows;
  }
}

/** The result of replaying a recorded turn. */
export type ReplayedTurn = {
  /** The result that the replay computed. */
  readonly result: ChatResult;
  /** The stored events of the turn, in order. */
  readonly events: readonly TurnEvent[];
};

type ReplayOptions = {
  /**
   * The engine as it is now. The configuration that it would start the turn with is compared with the pinned one, so changed instructions or
   * tools are reported as a divergence. Default: the turn is replayed with its pinned configuration.
   */
  readonly engine?: Engine;
};

/**
 * Runs a recorded turn again offline: no model is called and no tool is run. Rejects with a `RuntimeError`:
 * `diverged` with the paths of the first difference, `replay_missing` if the turn had not ended, or `newer_schema` if the
 * record is of a newer release.
 *
 * @example
 * ```ts
 * import { engine, fake } from "everturn";
 * import { memoryStorage } from "everturn/host/memory";
 * import { replayTurn, runtime } from "everturn/runtime";
 *
 * const agent = engine({ adapter: fake({ script: [{ type: "text", text: "Hello!" }] }), model: "fake:m" });
 * const sessions = runtime({ host: memoryStorage(), engines: { default: agent } });
 * const turn = await sessions.start("hi", { id: "s1" });
 * await turn.result;
 * const record = await sessions.export("s1");
 * (await replayTurn(record)).result.haltedReason; // => "completed"
 * ```
 */
export async function replayTurn(record: TurnRecord | string, { engine }: ReplayOptions = {}): Promise<ReplayedTurn> {
  const { sessionId, turnId, history, protocolEvents, start, pinned, context, rows, end } = readRecord(record).data;
  checkRevision(turnId, start);
  const thread = { messages: history, metadata: {} };
  const options = { ...runOptions(start.options), context };
  const details = planDetails(turnId, sessionId, start, protocolEvents);
  if (engine !== undefined) {
    const current = planRun(engine, thread, options, details).pinned;
    const paths = divergentPaths(asJson(pinned), asJson(current));
    if (paths.length > 0) throw diverged(0, `the start of ${turnId}`, paths);
  }
  const plan = planRun(engine ?? offlineEngine, thread, options, { ...details, pinned });
  const events: TurnEvent[] = [];
  const journal = new DurableJournal(effectiveRows(rows), { strict: true });
  const ports: Ports = {
    journal,
    scope: memoryScope,
    accepted: true,
    inbox: { claim: () => Promise.reject(new Error("a replay must not claim input")) },
    sink: {
      live: () => undefined,
      commit: (_, reported): Committed => {
        events.push(...reported);
        return "replayed";
      },
    },
  };
  const { chat } = await startRun(plan, () => ports, noChildren).result;
  if (end !== null) {
    const paths = divergentPaths(asJson(end), asJson(summaryOf(chat)));
    if (paths.length > 0) throw diverged(rows.length, `the end of ${turnId}`, paths);
  }
  return { result: chat, events };
}

/** Validates a record, given as a value or as JSON text. */
function readRecord(record: TurnRecord | string): TurnRecord {
  const value: unknown = typeof record === "string" ? parsed(record) : record;
  if (!isPlainObject(value) || value["everturn"] !== "turn_record" || !isPlainObject(value["data"])) {
    throw new MisuseError("invalid_argument", "replayTurn: the value is not a turn record; export(id) returns one");
  }
  const { version, data } = value;
  if (typeof version !== "number" || version > storedVersion) {
    throw new RuntimeError("newer_schema", {
      message: `the turn record was written by a newer release (format version ${String(version)}; this release reads versions up to ${storedVersion})`,
    });
  }
  const { sessionId, turnId, history, protocolEvents, start, pinned, context, rows, end } = data;
  const head = orThrow(readPart("turns", { status: "ended", committed: 0, sequence: 0, end: end ?? null }));
  const session = isPlainObject(context) ? orThrow(readPart("contents", context)) : {};
  return {
    everturn: "turn_record",
    version,
    data: {
      sessionId: String(sessionId),
      turnId: String(turnId),
      history: list(history).map((message) => orThrow(readPart("entries", message))),
      protocolEvents: orThrow(parse("session", { protocolEvents: list(protocolEvents) })).protocolEvents,
      start: orThrow(readPart("starts", start)),
      pinned: orThrow(readPinned(orThrow(readPart("contents", pinned)))),
      context: isMap(session) ? session : {},
      rows: list(rows).map((row) => orThrow(readPart("journal", row))),
      end: head.end,
    },
  };
}

function list(items: unknown): readonly unknown[] {
  return Array.isArray(items) ? items : [];
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new MisuseError("invalid_argument", "replayTurn: the text is not JSON", { cause });
  }
}

function isMap(value: Json): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The value after a JSON round trip: without undefined properties. */
function asJson(value: Pinned | TurnSummary): Json {
  const plain: Json = JSON.parse(JSON.stringify(value));
  return plain;
}

function noChildren(): () => Promise<never> {
  return () => Promise.reject(new Error("a replay must not run child turns"));
}
