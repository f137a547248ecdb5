// The simulator: several processes over one storage, with crashes, pauses, partitions, lost answers and wrong clocks, all decided by a seed.
//
// A run
//   1. random phase   clients perform the operations of the script, and its faults happen
//   2. calm phase     faults stop, a new worker starts, and time passes until no turn is open; parked turns are recovered
//   3. final checks   every turn has ended (liveness), every accepted message is in its session exactly once, sessions are valid (S2), and the event
//                     log reads from its beginning without a gap
// The observer checks the other oracles while the run goes on.
//
// A seed determines its run, event by event, with every storage: operations are applied one at a time, in the order of the scheduler.

import type { Clock } from "../../clock/clock.ts";
import type { HostStorage } from "../../runtime/internal.ts";
import type { ClientContext, SentMessage, Server } from "./client.ts";
import type { Faults, SharedStorage } from "./process.ts";
import type { SimulationScript } from "./script.ts";

import { checkValue } from "../../engine/internal.ts";
import { messageText, validateSession } from "../../model/internal.ts";
import { readValue, runtime } from "../../runtime/internal.ts";
import { simulatedAgent } from "./agent.ts";
import { perform } from "./client.ts";
import { Observer } from "./observer.ts";
import { noFaults, SimulatedProcess } from "./process.ts";
import { randomStream } from "./random.ts";
import { ReaderCheck } from "./reader.ts";
import { scriptOf } from "./script.ts";
import { World } from "./world.ts";

/** Options of {@link simulate}. */
export type SimulationOptions = {
  /** The seed: a whole number. The same seed gives the same run. */
  readonly seed: number;
  /** Opens an empty storage for the run. Rows expire by the given clock. */
  readonly storage: (clock: Clock) => HostStorage | Promise<HostStorage>;
  /** The number of calls of clients, 10 or more. Default: 16. */
  readonly operations?: number;
  /** Wraps the storage that each process uses. For mutations: a wrapper that breaks a rule must be found. Default: none. */
  readonly wrap?: (storage: HostStorage) => HostStorage;
  /** Whether the report has a transcript. Default: `false`. */
  readonly transcript?: boolean;
  /** Whether the script of a run with violations is shrunk, which runs it again many times. Default: `false`. */
  readonly shrink?: boolean;
};

/** The result of {@link simulate}. */
export type SimulationReport = {
  readonly seed: number;
  /** What contradicts the guarantees of the runtime, each with its rule; empty if nothing does. */
  readonly violations: readonly string[];
  /** Numbers of the run: `events` of the scheduler, applied `writes`, begun `effects`, `takeovers`, `received` stored events, `messages` sent. */
  readonly counts: { readonly [name: string]: number };
  /** How often each verb was answered, by answer, such as `reply conflict`. */
  readonly answers: { readonly [answer: string]: number };
  /** The operations and faults of the run; the shrunk ones if `shrink` was set. One line each. */
  readonly script: readonly string[];
  /** What happened, in order, one line each; `null` without the option. */
  readonly transcript: readonly string[] | null;
};

const lease = { ttlMs: 3000, renewMs: 1000 };
const maxTakeovers = 5;
/** How long the calm phase lasts at most, in milliseconds of the simulation. */
const calmMs = 300_000;

/**
 * Runs one simulation of several processes over one storage and checks the guarantees of the runtime (H1–H4, H6, S2, Q7, Q9, Q16–Q18). No real time
 * passes.
 *
 * @example
 * ```ts
 * import { memoryStorage } from "everturn/host/memory";
 * import { simulate } from "everturn/testing";
 *
 * const report = await simulate({ seed: 1, storage: (clock) => memoryStorage({ clock }) });
 * report.violations; // => []
 * ```
 */
export async function simulate(options: SimulationOptions): Promise<SimulationReport> {
  const script = scriptOf(options.seed, Math.max(10, options.operations ?? 16));
  const report = await new Simulation(options, script).run();
  if (options.shrink !== true || report.violations.length === 0) return report;
  return shrunk(options, script, report);
}

/**
 * Removes operations and faults one by one, as long as the run still has a violation of the same rule. Every attempt is a complete run.
 */
