// The crash matrix (H7): fault injection at every crash point of a scripted conversation.
//
// Theory of operation
//   A scenario is run once without a kill (the baseline). Then it is run once for every crash point: the process is
//   killed there, the next process recovers the open turn, and the script runs again from its beginning with the same
//   idempotency keys. At the end the session, the events, the number of runs of each effect and the ledger must equal
//   the baseline, apart from what the replay policies allow (crash-expectations.ts). So must what the tools did
//   outside, if the scenario tells it.
//
//   Options add runs with two kills (`again`) and runs in which the first process is paused instead of killed, and
//   resumes after a takeover (`away`). A paused process tests fencing: after it resumes, none of its writes may succeed
//   (H3).
//
//   crashable-process.ts defines the crash points. effect-log.ts records which effects really ran.

import type { Engine } from "../core/engine/internal.ts";
import type { Json } from "../core/model/internal.ts";
import type {
  Runtime,
  RuntimeEvent,
  RuntimeOptions,
  TurnEnd,
  TurnHandle,
  HostStorage,
  TableName,
} from "../durable/internal.ts";
import type { Ended, Run } from "./crash-expectations.ts";
import type { CrashPoint } from "./crashable-process.ts";

import { totalTokens } from "../core/model/internal.ts";
import { readValue, runtime } from "../durable/internal.ts";
import { patienceMs, within } from "./conformance.ts";
import { violationsOf, firstDifference } from "./crash-expectations.ts";
import { CrashableProcess } from "./crashable-process.ts";
import { EffectLog } from "./effect-log.ts";
import { settled } from "./hand-clock.ts";

/** A conversation for the crash matrix. It is killed at every crash point and continued by a new process. */
export type CrashScenario = {
  /** The name in the report. */
  readonly name: string;
  /** The id of the session that the script uses. */
  readonly session: string;
  /**
   * Builds the engines; called for every process. A model must answer by the content of the request and not by the
   * number of calls, and two calls of one tool must differ in their arguments: the matrix identifies effects by both.
   */
  readonly engines: (process: CrashableProcess) => { readonly [name: string]: Engine };
  /**
   * The actions of the user. Every process runs the script from its beginning, so each verb needs an idempotency key:
   * an input that was accepted before is not accepted again.
   */
  readonly script: (user: CrashUser) => Promise<void>;
  /**
   * Returns what the tools did outside of the storage since the last call, such as the charges of a payment service:
   * one text for each effect, which says what it was and is equal in every run (no ids, no idempotency keys). Called at
   * the end of every run. A text that occurs more often than without a kill is a violation; so is one that occurs less
   * often, unless a call has an unknown outcome; so is a run without a kill that has none. Default: only the sessions,
   * the events, the ledger and the number of calls are compared, so a tool that charges twice and returns the same
   * value is not noticed.
   */
  readonly takeOutsideEffects?: () => readonly string[] | Promise<readonly string[]>;
  /** The result that a person gives for a call whose outcome is unknown (`replay: "ask"`). The default is `null`. */
  readonly unknownResult?: Json;
};

/** The user's side of a scenario, in one process. */
type CrashUser = {
  readonly runtime: Runtime;
  readonly process: CrashableProcess;
  /**
   * Waits for the turn, and then until the session has no open turn. Answers calls with an unknown outcome by
   * `unknownResult`.
   */
  readonly untilIdle: (turn: Promise<TurnHandle>) => Promise<TurnEnd>;
};

/** An empty storage on which the crash matrix runs a scenario. */
export type CrashHost = {
  /** The storage of the first process. */
  readonly host: HostStorage;
  /** Opens the written data again for the next process; `null` if all processes use `host`. */
  readonly reopen: (() => Promise<HostStorage>) | null;
  /** Closes every opened storage and deletes the data. */
  readonly close: () => Promise<void>;
};

/**
 * The storage and the density of a crash matrix. The cost grows with points / `every`, and quadratically with `again`.
 */
export type CrashOptions = {
  /** Opens an empty storage; called for every run. */
  readonly open: () => Promise<CrashHost>;
  /** Kills at every n-th crash point. The default is 1: at each of them. */
  readonly every?: number;
  /** For every first kill, also kills the second process at every n-th point. The default is `null`: one kill a run. */
  readonly again?: number | null;
  /** At every n-th point, also pauses the first process until another has taken over. The default is `null`: never. */
  readonly away?: number | null;
  /**
   * Builds the runtime of a process, for turns that another system drives. It must not outlive the process: `stopped`
   * of the process resolves when it is killed. The default is `runtime`: the process drives its turns.
   */
  readonly build?: (options: RuntimeOptions, process: CrashableProcess) => Promise<Runtime>;
};

