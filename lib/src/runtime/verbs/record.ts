// A turn as one JSON value, and its replay: offline, with nothing performed, stopping at the first difference. For looking at what happened, and
// for tests that pin what a prompt, a tool or a protocol came to.

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
  readonly everturn: "turn_record";
  readonly version: number;
  readonly data: {
    readonly sessionId: string;
    readonly turnId: string;
    /** What had been said before. */
    readonly history: readonly Message[];
    readonly start: TurnStart;
    readonly pinned: Pinned;
    readonly context: JsonObject;
    readonly rows: readonly JournalRow[];
    /** What it came to; `null` while it is open. */
    readonly end: TurnSummary | null;
  };
};

/** Writes a turn out: one that has ended, or one that is open, as far as it got. */
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
    throw new RuntimeError("corrupt_row", { message: `what the turn ${turn} was pinned to is not there` });
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
      context: head.session.context,
      rows: rows.map((row) => readValue("journal", row)),
      end: readValue("turns", turnRow).end,
    },
  };
}

/** The result of replaying a recorded turn. */
export type ReplayedTurn = {
  readonly result: ChatResult;
  /** Everything that was told for the record. */
  readonly events: readonly TurnEvent[];
};

type ReplayOptions = {
  /**
   * The engine as it is now: what it would begin the turn with is compared with what the turn was pinned to. Without one, the turn is replayed as
   * it was pinned.
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
  const given = { ...runOptions(start.options), context };
  const details = planDetails(turnId, sessionId, start);
  if (engine !== undefined) {
    const now = planRun(engine, thread, given, details).pinned;
    const paths = divergentPaths(asJson(pinned), asJson(now));
    if (paths.length > 0) throw diverged(0, `the start of ${turnId}`, paths);
  }
  const plan = planRun(engine ?? offlineEngine, thread, given, { ...details, pinned });
  const events: TurnEvent[] = [];
  const journal = new DurableJournal(effectiveRows(rows), { strict: true });
  const ports: Ports = {
    journal,
    scope: memoryScope,
    accepted: true,
    inbox: { claim: () => Promise.reject(new Error("nothing is claimed in a replay")) },
    sink: {
      live: () => undefined,
      commit: (_, entries): Committed => {
        events.push(...entries);
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

/** Reads a record, as a value or as the text of a file. */
function readRecord(given: TurnRecord | string): TurnRecord {
  const value: unknown = typeof given === "string" ? parsed(given) : given;
  if (!isPlainObject(value) || value["everturn"] !== "turn_record" || !isPlainObject(value["data"])) {
    throw new MisuseError("invalid_argument", "replayTurn: this is no record of a turn; export(id) gives one");
  }
  const { version, data } = value;
  if (typeof version !== "number" || version > storedVersion) {
    throw new RuntimeError("newer_schema", {
      message: `the record was written by a newer release (version ${String(version)}; this one reads up to ${storedVersion})`,
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
    throw new MisuseError("invalid_argument", "replayTurn: this is not JSON", { cause });
  }
}

function isMap(value: Json): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The value as JSON has it: without what is not there. */
function asJson(value: Pinned | TurnSummary): Json {
  const plain: Json = JSON.parse(JSON.stringify(value));
  return plain;
}

function noChildren(): () => Promise<never> {
  return () => Promise.reject(new Error("nothing is run in a replay"));
}
