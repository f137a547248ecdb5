// The expectations of the crash matrix: compares a run with kills to the baseline run without a kill.
//
// The expected result of a run with kills follows from the baseline and from the effect log (which stage each effect
// was in at the kill, and its replay policy), never from what the runtime reports about itself. Compared are
//   - how often each effect was performed, and with which idempotency keys;
//   - the session and the event log, without values that differ by nature (turn ids, request ids) and without answers
//     that recovery or a person gave instead of the effect;
//   - the tokens on the ledger;
//   - the rows that must be gone at the end;
//   - what the tools did outside of the storage, if the scenario tells it.

import type { HistoryFrame, Json, JsonObject, Session } from "../core/model/internal.ts";
import type { RuntimeEvent } from "../durable/internal.ts";
import type { CrashPoint } from "./crashable-process.ts";
import type { EffectLog } from "./effect-log.ts";

import { written } from "./conformance.ts";

/** The observations of one run: all its processes, from the empty storage to the end of the script. */
export type Run = {
  readonly killedAt: readonly CrashPoint[];
  /** The number of crash points of its last process. */
  readonly points: number;
  readonly log: EffectLog;
  readonly ended: Ended | { readonly failed: string };
  /**
   * A process was paused and resumed instead of killed. The two processes may then each perform effects that the other
   * has not recorded.
   */
  readonly resumed: boolean;
  /** What a resumed process changed after the run had ended; `null` if nothing. */
  readonly late: string | null;
  /** What the tools did outside of the storage, one text for each effect. */
  readonly outside: readonly string[];
};

/** The final state of a run, read from the storage. */
export type Ended = {
  readonly session: Session<JsonObject>;
  readonly events: readonly RuntimeEvent[];
  /** The frames of the session. */
  readonly frames: readonly HistoryFrame[];
  /** The tokens on the ledger of the session. */
  readonly tokens: number;
  /** The number of rows in tables that must be empty at the end. */
  readonly remainingRows: { readonly [table: string]: number };
};

/** Returns every violation of a run, compared with the baseline. */
export function violationsOf(baseline: Run, actualRun: Run): readonly string[] {
  if ("failed" in baseline.ended) return [`the baseline run without a kill failed: ${baseline.ended.failed}`];
  if ("failed" in actualRun.ended) return [actualRun.ended.failed];
  // Without its summary, a turn sends other requests.
  if (actualRun.log.hasAbandonedSummary) return abandonedSummaryViolations(baseline.ended, actualRun.ended);
  return [
    ...(actualRun.resumed ? lateRunViolations(baseline.log, actualRun.log) : []),
    ...(actualRun.resumed ? [] : [...actualRun.log.violations, ...countViolations(baseline.log, actualRun.log)]),
    ...endViolations(baseline.ended, actualRun.ended, answersOf(baseline.log, baseline.ended, actualRun.log)),
    ...tokenViolations(baseline, actualRun),
    ...outsideViolations(baseline, actualRun),
    ...(actualRun.late === null ? [] : [`the resumed process changed stored data: ${actualRun.late}`]),
  ];
}

/** A run whose summary was abandoned ends as the baseline does, with the same messages. */
function abandonedSummaryViolations({ session: before }: Ended, { session: after }: Ended): readonly string[] {
  return difference("the session", conversationOf(before), conversationOf(after));
}

function conversationOf({ status, thread }: Session<JsonObject>): Json {
  return [status, thread.messages.map(({ role, content }) => [role, written(content)])];
}

/**
 * Each effect is performed as often as in the baseline, plus once for each kill during the effect, if its policy is to
 * run again.
 */
function countViolations(baseline: EffectLog, actualRun: EffectLog): readonly string[] {
  const names = new Set([...baseline.effects.keys(), ...actualRun.effects.keys()]);
  return [...names].flatMap((name) => {
    const [before, after] = [baseline.effects.get(name), actualRun.effects.get(name)];
    const runs = after?.runs ?? 0;
    const expected = expectedRuns(name, baseline, actualRun);
    const keys = [...(after?.keys ?? [])];
    return [
      ...(runs === expected
        ? []
        : [`${name} was performed ${runs} times, not ${expected} (${before?.runs ?? 0} without a kill)`]),
      ...(keys.length <= 1 ? [] : [`${name} had several idempotency keys: ${keys.join(", ")}`]),
    ];
  });
}

/** A call with an unknown outcome may have had its effect or not. No other effect is missing, and none occurs twice. */
function outsideViolations({ outside: expected }: Run, { outside, log }: Run): readonly string[] {
  const isUnknown = [...log.effects.values()].some(({ answered }) => answered !== null);
  return [...new Set([...expected, ...outside])].flatMap((text) => {
    const [before, after] = [timesIn(expected, text), timesIn(outside, text)];
    if (after === before || (isUnknown && after < before)) return [];
    const remedy = after <= before ? "" : before === 0 ? `: ${unknownEffect}` : `: ${repeatedEffect}`;
    return [`the outside effect ${text} happened ${after} times, not ${before}${remedy}`];
  });
}

const unknownEffect =
  "no effect of the run without a kill has this text; the texts have to be equal in every run, without ids and keys";

