// A rolling upgrade: half of the workers run the packed previous release and half the packed current one, on one
// database. Workers of both are killed with SIGKILL and started again, while messages are sent. Then the workers of the
// previous release are replaced by current ones. At the end every message has been accepted once, every turn has ended,
// no recorded effect was performed again, and both releases have performed effects.
//
// The engine of the current release has a context policy, which the previous release cannot continue: no frame is
// written while both run. Then the database is finalized, workers start again, are killed too, and write frames.
//
//   … roll.ts sqlite 40         40 kills on a SQLite file
//   … roll.ts postgres 40       40 kills on Postgres
//
// All files and processes are removed at the end, also after a failure. Only the tarball of the previous release is
// kept.

import type { PostgresServer } from "../postgres-server.ts";
import type { HostStorage, Runtime } from "everturn/runtime";
import type { ChildProcess } from "node:child_process";

import { fork } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { finalizeStorage, runtime } from "everturn/runtime";
import { build } from "vite";

import { root } from "../../../tools/package/entry-files.ts";
import { pack, unpack } from "../../../tools/package/packed.ts";
import { startPostgres } from "../postgres-server.ts";
import { faultsOf, performedAgain, ranTwice, resting } from "./oracles.ts";
import { previousCommit, previousTarball } from "./previous-release.ts";
import { openStorage, readLog, slowAgent } from "./world.ts";

const onPostgres = process.argv[2] === "postgres";
const wantedKills = Number(process.argv[3] ?? 40);
/** Kills after the database has been finalized. */
const laterKills = Math.ceil(wantedKills / 5);
/** A context window that a few turns fill, in tokens. */
const window = 600;
/** Workers of each release. */
const workersOfEach = 2;
const longestMs = 1_200_000;
const ids = Array.from({ length: 12 }, (_, index) => `session-${index}`);

const releases = ["previous", "current"] as const;
type Release = (typeof releases)[number];

const folder = mkdtempSync(join(tmpdir(), "everturn-roll-"));
const log = join(folder, "world.log");
const projectOf = (release: Release) => join(folder, release);
const children = new Set<ChildProcess>();
const servers: PostgresServer[] = [];
/** The release of each worker, by process id. */
const releaseOf = new Map<number, Release>();
const kills = { previous: 0, current: 0 };
const started = { previous: 0, current: 0 };
const violations: string[] = [];

function cleanUp(): void {
  for (const child of children) child.kill("SIGKILL");
  rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
}

process.on("exit", cleanUp);
for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => process.exit(1));

const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

/** The entry points that had the names of an entry point in the previous release, and which names. */
const formerEntries: { readonly [entry: string]: { readonly [former: string]: readonly string[] } } = {
  everturn: { everturn: ["engine", "tool"], "everturn/model": ["assistant", "messageText"] },
  "everturn/sqlite": { "everturn/host/sqlite": ["sqliteStorage"] },
  "everturn/postgres": { "everturn/host/postgres": ["postgresStorage"] },
};

/** Bundles the worker program for a project. `entries`: where names are that its release has in other entry points. */
async function buildWorker(project: string, entries: typeof formerEntries): Promise<void> {
  await build({
    configFile: false,
    logLevel: "error",
    resolve: { conditions: ["module", "node"] },
    ssr: { external: true },
    plugins: [
      {
        name: "former-entries",
        enforce: "pre",
        resolveId: (source, importer) => {
          if (!/^everturn(\/|$)/.test(source)) return null;
          const isOwn = importer?.startsWith("\0former:") === true;
          return !isOwn && source in entries ? `\0former:${source}` : { id: source, external: true };
        },
        load: (id) => {
          if (!id.startsWith("\0former:")) return null;
          const from = Object.entries(entries[id.slice("\0former:".length)] ?? {});
          return from.map(([former, names]) => `export { ${names.join(", ")} } from "${former}";`).join("\n");
        },
      },
    ],
    build: {
      ssr: join(import.meta.dirname, "worker.ts"),
      outDir: project,
      emptyOutDir: false,
      target: "node20",
      rollupOptions: { external: ["libsql", "pg"] },
    },
  });
}

/**
 * Installs both releases, each in a project of its own with the same worker program. Returns `false` if there is no
 * previous release.
 */
