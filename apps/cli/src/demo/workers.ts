// Worker processes: started, killed, and ended by their ids. One that dies without having been killed is a failure of the demo, and says why.

import type { Environment } from "@everturn/server";
import type { ChildProcess } from "node:child_process";

import { fork } from "node:child_process";
import { once } from "node:events";

/** What a worker is told. Keys are not in here: it has the environment. */
export type WorkerSetup = {
  readonly database: string;
  readonly world: string;
  /** The name of the engine, of this run alone: turns of others in the same file are left to them. */
  readonly engine: string;
  readonly model: string | null;
  readonly config: string | null;
};

export type Worker = { readonly pid: number; readonly ready: Promise<void> };

// Beside this file: compiled as this one is, or in TypeScript as this one is.
const program = import.meta.url.endsWith(".ts")
  ? new URL("./worker.ts", import.meta.url)
  : new URL("./worker.js", import.meta.url);

export class Workers {
  readonly #setup: WorkerSetup;
  readonly #environment: Environment;
  readonly #died: (reason: Error) => void;
  readonly #running = new Map<number, ChildProcess>();

  /** `died` is told when a worker ends that nobody ended. */
  constructor(setup: WorkerSetup, environment: Environment, died: (reason: Error) => void) {
    this.#setup = setup;
    this.#environment = environment;
    this.#died = died;
  }

  start(): Worker {
    const child = fork(program, [JSON.stringify(this.#setup)], {
      env: { ...this.#environment },
      stdio: ["ignore", "ignore", "pipe", "ipc"],
    });
    const { pid } = child;
    if (pid === undefined) throw new Error("the worker could not be started: the system gave it no process id");
    this.#running.set(pid, child);
    let said = "";
    child.stderr?.setEncoding("utf8").on("data", (text: string) => (said = (said + text).slice(-2000)));
    child.on("error", this.#died);
    child.on("close", (code, signal) => {
      // Whoever ends one takes it off the list first.
      if (!this.#running.delete(pid)) return;
      this.#died(
        new Error(
          `the worker ${pid} ended by itself (${signal ?? `code ${code}`}): ${said.trim() || "it said nothing"}`,
        ),
      );
    });
    const ready = once(child, "message").then(() => undefined);
    ready.catch(() => undefined);
    return { pid, ready };
  }

  /** As `kill -9` does: nothing in it gets to run any more. Resolves when it is gone. */
  async kill(pid: number): Promise<void> {
    const child = this.#take(pid);
    if (child === null) return;
    const gone = once(child, "exit");
    child.kill("SIGKILL");
    await gone;
  }

  /** Lets all of them finish what they are at for a moment, and then kills them. */
  async end(graceMs: number): Promise<void> {
    await Promise.all(
      [...this.#running.keys()].map(async (pid) => {
        const child = this.#take(pid);
        if (child === null) return;
        const gone = once(child, "exit");
        if (graceMs > 0 && child.connected) child.send("stop", () => undefined);
        else child.kill("SIGKILL");
        const timer = setTimeout(() => child.kill("SIGKILL"), graceMs);
        await gone;
        clearTimeout(timer);
      }),
    );
  }

  /** One that still runs, which from now on may end. */
  #take(pid: number): ChildProcess | null {
    const child = this.#running.get(pid) ?? null;
    this.#running.delete(pid);
    return child !== null && child.exitCode === null && child.signalCode === null ? child : null;
  }
}