const repeatedEffect =
  'the tool ran again after the kill; pass context.idempotencyKey to the other system, or give the tool replay: "never" or "ask"';

function timesIn(texts: readonly string[], text: string): number {
  return texts.filter((item) => item === text).length;
}

/**
 * With a resumed process: an effect that must not run again runs at most as often as in the baseline, whichever process
 * performs it.
 */
function lateRunViolations(baseline: EffectLog, actualRun: EffectLog): readonly string[] {
  return [...actualRun.effects.values()].flatMap(({ info, runs, lateRuns }) => {
    const expected = baseline.effects.get(info.name)?.runs ?? 0;
    const total = runs + lateRuns;
    return info.policy === "again" || total <= expected
      ? []
      : [`${info.name} was performed ${total} times, not ${expected}`];
  });
}

function expectedRuns(name: string, baseline: EffectLog, actualRun: EffectLog): number {
  const [before, after] = [baseline.effects.get(name), actualRun.effects.get(name)];
  const info = after?.info ?? before?.info;
  if (info !== undefined && actualRun.isCutOff(info)) return after?.cutOff?.runs ?? 0;
  if (after?.answered !== undefined && after.answered !== null) return after.answered.runs;
  return (before?.runs ?? 0) + (after?.again ?? 0);
}

/** The ids of calls that recovery answered (`unknown`) or a person answered (`asked`) instead of the tool. */
type Answers = {
  readonly unknown: ReadonlySet<string>;
  readonly asked: ReadonlySet<string>;
  /** One of the calls ran nested turns, so the usage of the run differs from the baseline. */
  readonly ranTurns: boolean;
};

function answersOf(baseline: EffectLog, ended: Ended, actualRun: EffectLog): Answers {
  const turns = turnsOf(ended);
  const answered = [...actualRun.effects.values()].filter(({ answered: by }) => by !== null);
  // Calls of nested turns are left out: their threads are not compared.
  const ids = (by: "unknown" | "asked") =>
    answered.flatMap(({ info, answered: answer }) => {
      const call = baseline.effects.get(info.name)?.info ?? info;
      return answer?.by === by && call.inside === null && call.callId !== null ? [byOrder(call.callId, turns)] : [];
    });
  const names = new Set(answered.map(({ info }) => info.name));
  const ranTurns = [...baseline.effects.values()].some(({ info }) => info.inside !== null && names.has(info.inside));
  return { unknown: new Set(ids("unknown")), asked: new Set(ids("asked")), ranTurns };
}

function endViolations(baseline: Ended, actualRun: Ended, answers: Answers): readonly string[] {
  const [expected, actual] = [comparable(baseline, answers), comparable(actualRun, answers)];
  const sequences = actualRun.events.flatMap(({ sequence }) => (sequence === null ? [] : [sequence]));
  const results = completedCalls(actualRun);
  const notUnknown = [...answers.unknown].filter((id) => !/may or may not have run/.test(results.get(id) ?? ""));
  const remaining = Object.entries(actualRun.remainingRows).filter(([, rows]) => rows > 0);
  return [
    ...difference("the session", expected.session, actual.session),
    ...difference("the events", expected.events, actual.events),
    ...difference("the frames", expected.frames, actual.frames),
    ...(sequences.every((sequence, index) => sequence === index + 1)
      ? []
      : [`the events have the sequence numbers ${sequences.join(", ")}`]),
    ...notUnknown.map((id) => `the call ${id} has the result ${results.get(id) ?? "none"}, not an unknown outcome`),
    ...remaining.map(([table, rows]) => `${rows} rows remain in ${table}`),
  ];
}

/**
 * The ledger has the tokens of the baseline exactly once, minus model calls of nested turns that recovery did not
 * continue.
 */
function tokenViolations(
  { log: baseline, ended: baselineEnd }: Run,
  { log: actualRun, ended }: Run,
): readonly string[] {
  if ("failed" in baselineEnd || "failed" in ended) return [];
  let expected = baselineEnd.tokens;
  for (const [name, { info, tokens }] of baseline.effects) {
    if (actualRun.isCutOff(info)) expected -= tokens - (actualRun.effects.get(name)?.tokens ?? 0);
  }
  return ended.tokens === expected ? [] : [`${ended.tokens} tokens are on the ledger, not ${expected}`];
}

/** The completion events of tool calls as text, by call id. */
function completedCalls(ended: Ended): ReadonlyMap<string, string> {
  const turns = turnsOf(ended);
  return new Map(
    ended.events.flatMap(({ event }) =>
      event.type === "tool_execution_completed" ? [[byOrder(event.id, turns), written(event)] as const] : [],
    ),
  );
}

/** The turn ids in the order in which the turns began. */
function turnsOf({ events }: Ended): readonly string[] {
  return events.flatMap(({ event, turnId }) => (event.type === "turn_started" ? [turnId] : []));
}

/**
 * Replaces turn ids by their order, because they differ in every run, and digests of pending calls, which cover them.
 * What is shown is compared itself.
 */
