// The side-effect log: a file, separate from the database, to which workers append a line before they call a model or
// run a tool. Each line is synced to the disk (`fsync`) before the side effect, so the log also contains what a killed
// process had started. The verification at the end of the demo counts these lines, independently of the journal.

import { closeSync, fsyncSync, openSync, readFileSync, writeSync } from "node:fs";

export type SideEffect = {
  readonly what: "model_call_started" | "model_call_completed" | "tool_started";
  /** The name of the tool; `null` for model calls. */
  readonly tool: string | null;
  /** The idempotency key of the tool call. */
  readonly key: string | null;
  /** The process that performed it. */
  readonly pid: number;
};

export class SideEffectLog {
  readonly #file: number;

  constructor(path: string) {
    this.#file = openSync(path, "a", 0o600);
  }

  modelCallStarted(): void {
    this.#append({ what: "model_call_started", tool: null, key: null, pid: process.pid });
  }

  modelCallCompleted(): void {
    this.#append({ what: "model_call_completed", tool: null, key: null, pid: process.pid });
  }

  toolStarted(tool: string, key: string): void {
    this.#append({ what: "tool_started", tool, key, pid: process.pid });
  }

  #append(line: SideEffect): void {
    writeSync(this.#file, `${JSON.stringify(line)}\n`);
    fsyncSync(this.#file);
  }

  close(): void {
    closeSync(this.#file);
  }
}

export function readSideEffects(path: string): readonly SideEffect[] {
  return readFileSync(path, "utf8")
    .split("\n")
    .filter((line) => line !== "")
    .map((line): SideEffect => JSON.parse(line));
}
