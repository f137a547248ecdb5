// The record of a turn as one JSON value, and its offline replay. A replay performs nothing and rejects at the first
// difference from the record. It is for debugging, and for regression tests of prompts, tools and protocols.
// `inspection` of `everturn/http` exports a record.

import type { Engine } from "../../core/engine/internal.ts";
import type {
  ChatResult,
  Json,
  JsonObject,
  Message,
  Path,
  ProtocolEvent,
  TurnEvent,
  WithText,
} from "../../core/model/internal.ts";
import type { Committed, Pinned, Ports } from "../../core/run/internal.ts";
import type { JournalRow, TurnStart, TurnSummary } from "../rows/values.ts";

import {
  errorFromFailure,
  MisuseError,
  orThrow,
  parse,
  RuntimeError,
  storedVersion,
  validationFailure,
  withText,
} from "../../core/model/internal.ts";
import { isObject, isPlainObject } from "../../core/model/parse/reading.ts";
import { planRun, readPinned, startRun, memoryScope } from "../../core/run/internal.ts";
import { divergentPaths, diverged } from "../drive/divergence.ts";
import { checkRevision } from "../drive/driven-turn.ts";
import { runOptions } from "../drive/durable-options.ts";
import { effectiveRows, DurableJournal } from "../drive/journal.ts";
import { planDetails } from "../drive/new-turn.ts";
import { offlineEngine } from "../drive/offline-engine.ts";
import { readPart } from "../rows/stored.ts";
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

/** The result of replaying a recorded turn. */
export type ReplayedTurn = {
  /** The result that the replay computed. */
  readonly result: WithText<ChatResult>;
  /** The stored events of the turn, in order. */
  readonly events: readonly TurnEvent[];
};

type ReplayOptions = {
  /**
   * The engine as it is now. The configuration that it would start the turn with is compared with the pinned one, so
   * changed instructions or tools are reported as a divergence. Default: the turn is replayed with its pinned
   * configuration.
   */
  readonly engine?: Engine;
};

/**
 * Runs a recorded turn again offline: no model is called and no tool is run. Rejects with a `RuntimeError`: `diverged`
 * with the paths of the first difference, `replay_missing` if the turn had not ended, or `newer_schema` if the record
 * is of a newer release.
 *
 * @example
 * ```ts
 * import { engine, fake } from "everturn";
 * import { memoryStorage } from "everturn/runtime";
 * import { inspection } from "everturn/http";
 * import { replayTurn, runtime } from "everturn/runtime";
 *
 * const agent = engine({ adapter: fake({ script: [{ type: "text", text: "Hello!" }] }), model: "fake:m" });
 * const sessions = runtime({ host: memoryStorage(), engines: { default: agent } });
 * const turn = await sessions.start("hi", { id: "s1" });
 * await turn.result;
 * const record = await inspection(sessions.source).export("s1");
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
  return { result: withText(chat, chat.finalResponse), events };
}

/** Validates a record, given as a value or as JSON text. Throws an error that names the damaged part. */
export function readRecord(record: TurnRecord | string): TurnRecord {
  const value: unknown = typeof record === "string" ? parsed(record) : record;
  if (!isPlainObject(value) || value["everturn"] !== "turn_record" || !isPlainObject(value["data"])) {
    throw new MisuseError("invalid_argument", "the value is not a turn record; `export` of `inspection` returns one");
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
      history: list(history).map((message, index) => readRecordPart("entries", message, ["history", index])),
      protocolEvents: orThrow(parse("session", { protocolEvents: list(protocolEvents) })).protocolEvents,
      start: readRecordPart("starts", start, ["start"]),
      pinned: orThrow(readPinned(readRecordPart("contents", pinned, ["pinned"]))),
      context: isObject(session) ? session : {},
      rows: list(rows).map((row, index) => readRecordPart("journal", row, ["rows", index])),
      end: head.end,
    },
  };
}

/** Reads a part of a record. The issues of the error have the place of the part in their paths. */
function readRecordPart<T extends Parameters<typeof readPart>[0]>(table: T, value: unknown, place: Path) {
  const result = readPart(table, value);
  if (result.ok) return result.value;
  const issues = result.failure.issues.map((issue) => ({ ...issue, path: [...place, ...issue.path] }));
  throw errorFromFailure(validationFailure("invalid_data", { issues, metadata: result.failure.metadata }));
}

function list(items: unknown): readonly unknown[] {
  return Array.isArray(items) ? items : [];
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new MisuseError("invalid_argument", "the turn record is not JSON", { cause });
  }
}

/** The value after a JSON round trip: without undefined properties. */
function asJson(value: Pinned | TurnSummary): Json {
  const plain: Json = JSON.parse(JSON.stringify(value));
  return plain;
}

function noChildren(): () => Promise<never> {
  return () => Promise.reject(new Error("a replay must not run child turns"));
}
