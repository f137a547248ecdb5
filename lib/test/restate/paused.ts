// A service process is paused (SIGSTOP) while it drives turns, as by a frozen host. It lives, so nothing proves that it
// has ended: its turns are taken over when their leases have expired, and not before. The proxy does not check the
// processes, so every other request reaches the paused one and hangs there: sweeps, and invocations that should
// continue the turns. After it resumes, nothing that it does is recorded. With haproxy, which checks the processes, the
// same holds.

import type { Http2Proxy } from "./http2-proxy.ts";
import type { HostStorage } from "everturn/runtime";

import { patienceOf } from "../../src/durable/restate/service-context.ts";
import { faultsOf, performedAgain, ranTwice, resting } from "../long/oracles.ts";
import { readLog } from "../long/world.ts";
import { deploy } from "./deployed.ts";
import { haproxyPath } from "./http2-proxy.ts";
import { pause, stop } from "./programs.ts";
import { patienceMs, report } from "./report.ts";
import { sweepMs } from "./service-process.ts";

const sessionCount = 12;
const warmUp = ["w1", "w2", "w3", "w4"];
const leaseMs = 6000;
/**
 * A lease expires at the earliest this long after the pause. Renewals are a quarter of a lease apart, and late on a
 * busy machine. An ended process is recognised in about a second, so a takeover without proof would be much earlier.
 */
const earliestMs = 0.4 * leaseMs;
/**
 * When a turn is taken over at the latest: its lease expires, then at most four rounds follow. A round is a pause of
 * the sweeper and a sweep, which may hang in the paused process for `patienceMs` of the services. The first one sends
 * one `resume`, the second one two and the others four, so at least one of them reaches the other process; one round is
 * for a sweep that hangs twice. Two seconds are for a busy machine.
 */
const latestMs = leaseMs + 4 * (patienceOf({ lease: { ttlMs: leaseMs, renewMs: leaseMs / 4 } }) + sweepMs) + 2000;

/** Returns the violations. */
export async function pausedTest(): Promise<readonly string[]> {
  const kinds = haproxyPath() === null ? (["node"] as const) : (["node", "haproxy"] as const);
  const violations: string[] = [];
  for (const kind of kinds) violations.push(...(await pausedBehind(kind)).map((text) => `behind ${kind}: ${text}`));
  return violations;
}

async function pausedBehind(kind: Http2Proxy["kind"]): Promise<readonly string[]> {
  const deployed = await deploy(2, 1, "service", kind);
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
    // Turns that the process has begun and not ended. A commit that it had sent may still be written on a busy machine.
    await pause(1000);
    const open = await openTurns(storage);
    const held = [...begun()].filter((turn) => open.has(turn));
    await resting(storage, Date.now() + patienceMs);
    const times = held.flatMap((turn) => {
      const next = readLog(log).find((line) => line.turn === turn && line.pid === other.pid);
      return next === undefined ? [] : [next.at - at];
    });
    // The invocation that began the first turn of the session hangs and holds the key of the session, so only the
    // sweeper continues it.
    const repliedAt = Date.now();
    await Promise.all(ids.map((id) => web.send(id, `more ${id}`)));
    await resting(storage, Date.now() + patienceMs);
    const repliesMs = Date.now() - repliedAt;
    const before = await stored(storage, ids);
    paused.kill("SIGCONT");
    // It answers the requests that hang, and tries to commit what it was doing.
    await pause(2000);
    const isUnchanged = (await stored(storage, ids)) === before;
    for (const service of [paused, other]) await stop(service);
    const lines = readLog(log).filter((line) => line.pid === other.pid || line.at < at + 1000);
    const said = ids.flatMap((id): readonly (readonly [string, string])[] => [
      [`hello ${id}`, id],
      [`more ${id}`, id],
    ]);
    const { faults } = await faultsOf(web, storage, ids, new Map(said));
    const sorted = times.toSorted((left, right) => left - right);
    report(
      `paused process, ${kind.padEnd(14)}${held.length} turns held, lease ${leaseMs} ms; taken over after ${sorted[0] ?? "-"} to ${sorted.at(-1) ?? "-"} ms, at most ${latestMs}`,
      `  next turns                  ${ids.length} in the same sessions, ended after ${repliesMs} ms while the process is paused`,
    );
    const early = sorted
      .filter((ms) => ms < earliestMs)
      .map((ms) => `a turn was taken over after ${ms} ms, before its lease expired`);
    const late = [...sorted, repliesMs]
      .filter((ms) => ms > latestMs)
      .map((ms) => `a turn was taken over or ended after ${ms} ms, more than ${latestMs} ms`);
    const none =
      held.length === 0 || times.length < held.length ? ["a turn of the paused process was not taken over"] : [];
    const changed = isUnchanged ? [] : ["the process has changed stored data after it had resumed"];
    return [...early, ...late, ...none, ...changed, ...faults, ...performedAgain(lines), ...ranTwice(lines)];
  } finally {
    await deployed.close();
  }
}

async function openTurns(storage: Pick<HostStorage, "read">): Promise<ReadonlySet<string>> {
  const [rows = []] = await storage.read([{ table: "open", prefix: [] }]);
  return new Set(rows.map(({ value }) => /"turn":"([^"]*)"/.exec(value)?.[1] ?? ""));
}

/** The stored sessions: messages, turns, journals and events, as one text. */
async function stored(storage: Pick<HostStorage, "read">, ids: readonly string[]): Promise<string> {
  const tables = ["sessions", "entries", "turns", "journal", "events", "open", "inbox"] as const;
  const queries = ids.flatMap((id) => tables.map((table) => ({ table, prefix: ["", id] }) as const));
  const rows = await storage.read(queries);
  return JSON.stringify(rows.map((found) => found.map(({ key, tag, value }) => [key, tag, value])));
}
