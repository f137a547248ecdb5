// The crash matrix (H7): a scripted conversation is run once to its end, and then again and again, each time killed at another point: before and
// after every write, before, in and behind every effect. Whoever comes after the dead process recovers, the user says everything once more, and
// in the end nobody can tell: the same session, the same events, each effect performed as often as its policy says and no more.

import type { Engine } from "../engine/internal.ts";
import type { Json } from "../model/internal.ts";
import type { Runtime, RuntimeEvent, TurnEnd, TurnHandle, HostStorage, TableName } from "../runtime/internal.ts";
import type { Ended, Run } from "./crash-expectations.ts";
import type { CrashPoint } from "./mortal-life.ts";

import { totalTokens } from "../model/internal.ts";
import { runtime } from "../runtime/internal.ts";
import { patienceMs, within } from "./conformance.ts";
import { brokenBy, firstDifference } from "./crash-expectations.ts";
import { EffectLog } from "./effect-log.ts";
import { settled } from "./hand-clock.ts";
import { MortalLife } from "./mortal-life.ts";

/** A conversation for the crash matrix. It is cut at every crash point and started again in a new process life. */
export type CrashScenario = {
  readonly name: string;
  /** The session it is about. */
  readonly session: string;
  /**
   * What turns work with, made anew in every life. Models have to answer by what they are asked and not by how often; calls of one tool are
   * told apart by their arguments.
   */
  readonly engines: (life: MortalLife) => { readonly [name: string]: Engine };
  /**
   * What the user does. It is done once more from its beginning in every life, so each verb has a key, and what was said already is not said
   * again.
   */
  readonly script: (user: CrashUser) => Promise<void>;
  /** What a person says of a call whose outcome nobody knows (`replay: "ask"`): its result. */
  readonly unknownResult?: Json;
};

/** The user's side of a scenario, in one life. */
type CrashUser = {
  readonly runtime: Runtime;
  readonly life: MortalLife;
  /** Waits until the session rests. Calls whose outcome nobody knows are answered as the scenario says. */
  readonly rest: (turn: Promise<TurnHandle>) => Promise<TurnEnd>;
};

/** An empty storage on which the crash matrix runs a scenario. */
export type CrashHost = {
  readonly host: HostStorage;
  /** Opens what was written once more, for the next life; `null`: the same is used again. */
  readonly reopen: (() => Promise<HostStorage>) | null;
  readonly close: () => Promise<void>;
};

export type CrashOptions = {
  readonly open: () => Promise<CrashHost>;
  /** Every how many points a life is killed; 1: at each of them. */
  readonly every?: number;
  /** Every how many points the life after it is killed too; `null`: it is not. */
  readonly again?: number | null;
  /** Every how many points a life is not killed but away for so long that another one takes over, and comes back then; `null`: it never is. */
  readonly away?: number | null;
};

/** The result of a crash matrix: how many points were killed, and every difference from the run without a crash. */
export type CrashReport = {
  readonly scenario: string;
  /** Points of a run that nobody kills. */
  readonly points: number;
  /** Runs with one kill, with two, and with a life that came back. */
  readonly kills: number;
  readonly doubles: number;
  readonly returns: number;
  /** What did not come out as it has to. */
  readonly broken: readonly BrokenPoint[];
};

type BrokenPoint = { readonly killedAt: readonly CrashPoint[]; readonly what: string };

/**
 * Runs a scenario once without a crash and then once per crash point, killing the process life there, and reports
 * every difference from the first run.
 *
 * @example
 * ```ts
 * import { engine, tool } from "everturn";
 * import { memoryStorage } from "everturn/host/memory";
 * import { crashMatrix, steadyModel } from "everturn/testing";
 *
 * const book = tool({ name: "book", description: "Books a seat.", schema: { type: "object" }, handler: () => "booked" });
 * const model = steadyModel(({ step }) =>
 *   step === 0 ? [{ type: "tool_call", name: "book" }] : [{ type: "text", text: "You have a seat." }],
 * );
 * const report = await crashMatrix(
 *   {
 *     name: "booking a seat",
 *     session: "s1",
 *     engines: () => ({ default: engine({ adapter: model, model: "fake:m", tools: [book] }) }),
 *     script: async ({ runtime, rest }) => {
 *       await rest(runtime.start("A seat, please.", { id: "s1", key: "start" }));
 *     },
 *   },
 *   { open: async () => ({ host: memoryStorage(), reopen: null, close: async () => undefined }) },
 * );
 * report.kills === report.points; // => true
 * report.broken; // => []
 * ```
 */
