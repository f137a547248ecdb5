// What all processes of the long test share: the log they write to, the agent they run, and how a session's storage is opened.

import type { Adapter, Engine } from "everturn";
import type { ModelEvent, ModelRequest } from "everturn/model";
import type { HostStorage } from "everturn/runtime";

import { closeSync, fsyncSync, openSync, readFileSync, writeSync } from "node:fs";

import { engine, tool } from "everturn";
import { sqliteStorage } from "everturn/host/sqlite";
import { assistant } from "everturn/model";
import Libsql from "libsql";

/** Something that was done to the world outside. */
export type Line = {
  readonly what: "model_began" | "model_ended" | "tool_began" | "tool_ended";
  readonly pid: number;
  readonly turn: string;
  /** Which effect of the turn: the length of the history it was asked with, or the key of the call. */
  readonly effect: string;
  /** Which try at it: told apart over all processes. */
  readonly nonce: string;
  readonly tool: string | null;
};

/** A file that lines are added to, by several processes at once, each line as a whole and on the disk before anything follows. */
export class WorldLog {
  readonly #file: number;

  constructor(path: string) {
    this.#file = openSync(path, "a");
  }

  add(line: Omit<Line, "pid">): void {
    writeSync(this.#file, `${JSON.stringify({ ...line, pid: process.pid })}\n`);
    fsyncSync(this.#file);
  }

  close(): void {
    closeSync(this.#file);
  }
}

export function readLog(path: string): readonly Line[] {
  return readFileSync(path, "utf8")
    .split("\n")
    .filter((line) => line !== "")
    .map((line): Line => JSON.parse(line));
}

/** The storage of the test, on a handle of this process. */
export function openStorage(path: string): { readonly storage: HostStorage; readonly close: () => void } {
  const database = new Libsql(path);
  return { storage: sqliteStorage(database), close: () => void database.close() };
}

/** Short, so that what a killed worker had is soon somebody else's. */
export const lease = { ttlMs: 600, renewMs: 150 } as const;

const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

/** A word says when it was said, so that whoever hears it knows how old it is. */
export const stampedWord = /(\d{13})\.\d+ /g;

/** An agent that answers each message with some words, two tools, and some more words; slowly enough to be killed in the middle. */
export function slowAgent(log: WorldLog | null): Engine {
  const nonces = { count: 0 };
  const nonce = () => `${process.pid}-${(nonces.count += 1)}`;
  const makeTool = (name: string, replay: "safe" | "never") =>
    tool({
      name,
      description: name,
      schema: { type: "object" },
      replay,
      handler: async (_, { idempotencyKey, requestId }) => {
        const line = { turn: requestId, effect: idempotencyKey, nonce: nonce(), tool: name };
        log?.add({ what: "tool_began", ...line });
        await pause(5 + Math.random() * 20);
        log?.add({ what: "tool_ended", ...line });
        return `${name} was done`;
      },
    });
  const adapter: Adapter = {
    provider: "slow",
    stream: (request, { requestId, signal }) => ({
      async *[Symbol.asyncIterator](): AsyncGenerator<readonly ModelEvent[]> {
        const line = { turn: requestId, effect: `${request.messages.length}`, nonce: nonce(), tool: null };
        log?.add({ what: "model_began", ...line });
        yield [{ type: "message_started", message: assistant("") }];
        let text = "";
        for (let count = 5 + Math.floor(Math.random() * 8); count > 0; count -= 1) {
          await pause(4 + Math.random() * 12);
          signal.throwIfAborted();
          const delta = `${Date.now()}.${count} `;
          text += delta;
          yield [{ type: "text_delta", id: null, delta }];
        }
        log?.add({ what: "model_ended", ...line });
        yield* ending(request, text);
      },
    }),
  };
  const tools = [makeTool("note", "safe"), makeTool("pay", "never")];
  // Whoever is spoken to all the time has much to do in one turn.
  return engine({ adapter, model: "slow:m", tools, options: { maxTurns: 1000 } });
}

function* ending(request: ModelRequest, text: string): Generator<readonly ModelEvent[]> {
  const last = request.messages.at(-1);
  const works = last?.role === "user";
  const calls = works ? ["note", "pay"] : [];
  for (const name of calls) {
    const id = `${name}-${request.messages.length}`;
    yield [
      { type: "tool_call_started", id, name, providerExecuted: false },
      {
        type: "tool_call_completed",
        id,
        name,
        arguments: {},
        rawArguments: "{}",
        provider: null,
        metadata: {},
        providerExecuted: false,
      },
    ];
  }
  yield [
    {
      type: "message_completed",
      message: assistant(text),
      finishReason: works ? "tool_calls" : "stop",
      rawFinishReason: null,
      requestId: null,
      responseId: null,
      model: "m",
      route: { provider: "slow", endpoint: "slow", model: "m" },
      output: null,
      metadata: {},
    },
  ];
}
