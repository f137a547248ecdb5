// The script of a simulation: what clients do and what fails, as data that follows from the seed. A run is shrunk by removing parts of its script.

import type { Random } from "./random.ts";

import { toolNames } from "./agent.ts";
import { randomStream } from "./random.ts";

/** The verbs that clients call. */
type SimulatedVerb = (typeof verbs)[number];

const verbs = [
  "start",
  "reply",
  "send",
  "steer",
  "withdraw",
  "continue",
  "step",
  "cancel",
  "answer",
  "fork",
  "delete",
  "get",
  "list",
  "recover",
  "drive",
  "sweep",
  "read",
  "close",
] as const;

/** How often a verb is chosen, relative to the others. */
const weights: { readonly [V in SimulatedVerb]: number } = {
  start: 2,
  reply: 6,
  send: 8,
  steer: 4,
  withdraw: 1,
  continue: 1,
  step: 1,
  cancel: 4,
  answer: 10,
  fork: 1,
  delete: 0.4,
  get: 1,
  list: 1,
  recover: 2,
  drive: 3,
  sweep: 1,
  read: 3,
  close: 0.5,
};

/** One call of a client. */
export type Operation = {
  /** Names the random numbers of the call, and its message. */
  readonly number: number;
  /** When the client calls, in milliseconds since the beginning. */
  readonly atMs: number;
  readonly verb: SimulatedVerb;
  readonly session: SimulatedSession;
  /** The index of the process that gets the call. */
  readonly process: number;
  /** The message of a verb that has one. */
  readonly plan: string;
};

/** A session of the script. Two tenants may have a session of the same id. */
export type SimulatedSession = { readonly tenant: string; readonly id: string };

/**
 * One fault. All but the jumps last `ms`.
 *
 * - `kill`: the process ends, and another one starts in its place
 * - `pause`: the process stops, as by SIGSTOP
 * - `partition`: requests of the process to the storage wait or are lost
 * - `deaf`: requests of the process reach the storage, and the answers are lost
 * - `jump`: the wall clock of the process jumps by `ms`
 * - `stall`: the storage answers no process
 * - `storage_jump`: the clock of the storage jumps by `ms`
 */
export type Fault = {
  readonly type: "kill" | "pause" | "partition" | "deaf" | "jump" | "stall" | "storage_jump";
  readonly atMs: number;
  /** The fault happens right after this write of the run, in the process that made it, before its answer arrives; `null`: it happens at `atMs`. */
  readonly atWrite: number | null;
  /** The index of the process, for a fault at a time; not used by faults of the storage. */
  readonly process: number;
  readonly ms: number;
};

/** What happens in a simulation, besides the random numbers of the network. */
export type SimulationScript = {
  readonly seed: number;
  /** The number of processes that serve clients and drive turns. */
  readonly processes: number;
  /** Processes recognise that others have ended (`HostStorage.liveness`). */
  readonly knowsEnded: boolean;
  /** The limit of takeovers without progress (Q17). */
  readonly maxTakeovers: number;
  /** The network loses, repeats and delays requests and answers, and the storage is busy at times. */
  readonly networkFaults: boolean;
  /** Model calls fail or are cut off, tools fail, and the tool `crash` ends its process. */
  readonly effectFaults: boolean;
  readonly operations: readonly Operation[];
  readonly faults: readonly Fault[];
};

/** The script of a seed. `operations`: how many calls clients make. */
export function scriptOf(seed: number, operations: number): SimulationScript {
  const random = randomStream(seed, "script");
  const processes = random.pick([1, 2, 2, 3, 3, 4]);
  const sessions = sessionsOf(random);
  const lengthMs = random.pick([1000, 3000, 8000]);
  const starts = sessions.map((session, index) => operation(random, index + 1, "start", session, 50, processes));
  const others = Array.from({ length: Math.max(0, operations - starts.length) }, (_, index) => {
    const session = sessions[random.whole(0, sessions.length - 1)] ?? { tenant: "", id: "s0" };
    return operation(random, starts.length + index + 1, verbOf(random), session, lengthMs, processes);
  });
  const isCalm = random.chance(0.1);
  const faults = Array.from({ length: isCalm ? 0 : random.whole(1, 6) }, () => fault(random, lengthMs, processes));
  return {
    seed,
    processes,
    knowsEnded: random.chance(0.3),
    maxTakeovers: random.pick([2, 3, 5]),
    networkFaults: !isCalm && random.chance(0.7),
    effectFaults: !isCalm && random.chance(0.6),
    operations: [...starts, ...others].sort((left, right) => left.atMs - right.atMs),
    faults: faults.sort((left, right) => left.atMs - right.atMs),
  };
}