async function install(): Promise<boolean> {
  const previous = await previousTarball();
  if (previous === null) return false;
  const current = await pack(join(folder, "packed"));
  const paths = { previous, current: current.path };
  for (const release of releases) {
    const project = projectOf(release);
    await unpack({ ...current, path: paths[release] }, project);
    for (const name of ["libsql", "pg"]) {
      symlinkSync(join(root, "node_modules", name), join(project, "node_modules", name), "junction");
    }
    await buildWorker(project, release === "previous" ? formerEntries : {});
  }
  return true;
}

/** Starts a worker, and waits until it has opened the database. `first`: the id of a session that it starts. */
async function begin(release: Release, target: string, first = ""): Promise<ChildProcess> {
  const policy = release === "current" ? String(window) : "";
  const child = fork(join(projectOf(release), "worker.js"), [target, log, policy, first], {
    execArgv: [],
    stdio: ["ignore", "inherit", "inherit", "ipc"],
  });
  children.add(child);
  child.once("exit", () => children.delete(child));
  if (child.pid !== undefined) releaseOf.set(child.pid, release);
  started[release] += 1;
  await Promise.race([once(child, "message"), once(child, "exit")]);
  return child;
}

/**
 * Keeps one worker of a release running, and kills it at random moments, until there have been enough kills. Returns
 * the last worker, which is running.
 */
async function rolling(release: Release, target: string, killsUntil: number): Promise<ChildProcess> {
  for (;;) {
    const worker = await begin(release, target);
    const exited = worker.exitCode === null ? once(worker, "exit") : null;
    if (exited === null) {
      violations.push(`a worker of the ${release} release ended by itself`);
      return worker;
    }
    if (kills.previous + kills.current >= killsUntil) return worker;
    await Promise.race([pause(onPostgres ? 1000 + Math.random() * 3000 : 300 + Math.random() * 1200), exited]);
    if (worker.exitCode !== null) violations.push(`a worker of the ${release} release ended by itself`);
    worker.kill("SIGKILL");
    kills[release] += 1;
    await exited;
  }
}

/** Ends a worker as a deploy does: it releases its turns first. */
async function stopped(worker: ChildProcess): Promise<void> {
  if (worker.exitCode !== null || worker.signalCode !== null) return;
  const exited = once(worker, "exit");
  worker.send("stop");
  await exited;
}

/** Sends messages until it is stopped, and adds them to `sent` with their sessions. */
async function talking(sessions: Runtime, sent: Map<string, string>, signal: AbortSignal): Promise<void> {
  for (let count = sent.size; !signal.aborted; count += 1) {
    const id = ids[count % ids.length] ?? "";
    const [text, key] = [`message ${count}`, `key ${count}`];
    await sessions.send(id, text, { key });
    sent.set(text, id);
    await pause(100 + Math.random() * 200);
  }
}

async function framesIn(storage: HostStorage): Promise<number> {
  const [frames = []] = await storage.read([{ table: "frames", prefix: [] }]);
  return frames.length;
}

/** Finalizes the database and starts workers again, which are killed too. Returns the number of their frames. */
async function afterFinalizing(target: string, sent: Map<string, string>): Promise<number> {
  // A process that runs while the database is finalized continues to write the older format.
  const { storage, close } = await openStorage(target);
  const sessions = runtime({ host: storage, engines: { default: slowAgent(null, { window }) }, drive: false });
  const stop = new AbortController();
  const talk = talking(sessions, sent, stop.signal);
  const until = kills.previous + kills.current + laterKills;
  const workers = await Promise.all(Array.from({ length: workersOfEach }, () => rolling("current", target, until)));
  stop.abort();
  await talk;
  await resting(storage, Date.now() + 180_000);
  for (const worker of workers) await stopped(worker);
  const frames = await framesIn(storage);
  await close();
  return frames;
}

