// The environment in which the stored sessions are created: one SQLite file, one clock, and processes that are started
// and killed.

import type { Circumstances, CutProcess } from "./cut-process.ts";
import type { EngineName } from "./engines.ts";
import type { SqliteDatabase } from "everturn/sqlite";
import type { HostStorage } from "everturn/runtime";

import { createHash } from "node:crypto";

import { sqliteStorage } from "everturn/sqlite";
import { handClock } from "everturn/testing";

import { cutProcess } from "./cut-process.ts";

/** The time of the first process. */
const beginning = 1_750_000_000_000;

/** Longer than a lease lasts by default. */
export const leaseMs = 31_000;

export class Museum {
  readonly clock = handClock();
  /** Issued tokens, by session. */
  readonly tokens: { [session: string]: string } = {};
  readonly processes: CutProcess[] = [];
  readonly #storage: HostStorage;

  constructor(database: SqliteDatabase) {
    // Leases expire by the clock of the storage, which is that of the processes.
    this.#storage = sqliteStorage(database, { synchronous: "normal", clock: this.clock });
  }

  async begin(): Promise<void> {
    await this.clock.advance(beginning);
  }

  process(circumstances: Circumstances = {}): CutProcess {
    const process = cutProcess(this.#storage, this.clock, `process-${this.processes.length}`, circumstances);
    this.processes.push(process);
    return process;
  }

  /** Waits until a process is held at all of these places and does nothing else. */
  async reached({ probe }: CutProcess, ...places: readonly string[]): Promise<void> {
    const wanted = places.toSorted().join(", ");
    const held = () => [...probe.held].toSorted().join(", ");
    await this.#settled(() => held() === wanted);
    if (held() !== wanted) throw new Error(`held at ${held()}, not at ${wanted}`);
  }

  async cutAt(process: CutProcess, ...places: readonly string[]): Promise<void> {
    await this.reached(process, ...places);
    process.cut();
  }

  /** Waits until a process has been killed by a write. Its pending calls may never settle. */
  async untilCut({ isCut }: CutProcess, asked: Promise<unknown>): Promise<void> {
    asked.catch(() => undefined);
    await this.#settled(isCut);
    if (!isCut()) throw new Error("the process was not cut");
  }

  /**
   * Waits until all work that needs no time on the clock is done. Modules that are loaded on first use take real time,
   * so this may take several rounds.
   */
  async #settled(isSo: () => boolean): Promise<void> {
    for (let round = 0; round < 100 && !isSo(); round += 1) await this.clock.advance(0);
    await this.clock.advance(0);
  }

  async leaseExpires(): Promise<void> {
    await this.clock.advance(leaseMs);
  }

  /** A turn whose second step has a row of another effect, as after an incompatible deploy: recovery parks it. */
  async park(name: EngineName): Promise<void> {
    const first = this.process({ holds: ["look"] });
    await first.sessions.start("Begin.", { id: name, engine: name, key: "start" });
    await this.cutAt(first, "look");
    const [rows = []] = await this.#storage.read([{ table: "journal", prefix: ["", name] }]);
    const row = rows.at(-1);
    if (row === undefined) throw new Error(`${name} has no journal`);
    const { version, data } = JSON.parse(row.value);
    const effect: string = data.effect.replace('"useTools":true', '"useTools":false');
    if (effect === data.effect) throw new Error("the recorded effect did not change");
    const hash = createHash("sha256").update(effect).digest("hex");
    const value = JSON.stringify({ version, data: { ...data, effect, hash } });
    await this.#storage.write({ checks: [], removals: [], puts: [{ ...row, table: "journal", value }] });
    await this.leaseExpires();
    const second = this.process();
    await second.sessions.recover(name);
    await this.clock.advance(0);
    const view = await second.sessions.get(name);
    if (view?.openTurn?.status !== "parked") throw new Error(`${name} is ${view?.openTurn?.status ?? "not open"}`);
  }
}