/** One to three sessions, of one or two tenants. */
function sessionsOf(random: Random): readonly SimulatedSession[] {
  const tenants = random.pick([[""], [""], ["", "acme"]]);
  return Array.from({ length: random.whole(tenants.length, 3) }, (_, index) => ({
    tenant: tenants[index % tenants.length] ?? "",
    id: `s${Math.floor(index / tenants.length)}`,
  }));
}

/** The name of a session in messages and scripts. */
export function nameOfSession({ tenant, id }: SimulatedSession): string {
  return tenant === "" ? id : `${tenant}/${id}`;
}

function verbOf(random: Random): SimulatedVerb {
  let left = random.next() * verbs.reduce((sum, verb) => sum + weights[verb], 0);
  for (const verb of verbs) {
    left -= weights[verb];
    if (left < 0) return verb;
  }
  return "reply";
}

function operation(
  random: Random,
  number: number,
  verb: SimulatedVerb,
  session: SimulatedSession,
  lengthMs: number,
  processes: number,
): Operation {
  const process = random.whole(0, processes - 1);
  return { number, atMs: random.whole(0, lengthMs), verb, session, process, plan: `#${number} ${planOf(random)}` };
}

/** Up to three replies with calls, then a text. */
function planOf(random: Random): string {
  const replies = Array.from({ length: random.pick([0, 1, 1, 2, 3]) }, () =>
    Array.from({ length: random.pick([1, 1, 2, 3]) }, () => random.pick(toolNames)).join(" "),
  );
  return replies.join(";");
}

function fault(random: Random, lengthMs: number, processes: number): Fault {
  const type = random.pick([
    "kill",
    "kill",
    "kill",
    "pause",
    "pause",
    "pause",
    "partition",
    "deaf",
    "jump",
    "stall",
    "storage_jump",
  ]);
  const isJump = type === "jump" || type === "storage_jump";
  const ms = isJump ? random.whole(-5000, 5000) : random.whole(50, 5000);
  const atMs = random.whole(0, lengthMs + 1000);
  const atWrite = random.chance(0.5) ? random.whole(1, 50) : null;
  return { type, atMs, atWrite, process: random.whole(0, processes - 1), ms };
}

/** The script for people, one line for each operation and fault. */
export function linesOf(script: SimulationScript): readonly string[] {
  const { processes, knowsEnded, maxTakeovers, networkFaults, effectFaults, operations, faults } = script;
  const called = operations.map(({ atMs, verb, session, process, plan }) => ({
    atMs,
    line: `client calls ${verb} of ${nameOfSession(session)} at process ${process}${hasMessage(verb) ? ` with the message ${JSON.stringify(plan)}` : ""}`,
  }));
  const failed = faults.map(({ atMs, atWrite, type, process, ms }) => {
    const ofStorage = type === "stall" || type === "storage_jump";
    if (atWrite === null) return { atMs, line: `fault: ${type}${ofStorage ? "" : ` of process ${process}`}, ${ms} ms` };
    return { atMs: -1, line: `fault: ${type}${ofStorage ? "" : " of its process"}, ${ms} ms`, atWrite };
  });
  const settings = [
    `${processes} processes${knowsEnded ? " that know which others have ended" : ""}`,
    `at most ${maxTakeovers} takeovers without progress`,
    `${networkFaults ? "with" : "without"} network faults`,
    `${effectFaults ? "with" : "without"} failing models and tools`,
  ];
  return [
    settings.join(", "),
    ...failed.flatMap(({ atWrite, line }) => (atWrite === undefined ? [] : [`after write ${atWrite}: ${line}`])),
    ...[...called, ...failed.filter(({ atWrite }) => atWrite === undefined)]
      .sort((left, right) => left.atMs - right.atMs)
      .map(({ atMs, line }) => `${atMs} ms: ${line}`),
  ];
}

function hasMessage(verb: SimulatedVerb): boolean {
  return ["start", "reply", "send", "steer", "withdraw"].includes(verb);
}