async function roll(): Promise<void> {
  const beganAt = Date.now();
  const [server] = servers;
  const target = server === undefined ? join(folder, "sessions.db") : await server.createDatabase();
  writeFileSync(log, "");
  // The previous release creates the database: an empty one gets the newest format.
  const [founded = "", ...others] = ids;
  await stopped(await begin("previous", target, founded));
  const { storage, close } = await openStorage(target);
  const sessions = runtime({ host: storage, engines: { default: slowAgent(null, { window }) }, drive: false });
  for (const id of others) await sessions.start(`hello ${id}`, { id });
  const stop = new AbortController();
  const sent = new Map<string, string>();
  const talk = talking(sessions, sent, stop.signal);
  const slots = releases.flatMap((release) => Array.from({ length: workersOfEach }, () => release));
  const workers = await Promise.all(
    slots.map(async (release) => ({ release, worker: await rolling(release, target, wantedKills) })),
  );
  // The rest of the roll: current workers replace those of the previous release.
  const replacements = await Promise.all(
    workers.map(async ({ release, worker }) => {
      if (release === "current") return worker;
      await stopped(worker);
      return begin("current", target);
    }),
  );
  stop.abort();
  await talk;
  await resting(storage, Date.now() + 180_000);
  for (const worker of replacements) await stopped(worker);
  const earlyFrames = await framesIn(storage);
  if (earlyFrames > 0) violations.push(`${earlyFrames} frames were written before the database was finalized`);
  const finalized = await finalizeStorage(storage);
  if (finalized.status !== "finalized") violations.push(`the database was not finalized: ${finalized.status}`);
  const killsUntilFinal = kills.previous + kills.current;
  const frames = await afterFinalizing(target, sent);
  if (frames === 0) violations.push("no frame was written after the database was finalized");
  const lines = readLog(log);
  const greetings = ids.map((id): readonly [string, string] => [`hello ${id}`, id]);
  const { faults, counts } = await faultsOf(sessions, storage, ids, new Map([...greetings, ...sent]));
  await close();
  const [again, twice] = [performedAgain(lines), ranTwice(lines)];
  const effectsOf = (release: Release) =>
    lines.filter(({ pid, what }) => releaseOf.get(pid) === release && what.endsWith("began")).length;
  const releasesByTurn = new Map<string, Set<Release | undefined>>();
  for (const { turn, pid } of lines) {
    releasesByTurn.set(turn, (releasesByTurn.get(turn) ?? new Set()).add(releaseOf.get(pid)));
  }
  const shared = [...releasesByTurn.values()].filter(({ size }) => size > 1).length;
  console.log(
    [
      `storage                      ${onPostgres ? "Postgres" : "SQLite"}; previous release: commit ${previousCommit}`,
      `workers started              previous ${started.previous}, current ${started.current}`,
      `kills                        previous ${kills.previous}, current ${kills.current}`,
      `inputs                       ${sent.size + ids.length}, turns ${counts["turns"]}, messages ${counts["messages"]}`,
      `effects begun                previous ${effectsOf("previous")}, current ${effectsOf("current")}; turns with effects of both ${shared}`,
      `outcomes unknown             ${counts["unknownOutcomes"]}`,
      `recorded effects run again   ${again.length}`,
      `tools run twice (never)      ${twice.length}`,
      `faults in stored data        ${faults.length}`,
      `finalize                     ${JSON.stringify(finalized)}, after ${killsUntilFinal} kills`,
      `frames                       before finalize ${earlyFrames}, after it ${frames}; summaries asked for ${lines.filter(({ what }) => what === "summary_began").length}`,
      `time                         ${Math.round((Date.now() - beganAt) / 1000)} s`,
    ].join("\n"),
  );
  violations.push(...again, ...twice, ...faults);
  for (const release of releases) {
    if (effectsOf(release) === 0) violations.push(`the ${release} release performed no effect`);
    if (kills[release] === 0) violations.push(`no worker of the ${release} release was killed`);
  }
}

try {
  setTimeout(() => {
    console.error(`the roll has taken more than ${longestMs} ms`);
    process.exit(1);
  }, longestMs).unref();
  if (!(await install())) {
    console.log(`skipped: this checkout does not contain the commit ${previousCommit} of the previous release`);
  } else {
    if (onPostgres) servers.push(await startPostgres());
    await roll();
  }
} catch (error) {
  violations.push(error instanceof Error ? (error.stack ?? error.message) : String(error));
} finally {
  for (const server of servers) await server.close();
  cleanUp();
}
for (const violation of violations.slice(0, 40)) console.error(`WRONG: ${violation}`);
process.exit(violations.length === 0 ? 0 : 1);