function byOrder(text: string, turns: readonly string[]): string {
  const withoutDigests = text.replaceAll(/\b[0-9a-f]{84}\b/g, "digest");
  return turns.reduce((before, turn, index) => before.replaceAll(turn, `turn ${index + 1}`), withoutDigests);
}

/**
 * The comparable part of a final state: without ids that differ in every run, and without results that recovery or a
 * person gave.
 */
function comparable(
  ended: Ended,
  answers: Answers,
): { readonly session: Json; readonly events: Json; readonly frames: Json } {
  const { session, events, frames } = ended;
  const turns = turnsOf(ended);
  const entries = events.map(({ turnId, event }) => ({ turnId, event }));
  const { lastRun, ...otherFields } = session;
  const asked = answers.asked.size > 0;
  // An answer of a person splits a turn into two, so turns and most events differ from the baseline. Messages do not.
  const compared = asked ? entries.filter(({ event }) => event.type === "message_completed") : inCallOrder(entries);
  return {
    frames: plain(frames, turns, answers),
    session: plain(asked ? otherFields : { ...otherFields, lastRun }, turns, answers),
    events: plain(
      compared.map((entry) => (asked ? { event: entry.event } : entry)),
      turns,
      answers,
    ),
  };
}

/** Sorts adjacent events of tool calls by call id, because concurrent tools end in any order. */
function inCallOrder<Entry extends { readonly event: RuntimeEvent["event"] }>(
  entries: readonly Entry[],
): readonly Entry[] {
  const sorted: Entry[] = [];
  let batch: Entry[] = [];
  const flush = () => {
    sorted.push(
      ...batch.toSorted((left, right) => compare(callIdOfEvent(left.event) ?? "", callIdOfEvent(right.event) ?? "")),
    );
    batch = [];
  };
  for (const entry of entries) {
    if (callIdOfEvent(entry.event) !== null) batch.push(entry);
    else {
      flush();
      sorted.push(entry);
    }
  }
  flush();
  return sorted;
}

/** The call id of an event about a tool call; otherwise `null`. */
function callIdOfEvent(event: RuntimeEvent["event"]): string | null {
  switch (event.type) {
    case "tool_execution_completed":
    case "tool_result_encoded":
      return event.id;
    case "tool_halt":
    case "approval_requested":
    case "ask_user_requested":
      return event.toolCallId;
    default:
      return null;
  }
}

function compare(left: string, right: string): number {
  return left === right ? 0 : left < right ? -1 : 1;
}

/**
 * JSON with turn ids replaced by their order, and with `answeredElsewhere` in place of results that recovery or a
 * person gave.
 */
function plain(value: unknown, turns: readonly string[], { unknown, asked, ranTurns }: Answers): Json {
  const named: Json = JSON.parse(byOrder(JSON.stringify(value), turns));
  const text = JSON.stringify(named, (key, item: unknown) => {
    if (key === "requestId" || (ranTurns && key === "usage")) return undefined;
    if (key === "undoneAt" && item !== null) return "a time";
    if (asked.size > 0 && typeof item === "string" && /^turn \d/.test(item)) return undefined;
    const id = answeredCall(item);
    return id !== null && (unknown.has(id) || asked.has(id)) ? { answeredElsewhere: id } : item;
  });
  const parsed: Json = JSON.parse(text);
  return parsed;
}

/** The id of the call that an object is the result of; otherwise `null`. */
function answeredCall(item: unknown): string | null {
  if (typeof item !== "object" || item === null) return null;
  if ("toolCallId" in item && typeof item.toolCallId === "string") return item.toolCallId;
  if ("answer" in item && "call" in item) return answeredCall({ type: "tool_call", ...objectOrEmpty(item.call) });
  if (!("type" in item && "id" in item) || typeof item.type !== "string" || typeof item.id !== "string") return null;
  return item.type.startsWith("tool_") ? item.id : null;
}

function objectOrEmpty(value: unknown): object {
  return typeof value === "object" && value !== null ? value : {};
}

/** The first difference of two values as a list, for the list of violations. */
function difference(what: string, expected: Json, actual: Json): readonly string[] {
  const at = firstDifference(expected, actual, what);
  return at === null ? [] : [at];
}

/** Returns the path and the values of the first difference; `null` if the values are equal. */
export function firstDifference(expected: Json | undefined, actual: Json | undefined, path: string): string | null {
  if (expected === actual) return null;
  const [left, right] = [entriesByKey(expected), entriesByKey(actual)];
  if (left === null || right === null || Array.isArray(expected) !== Array.isArray(actual)) {
    return `${path} is ${short(actual)}, not ${short(expected)}`;
  }
  for (const key of new Set([...left.keys(), ...right.keys()])) {
    const at = firstDifference(left.get(key), right.get(key), `${path}.${key}`);
    if (at !== null) return at;
  }
  return null;
}

/** The items of an array or the fields of an object, by key; `null` for any other value. */
function entriesByKey(value: Json | undefined): ReadonlyMap<string, Json> | null {
  return typeof value === "object" && value !== null ? new Map(Object.entries(value)) : null;
}

function short(value: Json | undefined): string {
  const text = written(value);
  return text.length > 300 ? `${text.slice(0, 300)}…` : text;
}
