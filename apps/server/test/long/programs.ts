// The processes of the long tests: builds the programs, starts them, exchanges messages with them, and ends them by
// process id, also when a test fails.

import type { Measured } from "./measure.ts";
import type { ServerPlan } from "./server.ts";
import type { ChildProcess } from "node:child_process";

import { fork } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { build } from "vite";

/** The temporary folder of a run. */
export const folder = mkdtempSync(join(tmpdir(), "everturn-server-long-"));
// Programs are built inside the workspace, so that Node resolves their packages.
const programs = join(import.meta.dirname, "../../.snippets", `long-${process.pid}`);
const children = new Set<ChildProcess>();

export type ProgramName = "server" | "bare" | "clients" | "page-readers";

export function cleanUp(): void {
  for (const child of children) kill(child);
  for (const path of [folder, programs]) rmSync(path, { recursive: true, force: true, maxRetries: 5 });
}

export async function buildPrograms(): Promise<void> {
  mkdirSync(programs, { recursive: true });
  const conditions = ["source", "module", "node"];
  const sqlite = join(import.meta.dirname, "../../../../lib/src/durable/host/sqlite/sqlite-worker.ts");
  for (const file of [
    ...["server", "bare", "clients", "page-readers"].map((name) => join(import.meta.dirname, `${name}.ts`)),
    sqlite,
  ]) {
    await build({
      configFile: false,
      logLevel: "error",
      resolve: { conditions },
      ssr: { noExternal: ["everturn", /.*/], external: ["libsql", "pg"], resolve: { conditions } },
      build: { ssr: file, outDir: programs, emptyOutDir: false, target: "node20" },
    });
  }
  writeFileSync(join(programs, "package.json"), `{ "type": "module" }`);
}

/** A child process that answers messages. */
export class Program {
  readonly child: ChildProcess;
  readonly exited: Promise<unknown>;
  #asked = 0;

  constructor(name: ProgramName, argument = "") {
    this.child = fork(join(programs, `${name}.js`), [argument], {
      execArgv: ["--expose-gc"],
      stdio: ["ignore", "inherit", "inherit", "ipc"],
    });
    children.add(this.child);
    this.exited = once(this.child, "exit");
    this.child.on("exit", () => children.delete(this.child));
  }

  /** Sends a message and waits for the answer. Rejects if the process exits first. */
  ask<T>(ask: unknown): Promise<T> {
    const id = (this.#asked += 1);
    const answered = new Promise<T>((resolve) => {
      const listen = (message: { readonly id?: number; readonly answer: T }) => {
        if (message.id !== id) return;
        this.child.off("message", listen);
        resolve(message.answer);
      };
      this.child.on("message", listen);
    });
    this.child.send({ id, ask });
    const exited = this.exited.then(() => Promise.reject(new Error("a process exited before it answered")));
    return Promise.race([answered, exited]);
  }

  /** Stops it gracefully (SIGTERM), as in a deploy. */
  async stop(): Promise<void> {
    this.child.kill("SIGTERM");
    await this.exited;
  }

  /** Kills it (SIGKILL), as in a crash. */
  async kill(): Promise<void> {
    kill(this.child);
    await this.exited;
  }
}

/** A child process that listens on a port. */
export class Listening extends Program {
  port = 0;

  static async start(name: "server" | "bare", plan: Partial<ServerPlan> = {}): Promise<Listening> {
    const completePlan: ServerPlan = {
      file: null,
      port: 0,
      log: null,
      lease: {},
      limits: {},
      keys: [],
      graceMs: 1000,
      ...plan,
    };
    const program = new Listening(name, JSON.stringify(completePlan));
    const [ready]: readonly { readonly port: number }[] = await Promise.race([
      once(program.child, "message"),
      program.exited.then(() => Promise.reject(new Error(`${name} did not start`))),
    ]);
    program.port = ready?.port ?? 0;
    return program;
  }

  measure(type: "measure" | "measure_collected" = "measure"): Promise<Measured> {
    return this.ask({ type });
  }
}

function kill({ pid, exitCode, signalCode }: ChildProcess): void {
  if (pid === undefined || exitCode !== null || signalCode !== null) return;
  try {
    process.kill(pid, "SIGKILL");
  } catch {
    // The process has exited already.
  }
}
