// The simulator: several processes over one storage, with crashes, pauses, partitions, lost and repeated requests,
// failing effects and wrong clocks, all decided by a seed.
//
// A run
//   1. random phase   clients perform the operations of the script, and its faults happen
//   2. calm phase     faults stop, a new worker starts, and time passes until no turn is open; parked turns are
//                     recovered
//   3. final checks   every turn has ended (liveness), every accepted message is in its session exactly once, sessions
//                     are valid (S2), and the event log reads from its beginning without a gap
// The observer checks the other oracles while the run goes on.
//
// A seed determines its run, event by event, with every storage: operations are applied one at a time, in the order of
// the scheduler.

import type { Clock } from "../../core/clock/clock.ts";
import type { HostStorage, Row } from "../../durable/internal.ts";
import type { ClientContext, SentMessage, Server } from "./client.ts";
import type { Faults, SharedStorage } from "./process.ts";
import type { Fault, SimulatedSession, SimulationScript } from "./script.ts";

import { checkValue } from "../../core/engine/internal.ts";
import { messageText, MisuseError, validateSession } from "../../core/model/internal.ts";
import { readValue, runtime } from "../../durable/internal.ts";
import { simulatedAgent } from "./agent.ts";
import { perform } from "./client.ts";
import { Observer } from "./observer.ts";
import { noFaults, SimulatedProcess } from "./process.ts";
import { randomStream } from "./random.ts";
import { ReaderCheck } from "./reader.ts";
import { extraFaults, linesOf, scriptOf } from "./script.ts";
import { UndoLog } from "./undo-log.ts";
import { World } from "./world.ts";

/** Options of {@link simulate}. */
export type SimulationOptions = {
  /** The seed: a whole number. The same seed gives the same run. */
  readonly seed: number;
  /** Opens an empty storage for the run. Rows expire by the given clock. */
  readonly storage: (clock: Clock) => HostStorage | Promise<HostStorage>;
  /** The number of calls of clients, 10 or more. Default: 16. */
  readonly operations?: number;
  /**
   * Faults that runs have only if they are asked for. `failover`: the storage is replaced by an older copy of itself
   * while processes hold sessions that the copy does not know. `far_clocks`: clocks of processes differ by minutes.
   * Default: none.
   */
  readonly extraFaults?: readonly ("failover" | "far_clocks")[];
  /**
   * Wraps the storage that each process uses. For mutations: a wrapper that breaks a rule must be found. Default: none.
   */
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
  /**
   * Numbers of the run: `events` of the scheduler, `verbs` that reached a process, applied `writes`, begun `effects`,
   * `takeovers`, `parked` turns, `received` stored events, `messages` sent, `frames` stored and `undone`.
   */
  readonly counts: { readonly [name: string]: number };
  /** How often each verb was answered, by answer, such as `reply conflict`. */
  readonly answers: { readonly [answer: string]: number };
  /** The operations and faults of the run; the shrunk ones if `shrink` was set. One line each. */
  readonly script: readonly string[];
  /** What happened, in order, one line each; `null` without the option. */
  readonly transcript: readonly string[] | null;
};

const lease = { ttlMs: 1500, renewMs: 500 };
/** How long the calm phase lasts at most, in milliseconds of the simulation. */
const calmMs = 300_000;
/**
 * How long an open turn may be without a holder while a worker runs and nothing fails, in milliseconds. The longest
 * backoff of takeovers is shorter.
 */
const foundMs = 60_000;
/** How much the clocks of processes differ, in milliseconds. */
const skews = [0, 0, -1500, 2500] as const;
const farSkews = [0, -240_000, 150_000, 600_000] as const;

/**
 * Runs one simulation of several processes over one storage and checks the guarantees of the runtime (H1–H4, H6, S2,
 * Q7, Q9, Q10, Q16–Q18). No real time passes. Rejects with `MisuseError` for invalid options.
 *
 * @example
 * ```ts
 * import { memoryStorage } from "everturn/runtime";
 * import { simulate } from "everturn/testing";
 *
 * const report = await simulate({ seed: 1, storage: (clock) => memoryStorage({ clock }) });
 * report.violations; // => []
 * ```
 */
export async function simulate(options: SimulationOptions): Promise<SimulationReport> {
  checkOptions(options);
  const script = scriptOf(options.seed, options.operations ?? 16, options.extraFaults ?? []);
  const report = await new Simulation(options, script).run();
  if (options.shrink !== true || report.violations.length === 0) return report;
  return shrunk(options, script, report);
}

