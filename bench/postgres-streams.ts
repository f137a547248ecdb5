// `npm run bench:streams`: the delay of a text delta to a reader in another process, with many concurrent streams over one Postgres server of its own.
//
// Method
//   This process starts the server and accepts one turn for each stream. A reader process follows the events of all sessions over one storage. Then a
//   driver process drives all turns at once. The scripted model emits a delta every `--interval-ms`, at a random phase, with the time at which it was
//   emitted. The reader subtracts that time from its own; both processes use the clock of this machine. Deltas of the first `--warmup-ms` after the first
//   one are not counted: connections are opened and statements prepared then. Deltas that the storage merged into one piece are counted one by one.
//
//   --streams 1000  --deltas 40  --interval-ms 1000  --warmup-ms 5000
//   --limit-ms 0                                        ends with exit code 1 if p99 is above it; 0: no limit

import type { Adapter, Engine } from "everturn";
import type { ModelEvent } from "everturn/model";
import type { ChildProcess } from "node:child_process";

import { fork } from "node:child_process";
import { once } from "node:events";
import { setTimeout } from "node:timers/promises";
import { parseArgs } from "node:util";

import { engine } from "everturn";
import { postgresStorage } from "everturn/host/postgres";
import { assistant } from "everturn/model";
import { runtime } from "everturn/runtime";

import { startPostgres } from "../lib/test/postgres-server.ts";

const { values: options } = parseArgs({
  options: {
    streams: { type: "string", default: "1000" },
    deltas: { type: "string", default: "40" },
    "interval-ms": { type: "string", default: "1000" },
    "warmup-ms": { type: "string", default: "5000" },
    "limit-ms": { type: "string", default: "0" },
    role: { type: "string", default: "main" },
    url: { type: "string", default: "" },
  },
});

const [streams, deltas, intervalMs, warmupMs, limitMs] = [
  Number(options.streams),
  Number(options.deltas),
  Number(options["interval-ms"]),
  Number(options["warmup-ms"]),
  Number(options["limit-ms"]),
];

/** A delta is the time at which it was emitted, in milliseconds of the system clock. */
const stamp = /(\d{13}) /g;

/** A delta that the reader received. */
type Received = { readonly emittedAt: number; readonly delayMs: number };

const ids = Array.from({ length: streams }, (_, index) => `stream-${index}`);

/** An agent that streams `deltas` words slowly. */
function slowAgent(): Engine {
  const adapter: Adapter = {
    provider: "slow",
    stream: () => ({
      async *[Symbol.asyncIterator](): AsyncGenerator<readonly ModelEvent[]> {
        yield [{ type: "message_started", message: assistant("") }];
        await setTimeout(Math.random() * intervalMs);
        let text = "";
        for (let count = 0; count < deltas; count += 1) {
          const delta = `${Date.now()} `;
          text += delta;
          yield [{ type: "text_delta", id: null, delta }];
          await setTimeout(intervalMs);
        }
        yield [
          {
            type: "message_completed",
            message: assistant(text),
            finishReason: "stop",
            rawFinishReason: null,
            requestId: null,
            responseId: null,
            model: "m",
            route: null,
            output: null,
            metadata: {},
          },
        ];
      },
    }),
  };
  return engine({ adapter, model: "slow:m" });
}

function open(drive: boolean) {
  const storage = postgresStorage({ url: options.url, maxConnections: 20 });
  const sessions = runtime({ host: storage, engines: { default: slowAgent() }, drive, maxActiveTurns: streams });
  return { storage, sessions };
}

/** Follows all sessions until their turns have ended, and sends the delays to the parent process. */
async function read(): Promise<void> {
  const { storage, sessions } = open(false);
  const received: Received[] = [];
  const follow = async (id: string) => {
    for await (const { event } of sessions.events(id)) {
      if (event.type === "chat_completed") return;
      if (event.type !== "text_delta") continue;
      const now = Date.now();
      for (const [, text] of event.delta.matchAll(stamp)) {
        received.push({ emittedAt: Number(text), delayMs: now - Number(text) });
      }
    }
  };
  const following = ids.map(follow);
  // One read of the storage after all streams have begun theirs.
  await sessions.list({ limit: 1 });
  process.send?.("ready");
  await Promise.all(following);
  await sessions.close();
  await storage.close();
  process.send?.(received, () => process.disconnect());
}

/** Drives all turns, until the parent process sends a message. */
async function drive(): Promise<void> {
  const { storage, sessions } = open(true);
  const stop = new AbortController();
  process.on("message", () => stop.abort());
  await sessions.work({ concurrency: streams, signal: stop.signal });
  await sessions.close();
  const { reads, writes, notificationsSent } = storage.statistics();
  await storage.close();
  console.log(`driver: ${reads} reads, ${writes} writes, ${notificationsSent} notifications`);
  process.disconnect();
}

const children = new Set<ChildProcess>();

function begin(role: "driver" | "reader", url: string): ChildProcess {
  const child = fork(import.meta.filename, [...process.argv.slice(2), "--role", role, "--url", url]);
  children.add(child);
  child.on("exit", () => children.delete(child));
  return child;
}

/** Waits for a message of a child process. Rejects if the process ends before. */
async function messageOf<T>(child: ChildProcess): Promise<T> {
  const ended = once(child, "exit").then((): never => {
    throw new Error("a process of the benchmark has ended early");
  });
  const [message]: readonly T[] = await Promise.race([once(child, "message"), ended]);
  if (message === undefined) throw new Error("a process of the benchmark sent an empty message");
  return message;
}

async function accept(url: string): Promise<void> {
  const storage = postgresStorage({ url });
  const sessions = runtime({ host: storage, engines: { default: slowAgent() }, drive: false });
  for (const id of ids) await sessions.start("Begin.", { id });
  await storage.close();
}

function percentile(sorted: readonly number[], share: number): number {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
}

async function main(): Promise<void> {
  console.log(`Node ${process.version}, ${process.arch}`);
  const server = await startPostgres({ fsync: "on", shared_buffers: "256MB", max_wal_size: "4GB" });
  try {
    const url = await server.createDatabase();
    await accept(url);
    const reader = begin("reader", url);
    await messageOf<string>(reader);
    const driver = begin("driver", url);
    const received = await messageOf<readonly Received[]>(reader);
    const driverEnded = once(driver, "exit");
    driver.send("stop");
    await driverEnded;
    report(received);
  } finally {
    for (const child of children) child.kill("SIGKILL");
    await server.close();
  }
}

function report(received: readonly Received[]): void {
  const first = received.reduce((least, { emittedAt }) => Math.min(least, emittedAt), Number.POSITIVE_INFINITY);
  const counted = received.filter(({ emittedAt }) => emittedAt - first >= warmupMs);
  const delays = counted.map(({ delayMs }) => delayMs).toSorted((left, right) => left - right);
  const [p50, p99] = [percentile(delays, 0.5), percentile(delays, 0.99)];
  const expected = streams * deltas;
  console.log(
    `${streams} streams, a delta every ${intervalMs} ms: p50 ${p50} ms, p99 ${p99} ms, most ${delays.at(-1) ?? Number.NaN} ms, of ${delays.length} deltas after the warm-up`,
  );
  console.log(`${received.length} of ${expected} deltas were received live; the others came with the complete reply`);
  if (limitMs > 0 && !(p99 <= limitMs)) process.exitCode = 1;
}

if (options.role === "reader") await read();
else if (options.role === "driver") await drive();
else await main();
