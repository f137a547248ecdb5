// What was really done, outside of any database: a file that workers add a line to before they call a model or run a tool. Each line is on the disk
// before anything follows, so it also counts what a killed process had begun. The proof at the end is counted here, not believed.

import { closeSync, fsyncSync, openSync, readFileSync, writeSync } from "node:fs";

export type WorldLine = {
  /** A model is asked, its reply has come to an end, or a tool begins. */
  readonly what: "model_asked" | "model_answered" | "tool_began";
  /** Which tool, and for which call: by its idempotency key. */
  readonly tool: string | null;
  readonly key: string | null;
  /** Which process. */
  readonly pid: number;
};

export class WorldLog {
  readonly #file: number;

  constructor(path: string) {
    this.#file = openSync(path, "a");
  }

  modelAsked(): void {
    this.#add({ what: "model_asked", tool: null, key: null, pid: process.pid });
  }

  modelAnswered(): void {
    this.#add({ what: "model_answered", tool: null, key: null, pid: process.pid });
  }

  toolBegan(tool: string, key: string): void {
    this.#add({ what: "tool_began", tool, key, pid: process.pid });
  }

  #add(line: WorldLine): void {
    writeSync(this.#file, `${JSON.stringify(line)}\n`);
    fsyncSync(this.#file);
  }

  close(): void {
    closeSync(this.#file);
  }
}

export function readWorldLog(path: string): readonly WorldLine[] {
  return readFileSync(path, "utf8")
    .split("\n")
    .filter((line) => line !== "")
    .map((line): WorldLine => JSON.parse(line));
}
