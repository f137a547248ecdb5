// Shared by the processes of the backlog benchmark: the storage, the agent, and the message that a worker sends for
// each turn it ends.

import type { Adapter, Engine } from "everturn";
import type { HostStorage } from "everturn/runtime";

import { setImmediate, setTimeout } from "node:timers/promises";

import { engine, fake, tool } from "everturn";
import { postgresStorage } from "everturn/postgres";
import { sqliteStorage } from "everturn/sqlite";
import Database from "libsql";

/** Sent by a worker for each turn that it ends. The counts are those of the worker since its start. */
export type TurnEnded = {
  /** When the last write of the turn was committed, in milliseconds of the system clock, which all processes share. */
  readonly at: number;
  /** Reads of the storage. On Postgres each is one round trip. */
  readonly reads: number;
  /** Queries of these reads; one read has one or more. */
  readonly queries: number;
  /** Write batches. One that failed a check is counted too. */
  readonly writes: number;
  /** Write batches that failed a check: lost races for a lease. */
  readonly conflicts: number;
  /** Model calls. */
  readonly steps: number;
};

/**
 * How a worker opens the file: by its path (SQLite on a thread of its own, with group commit) or with a handle (every
 * operation blocks the event loop).
 */
export type StorageForm = "path" | "handle";

/** Opens the SQLite file of the benchmark with a handle. `normal` is for the process that only prepares it. */
export function openHandle(
  path: string,
  synchronous: "full" | "normal",
): { readonly storage: HostStorage; readonly close: () => void } {
  const database = new Database(path);
  return { storage: sqliteStorage(database, { synchronous }), close: () => void database.close() };
}

/** Opens the database of the benchmark as a worker does: a Postgres database by its URL, or a SQLite file. */
export function openStorage(path: string, form: StorageForm): HostStorage {
  if (path.startsWith("postgres://")) return postgresStorage({ url: path, maxConnections: 20 });
  return form === "path" ? sqliteStorage({ path }) : openHandle(path, "full").storage;
}

/**
 * An agent whose model takes `modelMs` for a reply: `toolSteps` replies with one tool call each, then a text. `called`
 * is called for each reply.
 */
export function scriptedAgent(toolSteps: number, called: () => void, modelMs = 0): Engine {
  const adapter: Adapter = {
    provider: "fake",
    stream: (request, call) => ({
      async *[Symbol.asyncIterator]() {
        // A model that is called over a network never replies within the same task: without this the event loop would
        // not get to timers or messages.
        await (modelMs > 0 ? setTimeout(modelMs) : setImmediate());
        called();
        const step = request.messages.filter(({ role }) => role === "assistant").length;
        const script =
          step < toolSteps
            ? ([{ type: "tool_call", id: `call-${step}`, name: "look", arguments: { step } }] as const)
            : ([{ type: "text", text: "Done." }] as const);
        yield* fake({ script, usage: { inputTokens: 10, outputTokens: 5 } }).stream(request, call);
      },
    }),
  };
  const look = tool({
    name: "look",
    description: "Returns a constant.",
    schema: { type: "object" },
    replay: "safe",
    handler: () => "nothing to see",
  });
  return engine({ adapter, model: "fake:m", tools: [look], options: { maxTurns: 1000 } });
}