/** The result of a crash matrix: the number of runs, and every difference from the run without a kill. */
export type CrashReport = {
  /** The name of the scenario. */
  readonly scenario: string;
  /** The number of crash points of the run without a kill. */
  readonly points: number;
  /** How often tools ran in the run without a kill. With 0, the report says nothing about your tools. */
  readonly toolRuns: number;
  /** The number of runs with one kill. */
  readonly kills: number;
  /** The number of runs with two kills. */
  readonly doubles: number;
  /** The number of runs with a process that was paused and resumed. */
  readonly returns: number;
  /** Every violation, with the points at which the run was killed. */
  readonly broken: readonly BrokenPoint[];
};

type BrokenPoint = { readonly killedAt: readonly CrashPoint[]; readonly what: string };

/**
 * Runs a scenario once without a kill and then once per crash point, kills the process there, and reports
 * every difference from the first run.
 *
 * @example
 * ```ts
 * import { engine, tool } from "everturn";
 * import { memoryStorage } from "everturn/runtime";
 * import { crashMatrix, steadyModel } from "everturn/testing";
 *
 * const seats: string[] = []; // What the tool did in another system.
 * const book = tool({
 *   name: "book",
 *   description: "Books a seat.",
 *   schema: { type: "object" },
 *   handler: () => {
 *     seats.push("a seat");
 *     return "booked";
 *   },
 * });
 * const model = steadyModel(({ step }) =>
 *   step === 0 ? [{ type: "tool_call", name: "book" }] : [{ type: "text", text: "You have a seat." }],
 * );
 * const report = await crashMatrix(
 *   {
 *     name: "booking a seat",
 *     session: "s1",
 *     engines: () => ({ default: engine({ adapter: model, model: "fake:m", tools: [book] }) }),
 *     script: async ({ runtime, untilIdle }) => {
 *       await untilIdle(runtime.start("A seat, please.", { id: "s1", key: "start" }));
 *     },
 *     takeOutsideEffects: () => seats.splice(0),
 *   },
 *   { open: async () => ({ host: memoryStorage(), reopen: null, close: async () => undefined }) },
 * );
 * report.toolRuns; // => 1
 * report.kills === report.points; // => true
 * report.broken; // => []
 * ```
 */
export async function crashMatrix(scenario: CrashScenario, options: CrashOptions): Promise<CrashReport> {
  const { every = 1, again = null, away = null } = options;
  const baseline = await run(scenario, options, []);
  const broken: BrokenPoint[] = [];
  const check = (actual: Run) => {
    for (const what of violationsOf(baseline, actual)) broken.push({ killedAt: actual.killedAt, what });
  };
  check(baseline);
  if (scenario.takeOutsideEffects !== undefined && baseline.outside.length === 0 && !("failed" in baseline.ended)) {
    broken.push({ killedAt: [], what: noOutsideEffects });
  }
  let [kills, doubles, returns] = [0, 0, 0];
  const report = (): CrashReport => ({
    scenario: scenario.name,
    points: baseline.points,
    toolRuns: baseline.log.toolRuns,
    kills,
    doubles,
    returns,
    broken,
  });
  if ("failed" in baseline.ended) return report();
  for (let number = 1; ; number += every) {
    const once = await run(scenario, options, [number]);
    // The run ended before it reached the point: all points have been killed.
    if (once.killedAt.length === 0) break;
    kills += 1;
    check(once);
    if (again === null) continue;
    // The offset depends on the first kill, so that over all first kills every point of the second process is killed.
    for (let second = 1 + ((number * 7) % again); ; second += again) {
      const twice = await run(scenario, options, [number, second]);
      if (twice.killedAt.length < 2) break;
      doubles += 1;
      check(twice);
    }
  }
  if (away === null) return report();
  for (let number = 1; ; number += away) {
    const late = await run(scenario, options, [number], (number * 7) % baseline.points);
    if (late.killedAt.length === 0) break;
    returns += 1;
    check(late);
  }
  return report();
}

const noOutsideEffects =
  "takeOutsideEffects returned nothing after the run without a kill, so no run is compared: either the tool did not run (see toolRuns; a tool that needs approval needs a decide in the script), or its handler does not note what it does";

/** How far the time advances between two processes, in milliseconds: longer than any lease. */
const betweenProcessesMs = 3_600_000;

