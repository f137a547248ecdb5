// Export of a turn as one JSON value, and its offline replay. A replay performs nothing and rejects at the first difference from the record. It is
// for debugging, and for regression tests of prompts, tools and protocols.

import type { Engine } from "../../engine/internal.ts";
import type { ChatResult, Json, JsonObject, Message, TurnEvent } from "../../model/internal.ts";
import type { Committed, Pinned, Ports } from "../../run/internal.ts";
import type { VerbContext } from "../context.ts";
import type { JournalRow, TurnStart, TurnSummary } from "../rows/values.ts";

import { MisuseError, orThrow, RuntimeError, storedVersion } from "../../model/internal.ts";
import { isPlainObject } from "../../model/parse/reading.ts";
import { planRun, readPinned, startRun, memoryScope } from "../../run/internal.ts";
import { readOne } from "../context.ts";
import { divergentPaths, diverged } from "../drive/divergence.ts";
import { checkRevision } from "../drive/driven-turn.ts";
import { effectiveRows, DurableJournal } from "../drive/journal.ts";
import { planDetails } from "../drive/new-turn.ts";
import { offlineEngine } from "../drive/offline-engine.ts";
import { readMessages } from "../history-cache.ts";
import { turnKey } from "../rows/session-key.ts";
import { readPart, readValue } from "../rows/stored.ts";
import { summaryOf } from "../rows/summary.ts";
import { runOptions } from "./durable-options.ts";
import { find } from "./session-rows.ts";

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

/** Exports a turn: the given one, the open one, or the one that ended last. An open turn is exported up to its last commit. */
export async function exportTurn(context: VerbContext, id: string, turnId?: string): Promise<TurnRecord> {
  const { key, head } = await find(context, id);
  const turn = turnId ?? head.turn ?? head.lastTurn;
  const { storage } = context;
  const at = turnKey(key, turn ?? "");
  const [starts = [], turns = [], rows = []] = await storage.read([
    { table: "starts", prefix: at },
    { table: "turns", prefix: at },
    { table: "journal", prefix: at },
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
  return {
    everturn: "turn_record",
    version: storedVersion,
    data: {
      sessionId: id,
      turnId: turn,
      history: await readMessages(storage, key, { before: start.base }),
      start,
      pinned: orThrow(readPinned(readValue("contents", contents))),
      context: start.context ?? head.session.context,
      rows: rows.map((row) => readValue("journal", row)),
      end: readValue("turns", turnRow).end,
    },
  };
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
  const { sessionId, turnId, history, start, pinned, context, rows, end } = readRecord(record).data;
  checkRevision(turnId, start);
  const thread = { messages: history, metadata: {} };
  const options = { ...runOptions(start.options), context };
  const details = planDetails(turnId, sessionId, start);
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
  const { sessionId, turnId, history, start, pinned, context, rows, end } = data;
  const head = orThrow(readPart("turns", { status: "ended", committed: 0, sequence: 0, end: end ?? null }));
  const session = isPlainObject(context) ? orThrow(readPart("contents", context)) : {};
  return {
    everturn: "turn_record",
    version,
    data: {
      sessionId: String(sessionId),
      turnId: String(turnId),
      history: list(history).map((message) => orThrow(readPart("entries", message))),
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
