// Input and output of a command as a value, so that tests can replace it. `processIo` is the implementation over
// `process`.

import type { Environment } from "@everturn/server";

import { createInterface } from "node:readline/promises";

import { openBrowser } from "../browser.ts";
import { safeOutput } from "../terminal/safe-text.ts";
import { exitCodes } from "./exit-codes.ts";

type Output = {
  readonly isTerminal: boolean;
  /** The width of the terminal; `Infinity` for a pipe or a file. */
  readonly columns: number;
  /** Writes text. Does nothing after a write error, such as a closed pipe. */
  readonly write: (text: string) => void;
};

export type Io = {
  readonly environment: Environment;
  readonly folder: string;
  /** Reads standard input to its end; empty if it is a terminal. */
  readonly stdin: () => Promise<string>;
  readonly stdout: Output;
  readonly stderr: Output;
  /**
   * Calls the listener for each SIGINT (Ctrl-C) in place of ending the process. Returns a function that removes the
   * listener.
   */
  readonly onInterrupt: (listener: () => void) => () => void;
  /** As `onInterrupt`, for SIGTERM. */
  readonly onTerminate: (listener: () => void) => () => void;
  /**
   * Asks the user a question at the terminal and returns whether the answer is yes; `null`: input or error output is
   * not a terminal.
   */
  readonly confirm: ((question: string) => Promise<boolean>) | null;
  /** Opens a URL in the browser of the user. A failure is ignored. */
  readonly openBrowser: (url: string) => void;
  /** Ends the process at once. */
  readonly exit: (code: number) => void;
};

/** The streams and signals of this process. */
export function processIo(): Io {
  return {
    environment: process.env,
    folder: process.cwd(),
    stdin: readAll,
    stdout: outputOf(process.stdout),
    stderr: outputOf(process.stderr),
    onInterrupt: (listener) => onSignal("SIGINT", listener),
    onTerminate: (listener) => onSignal("SIGTERM", listener),
    confirm: process.stdin.isTTY && process.stderr.isTTY ? askAtTerminal : null,
    openBrowser,
    exit: (code) => process.exit(code),
  };
}

/** Asks on standard error, because standard output may be a pipe. Ctrl-C and Ctrl-D mean no. */
async function askAtTerminal(question: string): Promise<boolean> {
  const lines = createInterface({ input: process.stdin, output: process.stderr });
  const closed = new AbortController();
  lines.once("close", () => closed.abort());
  try {
    const answer = await lines.question(`${question} [y/N] `, { signal: closed.signal });
    return /^y(?:es)?$/i.test(answer.trim());
  } catch {
    return false;
  } finally {
    lines.close();
  }
}

function onSignal(signal: NodeJS.Signals, listener: () => void): () => void {
  process.on(signal, listener);
  return () => void process.off(signal, listener);
}

async function readAll(): Promise<string> {
  if (process.stdin.isTTY) return "";
  const chunks: Buffer[] = [];
  for await (const chunk of process.stdin) chunks.push(Buffer.from(chunk));
  return Buffer.concat(chunks).toString("utf8");
}

function outputOf(stream: NodeJS.WriteStream): Output {
  let isOpen = true;
  // EPIPE (a reader such as `head` has exited) and EIO (a terminal was closed) are not errors: the turn runs to its end
  // without output. Any other error, such as a full disk, does not stop the turn either, but it is reported once and
  // the process exits with 1.
  stream.on("error", (error: NodeJS.ErrnoException) => {
    const isReported = !isOpen;
    isOpen = false;
    if (isReported || error.code === "EPIPE" || error.code === "EIO") return;
    if (stream !== process.stderr) process.stderr.write(`everturn: cannot write the output: ${error.message}\n`);
    process.once("exit", () => (process.exitCode ||= exitCodes.failed));
  });
  return {
    isTerminal: stream.isTTY === true,
    get columns() {
      if (!stream.isTTY) return Number.POSITIVE_INFINITY;
      // A terminal whose size was never set reports 0 columns.
      return stream.columns > 0 ? stream.columns : 80;
    },
    write: (text) => {
      if (isOpen) stream.write(stream.isTTY === true ? safeOutput(text) : text);
    },
  };
}
