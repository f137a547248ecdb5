// Shared by the processes of the long test: the log of external effects, the agent, and the storage.

import type { Adapter, ContextPolicy, Engine, ModelRequest } from "everturn";
import type { ModelEvent } from "everturn/advanced";
import type { HostStorage } from "everturn/runtime";

import { closeSync, fsyncSync, openSync, readFileSync, writeSync } from "node:fs";

import { assistant, engine, messageText, tool } from "everturn";
import { postgresStorage } from "everturn/postgres";
import { sqliteStorage } from "everturn/sqlite";
import Libsql from "libsql";

/** An external effect that a process performed. */
export type Line = {
  readonly what: "model_began" | "model_ended" | "summary_began" | "tool_began" | "tool_ended";
  readonly pid: number;
  /** When it was performed, in milliseconds of the wall clock. */
  readonly at: number;
  readonly turn: string;
  /**
   * Identifies the effect within its turn: the step of the session for a model call, which counts its replies, or the
   * idempotency key of a tool call.
   */
  readonly effect: string;
  /** The attempt, unique over all processes. */
  readonly nonce: string;
  readonly tool: string | null;
};

/**
 * An append-only log file for several processes: each line is written atomically and synced before the process
 * continues.
 */
export class WorldLog {
  readonly #file: number;

  constructor(path: string) {
    this.#file = openSync(path, "a");
  }

  add(line: Omit<Line, "pid" | "at">): void {
    writeSync(this.#file, `${JSON.stringify({ ...line, pid: process.pid, at: Date.now() })}\n`);
    fsyncSync(this.#file);
  }

  close(): void {
    closeSync(this.#file);
  }
}

/** The lines of the log. A line that a process is writing at this moment is left out: a reader may see a part of it. */
export function readLog(path: string): readonly Line[] {
  const text = readFileSync(path, "utf8");
  return text
    .slice(0, text.lastIndexOf("\n") + 1)
    .split("\n")
    .filter((line) => line !== "")
    .map((line): Line => JSON.parse(line));
}

/** The storage of the test: a Postgres database by its URL, or a SQLite file on a handle of this process. */
export async function openStorage(
  target: string,
): Promise<{ readonly storage: HostStorage; readonly close: () => Promise<void> }> {
  if (isPostgres(target)) {
    const storage = postgresStorage({ url: target });
    await storage.open();
    return { storage, close: () => storage.close() };
  }
  const database = new Libsql(target);
  return { storage: sqliteStorage(database), close: async () => void database.close() };
}

function isPostgres(target: string): boolean {
  return target.startsWith("postgres://");
}

/**
 * On SQLite a short lease, so that the turns of a killed worker are taken over soon. On Postgres the default: a killed
 * worker is recognised.
 */
export function leaseOn(target: string): { readonly lease?: { readonly ttlMs: number; readonly renewMs: number } } {
  return isPostgres(target) ? {} : { lease: { ttlMs: 600, renewMs: 150 } };
}

const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

/** A text delta contains the time at which it was emitted, so that the reader can compute its latency. */
export const stampedWord = /(\d{13})\.\d+ /g;

/** The step of a session that a request continues: one more than the newest reply says (`ending`). */
function stepOf({ messages }: ModelRequest): number {
  const newest = messages.findLast(({ role }) => role === "assistant");
  const [, step] = /^step (\d+): /.exec(newest === undefined ? "" : messageText(newest)) ?? [];
  return step === undefined ? 1 : Number(step) + 1;
}

/**
 * An agent that answers each message with text, two tool calls, and more text, slowly enough to be killed in between.
 * `contextPolicy`: it also writes summaries.
 */
export function slowAgent(log: WorldLog | null, contextPolicy?: ContextPolicy): Engine {
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
        const step = stepOf(request);
        const line = { turn: requestId, effect: `${step}`, nonce: nonce(), tool: null };
        const last = request.messages.at(-1);
        const isSummary = last?.role === "user" && messageText(last).includes("replaced by a summary");
        log?.add({ what: isSummary ? "summary_began" : "model_began", ...line });
        yield [{ type: "message_started", message: assistant("") }];
        let text = `step ${step}: `;
        yield [{ type: "text_delta", id: null, delta: text }];
        for (let count = 5 + Math.floor(Math.random() * 8); count > 0; count -= 1) {
          await pause(4 + Math.random() * 12);
          signal.throwIfAborted();
          const delta = `${Date.now()}.${count} `;
          text += delta;
          yield [{ type: "text_delta", id: null, delta }];
        }
        if (!isSummary) log?.add({ what: "model_ended", ...line });
        yield* ending(!isSummary && last?.role === "user" ? ["note", "pay"] : [], step, text);
      },
    }),
  };
  const tools = [makeTool("note", "safe"), makeTool("pay", "never")];
  // A session that gets many messages has long turns.
  const policy = contextPolicy === undefined ? {} : { contextPolicy };
  return engine({ adapter, model: "slow:m", tools, options: { maxTurns: 1000 }, ...policy });
}

/** The end of a reply with calls of these tools. */
function* ending(calls: readonly string[], step: number, text: string): Generator<readonly ModelEvent[]> {
  for (const name of calls) {
    const id = `${name}-${step}`;
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
      finishReason: calls.length > 0 ? "tool_calls" : "stop",
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
