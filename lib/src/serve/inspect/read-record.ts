// Reads an exported turn as a timeline, without a storage. The record has the journal rows, but not the records inside
// effects: attempts that failed or that a crash ended are not in it. The file may be damaged or hostile, so every value
// is checked before it is used.

import type { EffectDetail, TurnTimeline } from "../../core/model/internal.ts";
import type { JournalRow, TurnRecord } from "../../durable/internal.ts";

import { MisuseError } from "../../core/model/internal.ts";
import { isPlainObject } from "../../core/model/parse/reading.ts";
import { readRecord } from "../../durable/internal.ts";
import { rowDetail, timelineOf } from "./timeline.ts";

/**
 * Reads a turn that `export` has written, as a value or as JSON text: the validated record, what the turn did, and the
 * stored data of each row. Throws `MisuseError` or another error of the library if it is no turn record, is damaged, or
 * was written by a newer release.
 */
export function readTurnRecord(value: TurnRecord | string): {
  readonly record: TurnRecord;
  readonly timeline: TurnTimeline;
  readonly details: readonly EffectDetail[];
} {
  const record = readRecord(value);
  const { sessionId, turnId, start, rows, end } = record.data;
  const { verb, engine, acceptedAt, base } = start;
  for (const [index, { effect }] of rows.entries()) checkEffect(effect, index + 1);
  const numbered = rows.map((row, index) => ({ ordinal: index + 1, row }));
  const { claims, effects } = timelineOf({ sessionId, turnId, acceptedAt, rows: numbered });
  const turn = {
    turnId,
    verb,
    engine,
    acceptedAt,
    base,
    status: end === null ? "parked" : "ended",
    step: effects.at(-1)?.step ?? 0,
    end,
    failure: null,
    limitWait: null,
    discarded: 0,
  } as const;
  return {
    record,
    timeline: {
      turn,
      now: effects.reduce((last, { endedAt }) => Math.max(last, endedAt ?? 0), acceptedAt),
      claims,
      effects,
      open: [],
      next: null,
      isJournalRemoved: rows.length === 0 && end !== null,
    },
    details: numbered.map(({ ordinal, row }) => rowDetail(ordinal, row)),
  };
}

/** Checks the parts of a stored effect that a timeline shows. */
function checkEffect(text: JournalRow["effect"], ordinal: number): void {
  if (text === null) return;
  let effect: unknown = null;
  try {
    effect = JSON.parse(text);
  } catch (cause) {
    throw new MisuseError("invalid_argument", `the effect of row ${ordinal} is not JSON`, { cause });
  }
  const isEffect = isPlainObject(effect) && typeof effect["id"] === "string";
  const call = isPlainObject(effect) && effect["type"] === "call_tool" ? effect["call"] : null;
  const isCall =
    call === null ||
    (isPlainObject(call) &&
      typeof call["name"] === "string" &&
      ["string", "undefined"].includes(typeof (call["id"] ?? undefined)));
  if (!isEffect || !isCall) throw new MisuseError("invalid_argument", `the effect of row ${ordinal} is damaged`);
}
