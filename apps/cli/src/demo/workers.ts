// Starts, kills and stops the worker processes of the demo, by process id. A worker that exits unexpectedly fails the
// demo, with its last output as the message.

import type { Environment } from "@everturn/server";
import type { ChildProcess } from "node:child_process";

import { fork } from "node:child_process";
import { once } from "node:events";

/**
 * The argument of a worker process. It contains no API key, because other users can see arguments; a worker inherits
 * the environment.
 */
export type WorkerSetup = {
  readonly database: string;
  /** The path of the side-effect log. */
  readonly log: string;
  /** The name of the engine, unique to this run, so that the worker claims no other turns of the same database. */
  readonly engine: string;
  readonly model: string | null;
  readonly config: string | null;
};

export type Worker = { readonly pid: number; readonly ready: Promise<void> };

// The worker program: a file of the bundle (tools/package/entry-files.ts) if this file is bundled, else TypeScript in
// the same folder.
const program = import.meta.url.endsWith(".ts")
  ? new URL("./worker.ts", import.meta.url)
  : new URL("./demo-worker.js", import.meta.url);

export class Workers {
  readonly #setup: WorkerSetup;
  readonly #environment: Environment;
  readonly #onExit: (reason: Error) => void;
  readonly #running = new Map<number, ChildProcess>();

  /** `onExit` is called if a worker exits that was neither killed nor stopped here. */
  constructor(setup: WorkerSetup, environment: Environment, onExit: (reason: Error) => void) {
    this.#setup = setup;
    this.#environment = environment;
    this.#onExit = onExit;
  }

  start(): Worker {
    const child = fork(program, [JSON.stringify(this.#setup)], {
      env: { ...this.#environment },
      stdio: ["ignore", "ignore", "pipe", "ipc"],
    });
    const { pid } = child;
    if (pid === undefined) throw new Error("the worker process could not be started");
    this.#running.set(pid, child);
    let stderr = "";
    child.stderr?.setEncoding("utf8").on("data", (text: string) => (stderr = (stderr + text).slice(-2000)));
    child.on("error", this.#onExit);
    child.on("close", (code, signal) => {
      // `kill` and `end` remove a worker from the map first.
      if (!this.#running.delete(pid)) return;
      this.#onExit(
        new Error(`worker ${pid} exited unexpectedly (${signal ?? `code ${code}`}): ${stderr.trim() || "no output"}`),
      );
    });
    const ready = once(child, "message").then(() => undefined);
    ready.catch(() => undefined);
    return { pid, ready };
  }

  /** Sends SIGKILL, as `kill -9` does: no code of the worker runs after it. Resolves when the process has exited. */
  async kill(pid: number): Promise<void> {
    const child = this.#take(pid);
    if (child === null) return;
    const exited = once(child, "exit");
    child.kill("SIGKILL");
    await exited;
  }

  /** Stops all workers gracefully, and kills those that are still running after `graceMs`. */
  async end(graceMs: number): Promise<void> {
    await Promise.all(
      [...this.#running.keys()].map(async (pid) => {
        const child = this.#take(pid);
        if (child === null) return;
        const exited = once(child, "exit");
        if (graceMs > 0 && child.connected) child.send("stop", () => undefined);
        else child.kill("SIGKILL");
        const timer = setTimeout(() => child.kill("SIGKILL"), graceMs);
        await exited;
        clearTimeout(timer);
      }),
    );
  }

  /** Removes a worker from the map, so that its exit is expected. Returns it if it is still running. */
  #take(pid: number): ChildProcess | null {
    const child = this.#running.get(pid) ?? null;
    this.#running.delete(pid);
    return child !== null && child.exitCode === null && child.signalCode === null ? child : null;
  }
}
