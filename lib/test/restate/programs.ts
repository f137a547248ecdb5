// Starts and ends the processes of the test with Restate. All of them end with the test.

import type { ChildProcess } from "node:child_process";

import { fork } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { build } from "vite";

/** A folder for the files of the test. */
export const folder = mkdtempSync(join(tmpdir(), "everturn-restate-test-"));
// The programs are built in a folder from which their packages can be resolved.
const programs = join(import.meta.dirname, "../../.snippets", `restate-${process.pid}`);
const children = new Set<ChildProcess>();

const sources = {
  service: "service.ts",
  "own-service": "own-service.ts",
  "versioned-service": "versioned-service.ts",
  worker: "../long/worker.ts",
  reader: "../long/reader.ts",
} as const;

export type ProgramName = keyof typeof sources;

process.on("exit", () => {
  for (const child of children) child.kill("SIGKILL");
  for (const path of [folder, programs]) rmSync(path, { recursive: true, force: true, maxRetries: 5 });
});
for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => process.exit(1));

/** Bundles the programs, because they are started often and have to start quickly. */
export async function buildPrograms(names: readonly ProgramName[]): Promise<void> {
  mkdirSync(programs, { recursive: true });
  const conditions = ["source", "module", "node"];
  for (const name of names) {
    await build({
      configFile: false,
      logLevel: "error",
      resolve: { conditions },
      ssr: {
        noExternal: ["everturn", /.*/],
        external: ["libsql", "pg", "@restatedev/restate-sdk"],
        resolve: { conditions },
      },
      build: {
        ssr: join(import.meta.dirname, sources[name]),
        outDir: programs,
        emptyOutDir: false,
        target: "node20",
        rollupOptions: { output: { entryFileNames: `${name}.js` } },
      },
    });
  }
  writeFileSync(join(programs, "package.json"), `{ "type": "module" }`);
}

/** Starts a program. */
export function begin(name: ProgramName, ...args: readonly (string | number)[]): ChildProcess {
  const child = fork(join(programs, `${name}.js`), args.map(String), {
    execArgv: ["--import", join(import.meta.dirname, "with-resolvers.mjs")],
    stdio: ["ignore", "inherit", "inherit", "ipc"],
  });
  children.add(child);
  child.on("exit", () => children.delete(child));
  return child;
}

/** Starts a program, and resolves when it has reported that it is ready. */
export async function ready(name: ProgramName, ...args: readonly (string | number)[]): Promise<ChildProcess> {
  const child = begin(name, ...args);
  const [message]: readonly unknown[] = await Promise.race([once(child, "message"), once(child, "exit")]);
  if (message !== "ready") throw new Error(`${name} ended with ${String(message)}`);
  return child;
}

/** Ends a program with SIGKILL. */
export async function kill(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, "exit");
  child.kill("SIGKILL");
  await ended;
}

/** Asks a program to end, and waits for it. */
export async function stop(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, "exit");
  child.send("stop");
  await ended;
}

export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
