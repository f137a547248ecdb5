// Real Restate servers for tests: the binary of the package `@restatedev/restate-server`, on loopback, with its data in
// a temporary folder.
//
// The server has another licence (BSL 1.1) and 216 MB, so it is no dependency of the workspace. It is installed on
// first use, in a pinned version, into a cache that git ignores. Its telemetry is off: install scripts do not run, and
// `RESTATE_DISABLE_TELEMETRY` is set.

import type { ChildProcess } from "node:child_process";

import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync } from "node:fs";
import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";

const version = "1.7.12";
const cache = join(import.meta.dirname, "../../../node_modules/.cache/everturn-restate");

/** A running node. */
export type RestateNode = {
  readonly name: string;
  /** The URL of its ingress. */
  readonly ingress: string;
  /** The URL of its admin API. */
  readonly admin: string;
  readonly pid: () => number | null;
  /** Ends the process with SIGKILL. */
  readonly kill: () => Promise<void>;
  /** Starts it again with the same data and ports. Resolves when it accepts invocations. */
  readonly start: () => Promise<void>;
  /** The last lines of its log. */
  readonly log: () => string;
};

/** One node, or several that replicate their data. */
export type RestateCluster = {
  readonly nodes: readonly RestateNode[];
  /** Ends all nodes and deletes their data. */
  readonly close: () => Promise<void>;
};

/** Starts a server of one node. */
export async function startRestate(): Promise<RestateNode & { readonly close: () => Promise<void> }> {
  const { nodes, close } = await startRestateCluster(1);
  const [node] = nodes;
  if (node === undefined) throw new Error("there is no node");
  return { ...node, close };
}

/**
 * Starts a cluster: every partition and every log entry is on `replication` of the nodes. Default: 2, or 1 for one
 * node.
 */
export async function startRestateCluster(count: number, replication = Math.min(2, count)): Promise<RestateCluster> {
  const binary = await serverBinary();
  const folder = await mkdtemp(join(tmpdir(), "everturn-restate-"));
  const ports = await Promise.all(
    Array.from({ length: count }, async () => ({
      ingress: await freePort(),
      admin: await freePort(),
      fabric: await freePort(),
    })),
  );
  const addresses = ports.map(({ fabric }) => `http://127.0.0.1:${fabric}/`);
  const nodes = ports.map((port, index) =>
    nodeOf(binary, `node-${index + 1}`, port, {
      RESTATE_BASE_DIR: folder,
      RESTATE_CLUSTER_NAME: "everturn-test",
      RESTATE_AUTO_PROVISION: String(index === 0),
      RESTATE_DEFAULT_REPLICATION: String(replication),
      RESTATE_METADATA_CLIENT__ADDRESSES: JSON.stringify(addresses),
    }),
  );
  const close = async (): Promise<void> => {
    await Promise.all(nodes.map((node) => node.kill()));
    await rm(folder, { recursive: true, force: true, maxRetries: 5 });
  };
  try {
    await Promise.all(nodes.map((node) => node.start()));
  } catch (error) {
    await close();
    throw error;
  }
  return { nodes, close };
}

type Ports = { readonly ingress: number; readonly admin: number; readonly fabric: number };

function nodeOf(
  binary: string,
  name: string,
  ports: Ports,
  settings: { readonly [name: string]: string },
): RestateNode {
  let child: ChildProcess | null = null;
  let log = "";
  const ingress = `http://127.0.0.1:${ports.ingress}`;
  const admin = `http://127.0.0.1:${ports.admin}`;
  const start = async (): Promise<void> => {
    const server = spawn(binary, ["--no-logo"], {
      stdio: ["ignore", "pipe", "pipe"],
      env: {
        PATH: process.env["PATH"],
        HOME: process.env["HOME"],
        RESTATE_NODE_NAME: name,
        RESTATE_BIND_IP: "127.0.0.1",
        RESTATE_LISTEN_MODE: "tcp",
        RESTATE_BIND_PORT: String(ports.fabric),
        RESTATE_ADVERTISED_ADDRESS: `http://127.0.0.1:${ports.fabric}/`,
        RESTATE_INGRESS__BIND_PORT: String(ports.ingress),
        RESTATE_ADMIN__BIND_PORT: String(ports.admin),
        RESTATE_DISABLE_TELEMETRY: "true",
        // Sizes for a small machine.
        RESTATE_DEFAULT_NUM_PARTITIONS: "4",
        RESTATE_ROCKSDB_TOTAL_MEMORY_SIZE: "128MiB",
        RESTATE_LOG_FILTER: "warn",
        RESTATE_LOG_DISABLE_ANSI_CODES: "true",
        ...settings,
      },
    });
    child = server;
    // Also if the test ends without closing the server.
    const kill = () => void server.kill("SIGKILL");
    process.once("exit", kill);
    server.once("exit", () => process.off("exit", kill));
    for (const output of [server.stdout, server.stderr]) {
      output.on("data", (chunk: Buffer) => (log = (log + chunk.toString()).slice(-8000)));
    }
    for (const until = Date.now() + 120_000; !(await isHealthy(ingress, admin));) {
      if (server.exitCode !== null || server.signalCode !== null || Date.now() > until) {
        throw new Error(`the Restate node ${name} did not start: ${log}`);
      }
      await pause(50);
    }
  };
  return {
    name,
    ingress,
    admin,
    pid: () => child?.pid ?? null,
    start,
    kill: async () => {
      const server = child;
      child = null;
      if (server === null || server.exitCode !== null || server.signalCode !== null) return;
      const ended = once(server, "exit");
      server.kill("SIGKILL");
      await ended;
    },
    log: () => log,
  };
}

async function isHealthy(ingress: string, admin: string): Promise<boolean> {
  try {
    const answers = await Promise.all([fetch(`${ingress}/restate/health`), fetch(`${admin}/health`)]);
    await Promise.all(answers.map((answer) => answer.text()));
    return answers.every(({ ok }) => ok);
  } catch {
    return false;
  }
}

/** The path of the server's binary, which is installed if the cache lacks it. */
export async function serverBinary(): Promise<string> {
  const name = `@restatedev/restate-server-${process.platform}-${process.arch}`;
  const folder = join(cache, "node_modules", name);
  const manifest = join(folder, "package.json");
  const installed = (): string => {
    if (!existsSync(manifest)) return "none";
    const { version: found }: { readonly version: string } = JSON.parse(readFileSync(manifest, "utf8"));
    return found;
  };
  if (installed() !== version) {
    console.log(`installing ${name} ${version} into node_modules/.cache, once`);
    await mkdir(cache, { recursive: true });
    const args = ["install", "--prefix", cache, "--no-save", "--no-audit", "--no-fund", "--ignore-scripts"];
    await promisify(execFile)("npm", [...args, `${name}@${version}`], { cwd: cache });
  }
  if (installed() !== version) throw new Error(`npm installed ${name} ${installed()} instead of ${version}`);
  return join(folder, "bin/restate-server");
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

/** A port that no process uses. */
export async function freePort(): Promise<number> {
  const server = createServer();
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  if (address === null || typeof address === "string") throw new Error("no free port was found");
  return address.port;
}
