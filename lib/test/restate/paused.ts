// A service process is paused (SIGSTOP) while it drives turns. It lives, so nothing proves that it has ended: its turns are taken over when their leases have expired,
// and not before, although its invocations hang. After it resumes, nothing that it does is recorded.

import { faultsOf, performedAgain, ranTwice, resting } from "../long/oracles.ts";
import { readLog } from "../long/world.ts";
import { deploy } from "./deployed.ts";
import { pause, stop } from "./programs.ts";
import { patienceMs, report } from "./report.ts";

const sessionCount = 12;
const warmUp = ["w1", "w2", "w3", "w4"];
const leaseMs = 12_000;
/**
 * A lease expires at the earliest this long after the pause. Renewals are a quarter of a lease apart, and late on a busy machine. An ended process is
 * recognised in about a second, so a takeover without proof would be much earlier.
 */
const earliestMs = 0.4 * leaseMs;

/** Returns the violations. */
export async function pausedTest(): Promise<readonly string[]> {
  const deployed = await deploy(2, 1);
  try {
    const { web, storage, log } = deployed;
    const paused = await deployed.startService(0, leaseMs);
    const other = await deployed.startService(1, leaseMs);
    await deployed.register();
    // Both processes have claimed leases and hold the lock that shows that they live.
    const first = await Promise.all(warmUp.map((id) => web.start(`hello ${id}`, { id })));
    await Promise.all(first.map(({ result }) => result));
    await pause(1500);
    const ids = Array.from({ length: sessionCount }, (_, index) => `s${index}`);
    for (const id of ids) await web.start(`hello ${id}`, { id });
    const known = new Set(first.map(({ turnId }) => turnId));
    const begun = () =>
      new Set(readLog(log).flatMap(({ turn, pid }) => (pid === paused.pid && !known.has(turn) ? [turn] : [])));
    while (begun().size === 0) await pause(10);
    const at = Date.now();
    paused.kill("SIGSTOP");
    // Turns that the process has begun and not ended.
    await pause(200);
    const open = await openTurns(storage);
    const held = [...begun()].filter((turn) => open.has(turn));
    await resting(storage, Date.now() + patienceMs);
    const times = held.flatMap((turn) => {
      const next = readLog(log).find((line) => line.turn === turn && line.pid === other.pid);
      return next === undefined ? [] : [next.at - at];
    });
    paused.kill("SIGCONT");
    await pause(2000);
    for (const service of [paused, other]) await stop(service);
    const lines = readLog(log).filter((line) => line.pid === other.pid || line.at < at + 1000);
    const { faults } = await faultsOf(web, storage, ids, new Map(ids.map((id) => [`hello ${id}`, id])));
    const sorted = times.toSorted((left, right) => left - right);
    report(
      `paused process                ${held.length} turns held, lease ${leaseMs} ms; taken over after ${sorted[0] ?? "-"} to ${sorted.at(-1) ?? "-"} ms`,
    );
    const early = sorted
      .filter((ms) => ms < earliestMs)
      .map((ms) => `a turn was taken over after ${ms} ms, before its lease expired`);
    const none =
      held.length === 0 || times.length < held.length ? ["a turn of the paused process was not taken over"] : [];
    return [...early, ...none, ...faults, ...performedAgain(lines), ...ranTwice(lines)];
  } finally {
    await deployed.close();
  }
}

async function openTurns(storage: Pick<Parameters<typeof resting>[0], "read">): Promise<ReadonlySet<string>> {
  const [rows = []] = await storage.read([{ table: "open", prefix: [] }]);
  return new Set(rows.map(({ value }) => /"turn":"([^"]*)"/.exec(value)?.[1] ?? ""));
}
