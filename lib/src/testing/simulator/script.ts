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
  cancel: 4,
  answer: 8,
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
  readonly session: string;
  /** The index of the process that gets the call. */
  readonly process: number;
  /** The message of a verb that has one. */
  readonly plan: string;
};

/** One fault of a process. `jump`: its wall clock jumps by `ms`. The others last `ms`. */
type ProcessFault = {
  readonly type: "kill" | "pause" | "partition" | "jump";
  readonly atMs: number;
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
  /** The network loses requests and answers, and the storage is busy or slow at times. */
  readonly networkFaults: boolean;
  readonly operations: readonly Operation[];
  readonly faults: readonly ProcessFault[];
};

/** The script of a seed. `operations`: how many calls clients make. */
export function scriptOf(seed: number, operations: number): SimulationScript {
  const random = randomStream(seed, "script");
  const processes = random.whole(2, 4);
  const sessions = Array.from({ length: random.whole(1, 3) }, (_, index) => `s${index}`);
  const lengthMs = random.pick([2000, 6000, 12_000]);
  const starts = sessions.map((session, index) => operation(random, index + 1, "start", session, 50, processes));
  const others = Array.from({ length: Math.max(0, operations - starts.length) }, (_, index) => {
    const session = sessions[random.whole(0, sessions.length - 1)] ?? "s0";
    return operation(random, starts.length + index + 1, verbOf(random), session, lengthMs, processes);
  });
  const isCalm = random.chance(0.1);
  const faults = Array.from({ length: isCalm ? 0 : random.whole(1, 6) }, () => fault(random, lengthMs, processes));
  return {
    seed,
    processes,
    knowsEnded: random.chance(0.3),
    networkFaults: !isCalm && random.chance(0.7),
    operations: [...starts, ...others].sort((left, right) => left.atMs - right.atMs),
    faults: faults.sort((left, right) => left.atMs - right.atMs),
  };
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
  session: string,
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

function fault(random: Random, lengthMs: number, processes: number): ProcessFault {
  const type = random.pick(["kill", "kill", "kill", "pause", "pause", "partition", "jump"]);
  const ms = type === "jump" ? random.whole(-8000, 8000) : random.whole(100, 9000);
  return { type, atMs: random.whole(0, lengthMs + 2000), process: random.whole(0, processes - 1), ms };
}