export async function crashMatrix(scenario: CrashScenario, options: CrashOptions): Promise<CrashReport> {
  const { every = 1, again = null, away = null } = options;
  const baseline = await run(scenario, options, []);
  const broken: BrokenPoint[] = [];
  const check = (came: Run) => {
    for (const what of brokenBy(baseline, came)) broken.push({ killedAt: came.killedAt, what });
  };
  check(baseline);
  let [kills, doubles, returns] = [0, 0, 0];
  const report = (): CrashReport => ({
    scenario: scenario.name,
    points: baseline.points,
    kills,
    doubles,
    returns,
    broken,
  });
  if ("failed" in baseline.ended) return report();
  for (let number = 1; ; number += every) {
    const once = await run(scenario, options, [number]);
    // It ended before it had come there.
    if (once.killedAt.length === 0) break;
    kills += 1;
    check(once);
    if (again === null) continue;
    // Each first kill begins at another place of the second life, so that all of them have their turn.
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

/** The longest a lease lasts, and more: who comes after a dead process need not wait for it. */
const mourningMs = 3_600_000;

async function run(
  scenario: CrashScenario,
  { open }: CrashOptions,
  kills: readonly number[],
  comesBackAt: number | null = null,
): Promise<Run> {
  const opened = await open();
  const world = { log: new EffectLog(), now: 1_000_000 };
  const killedAt: CrashPoint[] = [];
  const gone: MortalLife[] = [];
  const cameBack = comesBackAt !== null;
  let { host } = opened;
  try {
    for (let index = 0; ; index += 1) {
      const life = new MortalLife(world, kills[index] ?? null, cameBack);
      if (comesBackAt !== null) life.meanwhile(comesBackAt, () => gone.forEach((one) => one.comeBack()));
      const living = live(scenario, life, host, index).then(
        () => null,
        (error: unknown) => ({
          failed: `the script failed: ${error instanceof Error ? error.message : String(error)}`,
        }),
      );
      const rule = "a turn comes to its end, whoever dies on the way";
      const over = await within(patienceMs, Promise.race([living, life.death]), rule, "the script to end").catch(
        (error: unknown) => ({ failed: String(error) }),
      );
      if (over === null || "failed" in over) life.end();
      await life.written();
      const { points } = life;
      if (over === null) {
        const ended = await look(scenario, host);
        const late = cameBack ? await lateChange(scenario, gone, host, ended) : null;
        return { killedAt, points, log: world.log, cameBack, ended, late };
      }
      if ("failed" in over) return { killedAt, points, log: world.log, cameBack, ended: over, late: null };
      gone.push(life);
      killedAt.push(over);
      world.log.killed();
      world.now += mourningMs;
      if (opened.reopen !== null) host = await opened.reopen();
    }
  } finally {
    for (const life of gone) life.end();
    await opened.close();
  }
}

/** Lives that were away come back. Whatever they still want to do, nothing may change (H3): what did, or `null`. */
async function lateChange(
  scenario: CrashScenario,
  gone: readonly MortalLife[],
  host: HostStorage,
  ended: Run["ended"],
): Promise<string | null> {
  for (const life of gone) life.comeBack();
  await settled();
  const after = await look(scenario, host);
  return firstDifference(plainJson(ended), plainJson(after), "what is there");
}

/** One life: what was left open is picked up, and the user says it all. */
async function live(scenario: CrashScenario, life: MortalLife, host: HostStorage, index: number): Promise<void> {
  const sessions = runtime({
    host: life.host(host),
    engines: life.engines(scenario.engines(life)),
    clock: life.clock,
    owner: life.owner,
    // What is heard is written by its length and never by the time, so that it is always at the same points; by whoever recovers, not at all.
    live: index % 2 === 0 ? { bytes: 100, everyMs: mourningMs } : false,
  });
  if (index > 0) await sessions.recover();
  await scenario.script({ runtime: sessions, life, rest: (turn) => rest(scenario, sessions, turn) });
  await atRest(scenario, sessions);
}

async function rest(scenario: CrashScenario, sessions: Runtime, turn: Promise<TurnHandle>): Promise<TurnEnd> {
  const end = await (await turn).result;
  await atRest(scenario, sessions);
  return end;
}

async function atRest({ session: id, unknownResult = null }: CrashScenario, sessions: Runtime): Promise<void> {
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

/** What is there when all is over, read by somebody who was not there. */
async function look(scenario: CrashScenario, host: HostStorage): Promise<Ended | { readonly failed: string }> {
  const life = new MortalLife({ log: new EffectLog(), now: 0 }, null);
  const sessions = runtime({ host, engines: life.engines(scenario.engines(life)), drive: false, live: false });
  const view = await sessions.get(scenario.session);
  if (view === null) return { failed: "the session is not there" };
  const events: RuntimeEvent[] = [];
  for await (const event of sessions.events(scenario.session, { follow: false })) events.push(event);
  const { total } = await sessions.usage(scenario.session);
  const left = await rowsLeft(host, ["open", "inbox", "cancels", "pieces"]);
  return { session: view.session, events, tokens: totalTokens(total) ?? 0, left };
}

async function rowsLeft(
  storage: HostStorage,
  names: readonly TableName[],
): Promise<{ readonly [table: string]: number }> {
  const found = await storage.read(names.map((table) => ({ table, prefix: [] })));
  return Object.fromEntries(names.map((table, index) => [table, found[index]?.length ?? 0]));
}

function plainJson(value: unknown): Json {
  const json: Json = JSON.parse(JSON.stringify(value));
  return json;
}
