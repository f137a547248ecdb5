// A day of work for the views: turns of three engines over 24 hours with costs, a turn that failed, and a turn that is
// parked. Time is simulated: model calls and tools advance a clock that begins a day ago.

import type { Adapter, FakeStep, Usage } from "everturn";

import { EventEmitter, once } from "node:events";
import { join } from "node:path";

import { engine, fake, tool } from "everturn";
import { runtime } from "everturn/runtime";
import { sqliteStorage } from "everturn/sqlite";

import { folder } from "./server.ts";
import { until } from "./watched-page.ts";

/** The sessions with known ids. */
export const failedSession = "import-price-list";
export const parkedSession = "sync-warehouse";

const dayMs = 24 * 3_600_000;
/** What people asked each engine. The questions repeat over the day. */
const questions: { readonly [name: string]: readonly string[] } = {
  support: [
    "Is the invoice from May paid?",
    "Refund policy for store credit",
    "Draft a reply to the carrier",
    "Change the delivery address",
  ],
  analyst: ["Weekly revenue summary", "Summarise the incident of Tuesday"],
  coder: ["Migrate billing webhooks to v3", "Why does the nightly build fail?"],
};

/** The usage of one model call: tokens, and the cost in US dollars. */
function usage(
  inputTokens: number,
  cachedInputTokens: number,
  outputTokens: number,
  totalCost: number,
): Partial<Usage> {
  return { inputTokens, cachedInputTokens, outputTokens, totalCost };
}

/** Writes the sessions into a new database. */
export async function writeDayOfWork(name: string): Promise<void> {
  let time = Date.now() - dayMs;
  let isFrozen = false;
  const clock = {
    now: () => time,
    random: () => 0.5,
    // Renewals of leases sleep: a frozen process no longer renews them.
    sleep: async (ms: number, signal?: AbortSignal) =>
      new Promise<void>((resolve, reject) => {
        const timer = setTimeout(() => !isFrozen && resolve(), ms);
        signal?.addEventListener("abort", () => {
          clearTimeout(timer);
          reject(signal.reason instanceof Error ? signal.reason : new Error("aborted"));
        });
      }),
  };
  let calls = 0;
  const model = (firstTokenMs: number, replyMs: number, used: Partial<Usage>): Adapter => ({
    provider: "fake",
    stream: (request, call) => {
      calls += 1;
      time += firstTokenMs + (calls % 5) * 60 + replyMs * (1 + (calls % 3) / 4);
      const isAnswered = request.messages.at(-1)?.role === "tool";
      const script: readonly FakeStep[] = isAnswered
        ? [{ type: "text", text: "Here is what I found." }]
        : [{ type: "tool_call", name: "search_records", arguments: { query: "latest" } }];
      return fake({ script, usage: used }).stream(request, call);
    },
  });
  const searchRecords = tool({
    name: "search_records",
    description: "Finds records.",
    schema: { type: "object", properties: { query: { type: "string" } } },
    replay: "safe",
    handler: () => {
      time += 400 + (calls % 4) * 150;
      return { records: 3 };
    },
  });
  const signals = new EventEmitter();
  const callWarehouse = tool({
    name: "call_warehouse",
    description: "Calls the warehouse.",
    schema: { type: "object", properties: {} },
    replay: "safe",
    handler: async () => {
      signals.emit("runs");
      await once(signals, "ends");
      return "done";
    },
  });
  const tools = [searchRecords];
  const support = engine({ adapter: model(300, 900, usage(1840, 1500, 60, 0.0021)), model: "fake:small", tools });
  const analyst = engine({ adapter: model(600, 3200, usage(6200, 2400, 420, 0.031)), model: "fake:large", tools });
  const coder = engine({ adapter: model(800, 5200, usage(12_400, 9800, 910, 0.094)), model: "fake:large", tools });
  const slowly = (ms: number, script: readonly FakeStep[]): Adapter => ({
    provider: "fake",
    stream: (request, call) => {
      time += ms;
      return fake({ script }).stream(request, call);
    },
  });
  const refusing = engine({
    adapter: slowly(2100, [
      { type: "text", text: "I am reading the list" },
      { type: "error", reason: "invalid_request", message: "The file has 48,000 rows; this model reads 20,000." },
    ]),
    model: "fake:small",
  });
  const blocking = engine({
    adapter: slowly(900, [{ type: "tool_call", name: "call_warehouse", arguments: {} }]),
    model: "fake:small",
    tools: [callWarehouse],
  });
  const engines = { support, analyst, coder, importer: refusing, warehouse: blocking };
  const lease = { ttlMs: 3000, renewMs: 1000 };
  const host = () => sqliteStorage({ path: join(folder, name) });
  const first = runtime({ host: host(), engines, durability: "durable", clock, lease, owner: "worker-14501" });
  const began = time;
  for (let turn = 0; turn < 64; turn += 1) {
    // More work in the middle of the day than at its ends.
    time = Math.max(time, began + dayMs * (0.02 + 0.93 * (turn / 64 + 0.06 * Math.sin((turn / 64) * 2 * Math.PI))));
    const engineName = turn % 7 === 3 ? "analyst" : turn % 11 === 5 ? "coder" : "support";
    const list = questions[engineName] ?? [];
    const title = list[turn % list.length] ?? "";
    await (
      await first.start(title, { id: `day-${turn}`, engine: engineName, metadata: { title } })
    ).result;
  }
  time = Date.now() - 20 * 60_000;
  const failing = { id: failedSession, engine: "importer", metadata: { title: "Import the price list" } };
  await (await first.start("Import the price list of 2026.", failing)).result.catch(() => undefined);
  // The process stays in its tool and renews its lease no longer. The other one must not take over, and parks the turn.
  const parking = { id: parkedSession, engine: "warehouse", metadata: { title: "Synchronise the warehouse" } };
  time = Date.now() - 8000;
  const runs = once(signals, "runs");
  const parked = await first.start("Synchronise the warehouse.", parking);
  parked.result.catch(() => undefined);
  await runs;
  isFrozen = true;
  const second = runtime({ host: host(), engines, durability: "durable", maxTakeovers: 1, owner: "worker-14514" });
  await until(
    "the turn is parked",
    async () => {
      await second.recover();
      return (await second.get(parkedSession))?.openTurn?.status ?? null;
    },
    (status) => status === "parked",
  );
  await second.close();
  signals.emit("ends");
  await first.close();
}
