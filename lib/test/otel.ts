// Helpers for tests with OpenTelemetry: a tracer provider that keeps its spans in memory, and what is wrong with the
// spans of a trace.

import type { OtelOptions } from "everturn/otel";

import { context } from "@opentelemetry/api";
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks";
import { BasicTracerProvider, InMemorySpanExporter, SimpleSpanProcessor } from "@opentelemetry/sdk-trace-base";
import { instrument, spanIds } from "everturn/otel";

/** The part of an exported span that is checked here. */
export type ExportedSpan = {
  readonly name: string;
  readonly traceId: string;
  readonly spanId: string;
  readonly parentId: string | null;
};

/** Instruments the process with an exporter in memory. `stop` removes the instrumentation. */
export function tracedInMemory(
  options: Omit<OtelOptions, "tracerProvider"> = {},
  provider: ConstructorParameters<typeof BasicTracerProvider>[0] = { idGenerator: spanIds() },
) {
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  const exporter = new InMemorySpanExporter();
  const tracerProvider = new BasicTracerProvider({ ...provider, spanProcessors: [new SimpleSpanProcessor(exporter)] });
  const stop = instrument({ ...options, tracerProvider });
  return {
    exporter,
    tracer: tracerProvider.getTracer("test"),
    /** The spans so far, in the order of their ends. */
    spans: () => exporter.getFinishedSpans(),
    exported: (): readonly ExportedSpan[] =>
      exporter.getFinishedSpans().map((span) => {
        const { traceId, spanId } = span.spanContext();
        return { name: span.name, traceId, spanId, parentId: span.parentSpanContext?.spanId ?? null };
      }),
    stop: () => {
      stop();
      context.disable();
    },
  };
}

/** Spans that were exported twice, and spans whose parent was not exported. */
export function defectsOf(spans: readonly ExportedSpan[]): readonly string[] {
  const ids = new Map<string, number>();
  for (const { traceId, spanId } of spans) ids.set(`${traceId} ${spanId}`, (ids.get(`${traceId} ${spanId}`) ?? 0) + 1);
  return spans.flatMap(({ name, traceId, spanId, parentId }) => [
    ...((ids.get(`${traceId} ${spanId}`) ?? 0) > 1 ? [`${name} was exported twice`] : []),
    ...(parentId === null || ids.has(`${traceId} ${parentId}`) ? [] : [`the parent of ${name} is missing`]),
  ]);
}

/** The spans as a tree: one line for each, indented below its parent, in the order in which they ended. */
export function treeOf(spans: readonly ExportedSpan[], parentId: string | null = null, indent = ""): readonly string[] {
  return spans
    .filter((span) => span.parentId === parentId)
    .flatMap(({ name, spanId }) => [`${indent}${name}`, ...treeOf(spans, spanId, `${indent}  `)]);
}
