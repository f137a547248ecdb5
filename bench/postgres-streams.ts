// `npm run bench:streams`: the delay of a text delta to a reader in another process, with many concurrent streams over
// one Postgres server of its own.
//
// Method
//   This process starts the server and accepts one turn for each stream. A reader process follows the events of all
//   sessions over one storage. Then a driver process drives all turns at once. The scripted model emits a delta every
//   `--interval-ms`, at a random phase, with the time at which it was emitted. The reader subtracts that time from its
//   own; both processes use the clock of this machine. Counted are the deltas while all streams are open: not those of
//   the first `--warmup-ms` after the first one, when turns are claimed, and not those after the first turn has ended,
//   when a thousand turns end within seconds. A row of its own has the delay of all deltas. Deltas that the storage
//   merged into one piece are counted one by one. The table ends with the processor time of the three processes and the
//   load of the machine: the delay is the storage's only if a core was idle.
//
//   --streams 1000  --deltas 60  --interval-ms 1000  --warmup-ms 10000
//   --limit-ms 0                                        ends with exit code 1 if p99 is above it; 0: no limit

import type { Adapter, Engine } from "everturn";
import type { ModelEvent } from "everturn/advanced";
import type { ChildProcess } from "node:child_process";

import { fork } from "node:child_process";
import { once } from "node:events";
import { availableParallelism, loadavg } from "node:os";
import { setTimeout } from "node:timers/promises";
import { parseArgs } from "node:util";

import { engine, assistant } from "everturn";
import { postgresStorage } from "everturn/postgres";
import { runtime } from "everturn/runtime";

import { startPostgres } from "../lib/test/postgres-server.ts";
import { processorSeconds } from "./server-cpu.ts";

const { values: options } = parseArgs({
  options: {
    streams: { type: "string", default: "1000" },
    deltas: { type: "string", default: "60" },
    "interval-ms": { type: "string", default: "1000" },
    "warmup-ms": { type: "string", default: "10000" },
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

/** What a process of the benchmark reports at its end. */
type Report = {
  readonly received: readonly Received[];
  /** When the first turn ended, by the clock of the machine; 0: no turn has ended. */
  readonly firstEndAt: number;
  readonly processorMs: number;
  readonly operations: string;
};

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
  let firstEndAt = 0;
  const follow = async (id: string) => {
    for await (const { event } of sessions.events(id)) {
      if (event.type === "chat_completed") {
        if (firstEndAt === 0) firstEndAt = Date.now();
        return;
      }
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
  const { reads, notificationsReceived } = storage.statistics();
  await storage.close();
  send({
    received,
    firstEndAt,
    processorMs: processorMs(),
    operations: `${reads} reads, ${notificationsReceived} notifications received`,
  });
}

function send(report: Report): void {
  process.send?.(report, () => process.disconnect());
}

/** The processor time of this process so far. */
function processorMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
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
  send({
    received: [],
    firstEndAt: 0,
    processorMs: processorMs(),
    operations: `${reads} reads, ${writes} writes, ${notificationsSent} notifications sent`,
  });
}

const children = new Set<ChildProcess>();

function begin(role: "driver" | "reader", url: string): ChildProcess {
  const child = fork(import.meta.filename, [...process.argv.slice(2), "--role", role, "--url", url]);
  children.add(child);
  child.on("exit", () => children.delete(child));
  return child;
}

/** Waits for a message of a child process. Rejects if the process ends before. */
async function nextMessage<T>(child: ChildProcess): Promise<T> {
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
    await nextMessage<string>(reader);
    const before = { at: performance.now(), server: processorSeconds(server.pid()) };
    const driver = begin("driver", url);
    const reading = await nextMessage<Report>(reader);
    const seconds = (performance.now() - before.at) / 1000;
    const serverMs = 1000 * (processorSeconds(server.pid()) - before.server);
    driver.send("stop");
    const driving = await nextMessage<Report>(driver);
    report(reading, driving, serverMs, seconds);
  } finally {
    for (const child of children) child.kill("SIGKILL");
    await server.close();
  }
}

const ms = (value: number | undefined) => `${String(value ?? Number.NaN).padStart(6)} ms`;

function sortedDelays(received: readonly Received[]): readonly number[] {
  return received.map(({ delayMs }) => delayMs).toSorted((left, right) => left - right);
}

function report(reading: Report, driving: Report, serverMs: number, seconds: number): void {
  const { received, firstEndAt } = reading;
  const first = received.reduce((least, { emittedAt }) => Math.min(least, emittedAt), Number.POSITIVE_INFINITY);
  const counted = received.filter(
    ({ emittedAt }) => emittedAt >= first + warmupMs && emittedAt < firstEndAt - intervalMs,
  );
  const [delays, all] = [sortedDelays(counted), sortedDelays(received)];
  const p99 = percentile(delays, 0.99);
  const core = (spentMs: number) =>
    `${(spentMs / 1000).toFixed(1)} s, ${(spentMs / 10 / seconds).toFixed(0)} % of a core`;
  const lines = {
    streams: `${streams}, a delta every ${intervalMs} ms: ${((1000 * streams) / intervalMs).toFixed(0)} deltas a second`,
    "delay p50": ms(percentile(delays, 0.5)),
    "delay p90": ms(percentile(delays, 0.9)),
    "delay p99": `${ms(p99)}${limitMs > 0 ? ` (limit ${limitMs} ms)` : ""}`,
    "delay most": ms(delays.at(-1)),
    "delay of all": `p50${ms(percentile(all, 0.5))}, p99${ms(percentile(all, 0.99))}, also while the turns begin and end`,
    "deltas counted": `${delays.length}; ${received.length} of ${streams * deltas} were received live, the others came with the complete reply`,
    reader: `${reading.operations}; processor ${core(reading.processorMs)}`,
    driver: `${driving.operations}; processor ${core(driving.processorMs)}`,
    server: `processor ${core(serverMs)}`,
    machine: `${availableParallelism()} cores, load ${loadavg()
      .map((load) => load.toFixed(1))
      .join(" ")}`,
  };
  for (const [name, value] of Object.entries(lines)) console.log(`${name.padEnd(16)}${value}`);
  if (limitMs > 0 && !(p99 <= limitMs)) process.exitCode = 1;
}

if (options.role === "reader") await read();
else if (options.role === "driver") await drive();
else await main();