const optionNames: ReadonlySet<string> = new Set([
  "seed",
  "storage",
  "operations",
  "extraFaults",
  "wrap",
  "transcript",
  "shrink",
]);

/** Throws `MisuseError` for invalid options: a seed such as `NaN` would run, and could not be found again. */
function checkOptions(options: SimulationOptions): void {
  const { seed, storage, operations = 10, extraFaults: extra = [] } = options;
  const unknown = Object.keys(options).find((name) => !optionNames.has(name));
  if (unknown !== undefined) throw invalid(unknown, `is unknown; the options are ${[...optionNames].join(", ")}`);
  if (!Number.isSafeInteger(seed)) throw invalid("seed", "must be a whole number");
  if (typeof storage !== "function") throw invalid("storage", "must be a function that opens a storage");
  if (!Array.isArray(extra) || !extra.every((name) => extraFaults.includes(name))) {
    throw invalid("extraFaults", `must be a list of ${extraFaults.join(" and ")}`);
  }
  if (!Number.isSafeInteger(operations) || operations < 10) {
    throw invalid("operations", "must be a whole number of 10 or more");
  }
}

function invalid(option: string, rule: string): MisuseError {
  return new MisuseError("invalid_argument", `simulate: ${option} ${rule}`, { path: [option] });
}

/** The largest number of runs that shrinking takes. */
const maxAttempts = 150;

/**
 * Removes operations and faults, first half of them at once and then smaller parts, as long as the run still violates
 * the same rule (delta debugging). Every attempt is a complete run.
 */
async function shrunk(
  options: SimulationOptions,
  whole: SimulationScript,
  first: SimulationReport,
): Promise<SimulationReport> {
  const rule = ruleOf(first);
  let [script, report, attempts] = [whole, first, 0];
  const attempt = async (smaller: SimulationScript): Promise<boolean> => {
    if ((attempts += 1) > maxAttempts) return false;
    const again = await new Simulation(options, smaller).run();
    if (ruleOf(again) !== rule) return false;
    [script, report] = [smaller, again];
    return true;
  };
  await attempt({ ...script, networkFaults: false });
  await attempt({ ...script, effectFaults: false });
  for (let size = Math.ceil((script.operations.length + script.faults.length) / 2); size >= 1;) {
    let hasShrunk = false;
    for (let from = 0; from < script.operations.length + script.faults.length;) {
      if (await attempt(without(script, from, from + size))) hasShrunk = true;
      else from += size;
    }
    size = size === 1 && !hasShrunk ? 0 : Math.max(1, Math.floor(size / 2));
  }
  return report;
}

