// A copy of the repository in which mutations are applied, so that the working tree never changes.

import type { Mutation } from "./mutation.ts";
import type { RowId } from "./rows.ts";

import { execFileSync, spawn } from "node:child_process";
import {
  copyFileSync,
  cpSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { dirname, isAbsolute, join } from "node:path";

import { mutated } from "./mutation.ts";

/**
 * The tests of one run that cite a row, by result. `broken`: files without results, because they could not be loaded.
 */
export type TestRun = {
  readonly passed: readonly string[];
  readonly failed: readonly string[];
  readonly broken: readonly string[];
};

/** A run that takes longer is ended. */
const runLimitMs = 300_000;

/** Folders that a build writes and that are not in the repository. */
const built = ["lib/dist", "lib/studio"];

export class Workspace {
  readonly #running = new Set<number>();

  readonly root: string;

  constructor(root: string) {
    this.root = root;
  }

  /**
   * Copies the files of the repository, including those that are not committed yet, and links the installed packages.
   */
  static copy(from: string, to: string): Workspace {
    const list = execFileSync("git", ["ls-files", "-co", "--exclude-standard", "-z"], { cwd: from, encoding: "utf8" });
    for (const file of list.split("\0").filter((name) => name !== "")) {
      if (lstatSync(join(from, file), { throwIfNoEntry: false }) === undefined) continue;
      mkdirSync(dirname(join(to, file)), { recursive: true });
      copyFileSync(join(from, file), join(to, file));
    }
    linkPackages(join(from, "node_modules"), join(to, "node_modules"));
    return new Workspace(to);
  }

  /** Copies the bundled package of another workspace. */
  takeBuild(other: Workspace): void {
    for (const folder of built) cpSync(join(other.root, folder), join(this.root, folder), { recursive: true });
  }

  /** Bundles the package, as the setup of the tests does. */
  async build(): Promise<void> {
    const { code, output } = await this.#run(["node_modules/tsx/dist/cli.mjs", "tools/package/build.ts", "--code"]);
    if (code !== 0) throw new Error(`the package cannot be bundled: ${output}`);
  }

  /** Runs the tests of `files` that cite one of `rows`. */
  async test(files: readonly string[], rows: readonly RowId[]): Promise<TestRun> {
    const pattern = rows.map((row) => `\\[${row}\\]`).join("|");
    const outputFile = join(this.root, "mutation-results.json");
    rmSync(outputFile, { force: true });
    const { output } = await this.#run(
      [
        "node_modules/vitest/vitest.mjs",
        "run",
        ...files,
        "--project=all",
        `--testNamePattern=${pattern}`,
        "--maxWorkers=1",
        "--testTimeout=30000",
        "--reporter=json",
        `--outputFile=${outputFile}`,
      ],
      { EVERTURN_TEST_SETUP: "none" },
    );
    if (lstatSync(outputFile, { throwIfNoEntry: false }) === undefined) {
      throw new Error(`vitest wrote no results for ${files.join(", ")}: ${output.slice(-2000)}`);
    }
    return resultsIn(JSON.parse(readFileSync(outputFile, "utf8")), new RegExp(pattern));
  }

  /** Runs `work` while the mutation is applied. */
  async with<T>(mutation: Mutation, work: () => Promise<T>): Promise<T> {
    const path = join(this.root, mutation.file);
    const original = readFileSync(path, "utf8");
    writeFileSync(path, mutated(this.root, mutation));
    try {
      if (mutation.rebuild === true) await this.build();
      return await work();
    } finally {
      writeFileSync(path, original);
      if (mutation.rebuild === true) await this.build();
    }
  }

  /** Ends the processes of this workspace. */
  stop(): void {
    for (const pid of this.#running) endGroup(pid);
  }

  /**
   * Runs a Node program in a process group of its own, which is ended with it: a test that a mutation breaks may leave
   * processes behind.
   */
  #run(args: readonly string[], env: { readonly [name: string]: string } = {}) {
    return new Promise<{ readonly code: number | null; readonly output: string }>((resolve, reject) => {
      const child = spawn(process.execPath, args, {
        cwd: this.root,
        env: { ...process.env, ...env },
        stdio: ["ignore", "pipe", "pipe"],
        detached: true,
      });
      const { pid } = child;
      if (pid === undefined) {
        child.once("error", reject);
        return;
      }
      this.#running.add(pid);
      let output = "";
      const collect = (chunk: Buffer) => (output += chunk.toString());
      child.stdout.on("data", collect);
      child.stderr.on("data", collect);
      const timer = setTimeout(() => endGroup(pid), runLimitMs);
      child.once("exit", (code) => {
        clearTimeout(timer);
        endGroup(pid);
        this.#running.delete(pid);
        resolve({ code, output });
      });
    });
  }
}

function endGroup(pid: number): void {
  try {
    process.kill(-pid, "SIGKILL");
  } catch {
    // The group has no process.
  }
}

/** Links every installed package, except those of this repository: their relative links then lead into the copy. */
function linkPackages(from: string, to: string): void {
  mkdirSync(to, { recursive: true });
  for (const name of readdirSync(from)) {
    const [source, target] = [join(from, name), join(to, name)];
    const isLink = lstatSync(source).isSymbolicLink();
    if (name.startsWith("@") && !isLink) linkPackages(source, target);
    else symlinkSync(isLink && !isAbsolute(readlinkSync(source)) ? readlinkSync(source) : source, target);
  }
}

type Results = {
  readonly testResults: readonly {
    readonly name: string;
    readonly message: string;
    readonly assertionResults: readonly { readonly fullName: string; readonly status: string }[];
  }[];
};

function resultsIn({ testResults }: Results, pattern: RegExp): TestRun {
  const titles = (status: string) =>
    testResults.flatMap(({ assertionResults }) =>
      assertionResults
        .filter((result) => result.status === status && pattern.test(result.fullName))
        .map(({ fullName }) => fullName),
    );
  const broken = testResults.filter(({ assertionResults }) => assertionResults.length === 0);
  return {
    passed: titles("passed"),
    failed: titles("failed"),
    broken: broken.map(({ name, message }) => `${name}: ${message}`),
  };
}
