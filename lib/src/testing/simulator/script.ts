// The script of a simulation: what clients do and what fails, as data that follows from the seed. A run is shrunk by
// removing parts of its script.

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
  "reuse",
  "delete",
  "get",
  "list",
  "recover",
  "drive",
  "sweep",
  "read",
  "close",
  "compact",
  "undo",
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
  fork: 2,
  reuse: 1,
  delete: 0.8,
  get: 1,
  list: 1,
  recover: 2,
  drive: 3,
  sweep: 1,
  read: 3,
  close: 0.5,
  // Only in scripts whose engine has a context policy: `compactionsOf`.
  compact: 0,
  undo: 0,
};

/** Verbs that start or continue turns, or give them input. In a crowded script they are chosen more often. */
const inputVerbs: ReadonlySet<SimulatedVerb> = new Set(["send", "steer", "withdraw"]);

/** Verbs that another client repeats later under the same key. */
const repeatedVerbs: ReadonlySet<SimulatedVerb> = new Set(["start", "reply", "send", "steer", "continue", "step"]);

/** One call of a client. */
export type Operation = {
  /** Names the random numbers of the call. */
  readonly call: number;
  /** Names the idempotency key, the message and its options. Calls that repeat another one have the same number. */
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
 * - `power_loss`: the storage loses the writes since the last lasting one, and answers no process for `ms`
 * - `failover`: the storage is replaced by a copy that lacks its last writes, back to a claim of a session, and answers
 *   no process for `ms`
 */
export type Fault = {
  readonly type:
    | "kill"
    | "pause"
    | "partition"
    | "deaf"
    | "jump"
    | "stall"
    | "storage_jump"
    | "power_loss"
    | "failover";
  readonly atMs: number;
  /**
   * The fault happens right after this write of the run, in the process that made it, before its answer arrives;
   * `null`: it happens at `atMs`.
   */
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
  /** Processes take others for ended that run, at times. */
  readonly mistakesEnded: boolean;
  /** The clocks of the processes differ by minutes, and jump by minutes. That of the storage is right. */
  readonly farClocks: boolean;
  /** The limit of takeovers without progress (Q17). */
  readonly maxTakeovers: number;
  /** The network loses, repeats and delays requests and answers, and the storage is busy at times. */
  readonly networkFaults: boolean;
  /** Model calls fail or are cut off, tools fail, and the tool `crash` ends its process. */
  readonly effectFaults: boolean;
  /** The engine has a context policy: old messages are replaced by summaries. */
  readonly compacts: boolean;
  readonly operations: readonly Operation[];
  readonly faults: readonly Fault[];
};

/** Faults that a script has only if they are asked for. */
export type ExtraFault = (typeof extraFaults)[number];
export const extraFaults = ["failover", "far_clocks"] as const;

/**
 * The script of a seed. `operations`: how many calls clients make. `extra`: faults that it may have besides the others.
 */
export function scriptOf(seed: number, operations: number, extra: readonly ExtraFault[]): SimulationScript {
  const random = randomStream(seed, "script");
  const processes = random.pick([1, 2, 2, 3, 3, 4]);
  const sessions = sessionsOf(random);
  // Many inputs for one session, while its turns are open.
  const isCrowded = random.chance(0.25);
  const lengthMs = isCrowded ? random.pick([500, 1500]) : random.pick([1000, 3000, 8000]);
  const starts = sessions.map((session, index) => operation(random, index + 1, "start", session, 50, processes));
  const calls: Operation[] = [...starts];
  while (calls.length < operations) {
    const session = sessions[isCrowded ? 0 : random.whole(0, sessions.length - 1)] ?? { tenant: "", id: "s0" };
    const number = calls.length + 1;
    const made = operation(random, number, verbOf(random, isCrowded ? 4 : 1), session, lengthMs, processes);
    const repeatable = calls.filter(({ verb, call }) => repeatedVerbs.has(verb) && call > starts.length);
    const [first, ...rest] = repeatable;
    const isRepeated = random.chance(0.15) && first !== undefined;
    calls.push(
      isRepeated ? { ...random.pick([first, ...rest]), call: number, atMs: made.atMs, process: made.process } : made,
    );
  }
  const isCalm = random.chance(0.1);
  const faults = Array.from({ length: isCalm ? 0 : random.whole(1, 6) }, () => fault(random, lengthMs, processes));
  const knowsEnded = random.chance(0.3);
  // Numbers of a stream of their own: a script has the same other parts with and without these faults.
  const others = randomStream(seed, "extra faults");
  const compacts = randomStream(seed, "context").chance(0.4);
  if (compacts) calls.push(...compactionsOf(seed, sessions, calls.length, lengthMs, processes));
  const hasFailover = !isCalm && others.chance(0.5) && extra.includes("failover");
  return {
    seed,
    processes,
    knowsEnded,
    mistakesEnded: knowsEnded && !isCalm && random.chance(0.2),
    farClocks: others.chance(0.5) && extra.includes("far_clocks"),
    maxTakeovers: random.pick([2, 3, 5]),
    networkFaults: !isCalm && random.chance(0.7),
    effectFaults: !isCalm && random.chance(0.6),
    compacts,
    operations: calls.sort((left, right) => left.atMs - right.atMs),
    faults: [...faults, ...(hasFailover ? [failover(others, lengthMs)] : [])].sort(
      (left, right) => left.atMs - right.atMs,
    ),
  };
}

/**
 * Calls that ask for a compaction or undo the newest one. Their numbers are of a stream of their own: a script has the
 * same other calls with and without them.
 */
function compactionsOf(
  seed: number,
  sessions: readonly SimulatedSession[],
  before: number,
  lengthMs: number,
  processes: number,
): readonly Operation[] {
  const random = randomStream(seed, "compactions");
  const [first = { tenant: "", id: "s0" }, ...rest] = sessions;
  return Array.from({ length: random.whole(3, 8) }, (_, index) => {
    const verb = random.chance(0.35) ? "compact" : "undo";
    const session = random.pick([first, first, ...rest]);
    const made = operation(random, before + index + 1, verb, session, lengthMs, processes);
    // There is something to compact, and to undo, when the other calls have begun.
    return { ...made, atMs: Math.floor(lengthMs / 3) + made.atMs };
  });
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

/** A verb at random. Verbs that give input to turns are chosen `inputs` times as often as by their weight. */
function verbOf(random: Random, inputs: number): SimulatedVerb {
  const weightOf = (verb: SimulatedVerb) => weights[verb] * (inputVerbs.has(verb) ? inputs : 1);
  let left = random.next() * verbs.reduce((sum, verb) => sum + weightOf(verb), 0);
  for (const verb of verbs) {
    left -= weightOf(verb);
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
  const plan = `#${number} ${planOf(random)}`;
  return { call: number, number, atMs: random.whole(0, lengthMs), verb, session, process, plan };
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
    "power_loss",
    "power_loss",
  ]);
  const isJump = type === "jump" || type === "storage_jump";
  const ms = isJump ? random.whole(-5000, 5000) : random.whole(50, 5000);
  const atMs = random.whole(0, lengthMs + 1000);
  const atWrite = random.chance(0.5) ? random.whole(1, 50) : null;
  return { type, atMs, atWrite, process: random.whole(0, processes - 1), ms };
}

/** A failover during the calls of the clients: before that there is little to lose. */
function failover(random: Random, lengthMs: number): Fault {
  const atWrite = random.chance(0.7) ? random.whole(3, 40) : null;
  return { type: "failover", atMs: random.whole(0, lengthMs), atWrite, process: 0, ms: random.whole(0, 1500) };
}

/** The script for people, one line for each operation and fault. */
export function linesOf(script: SimulationScript): readonly string[] {
  const { processes, knowsEnded, mistakesEnded, farClocks, maxTakeovers } = script;
  const { networkFaults, effectFaults, compacts, operations, faults } = script;
  const called = operations.map(({ atMs, verb, session, process, plan, call, number }) => ({
    atMs,
    line: `client calls ${verb} of ${nameOfSession(session)} at process ${process}${call === number ? "" : " again"}${hasMessage(verb) ? ` with the message ${JSON.stringify(plan)}` : ""}`,
  }));
  const failed = faults.map(({ atMs, atWrite, type, process, ms }) => {
    const ofStorage = ["stall", "storage_jump", "power_loss", "failover"].includes(type);
    if (atWrite === null) return { atMs, line: `fault: ${type}${ofStorage ? "" : ` of process ${process}`}, ${ms} ms` };
    return { atMs: -1, line: `fault: ${type}${ofStorage ? "" : " of its process"}, ${ms} ms`, atWrite };
  });
  const settings = [
    `${processes} processes${knowsEnded ? ` that know which others have ended${mistakesEnded ? ", and are wrong at times" : ""}` : ""}`,
    ...(farClocks ? ["clocks that differ by minutes"] : []),
    `at most ${maxTakeovers} takeovers without progress`,
    `${networkFaults ? "with" : "without"} network faults`,
    `${effectFaults ? "with" : "without"} failing models and tools`,
    ...(compacts ? ["with summaries of old messages"] : []),
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
  return ["start", "reply", "send", "steer", "withdraw", "fork", "reuse", "delete", "compact", "undo"].includes(verb);
}
