// Servers of the tests: `everturn serve` from the build of the package, each with a SQLite file of its own, on a free port of loopback. They are ended by their
// process id, also when a test fails.

import type { ChildProcess } from "node:child_process";

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const program = join(import.meta.dirname, "../../../../lib/bin/everturn.js");
const running = new Set<ChildProcess>();

/** The temporary folder of a run: databases, and the home folder of the servers, so that no configuration of the user is read. */
export const folder = mkdtempSync(join(tmpdir(), "everturn-studio-"));

// Also after an uncaught error or a signal no server stays behind. A handler of `exit` cannot wait.
process.on("exit", () => {
  for (const child of running) child.kill("SIGKILL");
  rmSync(folder, { recursive: true, force: true });
});
for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => process.exit(1));

export type ServerOptions = {
  /** The name of the database in the temporary folder. */
  readonly database: string;
  /** 0: any free port. */
  readonly port?: number;
  readonly token?: string;
  /** The delay between two words of the offline model, in milliseconds. */
  readonly paceMs?: number;
};

export class Server {
  readonly #child: ChildProcess;
  readonly #options: ServerOptions;
  readonly url: string;

  private constructor(child: ChildProcess, url: string, options: ServerOptions) {
    this.#child = child;
    this.url = url;
    this.#options = options;
  }

  static async start(options: ServerOptions): Promise<Server> {
    const { database, port = 0, token, paceMs } = options;
    const child = spawn(
      process.execPath,
      [program, "serve", "--no-config", "--port", `${port}`, "--database", join(folder, database)],
      {
        cwd: folder,
        stdio: ["ignore", "pipe", "pipe"],
        env: {
          PATH: process.env["PATH"],
          HOME: folder,
          EVERTURN_MODEL: "offline:demo",
          EVERTURN_REQUEST_LOG: "off",
          ...(token === undefined ? {} : { EVERTURN_TOKEN: token }),
          ...(paceMs === undefined ? {} : { EVERTURN_PACE: `${paceMs}` }),
        },
      },
    );
    running.add(child);
    child.on("exit", () => running.delete(child));
    let output = "";
    const url = await new Promise<string>((resolve, reject) => {
      const read = (text: string): void => {
        output = (output + text).slice(-4000);
        const address = /listens on (http:\/\/\S+)/.exec(output)?.[1];
        if (address !== undefined) resolve(address);
      };
      child.stdout?.setEncoding("utf8").on("data", read);
      child.stderr?.setEncoding("utf8").on("data", read);
      child.on("error", reject);
      child.on("exit", () => reject(new Error(`the server did not start: ${output}`)));
    });
    return new Server(child, url, options);
  }

  /** The address of a path of the studio, for example `overview`. */
  studio(path = ""): string {
    return `${this.url}/studio/${path}`;
  }

  /** Kills it (SIGKILL), as in a crash. */
  async kill(): Promise<void> {
    await end(this.#child);
  }

  /** Starts a server over the same database at the same address. The old one must have ended. */
  async restart(): Promise<Server> {
    return Server.start({ ...this.#options, port: Number(new URL(this.url).port) });
  }
}

/** Ends all servers and removes the temporary folder. */
export async function cleanUp(): Promise<void> {
  await Promise.all([...running].map(end));
  rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exited = once(child, "exit");
  child.kill("SIGKILL");
  await exited;
}