async function run(
  scenario: CrashScenario,
  { open, build = async (options) => runtime(options) }: CrashOptions,
  kills: readonly number[],
  resumesAt: number | null = null,
): Promise<Run> {
  const opened = await open();
  const world = { log: new EffectLog(), now: 1_000_000 };
  const killedAt: CrashPoint[] = [];
  const stopped: CrashableProcess[] = [];
  const resumed = resumesAt !== null;
  let { host } = opened;
  try {
    for (let index = 0; ; index += 1) {
      const process = new CrashableProcess(world, kills[index] ?? null, resumed);
      if (resumesAt !== null) process.atPoint(resumesAt, () => stopped.forEach((paused) => paused.resume()));
      const finished = runProcess(scenario, process, host, index, build).then(
        () => null,
        (error: unknown) => ({
          failed: `the script failed: ${error instanceof Error ? error.message : String(error)}`,
        }),
      );
      const rule = "every turn ends, wherever a process is killed";
      const result = await within(
        patienceMs,
        Promise.race([finished, process.stopped]),
        rule,
        "the script to end",
      ).catch((error: unknown) => ({ failed: String(error) }));
      if (result === null || "failed" in result) process.kill();
      await process.writesSettled();
      const { points } = process;
      if (result === null) {
        const ended = await finalState(scenario, host);
        const late = resumed ? await lateChange(scenario, stopped, host, ended) : null;
        const outside = (await scenario.takeOutsideEffects?.()) ?? [];
        return { killedAt, points, log: world.log, resumed, ended, late, outside };
      }
      if ("failed" in result) {
        await scenario.takeOutsideEffects?.();
        return { killedAt, points, log: world.log, resumed, ended: result, late: null, outside: [] };
      }
      stopped.push(process);
      killedAt.push(result);
      world.log.killed();
      world.now += betweenProcessesMs;
      if (opened.reopen !== null) host = await opened.reopen();
    }
  } finally {
    for (const process of stopped) process.kill();
    await opened.close();
  }
}

/**
 * Resumes the paused processes after the end and returns what they changed in the storage. Fencing must prevent any
 * change (H3).
 */
async function lateChange(
  scenario: CrashScenario,
  stopped: readonly CrashableProcess[],
  host: HostStorage,
  ended: Run["ended"],
): Promise<string | null> {
  for (const process of stopped) process.resume();
  await settled();
  const after = await finalState(scenario, host);
  return firstDifference(plainJson(ended), plainJson(after), "the stored state");
}

/** Runs one process: recovers the open turns of its predecessor and runs the script. */
async function runProcess(
  scenario: CrashScenario,
  process: CrashableProcess,
  host: HostStorage,
  index: number,
  build: NonNullable<CrashOptions["build"]>,
): Promise<void> {
  const options: RuntimeOptions = {
    host: process.host(host),
    engines: process.engines(scenario.engines(process)),
    clock: process.clock,
    owner: process.owner,
    // Live pieces are flushed by size and never by time, so that the number of crash points is deterministic. Every
    // second process has them off.
    live: index % 2 === 0 ? { bytes: 100, everyMs: betweenProcessesMs } : false,
  };
  const sessions = await build(options, process);
  if (index > 0) await sessions.recover();
  await scenario.script({ runtime: sessions, process, untilIdle: (turn) => untilIdle(scenario, sessions, turn) });
  await sessionIdle(scenario, sessions);
}

async function untilIdle(scenario: CrashScenario, sessions: Runtime, turn: Promise<TurnHandle>): Promise<TurnEnd> {
  const end = await (await turn).result;
  await sessionIdle(scenario, sessions);
  return end;
}

/** Waits until the session has no open turn, and answers calls with an unknown outcome as a person would. */
async function sessionIdle({ session: id, unknownResult = null }: CrashScenario, sessions: Runtime): Promise<void> {
  for (;;) {
    const view = await sessions.get(id, { messages: 0 });
    if (view === null) return;
    const { openTurn } = view;
    if (openTurn?.status === "parked") throw new Error(`the turn is parked: ${openTurn.failure?.message ?? "?"}`);
    if (openTurn !== null) {
      await sessions.attach(id, openTurn.turnId).result;
      continue;
    }
    const call = view.session.pendingToolCalls.find(
      ({ reason, decision }) => reason === "outcome_unknown" && decision === null,
    );
    if (call === undefined) return;
    const key = `unknown ${call.idempotencyKey ?? call.id}`;
    await (
      await sessions.submitToolResults(id, [[call.id, unknownResult]], { key })
    ).result;
  }
}

/** Reads the final state from the storage with a runtime that does not drive turns. */
async function finalState(scenario: CrashScenario, host: HostStorage): Promise<Ended | { readonly failed: string }> {
  const process = new CrashableProcess({ log: new EffectLog(), now: 0 }, null);
  const sessions = runtime({ host, engines: process.engines(scenario.engines(process)), drive: false, live: false });
  const view = await sessions.get(scenario.session);
  if (view === null) return { failed: `there is no session "${scenario.session}"` };
  const events: RuntimeEvent[] = [];
  for await (const event of sessions.events(scenario.session, { follow: false })) events.push(event);
  const { total } = await sessions.usage(scenario.session);
  const remainingRows = await countRows(host, ["open", "inbox", "cancels", "pieces"]);
  const [rows = []] = await host.read([{ table: "frames", prefix: [] }]);
  const frames = rows.map((row) => readValue("frames", row));
  return { session: view.session, events, frames, tokens: totalTokens(total) ?? 0, remainingRows };
}

async function countRows(
  storage: HostStorage,
  names: readonly TableName[],
): Promise<{ readonly [table: string]: number }> {
  const rows = await storage.read(names.map((table) => ({ table, prefix: [] })));
  return Object.fromEntries(names.map((table, index) => [table, rows[index]?.length ?? 0]));
}

function plainJson(value: unknown): Json {
  const json: Json = JSON.parse(JSON.stringify(value));
  return json;
}
