// Two processes under load, of which one is killed: how the turns are spread, and how long it takes until the other
// process continues. The same with Restate and with Postgres workers.

import type { Line } from "../long/world.ts";
import type { Runtime } from "everturn/runtime";

import { faultsOf, percentile, performedAgain, ranTwice, resting } from "../long/oracles.ts";
import { readLog } from "../long/world.ts";
import { deploy } from "./deployed.ts";
import { kill, pause, ready, stop } from "./programs.ts";
import { patienceMs, report } from "./report.ts";

/** How many turns are open at a time, and how many turns there are. Each process may drive all of them. */
const load = { open: 32, turns: 128 };

/** Returns the violations. */
export async function spreadTest(): Promise<readonly string[]> {
  const withRestate = await runOne("restate");
  const withWorkers = await runOne("workers");
  for (const { name, shares, times } of [withRestate, withWorkers]) {
    const [p50, p99] = [percentile(times, 0.5), percentile(times, 0.99)];
    report(
      `two processes, ${name}`,
      `  turns begun before the kill ${shares.join(" and ")}`,
      `  takeover after the kill     p50 ${p50} ms, p99 ${p99} ms, most ${times.at(-1) ?? 0} ms, of ${times.length}`,
    );
  }
  const uneven = Math.min(...withRestate.shares) < 0.2 * withRestate.turns ? ["one process got nearly all turns"] : [];
  // Without proof that the process has ended, a turn would be taken over when its lease expires, after 30 seconds.
  const late =
    percentile(withRestate.times, 0.5) > 20_000 ? ["half of the turns were taken over only after 20 seconds"] : [];
  const none = [withRestate, withWorkers].flatMap(({ name, times }) =>
    times.length === 0 ? [`${name}: the process was killed without a turn`] : [],
  );
  return [...withRestate.violations, ...withWorkers.violations, ...uneven, ...late, ...none];
}

type Result = {
  readonly name: string;
  readonly turns: number;
  /** How many turns began in each process before the kill. */
  readonly shares: readonly number[];
  /** Takeover times in milliseconds, sorted. */
  readonly times: readonly number[];
  readonly violations: readonly string[];
};

async function runOne(kind: "restate" | "workers"): Promise<Result> {
  const deployed = await deploy(2, 1);
  try {
    const { web, storage, log, database, losses } = deployed;
    const processes =
      kind === "restate"
        ? await Promise.all([deployed.startService(0), deployed.startService(1)])
        : await Promise.all([ready("worker", database, log), ready("worker", database, log)]);
    if (kind === "restate") await deployed.register();
    else losses.request = 1;
    const ids = Array.from({ length: load.turns }, (_, index) => `s${index}`);
    const running = runAll(web, ids);
    // In the middle of the load.
    await untilBegun(log, load.turns / 2);
    const [victim, other] = processes;
    const killedAt = Date.now();
    await kill(victim);
    const said = await running;
    await resting(storage, Date.now() + patienceMs);
    await stop(other);
    const lines = readLog(log);
    const { faults } = await faultsOf(web, storage, ids, said);
    const begun = new Map<string, number>();
    for (const { turn, pid, at } of lines) if (at < killedAt && !begun.has(turn)) begun.set(turn, pid);
    const shares = [victim, other].map(({ pid }) => [...begun.values()].filter((first) => first === pid).length);
    const name = kind === "restate" ? `Restate, behind ${deployed.proxy.kind}` : "Postgres workers";
    const violations = [...faults, ...performedAgain(lines), ...ranTwice(lines)];
    return { name, turns: begun.size, shares, times: takeoverTimes(lines, victim.pid ?? 0, killedAt), violations };
  } finally {
    await deployed.close();
  }
}

/** Runs a turn in each session, `load.open` at a time. Returns the sessions by message. */
async function runAll(web: Pick<Runtime, "start">, ids: readonly string[]): Promise<ReadonlyMap<string, string>> {
  const left = [...ids];
  const running = async () => {
    for (let id = left.pop(); id !== undefined; id = left.pop()) {
      const turn = await web.start(`hello ${id}`, { id });
      await turn.result;
    }
  };
  await Promise.all(Array.from({ length: load.open }, running));
  return new Map(ids.map((id) => [`hello ${id}`, id]));
}

async function untilBegun(log: string, count: number): Promise<void> {
  while (new Set(readLog(log).map(({ turn }) => turn)).size < count) await pause(20);
}

/** For each turn that the killed process drove: the time until another process performed its next effect. */
function takeoverTimes(lines: readonly Line[], pid: number, at: number): readonly number[] {
  const last = new Map<string, Line>();
  for (const line of lines) if (line.at <= at) last.set(line.turn, line);
  return [...last]
    .filter(([, line]) => line.pid === pid)
    .flatMap(([turn]) => lines.find((later) => later.at > at && later.turn === turn && later.pid !== pid) ?? [])
    .map((line) => line.at - at)
    .toSorted((left, right) => left - right);
}
