// What has to have come out of a run that was killed, told from the run that was not and from how far each effect had got. Nothing here looks at
// what the runtime says of itself.

import type { Json, JsonObject, Session } from "../model/internal.ts";
import type { RuntimeEvent } from "../runtime/internal.ts";
import type { EffectLog } from "./effect-log.ts";
import type { CrashPoint } from "./mortal-life.ts";

import { written } from "./conformance.ts";

/** What was seen of one run. */
export type Run = {
  readonly killedAt: readonly CrashPoint[];
  /** Points of its last life. */
  readonly points: number;
  readonly log: EffectLog;
  readonly ended: Ended | { readonly failed: string };
  /** A life was not killed but away. Both may then do what the other has not done: whoever is first. */
  readonly cameBack: boolean;
  /** What a life changed that came back when all was over. */
  readonly late: string | null;
};

export type Ended = {
  readonly session: Session<JsonObject>;
  readonly events: readonly RuntimeEvent[];
  /** What was booked. */
  readonly tokens: number;
  /** Rows that should be gone, by their tables. */
  readonly left: { readonly [table: string]: number };
};

/** What is wrong with a run, compared with one that nobody killed. */
export function brokenBy(baseline: Run, came: Run): readonly string[] {
  if ("failed" in baseline.ended) return [`without a kill: ${baseline.ended.failed}`];
  if ("failed" in came.ended) return [came.ended.failed];
  return [
    ...(came.cameBack ? brokenLate(baseline.log, came.log) : []),
    ...(came.cameBack ? [] : [...came.log.violations, ...brokenCounts(baseline.log, came.log)]),
    ...brokenEnd(baseline.ended, came.ended, answersOf(baseline.log, baseline.ended, came.log)),
    ...brokenTokens(baseline, came),
    ...(came.late === null ? [] : [`the one that came back changed something: ${came.late}`]),
  ];
}

/** Each effect is performed as often as without a kill, and once more for each kill in the middle of it, if its policy says so. */
function brokenCounts(baseline: EffectLog, came: EffectLog): readonly string[] {
  const names = new Set([...baseline.effects.keys(), ...came.effects.keys()]);
  return [...names].flatMap((name) => {
    const [before, after] = [baseline.effects.get(name), came.effects.get(name)];
    const runs = after?.runs ?? 0;
    const wanted = expectedRuns(name, baseline, came);
    const keys = [...(after?.keys ?? [])];
    return [
      ...(runs === wanted
        ? []
        : [`${name} was performed ${runs} times, not ${wanted} (${before?.runs ?? 0} without a kill)`]),
      ...(keys.length <= 1 ? [] : [`${name} had several idempotency keys: ${keys.join(", ")}`]),
    ];
  });
}

/** Whoever drives, what must not be run again is not. */
function brokenLate(baseline: EffectLog, came: EffectLog): readonly string[] {
  return [...came.effects.values()].flatMap(({ info, runs, lateRuns }) => {
    const wanted = baseline.effects.get(info.name)?.runs ?? 0;
    const all = runs + lateRuns;
    return info.policy === "again" || all <= wanted ? [] : [`${info.name} was performed ${all} times, not ${wanted}`];
  });
}

function expectedRuns(name: string, baseline: EffectLog, came: EffectLog): number {
  const [before, after] = [baseline.effects.get(name), came.effects.get(name)];
  const info = after?.info ?? before?.info;
  if (info !== undefined && came.isCutOff(info)) return after?.cutOff?.runs ?? 0;
  if (after?.answered !== undefined && after.answered !== null) return after.answered.runs;
  return (before?.runs ?? 0) + (after?.again ?? 0);
}

/** Calls that recovery had to answer, or a person. */
type Answers = {
  readonly unknown: ReadonlySet<string>;
  readonly asked: ReadonlySet<string>;
  /** One of them had run turns of its own, so that what it cost is another sum. */
  readonly ranTurns: boolean;
};

function answersOf(baseline: EffectLog, ended: Ended, came: EffectLog): Answers {
  const turns = turnsOf(ended);
  const answered = [...came.effects.values()].filter(({ answered: by }) => by !== null);
  // Calls in turns that tools run are in no thread that is looked at.
  const ids = (by: "unknown" | "asked") =>
    answered.flatMap(({ info, answered: one }) => {
      const known = baseline.effects.get(info.name)?.info ?? info;
      return one?.by === by && known.inside === null && known.callId !== null ? [byOrder(known.callId, turns)] : [];
    });
  const names = new Set(answered.map(({ info }) => info.name));
  const ranTurns = [...baseline.effects.values()].some(({ info }) => info.inside !== null && names.has(info.inside));
  return { unknown: new Set(ids("unknown")), asked: new Set(ids("asked")), ranTurns };
}

function brokenEnd(baseline: Ended, came: Ended, answers: Answers): readonly string[] {
  const [wanted, found] = [shown(baseline, answers), shown(came, answers)];
  const sequences = came.events.flatMap(({ sequence }) => (sequence === null ? [] : [sequence]));
  const said = answersIn(came);
  const sure = [...answers.unknown].filter((id) => !/is not known/.test(said.get(id) ?? ""));
  const left = Object.entries(came.left).filter(([, rows]) => rows > 0);
  return [
    ...difference("the session", wanted.session, found.session),
    ...difference("the events", wanted.events, found.events),
    ...(sequences.every((sequence, index) => sequence === index + 1)
      ? []
      : [`the events are numbered ${sequences.join(", ")}`]),
    ...sure.map((id) => `the call ${id} is answered ${said.get(id) ?? "by nobody"}, not that its outcome is not known`),
    ...left.map(([table, rows]) => `${rows} rows are left in ${table}`),
  ];
}

