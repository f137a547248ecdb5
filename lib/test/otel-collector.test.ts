// A durable turn whose process is killed, with the OTLP exporters of OpenTelemetry against a collector on the loopback
// interface.

import type { ExportedSpan } from "./otel.ts";
import type { ChildProcess } from "node:child_process";
import type { Server } from "node:http";

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { text } from "node:stream/consumers";

import { afterEach, expect, test } from "vitest";

import { defectsOf, treeOf } from "./otel.ts";

type OtlpTraces = {
  readonly resourceSpans: readonly { readonly scopeSpans: readonly { readonly spans: readonly OtlpSpan[] }[] }[];
};
type OtlpSpan = {
  readonly name: string;
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly startTimeUnixNano: string;
  readonly endTimeUnixNano: string;
};
/** A span with its times in nanoseconds. */
type TimedSpan = ExportedSpan & { readonly start: number; readonly end: number };
type OtlpMetrics = {
  readonly resourceMetrics: readonly {
    readonly scopeMetrics: readonly { readonly metrics: readonly { readonly name: string }[] }[];
  }[];
};

const folder = mkdtempSync(join(tmpdir(), "everturn-otel-"));
const processes: ChildProcess[] = [];
const servers: Server[] = [];

afterEach(() => {
  for (const child of processes) child.kill("SIGKILL");
  for (const server of servers) server.close();
  rmSync(folder, { recursive: true, force: true });
});

/** A collector that keeps what it receives. */
async function startCollector() {
  const spans: TimedSpan[] = [];
  const metrics: string[] = [];
  const waiting = new Set<() => void>();
  const server = createServer(async (request, response) => {
    const body = await text(request);
    if (request.url === "/v1/traces") {
      const { resourceSpans }: OtlpTraces = JSON.parse(body);
      const received = resourceSpans.flatMap(({ scopeSpans }) => scopeSpans.flatMap((scope) => scope.spans));
      for (const { name, traceId, spanId, parentSpanId = "", startTimeUnixNano, endTimeUnixNano } of received) {
        const times = { start: Number(startTimeUnixNano), end: Number(endTimeUnixNano) };
        spans.push({ name, traceId, spanId, parentId: parentSpanId === "" ? null : parentSpanId, ...times });
      }
    } else {
      const { resourceMetrics }: OtlpMetrics = JSON.parse(body);
      metrics.push(
        ...resourceMetrics.flatMap(({ scopeMetrics }) =>
          scopeMetrics.flatMap((scope) => scope.metrics.map(({ name }) => name)),
        ),
      );
    }
    response.writeHead(200, { "content-type": "application/json" }).end("{}");
    for (const check of waiting) check();
  });
  servers.push(server);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  const port = typeof address === "object" && address !== null ? address.port : 0;
  const received = (name: string) =>
    new Promise<void>((resolve) => {
      const check = () => {
        if (spans.some((span) => span.name === name)) resolve();
      };
      waiting.add(check);
      check();
    });
  return { spans, metrics, url: `http://127.0.0.1:${port}`, received };
}

function startProcess(...args: readonly string[]): ChildProcess {
  const program = join(import.meta.dirname, "otel-process.ts");
  const child = spawn(process.execPath, ["--import", "tsx", program, ...args], {
    cwd: join(import.meta.dirname, "../.."),
    stdio: ["ignore", "pipe", "inherit"],
  });
  processes.push(child);
  return child;
}

test(
  "[lash 92] a turn whose process is killed during a tool is one complete trace at the collector",
  { timeout: 90_000 },
  async () => {
    const collector = await startCollector();
    const file = join(folder, "sessions.db");
    const first = startProcess("first", file, collector.url);
    // The span of the model call ends with its commit; the tool starts after it.
    await collector.received("chat m");
    first.kill("SIGKILL");
    await once(first, "exit");
    const second = startProcess("second", file, collector.url);
    const output = await text(second.stdout ?? Readable.from([]));
    expect(output.trim()).toBe("Done.");
    // Each span is a request of its own, and requests may overtake each other.
    const inOrder = collector.spans.toSorted((left, right) => left.start - right.start || left.end - right.end);
    expect(treeOf(inOrder)).toEqual(["invoke_agent helper", "  chat m", "  execute_tool work", "  chat m"]);
    expect(new Set(collector.spans.map(({ traceId }) => traceId)).size).toBe(1);
    expect(defectsOf(collector.spans)).toEqual([]);
    expect(new Set(collector.metrics)).toEqual(
      new Set([
        "gen_ai.client.operation.duration",
        "gen_ai.client.operation.time_to_first_chunk",
        "gen_ai.client.token.usage",
      ]),
    );
  },
);