async function shrunk(
  options: SimulationOptions,
  whole: SimulationScript,
  first: SimulationReport,
): Promise<SimulationReport> {
  const rule = ruleOf(first);
  let [script, report] = [whole, first];
  const attempt = async (smaller: SimulationScript): Promise<boolean> => {
    const again = await new Simulation(options, smaller).run();
    if (ruleOf(again) !== rule) return false;
    [script, report] = [smaller, again];
    return true;
  };
  await attempt({ ...script, networkFaults: false });
  for (let hasShrunk = true; hasShrunk;) {
    hasShrunk = false;
    for (const fault of script.faults) {
      if (await attempt({ ...script, faults: script.faults.filter((other) => other !== fault) })) hasShrunk = true;
    }
    for (const operation of script.operations) {
      const operations = script.operations.filter((other) => other !== operation);
      if (await attempt({ ...script, operations })) hasShrunk = true;
    }
  }
  return report;
}

/** The rule of the first violation, such as `H3`. */
function ruleOf({ violations }: SimulationReport): string | null {
  return violations[0]?.split(":")[0] ?? null;
}

/** One run of a script. */
class Simulation {
  readonly #options: SimulationOptions;
  readonly #script: SimulationScript;
  readonly #world: World;
  readonly #observer: Observer;
  readonly #transcript: string[] = [];
  readonly #servers: (Server | null)[] = [];
  readonly #processes: SimulatedProcess[] = [];
  readonly #messages: SentMessage[] = [];
  readonly #answers = new Map<string, number>();
  #shared: SharedStorage | null = null;
  #faults: Faults = noFaults;
  #isCalm = false;
  #isOver = false;
  #endRun: () => void = () => undefined;
  #booted = 0;

  constructor(options: SimulationOptions, script: SimulationScript) {
    this.#options = options;
    this.#script = script;
    this.#world = new World(options.transcript === true ? (line) => this.#transcript.push(line) : null);
    const isKilled = (owner: string) => this.#processes.some(({ name, state }) => name === owner && state === "killed");
    this.#observer = new Observer(this.#world, isKilled, maxTakeovers);
  }

