// The processes of a run: each loads a file of the folder into which the packages are installed, sends one message when
// it is ready, and answers every message with `{ cost }` or `{ error }`.

import type { ChildProcess } from "node:child_process";

import { fork } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";

type Worker = {
  /** What the process sent when it was ready. */
  readonly ready: { readonly port?: number };
  readonly ask: <Cost>(command: object) => Promise<Cost>;
  readonly stop: () => void;
};

export type Processes = { readonly start: (file: string, args: readonly string[]) => Promise<Worker> };

export function processesIn(folder: string, node: string): Processes {
  return {
    start: async (file, args) => {
      const child = fork(join(folder, file), args, {
        cwd: folder,
        execPath: node,
        execArgv: ["--expose-gc"],
        env: { ...process.env, NODE_ENV: "production", NODE_NO_WARNINGS: "1" },
        stdio: ["ignore", "ignore", "inherit", "ipc"],
      });
      const ready = await messageOf<{ readonly port?: number }>(child);
      return {
        ready,
        ask: async <Cost>(command: object) => {
          const message = messageOf<{ readonly cost: Cost; readonly error?: string }>(child);
          child.send(command);
          const { cost, error } = await message;
          if (error !== undefined) throw new Error(`${file} ${args.join(" ")}: ${error}`);
          return cost;
        },
        stop: () => child.disconnect(),
      };
    },
  };
}

async function messageOf<Message>(child: ChildProcess): Promise<Message> {
  const stopped = new AbortController();
  const ended = once(child, "exit", { signal: stopped.signal }).then(([code]) => {
    throw new Error(`a process of the benchmark ended with code ${String(code)}`);
  });
  ended.catch(() => undefined);
  const [message]: Message[] = await Promise.race([once(child, "message"), ended]);
  stopped.abort();
  if (message === undefined) throw new Error("a process of the benchmark sent nothing");
  return message;
}

export function shuffled<Value>(values: readonly Value[]): readonly Value[] {
  return values
    .map((value) => ({ value, at: Math.random() }))
    .toSorted((left, right) => left.at - right.at)
    .map(({ value }) => value);
}
