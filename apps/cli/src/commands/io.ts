// What a command reads and writes, as a value: the process's own, or a test's. Nothing else in the commands touches `process`.

import type { Environment } from "@everturn/server";

import { exitCodes } from "./exit-codes.ts";

type Output = {
  readonly isTerminal: boolean;
  /** How wide a line may be; infinite where nobody looks. */
  readonly columns: number;
  /** Writes text; does nothing once nobody reads any more. */
  readonly write: (text: string) => void;
};

export type Io = {
  readonly environment: Environment;
  readonly folder: string;
  /** All that is piped in; empty at a terminal. */
  readonly stdin: () => Promise<string>;
  readonly stdout: Output;
  readonly stderr: Output;
  /** Calls the listener for each Ctrl-C, in place of ending the process. Returns what takes it off again. */
  readonly onInterrupt: (listener: () => void) => () => void;
  /** The same for being told to end, by SIGTERM. */
  readonly onTerminate: (listener: () => void) => () => void;
  /** Ends the process at once. */
  readonly exit: (code: number) => void;
};

/** The process as it is. */
export function processIo(): Io {
  return {
    environment: process.env,
    folder: process.cwd(),
    stdin: readAll,
    stdout: outputOf(process.stdout),
    stderr: outputOf(process.stderr),
    onInterrupt: (listener) => onSignal("SIGINT", listener),
    onTerminate: (listener) => onSignal("SIGTERM", listener),
    exit: (code) => process.exit(code),
  };
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
  // A reader that left, as `head` does, or a terminal that was closed, is no error: whatever runs goes on to its end, and is not told to anybody.
  // A disk that is full is one, but not the turn's: it goes on too, and the process says in the end that it has not worked.
  stream.on("error", (error: NodeJS.ErrnoException) => {
    const isTold = !isOpen;
    isOpen = false;
    if (isTold || error.code === "EPIPE" || error.code === "EIO") return;
    if (stream !== process.stderr) process.stderr.write(`everturn: the output cannot be written: ${error.message}\n`);
    process.once("exit", () => (process.exitCode ||= exitCodes.failed));
  });
  return {
    isTerminal: stream.isTTY === true,
    get columns() {
      if (!stream.isTTY) return Number.POSITIVE_INFINITY;
      // A terminal that was never told its size says 0.
      return stream.columns > 0 ? stream.columns : 80;
    },
    write: (text) => {
      if (isOpen) stream.write(text);
    },
  };
}
