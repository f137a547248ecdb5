// Servers of the tests: `everturn serve` from the build of the package, each with a SQLite file of its own, on a free
// port of loopback. They are ended by their process id, also when a test fails.

import type { ChildProcess } from "node:child_process";

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const ownProgram = join(import.meta.dirname, "../../../../lib/bin/everturn.js");
const running = new Set<ChildProcess>();

/**
 * The temporary folder of a run: databases, and the home folder of the servers, so that no configuration of the user is
 * read.
 */
export const folder = mkdtempSync(join(tmpdir(), "everturn-studio-"));

// Also after an uncaught error or a signal no server stays behind. A handler of `exit` cannot wait.
process.on("exit", () => {
  for (const child of running) child.kill("SIGKILL");
  rmSync(folder, { recursive: true, force: true });
});
for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => process.exit(1));

export type ServerOptions = {
  /** The name of the database in the temporary folder, or the URL of a Postgres database. */
  readonly database: string;
  /** 0: any free port. */
  readonly port?: number;
  /**
   * One token, or several: `tenant:token`, separated by commas. `file`: none is set, so the server uses `auth` of its
   * configuration file, or creates a token file and prints a link that logs in. Default: requests need no token.
   */
  readonly token?: string;
  /** The delay between two words of the offline model, in milliseconds. */
  readonly paceMs?: number;
  /** The path of a configuration file. Default: none is read. */
  readonly config?: string;
  /** The path of the command. Default: that of this build. */
  readonly program?: string;
  /** Variables of the environment, for example API keys. */
  readonly environment?: { readonly [name: string]: string };
};

export class Server {
  #child: ChildProcess;
  readonly #options: ServerOptions;
  readonly #workFolder: string;
  readonly url: string;
  /** The link to the studio that the server has printed. */
  readonly link: string;

  private constructor({ child, url, link }: Spawned, options: ServerOptions, workFolder: string) {
    this.#child = child;
    this.url = url;
    this.link = link;
    this.#options = options;
    this.#workFolder = workFolder;
  }

  static async start(options: ServerOptions): Promise<Server> {
    const workFolder = mkdtempSync(join(folder, "server-"));
    return new Server(await spawnServer(options, workFolder), options, workFolder);
  }

  /** Creates a file in the working directory of the server, for which tools of test-engines.ts wait. */
  signal(name: "bank-answers" | "let-go"): void {
    writeFileSync(join(this.#workFolder, name), "");
  }

  /** The address of a path of the studio, for example `overview`. */
  studio(path = ""): string {
    return `${this.url}/studio/${path}`;
  }

  /** Kills it (SIGKILL), as in a crash. */
  async kill(): Promise<void> {
    await end(this.#child);
  }

  /** Starts it again over the same database at the same address. It must have been killed. */
  async restart(): Promise<void> {
    const { child } = await spawnServer({ ...this.#options, port: Number(new URL(this.url).port) }, this.#workFolder);
    this.#child = child;
  }
}

type Spawned = { readonly child: ChildProcess; readonly url: string; readonly link: string };

async function spawnServer(options: ServerOptions, workFolder: string): Promise<Spawned> {
  const { database, port = 0, token = "off", paceMs, config, program = ownProgram, environment = {} } = options;
  const path = database.startsWith("postgres:") ? database : join(folder, database);
  const configuration = config === undefined ? ["--no-config"] : ["--config", config];
  const child = spawn(process.execPath, [program, ...configuration, "serve", "--port", `${port}`, "--database", path], {
    cwd: workFolder,
    stdio: ["ignore", "pipe", "pipe"],
    env: {
      PATH: process.env["PATH"],
      HOME: folder,
      ...(config === undefined ? { EVERTURN_MODEL: "offline:demo" } : {}),
      EVERTURN_REQUEST_LOG: "off",
      ...environment,
      ...(token === "file" ? {} : { EVERTURN_TOKEN: token }),
      ...(paceMs === undefined ? {} : { EVERTURN_PACE: `${paceMs}` }),
    },
  });
  running.add(child);
  child.on("exit", () => running.delete(child));
  let output = "";
  const addresses = await new Promise<Omit<Spawned, "child">>((resolve, reject) => {
    const read = (text: string): void => {
      output = (output + text).slice(-4000);
      const url = /listens on (http:\/\/\S+)/.exec(output)?.[1];
      const link = /studio is at (http:\/\/\S+)\n/.exec(output)?.[1];
      if (url !== undefined && link !== undefined) resolve({ url, link });
    };
    child.stdout?.setEncoding("utf8").on("data", read);
    child.stderr?.setEncoding("utf8").on("data", read);
    child.on("error", reject);
    child.on("exit", () => reject(new Error(`the server did not start: ${output}`)));
  });
  return { child, ...addresses };
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