  async run(): Promise<SimulationReport> {
    const { seed, operations, faults, networkFaults, processes } = this.#script;
    const world = this.#world;
    const storageClock: Clock = { now: () => world.now, random: () => 0, sleep: (ms) => world.sleep(ms) };
    const real = await this.#options.storage(storageClock);
    await loadValidator();
    this.#shared = {
      real,
      processes: this.#processes,
      applied: (writer, batch) => this.#observer.applied(writer, batch),
    };
    const random = randomStream(seed, "network");
    if (networkFaults) {
      this.#faults = {
        lostRequest: random.pick([0, 0.01, 0.03]),
        lostAnswer: random.pick([0, 0.01, 0.04]),
        busy: random.pick([0, 0.02, 0.1]),
        slow: random.pick([0, 0.005, 0.02]),
        duplicateNotification: random.pick([0, 0.2]),
      };
    }
    for (let place = 0; place < processes; place += 1) this.#boot(place);
    const clients = this.#startClients();
    this.#scheduleFaults();
    const times = [...operations, ...faults].map(({ atMs }) => atMs);
    await this.#runFor(Math.max(0, ...times) + 1000);
    await this.#calm(clients);
    await this.#finalChecks(real);
    for (const process of this.#processes) process.kill();
    const { writes, effects, takeovers, events } = this.#observer.counts;
    const messages = this.#messages.length;
    return {
      seed,
      violations: this.#observer.violations,
      counts: { events: world.steps, writes, effects, takeovers, received: events, messages },
      answers: Object.fromEntries(this.#answers),
      script: linesOf(this.#script),
      transcript: this.#options.transcript === true ? this.#transcript : null,
    };
  }

  /** Starts a process in a place. Odd places do not drive the turns that they accept; every process but the first is a worker, most of the time. */
  #boot(place: number): Server {
    const { seed, knowsEnded } = this.#script;
    if (this.#shared === null) throw new Error("the storage is not open");
    const name = `p${place}.${(this.#booted += 1)}`;
    const random = randomStream(seed, `process ${name}`);
    const process = new SimulatedProcess(this.#world, this.#shared, random, {
      name,
      skewMs: this.#isCalm ? 0 : random.pick([0, 0, -1500, 2500]),
      faults: this.#isCalm ? noFaults : this.#faults,
      knowsEnded,
    });
    const { wrap } = this.#options;
    const host = wrap === undefined ? process.storage : wrap(process.storage);
    const sessions = runtime({
      host,
      engines: { default: simulatedAgent(seed, process, this.#observer.began) },
      clock: process.clock,
      owner: name,
      lease,
      maxTakeovers,
      drive: this.#isCalm || random.chance(0.8),
      live: random.chance(0.8) ? {} : false,
    });
    const server = { process, runtime: sessions };
    this.#servers[place] = server;
    this.#world.log(() => `${name} starts`);
    if (this.#isCalm || random.chance(0.7)) {
      this.#world.schedule(0, process, () => {
        void sessions.work({ concurrency: random.pick([1, 4, 16]), signal: new AbortController().signal });
      });
    }
    return server;
  }

  #startClients(): { pending: number } {
    const { seed, processes, operations } = this.#script;
    const clients = { pending: operations.length };
    const over = new Promise<null>((resolve) => {
      this.#endRun = () => resolve(null);
    });
    const context: ClientContext = {
      seed,
      world: this.#world,
      observer: this.#observer,
      server: (place) => this.#servers[place] ?? null,
      places: processes,
      hasFaults: () => !this.#isCalm,
      over,
      isOver: () => this.#isOver,
      restart: (server) => this.#restart(server),
      messages: this.#messages,
      answers: this.#answers,
    };
    for (const operation of operations) {
      this.#world.schedule(operation.atMs, null, () => {
        // A reader lasts until the run is over.
        if (operation.verb === "read") clients.pending -= 1;
        const finish = () => (operation.verb === "read" ? 0 : (clients.pending -= 1));
        void perform(context, operation).then(finish);
      });
    }
    return clients;
  }

  #restart({ process }: Server): void {
    const place = this.#servers.findIndex((server) => server?.process === process);
    process.kill();
    if (place === -1) return;
    this.#servers[place] = null;
    this.#world.schedule(200, null, () => void (this.#servers[place] === null && this.#boot(place)));
  }

  #scheduleFaults(): void {
    for (const { type, atMs, process: place, ms } of this.#script.faults) {
      this.#world.schedule(atMs, null, () => {
        const server = this.#servers[place] ?? null;
        if (server === null || this.#isCalm) return;
        const { process } = server;
        switch (type) {
          case "kill":
            process.kill();
            this.#servers[place] = null;
            this.#world.schedule(ms, null, () => void (this.#servers[place] === null && this.#boot(place)));
            return;
          case "pause":
            process.pause();
            this.#world.schedule(ms, null, () => process.resume());
            return;
          case "partition":
            process.partitionedUntil = this.#world.now + ms;
            return;
          case "jump":
            process.skewMs += ms;
        }
      });
    }
  }

  async #runFor(ms: number): Promise<void> {
    const until = this.#world.now + ms;
    while (await this.#world.step(until));
  }

  /** Stops all faults, starts a worker, and lets time pass until no turn is open. */
  async #calm(clients: { readonly pending: number }): Promise<void> {
    const world = this.#world;
    world.log(() => "faults stop");
    this.#isCalm = true;
    const isAlone = randomStream(this.#script.seed, "calm").chance(0.5);
    for (const process of this.#processes) {
      process.faults = noFaults;
      process.partitionedUntil = 0;
      process.resume();
      if (isAlone) process.kill();
    }
    if (isAlone) this.#servers.fill(null);
    for (let place = 0; place < this.#script.processes; place += 1) {
      if ((this.#servers[place] ?? null) === null && (!isAlone || place === 0)) this.#boot(place);
    }
    const worker = this.#boot(this.#script.processes);
    const end = world.now + calmMs;
    // A call whose client has given up may still be accepted, so the run is over when two checks in a row find no open turn.
    for (let quietChecks = 0; quietChecks < 2 && world.now < end;) {
      await this.#runFor(2000);
      if (this.#observer.violations.length > 20) break;
      const turns = [...this.#observer.sessions]
        .filter(([, { deleted }]) => !deleted)
        .flatMap(([id, { turns }]) => [...turns.values()].map(({ status }) => ({ id, status })));
      const parked = turns.find(({ status }) => status === "parked");
      if (parked !== undefined) {
        world.schedule(0, worker.process, () => void worker.runtime.recover(parked.id).catch(() => undefined));
      }
      const isQuiet = clients.pending === 0 && turns.every(({ status }) => status === "ended");
      quietChecks = isQuiet ? quietChecks + 1 : 0;
    }
    this.#isOver = true;
    this.#endRun();
    await this.#runFor(10);
  }

  async #finalChecks(real: HostStorage): Promise<void> {
    const observer = this.#observer;
    const checker = new SimulatedProcess(
      this.#world,
      { real, processes: [], applied: () => undefined },
      randomStream(0, ""),
      {
        name: "checker",
        skewMs: 0,
        faults: noFaults,
        knowsEnded: false,
      },
    );
    const engines = { default: simulatedAgent(this.#script.seed, checker, () => undefined) };
    const sessions = runtime({ host: real, engines, clock: checker.clock, drive: false, live: false });
    for (const [id, { deleted, wasDeleted, turns }] of observer.sessions) {
      if (deleted || turns.size === 0) continue;
      for (const [turn, { status }] of turns) {
        if (status !== "ended") observer.violation(`liveness: the turn ${turn} of ${id} is ${status} at the end`);
      }
      const view = await sessions.get(id, { messages: "all" });
      if (view === null) {
        observer.violation(`inputs: the session ${id} is gone`);
        continue;
      }
      const valid = validateSession(view.session);
      if (!valid.ok) observer.violation(`S2: the session ${id} is not valid: ${JSON.stringify(valid.failure)}`);
      // Of a session that was deleted and started again, only the newest part is left.
      if (wasDeleted) continue;
      const check = new ReaderCheck(observer, id);
      for await (const event of sessions.events(id, { follow: false })) check.take(event);
      if (check.sequence !== observer.of(id).lastSequence) {
        observer.violation(`Q7: ${check.sequence} of ${observer.of(id).lastSequence} events of ${id} can be read`);
      }
      const [inbox = []] = await real.read([{ table: "inbox", prefix: ["", id] }]);
      const waiting = inbox.flatMap((row) => {
        const { input } = readValue("inbox", row);
        return input.type === "message" ? [messageText(input.message)] : [];
      });
      const texts = [...view.session.thread.messages.map(messageText), ...waiting];
      this.#checkMessages(id, texts);
    }
  }

  /** Every accepted message is in the session or its inbox exactly once; others at most once. */
  #checkMessages(id: string, texts: readonly string[]): void {
    for (const { session, text, accepted, withdrawn } of this.#messages) {
      const count = texts.filter((other) => other === text).length;
      const isExpected = session === id && accepted && !withdrawn;
      if (count > 1) this.#observer.violation(`inputs: ${JSON.stringify(text)} is ${count} times in ${id}`);
      if (isExpected && count === 0)
        this.#observer.violation(`inputs: ${JSON.stringify(text)} was accepted and is not in ${id}`);
      if (session === id && withdrawn && count > 0) {
        this.#observer.violation(`inputs: ${JSON.stringify(text)} was withdrawn and is in ${id}`);
      }
    }
  }
}

/**
 * Loads the module that validates arguments of tools. The engine imports it when it first validates, which takes real time: the first run would differ
 * from the others.
 */
async function loadValidator(): Promise<void> {
  await checkValue({ type: "object" }, {});
}

function linesOf({ processes, knowsEnded, networkFaults, operations, faults }: SimulationScript): readonly string[] {
  const called = operations.map(({ atMs, verb, session, process, plan }) => ({
    atMs,
    line: `${verb} ${session} at process ${process}: ${plan}`,
  }));
  const failed = faults.map(({ atMs, type, process, ms }) => ({ atMs, line: `${type} process ${process}, ${ms} ms` }));
  return [
    `${processes} processes${knowsEnded ? " that know which others have ended" : ""}, ${networkFaults ? "with" : "without"} network faults`,
    ...[...called, ...failed]
      .sort((left, right) => left.atMs - right.atMs)
      .map(({ atMs, line }) => `${atMs} ms: ${line}`),
  ];
}
