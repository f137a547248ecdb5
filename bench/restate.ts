// `npm run bench:restate`: turns that Restate drives, beside Postgres workers and beside the SDK of Restate alone with
// as many recorded steps, in one run. The model and the tool need no time, so all of it is overhead. The contenders
// alternate, so that other load of the machine affects all of them.
//
//   --turns 100   turns one after the other, for the times
//   --load 600    turns of the load
//   --open 32     open turns of the load
//
// The times of Everturn are those of a reader in another process than the one that drives the turn.

import type { Runtime } from "everturn/runtime";

import { fork } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { parseArgs } from "node:util";

import { postgresStorage } from "everturn/postgres";
import { registerRestateDeployment, restateRuntime } from "everturn/restate";
import { runtime } from "everturn/runtime";

import { startPostgres } from "../lib/test/postgres-server.ts";
import { startRestate } from "../lib/test/restate/restate-server.ts";
import { benchEngine, durableSteps } from "./restate-agent.ts";

const { values: options } = parseArgs({
  options: {
    turns: { type: "string", default: "100" },
    load: { type: "string", default: "600" },
    open: { type: "string", default: "32" },
  },
});

/**
 * One way to run turns. `run` returns the times until the first text, if there is one, and until the end, in
 * milliseconds.
 */
type Contender = {
  readonly name: string;
  readonly run: (id: string) => Promise<{ readonly first: number | null; readonly end: number }>;
};

console.log(`Node ${process.version}, ${process.arch}, ${durableSteps} durable steps a turn`);
const postgres = await startPostgres({ fsync: "on", shared_buffers: "256MB", max_connections: "100" });
const server = await startRestate();
const processes: ReturnType<typeof fork>[] = [];
try {
  const databases = { restate: await postgres.createDatabase(), workers: await postgres.createDatabase() };
  const ingress = { ingress: server.ingress };
  const serviceUrl = await startProcess("restate", databases.restate, server.ingress);
  await registerRestateDeployment({ ...ingress, admin: server.admin, uri: serviceUrl });
  const bareUrl = await startProcess("bare");
  await fetch(`${server.admin}/deployments`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ uri: bareUrl }),
  });
  await startProcess("workers", databases.workers);
  const engines = { default: benchEngine() };
  const storages = {
    restate: postgresStorage({ url: databases.restate }),
    workers: postgresStorage({ url: databases.workers }),
  };
  const onRestate = restateRuntime({ host: storages.restate, engines, restate: ingress });
  const onWorkers = runtime({ host: storages.workers, engines, drive: false });
  const contenders: readonly Contender[] = [
    { name: "Everturn, Postgres workers", run: (id) => runTurn(onWorkers, id) },
    { name: "Everturn, Restate", run: (id) => runTurn(onRestate, id) },
    { name: "the SDK of Restate alone", run: (id) => callBare(server.ingress, id) },
  ];
  await measureTimes(contenders, Number(options.turns));
  await measureLoad(contenders, Number(options.load), Number(options.open));
  await Promise.all(Object.values(storages).map((storage) => storage.close()));
} finally {
  for (const process of processes) process.kill("SIGKILL");
  await server.close();
  await postgres.close();
}

/** Starts a process. Returns the URL at which it listens. */
async function startProcess(...args: readonly string[]): Promise<string> {
  const polyfill = join(import.meta.dirname, "../lib/test/restate/with-resolvers.mjs");
  const child = fork(join(import.meta.dirname, "restate-process.ts"), [...args], {
    execArgv: ["--import", polyfill, "--import", "tsx"],
  });
  processes.push(child);
  const [url]: readonly unknown[] = await once(child, "message");
  return String(url);
}

async function runTurn(sessions: Pick<Runtime, "start">, id: string) {
  const began = performance.now();
  const turn = await sessions.start("Look it up.", { id });
  let first: number | null = null;
  for await (const { event } of turn.events) {
    if (event.type === "text_delta") first ??= performance.now() - began;
    if (event.type === "message_completed" && event.message.content !== "") first ??= performance.now() - began;
  }
  await turn.result;
  return { first, end: performance.now() - began };
}

async function callBare(ingress: string, id: string) {
  const began = performance.now();
  const response = await fetch(`${ingress}/Bare/${id}/run`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify("Look it up."),
  });
  const text = await response.text();
  if (!response.ok) throw new Error(`the SDK alone: ${text}`);
  return { first: null, end: performance.now() - began };
}

/** Turns one after the other; the contenders alternate. */
async function measureTimes(contenders: readonly Contender[], turns: number): Promise<void> {
  const times = contenders.map(() => ({ first: new Array<number>(), end: new Array<number>() }));
  const warmUp = Math.ceil(turns / 10);
  for (let turn = -warmUp; turn < turns; turn += 1) {
    for (const [index, { run }] of contenders.entries()) {
      const { first, end } = await run(`single-${index}-${turn + warmUp}`);
      if (turn < 0) continue;
      if (first !== null) times[index]?.first.push(first);
      times[index]?.end.push(end);
    }
  }
  console.log(`\n${turns} turns one after the other${" ".repeat(14)} first text p50    p99       end p50    p99`);
  for (const [index, { name }] of contenders.entries()) {
    const { first, end } = times[index] ?? { first: [], end: [] };
    const shown = [...percentilesOf(first), ...percentilesOf(end)].map((text) => text.padStart(9)).join(" ");
    console.log(`  ${name.padEnd(40)} ${shown} ms`);
  }
}

/** Many open turns. */
async function measureLoad(contenders: readonly Contender[], turns: number, open: number): Promise<void> {
  console.log(`\n${turns} turns, ${open} open at a time`);
  for (const [index, { name, run }] of contenders.entries()) {
    const ids = Array.from({ length: turns }, (_, turn) => `load-${index}-${turn}`);
    const began = performance.now();
    const running = async () => {
      for (let id = ids.pop(); id !== undefined; id = ids.pop()) await run(id);
    };
    await Promise.all(Array.from({ length: open }, running));
    const seconds = (performance.now() - began) / 1000;
    console.log(`  ${name.padEnd(40)} ${(turns / seconds).toFixed(0).padStart(9)} turns a second`);
  }
}

function percentilesOf(times: readonly number[]): readonly string[] {
  const sorted = times.toSorted((left, right) => left - right);
  return [0.5, 0.99].map((share) => {
    const value = sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))];
    return value === undefined ? "-" : value.toFixed(1);
  });
}
