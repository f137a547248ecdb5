// Runs the command in this process or as a child process, with a database in a temporary folder.

import type { Io } from "../src/commands/io.ts";
import type { ChildProcessWithoutNullStreams } from "node:child_process";

import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

import { runCli } from "../src/cli.ts";

export type Ran = { readonly code: number; readonly stdout: string; readonly stderr: string };

export type Place = {
  readonly folder: string;
  /** Runs a command line in this process. */
  readonly run: (argv: readonly string[], given?: Given) => Promise<Ran>;
  /** Starts a command line as a child process; `stdout`: a file for its standard output. */
  readonly start: (
    argv: readonly string[],
    environment?: { readonly [name: string]: string },
    into?: string,
  ) => ChildProcessWithoutNullStreams;
  readonly remove: () => void;
};

type Given = {
  readonly stdin?: string;
  readonly environment?: { readonly [name: string]: string };
  readonly isTerminal?: boolean;
  readonly columns?: number;
  readonly confirm?: Io["confirm"];
  readonly openBrowser?: Io["openBrowser"];
};

const main = fileURLToPath(new URL("../../../lib/bin/everturn.js", import.meta.url));

export function createPlace(): Place {
  const folder = mkdtempSync(join(tmpdir(), "cli-"));
  const own = { HOME: folder, XDG_DATA_HOME: folder, XDG_CONFIG_HOME: folder, EVERTURN_OFFLINE_PACE: "0" };
  const children = new Set<ChildProcessWithoutNullStreams>();
  return {
    folder,
    run: async (
      argv,
      { stdin = "", environment = {}, isTerminal = false, columns = 80, confirm = null, ...given } = {},
    ) => {
      const { openBrowser = () => undefined } = given;
      const written = { stdout: "", stderr: "" };
      const output = (name: "stdout" | "stderr") => ({
        isTerminal,
        columns: isTerminal ? columns : Number.POSITIVE_INFINITY,
        write: (text: string) => void (written[name] += text),
      });
      const io: Io = {
        environment: { ...own, ...environment },
        folder,
        stdin: async () => stdin,
        stdout: output("stdout"),
        stderr: output("stderr"),
        onInterrupt: () => () => undefined,
        onTerminate: () => () => undefined,
        confirm,
        openBrowser,
        exit: () => undefined,
      };
      const code = await runCli(argv, io);
      return { code, ...written };
    },
    start: (argv, environment = {}, into) => {
      const words = [process.execPath, main, ...argv];
      const shell = into === undefined ? [] : ["sh", "-c", 'into="$0"; exec "$@" > "$into"', into];
      const [program = "", ...rest] = [...shell, ...words];
      const child = spawn(program, rest, {
        cwd: folder,
        env: { PATH: process.env["PATH"] ?? "", ...own, ...environment },
      });
      children.add(child);
      child.once("exit", () => children.delete(child));
      return child;
    },
    remove: () => {
      for (const child of children) child.kill("SIGKILL");
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** The exit code and the output of a process. */
export function ended(
  child: ChildProcessWithoutNullStreams,
): Promise<Ran & { readonly signal: NodeJS.Signals | null }> {
  const texts = { stdout: "", stderr: "" };
  child.stdout.setEncoding("utf8").on("data", (text: string) => (texts.stdout += text));
  child.stderr.setEncoding("utf8").on("data", (text: string) => (texts.stderr += text));
  return new Promise((resolve) => {
    child.once("close", (code, signal) => resolve({ code: code ?? -1, signal, ...texts }));
  });
}

/** Resolves when the output of the stream matches. */
export function says(stream: NodeJS.ReadableStream, expected: RegExp): Promise<string> {
  let text = "";
  return new Promise((resolve, reject) => {
    stream.on("data", (chunk: Buffer | string) => {
      text += String(chunk);
      if (expected.test(text)) resolve(text);
    });
    stream.once("end", () => reject(new Error(`it never said ${String(expected)}, but ${text}`)));
  });
}
