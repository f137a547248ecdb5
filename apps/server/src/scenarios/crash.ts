// Runs the scenario "Crash and recovery" with a real crash: a child process over the same database starts the turn and
// drives it, and is killed with SIGKILL in the middle of the second reply. No code of it runs after that. Its lease
// ends 1.2 seconds later at most, and the worker of this process takes the turn over.
//
// Child processes are ended by their process id, also when the server stops; a child whose server has died ends itself,
// because its channel is closed.

import type { ChildProcess } from "node:child_process";

import { fork } from "node:child_process";
import { once } from "node:events";

import { RuntimeError } from "everturn";

/**
 * What the child process receives. It is sent as a message, because other users can see the arguments of a process, and
 * a URL may contain a password.
 */
export type CrashSetup = {
  /** The path of a SQLite file or the URL of a Postgres database. */
  readonly database: string;
  readonly sessionId: string;
  readonly prompt: string;
  readonly paceMs: number;
};

// The program of the child: a file of the bundle (tools/package/entry-files.ts) if this file is bundled, else
// TypeScript in the same folder.
const program = import.meta.url.endsWith(".ts")
  ? new URL("./crash-worker.ts", import.meta.url)
  : new URL("./scenario-worker.js", import.meta.url);

/** How many child processes run at once, at most. */
const maxChildren = 3;
/** A child that has not begun its second reply after this time is killed where it is, in milliseconds. */
const longestRunMs = 60_000;

/**
 * Environment variables that a process needs to run, to connect to Postgres and to verify certificates. No API key is
 * passed on.
 */
const passedVariables =
  /^(?:PATH|HOME|USERPROFILE|SYSTEMROOT|TMPDIR|TEMP|TMP|TZ|LANG|PG\w+|NODE_\w+|SSL_\w+|EVERTURN_BUILT_WORKER)$/i;

/** Starts child processes and kills them. */
export class Crashes {
  readonly #children = new Set<ChildProcess>();

  /**
   * Starts a child and resolves when it has stored the turn. The child is killed later, in the middle of the second
   * reply.
   */
  async start(setup: CrashSetup): Promise<void> {
    if (this.#children.size >= maxChildren) {
      const message = `${maxChildren} processes of this scenario are running; try again in a few seconds`;
      throw new RuntimeError("quota_exceeded", { message });
    }
    const environment = Object.entries(process.env).filter(([name]) => passedVariables.test(name));
    const child = fork(program, [], {
      env: Object.fromEntries(environment),
      stdio: ["ignore", "ignore", "pipe", "ipc"],
    });
    this.#children.add(child);
    let stderr = "";
    child.stderr?.setEncoding("utf8").on("data", (text: string) => (stderr = (stderr + text).slice(-2000)));
    const timer = setTimeout(() => child.kill("SIGKILL"), longestRunMs);
    await new Promise<void>((resolve, reject) => {
      child.on("message", (message) => {
        if (message === "started") resolve();
        if (message === "replying") child.kill("SIGKILL");
      });
      child.on("error", reject);
      child.on("exit", (code, signal) => {
        clearTimeout(timer);
        this.#children.delete(child);
        const output = stderr.trim() === "" ? "no output" : stderr.trim();
        // Without effect if the turn is stored: then this is the crash.
        reject(new Error(`the process of the scenario ended early (${signal ?? `code ${code}`}): ${output}`));
      });
      child.send(setup, () => undefined);
    });
  }

  /** Kills all child processes. Resolves when they have ended. */
  async close(): Promise<void> {
    await Promise.all(
      [...this.#children].map(async (child) => {
        if (child.exitCode !== null || child.signalCode !== null) return;
        const exited = once(child, "exit");
        child.kill("SIGKILL");
        await exited;
      }),
    );
  }
}