/** The script without some of its parts: its faults, then its operations, counted from 0. */
function without(script: SimulationScript, from: number, to: number): SimulationScript {
  const { faults, operations } = script;
  const isKept = (index: number) => index < from || index >= to;
  return {
    ...script,
    faults: faults.filter((_, index) => isKept(index)),
    operations: operations.filter((_, index) => isKept(faults.length + index)),
  };
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
  /** When an open turn was first found without a holder in the calm phase, by session, in true time. */
  readonly #unheld = new Map<string, number>();
  /** The time of the storage's clock while an older row is restored; `null`: it runs. */
  #storageTime: number | null = null;
  #log: UndoLog | null = null;
  #shared: SharedStorage | null = null;
  #faults: Faults = noFaults;
  #isCalm = false;
  #isOver = false;
  #endRun: () => void = () => undefined;
  #booted = 0;
  #verbs = 0;

  constructor(options: SimulationOptions, script: SimulationScript) {
    this.#options = options;
    this.#script = script;
    this.#world = new World(options.transcript === true ? (line) => this.#transcript.push(line) : null);
    this.#observer = new Observer(this.#world, this.#processes, script);
  }

  async run(): Promise<SimulationReport> {
    const { seed, operations, faults, networkFaults, processes } = this.#script;
    const world = this.#world;
    const storageClock: Clock = {
      now: () => this.#storageTime ?? world.now + this.#observer.storageSkewMs,
      random: () => 0,
      sleep: (ms) => world.sleep(ms),
    };
    const real = await this.#options.storage(storageClock);
    await loadValidator();
    const losesWrites = faults.some(({ type }) => type === "power_loss" || type === "failover");
    const log = new UndoLog(real, (now) => {
      this.#storageTime = now;
    });
    this.#log = log;
    this.#shared = {
      real,
      write: losesWrites ? (batch) => log.write(batch) : real.write,
      now: () => world.now + this.#observer.storageSkewMs,
      processes: this.#processes,
      stalledUntil: 0,
      applied: (writer, batch) => {
        this.#observer.applied(writer, batch);
        return this.#atWrite(writer);
      },
    };
    const random = randomStream(seed, "network");
    if (networkFaults) {
      this.#faults = {
        lostRequest: random.pick([0, 0.01, 0.03]),
        lostAnswer: random.pick([0, 0.01, 0.04]),
        busy: random.pick([0, 0.02, 0.1]),
        slow: random.pick([0, 0.005, 0.03]),
        repeated: random.pick([0, 0, 0.03]),
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
    const { writes, effects, takeovers, parked, events, frames, undone } = this.#observer.counts;
    const messages = this.#messages.length;
    return {
      seed,
      violations: this.#observer.violations,
      counts: {
        events: world.steps,
        verbs: this.#verbs,
        writes,
        effects,
        takeovers,
        parked,
        received: events,
        messages,
        frames,
        undone,
      },
      answers: Object.fromEntries(this.#answers),
      script: linesOf(this.#script),
      transcript: this.#options.transcript === true ? this.#transcript : null,
    };
  }

  /**
   * Starts a process in a place. Odd places do not drive the turns that they accept; every process but the first is a
   * worker, most of the time.
   */
  #boot(place: number): Server {
    const { seed, knowsEnded, mistakesEnded, farClocks, maxTakeovers, effectFaults, compacts } = this.#script;
    if (this.#shared === null) throw new Error("the storage is not open");
    const name = `p${place}.${(this.#booted += 1)}`;
    const random = randomStream(seed, `process ${name}`);
    const process = new SimulatedProcess(this.#world, this.#shared, random, {
      name,
      skewMs: farClocks ? random.pick(farSkews) : this.#isCalm ? 0 : random.pick(skews),
      faults: this.#isCalm ? noFaults : this.#faults,
      knowsEnded,
      mistakesEnded,
    });
    const { wrap } = this.#options;
    const host = wrap === undefined ? process.storage : wrap(process.storage);
    const agent = simulatedAgent({
      seed,
      process,
      began: this.#observer.began,
      hasFaults: () => effectFaults && !this.#isCalm,
      compacts,
      crash: () => this.#replace(process, random.whole(50, 500)),
    });
    const sessions = runtime({
      host,
      engines: { default: agent },
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
        void sessions.work({ concurrency: random.pick([1, 4, 16]), signal: new AbortController().signal, onError });
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
      restart: ({ process }) => this.#replace(process, 200),
      called: () => {
        this.#verbs += 1;
      },
      messages: this.#messages,
      keys: new Map(),
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

  /** Ends a process and starts another one in its place. */
  #replace(process: SimulatedProcess, afterMs: number): void {
    const place = this.#servers.findIndex((server) => server?.process === process);
    process.kill();
    if (place === -1) return;
    this.#servers[place] = null;
    this.#world.schedule(afterMs, null, () => void (this.#servers[place] === null && this.#boot(place)));
  }

  #scheduleFaults(): void {
    for (const fault of this.#script.faults) {
      if (fault.atWrite !== null) continue;
      this.#world.schedule(fault.atMs, null, () => this.#happens(fault, this.#servers[fault.process]?.process ?? null));
    }
  }

  /** Faults that happen right after a write, in the process that made it. */
  async #atWrite(writer: SimulatedProcess): Promise<void> {
    const { writes } = this.#observer.counts;
    for (const fault of this.#script.faults) if (fault.atWrite === writes) await this.#happens(fault, writer);
  }

  async #happens({ type, ms }: Fault, process: SimulatedProcess | null): Promise<void> {
    if (this.#isCalm) return;
    const { farClocks } = this.#script;
    const [world, observer, shared] = [this.#world, this.#observer, this.#shared];
    world.log(() => `fault: ${type} ${ms} ms`);
    switch (type) {
      case "stall":
        if (shared !== null) shared.stalledUntil = world.now + ms;
        return;
      case "storage_jump":
        if (farClocks) return;
        observer.storageSkewMs += ms;
        observer.jumpedAt = world.now;
        return;
      case "kill":
        if (process !== null) this.#replace(process, ms);
        return;
      case "pause":
        process?.pause();
        world.schedule(ms, null, () => process?.resume());
        return;
      case "partition":
        if (process !== null) process.partitionedUntil = world.now + ms;
        process?.disturb(ms);
        return;
      case "deaf":
        if (process !== null) process.deafUntil = world.now + ms;
        process?.disturb(ms);
        return;
      case "jump":
        if (process !== null) process.skewMs += farClocks ? 60 * ms : ms;
        process?.disturb(0);
        return;
      case "power_loss":
        await this.#log?.losePower();
        observer.lostPower();
        if (shared !== null) shared.stalledUntil = world.now + Math.min(ms, 1500);
        return;
      case "failover":
        await this.#failOver(ms);
    }
  }

  /** Replaces the storage by an older copy. The model of the observer is read from it. */
  async #failOver(ms: number): Promise<void> {
    const [shared, log] = [this.#shared, this.#log];
    if (shared === null || log === null || (await log.failOver(ms % 3)) === 0) return;
    const [heads = [], turns = [], entries = []] = await shared.real.read([
      { table: "sessions", prefix: [] },
      { table: "turns", prefix: [] },
      { table: "entries", prefix: [] },
    ]);
    this.#observer.failedOver(heads, turns, entries);
    shared.stalledUntil = this.#world.now + ms;
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
    if (this.#shared !== null) this.#shared.stalledUntil = 0;
    // Often one new worker has to finish everything alone, which also takes the fewest events.
    const isAlone = randomStream(this.#script.seed, "calm").chance(0.7);
    for (const process of this.#processes) {
      process.faults = noFaults;
      process.partitionedUntil = 0;
      process.deafUntil = 0;
      process.resume();
      if (isAlone) process.kill();
    }
    if (isAlone) this.#servers.fill(null);
    const worker = this.#boot(0);
    const places = isAlone ? 1 : this.#script.processes;
    for (let place = 1; place < places; place += 1) {
      if ((this.#servers[place] ?? null) === null) this.#boot(place);
    }
    const end = world.now + calmMs;
    // A call whose client has given up may still be accepted, so the run is over when two checks in a row find no open
    // turn.
    for (let quietChecks = 0; quietChecks < 2 && world.now < end;) {
      await this.#runFor(1000);
      if (this.#observer.violations.length > 20) break;
      const turns = this.#openTurns();
      this.#checkFound(turns);
      const parked = turns.find(({ status }) => status === "parked");
      if (parked !== undefined) {
        const { tenant, id } = sessionOf(parked.name);
        this.#observer.resets(parked.name);
        world.schedule(0, worker.process, () => {
          worker.runtime
            .tenant(tenant)
            .recover(id)
            .catch(() => undefined);
        });
      }
      const isQuiet = clients.pending === 0 && turns.length === 0;
      quietChecks = isQuiet ? quietChecks + 1 : 0;
    }
    this.#isOver = true;
    this.#endRun();
    await this.#runFor(10);
    // The deadline of a wait may have passed since, and its turn continues.
    while (this.#openTurns().length > 0 && world.now < end) await this.#runFor(1000);
  }

  /** Open turns are found by a worker within a bound, whatever the clocks of the processes say. */
  #checkFound(turns: readonly { readonly name: string; readonly status: string }[]): void {
    const { now } = this.#world;
    for (const { name, status } of turns) {
      const { lease } = this.#observer.of(name);
      const isHeld = lease !== null && !lease.released && lease.endsAt > now;
      if (isHeld || status === "parked") this.#unheld.delete(name);
      else if (!this.#unheld.has(name)) this.#unheld.set(name, now);
      const since = this.#unheld.get(name) ?? now;
      if (now - since <= foundMs) continue;
      this.#observer.violation(`liveness: no worker has found the open turn of ${name} for ${now - since} ms`);
      this.#unheld.set(name, Number.POSITIVE_INFINITY);
    }
  }

  /** The turns of all sessions that have not ended. */
  #openTurns(): readonly { readonly name: string; readonly status: string }[] {
    return [...this.#observer.sessions]
      .filter(([, { deleted }]) => !deleted)
      .flatMap(([name, { turns }]) => [...turns.values()].map(({ status }) => ({ name, status })))
      .filter(({ status }) => status !== "ended");
  }

  async #finalChecks(real: HostStorage): Promise<void> {
    const observer = this.#observer;
    const checker = new SimulatedProcess(
      this.#world,
      {
        real,
        write: real.write,
        now: () => this.#world.now + observer.storageSkewMs,
        processes: [],
        stalledUntil: 0,
        applied: async () => undefined,
      },
      randomStream(0, ""),
      {
        name: "checker",
        skewMs: 0,
        faults: noFaults,
        knowsEnded: false,
      },
    );
    const agent = simulatedAgent({
      seed: this.#script.seed,
      process: checker,
      began: () => 0,
      hasFaults: () => false,
      compacts: this.#script.compacts,
      crash: () => undefined,
    });
    const all = runtime({ host: real, engines: { default: agent }, clock: checker.clock, drive: false, live: false });
    for (const [name, { deleted, wasDeleted, turns }] of observer.sessions) {
      if (deleted || turns.size === 0) continue;
      const { tenant, id } = sessionOf(name);
      const sessions = all.tenant(tenant);
      for (const [turn, { status }] of turns) {
        if (status !== "ended") observer.violation(`liveness: the turn ${turn} of ${name} is ${status} at the end`);
      }
      const view = await sessions.get(id, { messages: "all" });
      if (view === null) {
        observer.violation(`inputs: the session ${name} is gone`);
        continue;
      }
      const valid = validateSession(view.session);
      if (!valid.ok) observer.violation(`S2: the session ${name} is not valid: ${JSON.stringify(valid.failure)}`);
      await this.#checkJournals(real, name);
      // Of a session that was deleted and started again, only the newest part is left. An older copy has lost what
      // readers have received.
      if (observer.isLossy) continue;
      if (wasDeleted) continue;
      const check = new ReaderCheck(observer, name);
      for await (const event of sessions.events(id, { follow: false })) check.take(event);
      if (check.sequence !== observer.of(name).lastSequence) {
        observer.violation(`Q7: ${check.sequence} of ${observer.of(name).lastSequence} events of ${name} can be read`);
      }
      const [inbox = [], cancels = []] = await real.read([
        { table: "inbox", prefix: [tenant, id] },
        { table: "cancels", prefix: [tenant, id] },
      ]);
      if (cancels.length > 0) observer.violation(`Q9: an ended turn of ${name} has a cancel that is not settled`);
      const waiting = inbox.flatMap((row) => {
        const { input } = readValue("inbox", row);
        return input.type === "message" ? [messageText(input.message)] : [];
      });
      const isIdle = view.session.status === "idle" || view.session.status === "completed";
      const isWaiting = view.session.pendingToolCalls.length > 0 || view.openTurn !== null;
      if (inbox.length > 0 && isIdle && !isWaiting && !observer.of(name).mayRest) {
        observer.violation(`inputs: ${inbox.length} inputs of ${name} wait, and no turn is open`);
      }
      const texts = [...view.session.thread.messages.map(messageText), ...waiting];
      this.#checkMessages(name, texts);
    }
  }

  /** All journals of a session, also those of child turns, are of one holder at a time. */
  async #checkJournals(real: HostStorage, name: string): Promise<void> {
    const { tenant, id } = sessionOf(name);
    const [rows = []] = await real.read([{ table: "journal", prefix: [tenant, id] }]);
    const journals = new Map<string, Row[]>();
    for (const row of rows) {
      const turn = String(row.key[2]);
      journals.set(turn, [...(journals.get(turn) ?? []), row]);
    }
    for (const [turn, of] of journals) this.#observer.journalAtEnd(name, turn, of);
  }

  /** Every accepted message is in the session or its inbox exactly once; others at most once. */
  #checkMessages(name: string, texts: readonly string[]): void {
    const isFork = sessionOf(name).id.startsWith("f");
    for (const { session, text, accepted, withdrawn } of this.#messages) {
      const count = texts.filter((other) => other === text).length;
      const [here, quoted] = [session === name, JSON.stringify(text)];
      if (count > 1) this.#observer.violation(`inputs: ${quoted} is ${count} times in ${name}`);
      if (here && accepted && !withdrawn && count === 0) {
        this.#observer.violation(`inputs: ${quoted} was accepted and is not in ${name}`);
      }
      if (here && withdrawn && count > 0) this.#observer.violation(`inputs: ${quoted} was withdrawn and is in ${name}`);
      if (!here && !isFork && count > 0) {
        this.#observer.violation(`inputs: ${quoted} was sent to ${session} and is in ${name}`);
      }
    }
  }
}

/** Errors of a worker are expected: the network fails. */
function onError(): void {}

/** The session of a name (`nameOfSession`). */
function sessionOf(name: string): SimulatedSession {
  const [id = "", tenant = ""] = name.split("/").reverse();
  return { tenant, id };
}

/**
 * Loads the module that validates arguments of tools. The engine imports it when it first validates, which takes real
 * time: the first run would differ from the others.
 */
async function loadValidator(): Promise<void> {
  await checkValue({ type: "object" }, {});
}
