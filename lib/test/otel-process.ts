// A process of the test in otel-collector.test.ts: exports its spans and metrics by OTLP, and drives a durable turn in
// a SQLite file.
//
// Arguments: `first` or `second`, the file, the address of the collector. The first process starts the turn and hangs
// in its tool. The second one recovers the turn.

import { context } from "@opentelemetry/api";
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks";
import { OTLPMetricExporter } from "@opentelemetry/exporter-metrics-otlp-http";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-http";
import { MeterProvider, PeriodicExportingMetricReader } from "@opentelemetry/sdk-metrics";
import { BasicTracerProvider, SimpleSpanProcessor } from "@opentelemetry/sdk-trace-base";
import { engine, fake, tool } from "everturn";
import { instrument, spanIds } from "everturn/otel";
import { runtime } from "everturn/runtime";
import { sqliteStorage } from "everturn/sqlite";
import Libsql from "libsql";

const [, , role = "", file = "", collector = ""] = process.argv;
context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
const tracerProvider = new BasicTracerProvider({
  idGenerator: spanIds(),
  spanProcessors: [new SimpleSpanProcessor(new OTLPTraceExporter({ url: `${collector}/v1/traces` }))],
});
const exporter = new OTLPMetricExporter({ url: `${collector}/v1/metrics` });
const meterProvider = new MeterProvider({
  readers: [new PeriodicExportingMetricReader({ exporter, exportIntervalMillis: 3_600_000 })],
});
instrument({ tracerProvider, meterProvider });

const work = tool({
  name: "work",
  description: "Works.",
  schema: { type: "object" },
  replay: "safe",
  handler: () => (role === "first" ? new Promise(() => undefined) : "worked"),
});
const usage = { type: "usage", usage: { inputTokens: 10, outputTokens: 5 } } as const;
const scripts =
  role === "first"
    ? [[{ type: "tool_call", name: "work" } as const, usage]]
    : [[{ type: "text", text: "Done." } as const, usage]];
const sessions = runtime({
  host: sqliteStorage(new Libsql(file)),
  engines: { helper: engine({ adapter: fake({ scripts }), model: "fake:m", tools: [work] }) },
  lease: { ttlMs: 500, renewMs: 100 },
});

if (role === "first") {
  await sessions.start("Work.", { id: "s", engine: "helper" });
  // The test kills this process.
  setInterval(() => undefined, 60_000);
} else {
  const stop = new AbortController();
  const worker = sessions.work({ signal: stop.signal });
  const view = await sessions.get("s");
  const end = await sessions.attach("s", view?.openTurn?.turnId).result;
  stop.abort();
  await worker;
  await tracerProvider.forceFlush();
  await meterProvider.forceFlush();
  console.log(end.text);
}
