// The example deployment (examples/restate): two processes of `everturn serve --drive restate` behind haproxy, with one
// Restate node and with three. A turn is started at one process and read at the other one; then a process is killed,
// and the next turn ends as well.

import type { ChildProcess } from "node:child_process";

import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";

import { createClient } from "everturn/client";

import { haproxyPath } from "./http2-proxy.ts";
import { folder, pause } from "./programs.ts";
import { patienceMs, report } from "./report.ts";
import { serverBinary } from "./restate-server.ts";

const root = join(import.meta.dirname, "../../..");
/** The ports of the example, to which `PORTS` is added. */
const examplePorts = [4242, 4243, 5122, 5123, 5124, 8080, 8081, 8082, 9070, 9071, 9072, 9080, 9081, 9082];

/** Returns the violations. */
export async function exampleTest(): Promise<readonly string[]> {
  if (haproxyPath() === null) {
    report("example deployment            skipped: haproxy is not installed");
    return [];
  }
  return [...(await runExample(1, await freePorts())), ...(await runExample(3, await freePorts()))];
}

async function runExample(nodes: number, ports: number): Promise<readonly string[]> {
  const began = Date.now();
  const data = join(folder, `example-${nodes}`);
  const command = [process.execPath, "--import", "tsx", "--conditions=source", join(root, "apps/cli/src/main.ts")];
  const deployment = spawn(join(root, "examples/restate/deploy.sh"), {
    cwd: root,
    // The script and all its processes are ended together.
    detached: true,
    stdio: ["ignore", "pipe", "inherit"],
    env: {
      ...process.env,
      PATH: `${process.env["PATH"] ?? ""}:/usr/sbin`,
      NODES: String(nodes),
      PORTS: String(ports),
      DATA: data,
      PARTITIONS: "4",
      RESTATE_MEMORY: "128MiB",
      RESTATE_SERVER: await serverBinary(),
      EVERTURN: command.join(" "),
      EVERTURN_OFFLINE_PACE: "1",
      NODE_OPTIONS: `--import ${join(import.meta.dirname, "with-resolvers.mjs")}`,
    },
  });
  const end = () => endGroup(deployment);
  process.once("exit", end);
  try {
    await listening(deployment, data);
    const [first, second] = [0, 1].map((index) => createClient({ url: `http://127.0.0.1:${4242 + ports + index}` }));
    if (first === undefined || second === undefined) throw new Error("there are two processes");
    const turn = await first.start("What time is it? Use clock.", { id: "example" });
    const end = await second.attach("example", turn.turnId ?? "").result;
    const answered = end.status === "ended" && end.text !== "";
    // The process that listens on the first port ends. Restate calls the other one.
    process.kill(Number(readFileSync(join(data, "everturn-1.pid"), "utf8")), "SIGKILL");
    const next = await second.reply("example", "And now?");
    const after = await next.result;
    const again = after.status === "ended" && after.text !== "";
    report(
      `example deployment            ${nodes} Restate ${nodes === 1 ? "node" : "nodes"}: a turn over both processes ${answered ? "ended" : "failed"}, after a kill ${again ? "ended" : "failed"} (${Math.round((Date.now() - began) / 1000)} s)`,
    );
    return answered && again
      ? []
      : [`with ${nodes} nodes a turn did not end: ${JSON.stringify([end.status, after.status])}`];
  } finally {
    process.off("exit", end);
    const ended = once(deployment, "exit");
    end();
    await ended;
  }
}

/** A number so that all ports of the example are free if it is added to them. */
async function freePorts(): Promise<number> {
  for (;;) {
    // Below the ports that the system gives to connections.
    const added = 10_000 + Math.floor(Math.random() * 13_000);
    const areFree = await Promise.all(examplePorts.map((port) => isFree(port + added)));
    if (areFree.every(Boolean)) return added;
  }
}

async function isFree(port: number): Promise<boolean> {
  const server = createServer();
  const listening = once(server, "listening").then(
    () => true,
    () => false,
  );
  server.listen(port, "127.0.0.1");
  const isListening = await listening;
  if (isListening) await new Promise((resolve) => server.close(resolve));
  return isListening;
}

/** Ends the script and its processes. */
function endGroup({ pid }: ChildProcess): void {
  try {
    if (pid !== undefined) process.kill(-pid, "SIGKILL");
  } catch {
    // They have ended already.
  }
}

/** Waits until the script reports the addresses. */
async function listening(deployment: ChildProcess, data: string): Promise<void> {
  let output = "";
  deployment.stdout?.on("data", (chunk: Buffer) => (output += chunk.toString()));
  for (const until = Date.now() + patienceMs; !output.includes("user interface"); await pause(100)) {
    if (deployment.exitCode === null && Date.now() < until) continue;
    const logs = ["restate-1.log", "haproxy.log", "everturn-1.log"].map((name) => join(data, name)).filter(existsSync);
    throw new Error(
      `the example did not start: ${logs.map((path) => readFileSync(path, "utf8").slice(-1000)).join("\n")}`,
    );
  }
}