/** What was paid for is booked once. What a tool that was not gone on with had yet to buy is not. */
function brokenTokens({ log: baseline, ended: whole }: Run, { log: came, ended }: Run): readonly string[] {
  if ("failed" in whole || "failed" in ended) return [];
  let wanted = whole.tokens;
  for (const [name, { info, tokens }] of baseline.effects) {
    if (came.isCutOff(info)) wanted -= tokens - (came.effects.get(name)?.tokens ?? 0);
  }
  return ended.tokens === wanted ? [] : [`${ended.tokens} tokens are booked, not ${wanted}`];
}

/** What was told of calls that ended, by their ids. */
function answersIn(ended: Ended): ReadonlyMap<string, string> {
  const turns = turnsOf(ended);
  return new Map(
    ended.events.flatMap(({ event }) =>
      event.type === "tool_execution_completed" ? [[byOrder(event.id, turns), written(event)] as const] : [],
    ),
  );
}

/** Turns in the order they began in. */
function turnsOf({ events }: Ended): readonly string[] {
  return events.flatMap(({ event, turnId }) => (event.type === "turn_started" ? [turnId] : []));
}

/** The text with turns known by their order. */
function byOrder(text: string, turns: readonly string[]): string {
  return turns.reduce((before, turn, index) => before.replaceAll(turn, `turn ${index + 1}`), text);
}

/** What can be compared: without what is another each time, and without what somebody else had to answer. */
function shown(ended: Ended, answers: Answers): { readonly session: Json; readonly events: Json } {
  const { session, events } = ended;
  const turns = turnsOf(ended);
  const entries = events.map(({ turnId, event }) => ({ turnId, event }));
  const { lastRun, ...rest } = session;
  const asked = answers.asked.size > 0;
  // With a person's answer in between there are more turns, and the last one is a shorter one.
  const kept = asked ? entries.filter(({ event }) => event.type === "message_completed") : inCallOrder(entries);
  return {
    session: plain(asked ? rest : { ...rest, lastRun }, turns, answers),
    events: plain(
      kept.map((entry) => (asked ? { event: entry.event } : entry)),
      turns,
      answers,
    ),
  };
}

/** Tools that run side by side end in any order. */
function inCallOrder<Entry extends { readonly event: RuntimeEvent["event"] }>(
  entries: readonly Entry[],
): readonly Entry[] {
  const sorted: Entry[] = [];
  let batch: Entry[] = [];
  const flush = () => {
    sorted.push(...batch.toSorted((left, right) => compare(callOf(left.event) ?? "", callOf(right.event) ?? "")));
    batch = [];
  };
  for (const entry of entries) {
    if (callOf(entry.event) !== null) batch.push(entry);
    else {
      flush();
      sorted.push(entry);
    }
  }
  flush();
  return sorted;
}

/** The call that an event is about. */
function callOf(event: RuntimeEvent["event"]): string | null {
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

/** JSON in which turns are known by their order, and what was answered by somebody else only by its call. */
function plain(value: unknown, turns: readonly string[], { unknown, asked, ranTurns }: Answers): Json {
  const named: Json = JSON.parse(byOrder(JSON.stringify(value), turns));
  const kept = JSON.stringify(named, (key, item: unknown) => {
    if (key === "requestId" || (ranTurns && key === "usage")) return undefined;
    if (asked.size > 0 && typeof item === "string" && /^turn \d/.test(item)) return undefined;
    const id = answeredCall(item);
    return id !== null && (unknown.has(id) || asked.has(id)) ? { answeredElsewhere: id } : item;
  });
  const parsed: Json = JSON.parse(kept);
  return parsed;
}

/** The call an object is the result of. */
function answeredCall(item: unknown): string | null {
  if (typeof item !== "object" || item === null) return null;
  if ("toolCallId" in item && typeof item.toolCallId === "string") return item.toolCallId;
  if ("answer" in item && "call" in item) return answeredCall({ type: "tool_call", ...objectOf(item.call) });
  if (!("type" in item && "id" in item) || typeof item.type !== "string" || typeof item.id !== "string") return null;
  return item.type.startsWith("tool_") ? item.id : null;
}

function objectOf(value: unknown): object {
  return typeof value === "object" && value !== null ? value : {};
}

/** Where two values differ first. */
function difference(what: string, wanted: Json, found: Json): readonly string[] {
  const at = firstDifference(wanted, found, what);
  return at === null ? [] : [at];
}

/** Where two values differ first; `null` when they do not. */
export function firstDifference(wanted: Json | undefined, found: Json | undefined, path: string): string | null {
  if (wanted === found) return null;
  const [left, right] = [fieldsOf(wanted), fieldsOf(found)];
  if (left === null || right === null || Array.isArray(wanted) !== Array.isArray(found)) {
    return `${path} is ${short(found)}, not ${short(wanted)}`;
  }
  for (const key of new Set([...left.keys(), ...right.keys()])) {
    const at = firstDifference(left.get(key), right.get(key), `${path}.${key}`);
    if (at !== null) return at;
  }
  return null;
}

/** The parts of a list or an object, by their names; `null` when it has none. */
function fieldsOf(value: Json | undefined): ReadonlyMap<string, Json> | null {
  return typeof value === "object" && value !== null ? new Map(Object.entries(value)) : null;
}

function short(value: Json | undefined): string {
  const text = written(value);
  return text.length > 300 ? `${text.slice(0, 300)}…` : text;
}
