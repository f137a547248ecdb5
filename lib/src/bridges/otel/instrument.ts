// The bridge to OpenTelemetry: a span observer (core/engine/span-observer.ts) that starts and ends spans of
// `@opentelemetry/api`.
//
// Spans
//   chat and step       invoke_agent, kind INTERNAL. `generate` has none: its model call is a child of the caller's
//                       span
//   model calls         chat, kind CLIENT, one for each attempt
//   tools, code cells   execute_tool, kind INTERNAL, one for each attempt
//   images              generate_content, kind CLIENT
//   embeddings          embeddings, kind CLIENT, one for each attempt at a request
//   reranking           rerank, kind CLIENT, one for each attempt
//
// The parent of a span
//   inside a run        the span of the run, or of the tool call that runs an inner turn
//   a run in memory     the active span of the caller
//   a durable turn      the span that was active when the turn was accepted. Its context is stored with the turn
//                       (`traceOf`), so a worker or a process that recovers the turn uses it too. A turn that continues
//                       another one, after a wait for an answer, has the parent of that turn and a link to it, and a
//                       link to the span that was active when the answer arrived. All of them are in one trace
//
// Across processes the ids of spans are derived from their keys (span-ids.ts), and a span ends only if its result is
// recorded: an exporter sees one start and one end of each, also if another process has started the span before it
// crashed. Metrics count the work that was really done, also if its result was discarded.

import type { ContinuedTurn, ObservedSpan, SpanEnd, SpanObserver, SpanStart } from "../../core/engine/internal.ts";
import type { JsonObject, ModelRequest } from "../../core/model/internal.ts";
import type { Infer } from "../../core/model/parse/reading.ts";
import type {
  Attributes,
  Context,
  Histogram,
  HrTime,
  MeterProvider,
  Span,
  SpanContext,
  Tracer,
  TracerProvider,
} from "@opentelemetry/api";

import {
  context,
  createTraceState,
  diag,
  isSpanContextValid,
  metrics,
  ROOT_CONTEXT,
  SpanKind,
  SpanStatusCode,
  trace,
  TraceFlags,
  ValueType,
} from "@opentelemetry/api";

import { observeSpans } from "../../core/engine/internal.ts";
import {
  array,
  fallback,
  isPlainObject,
  nullable,
  number,
  object,
  readOrNull,
  required,
  string,
} from "../../core/model/parse/reading.ts";
import { inputMessages, jsonText, outputMessages, systemInstructions, toolDefinitions } from "./content.ts";
import {
  attributes,
  buckets,
  metricNames,
  operations,
  ownAttributes,
  ownOperations,
  providerName,
} from "./conventions.ts";
import { randomHex, spanIdOf, traceIdOf, withIds } from "./span-ids.ts";

/** Options of `instrument`. */
export type OtelOptions = {
  /** The provider of tracers. Default: the global one. */
  readonly tracerProvider?: TracerProvider;
  /** The provider of meters. Default: the global one. */
  readonly meterProvider?: MeterProvider;
  /**
   * Whether spans contain messages, instructions, tool definitions, and arguments and results of tools. They may
   * contain personal data. The redaction hook (`configure({ redact })`) is applied to them. Default: `false`.
   */
  readonly captureContent?: boolean;
  /**
   * Characters of each attribute with content: the oldest messages are left out, and longer texts are cut. Default:
   * 32,768.
   */
  readonly maxContentLength?: number;
};

/**
 * Exports spans and metrics of all runs and durable turns of this process to OpenTelemetry, by its GenAI semantic
 * conventions. Returns a function that stops it; spans that have started are exported nevertheless. Call it once in
 * each process, after the providers are registered or before.
 */
export function instrument(options: OtelOptions = {}): () => void {
  const {
    tracerProvider = trace,
    meterProvider = metrics,
    captureContent = false,
    maxContentLength = 32_768,
  } = options;
  const meter = meterProvider.getMeter("everturn");
  const seconds = { unit: "s", valueType: ValueType.DOUBLE, advice: { explicitBucketBoundaries: buckets.seconds } };
  const bridge = new Bridge(tracerProvider.getTracer("everturn"), captureContent ? maxContentLength : null, {
    duration: meter.createHistogram(metricNames.duration, {
      ...seconds,
      description: "Duration of requests to models.",
    }),
    firstChunk: meter.createHistogram(metricNames.timeToFirstChunk, {
      ...seconds,
      description: "Time until the first part of a reply is received.",
    }),
    tokens: meter.createHistogram(metricNames.tokens, {
      unit: "{token}",
      description: "Input and output tokens of requests to models.",
      valueType: ValueType.INT,
      advice: { explicitBucketBoundaries: buckets.tokens },
    }),
  });
  return observeSpans(bridge);
}

type Instruments = { readonly duration: Histogram; readonly firstChunk: Histogram; readonly tokens: Histogram };

class Bridge implements SpanObserver {
  readonly #tracer: Tracer;
  readonly #instruments: Instruments;
  /** The longest attribute with content; `null`: none has content. */
  readonly #maxContent: number | null;
  /** The tracer provider does not use `spanIds()`. */
  #hasOtherIds = false;

  constructor(tracer: Tracer, maxContent: number | null, instruments: Instruments) {
    this.#tracer = tracer;
    this.#maxContent = maxContent;
    this.#instruments = instruments;
  }

  traceOf(continued: ContinuedTurn | null): JsonObject {
    const caller = activeSpan();
    const before = continued === null ? null : readTrace(continued.trace);
    if (continued !== null && before !== null) {
      const { traceId, flags } = before;
      const previous: StoredLink = { traceId, spanId: spanIdOf(traceId, continued.turnId), flags };
      const isPrevious = caller === null || caller.spanId === previous.spanId;
      return { ...before, links: isPrevious ? [previous] : [previous, linkOf(caller)] };
    }
    if (caller === null)
      return { traceId: randomHex(16), parentId: null, flags: TraceFlags.SAMPLED, state: null, links: [] };
    const { traceId, spanId, traceFlags, traceState } = caller;
    return { traceId, parentId: spanId, flags: traceFlags, state: traceState?.serialize() ?? null, links: [] };
  }

  start(start: SpanStart): ObservedSpan | null {
    if (start.name === "generate") return null;
    const { parent, key, metadata } = start;
    const stored =
      parent instanceof OtelSpan || key === null ? null : (readTrace(start.trace) ?? untraced(key, metadata));
    const outer =
      parent instanceof OtelSpan ? parent.context : stored === null ? context.active() : remoteContext(stored);
    const traceId = stored?.traceId ?? trace.getSpanContext(outer)?.traceId;
    const ids = key === null || traceId === undefined ? null : { traceId, spanId: spanIdOf(traceId, key) };
    const { name, kind, values } = describe(start);
    const options = {
      kind,
      startTime: timeOf(start.startedAt),
      attributes: { ...values, ...this.#inputContent(start) },
      links: (stored?.links ?? []).map((link) => ({ context: spanContextOf(link) })),
    };
    // Without the id generator, a span without a parent would begin another trace in each process.
    const hasPhantomParent = this.#hasOtherIds && stored?.parentId === null && ids !== null;
    const around = hasPhantomParent ? trace.setSpanContext(ROOT_CONTEXT, phantom(ids)) : outer;
    const span = withIds(ids, () => this.#tracer.startSpan(name, options, around));
    if (ids !== null && !this.#hasOtherIds && isOther(span, ids.spanId)) {
      this.#hasOtherIds = true;
      diag.warn(
        "everturn/otel: set idGenerator: spanIds() in the tracer provider; without it, traces of durable turns that continue in another process are incomplete",
      );
      return this.start(start);
    }
    return new OtelSpan(span, trace.setSpan(around, span), start, this.#instruments, this.#maxContent);
  }

  #inputContent({ name, input: { request, arguments: args } }: SpanStart): Attributes {
    const max = this.#maxContent;
    if (max === null) return {};
    if (name === "model" && request !== undefined) {
      const { json, dropped } = inputMessages(request, max);
      return definedOnly({
        [attributes.inputMessages]: json,
        [attributes.systemInstructions]: systemInstructions(request, max),
        [attributes.toolDefinitions]: toolDefinitions(request, max),
        [ownAttributes.droppedMessages]: dropped === 0 ? null : dropped,
      });
    }
    return args === undefined ? {} : { [attributes.toolArguments]: jsonText(args, max) };
  }
}

/** A span of OpenTelemetry that follows a span of everturn. */
class OtelSpan implements ObservedSpan {
  /** The context with the span in it. */
  readonly context: Context;
  readonly #span: Span;
  readonly #start: SpanStart;
  readonly #instruments: Instruments;
  readonly #maxContent: number | null;

  constructor(span: Span, inner: Context, start: SpanStart, instruments: Instruments, maxContent: number | null) {
    this.#span = span;
    this.context = inner;
    this.#start = start;
    this.#instruments = instruments;
    this.#maxContent = maxContent;
  }

  within<T>(work: () => T): T {
    return context.with(this.context, work);
  }

  stopped({ endedAt, error, result }: SpanEnd): void {
    const { name, metadata, startedAt } = this.#start;
    if (name !== "model" && name !== "image" && name !== "embeddings" && name !== "rerank") return;
    const { duration, firstChunk, tokens } = this.#instruments;
    const labels = definedOnly({
      [attributes.operation]: clientOperations[name],
      [attributes.provider]: providerOf(metadata),
      [attributes.requestModel]: qualifiedModel(metadata),
      [attributes.responseModel]: textOrNull(result["responseModel"]),
    });
    const failed = error === null ? labels : { ...labels, [attributes.errorType]: error.type };
    duration.record((endedAt - startedAt) / 1000, failed, this.context);
    const firstMs = numberOf(result["firstOutputMs"]);
    if (firstMs !== null) firstChunk.record(firstMs / 1000, labels, this.context);
    const usage = reportedUsage(result);
    for (const [type, count] of [
      ["input", usage["inputTokens"]],
      ["output", usage["outputTokens"]],
    ] as const) {
      const value = numberOf(count);
      if (value !== null) tokens.record(value, { ...labels, [attributes.tokenType]: type }, this.context);
    }
  }

  ended(end: SpanEnd): void {
    const span = this.#span;
    span.setAttributes(definedOnly({ ...resultAttributes(end), ...this.#outputContent(end) }));
    const type = end.error?.type ?? textOrNull(end.result["error"]);
    if (type !== null) {
      span.setAttribute(attributes.errorType, type);
      span.setStatus({ code: SpanStatusCode.ERROR, ...(end.error === null ? {} : { message: end.error.message }) });
    }
    span.end(timeOf(end.endedAt));
  }

  #outputContent({ output: { reply, value } }: SpanEnd): Values {
    const max = this.#maxContent;
    if (max === null) return {};
    return {
      [attributes.outputMessages]: reply === undefined ? null : outputMessages(reply, max),
      [attributes.toolResult]: value === undefined ? null : jsonText(value, max),
    };
  }
}

/** Attributes; those that are `null` are left out. */
type Values = { readonly [name: string]: string | number | readonly string[] | null };

/** Name, kind and first attributes of a span. */
function describe({ name, requestId, metadata, input }: SpanStart): {
  readonly name: string;
  readonly kind: SpanKind;
  readonly values: Attributes;
} {
  const model = qualifiedModel(metadata);
  const shared = {
    [attributes.conversation]: textOrNull(metadata["sessionId"]),
    [attributes.provider]: providerOf(metadata),
    [attributes.requestModel]: model,
    [ownAttributes.requestId]: requestId,
    [ownAttributes.attempt]: numberOf(metadata["attempt"]),
  };
  switch (name) {
    case "model": {
      const values = { [attributes.operation]: operations.model, ...shared, ...requestAttributes(input.request) };
      return { name: named(operations.model, model), kind: SpanKind.CLIENT, values: definedOnly(values) };
    }
    case "image":
    case "embeddings":
    case "rerank": {
      const operation = clientOperations[name];
      const outputType = name === "image" ? "image" : null;
      const values = { [attributes.operation]: operation, [attributes.outputType]: outputType, ...shared };
      return { name: named(operation, model), kind: SpanKind.CLIENT, values: definedOnly(values) };
    }
    case "tool":
    case "code": {
      const tool = name === "code" ? "code" : textOrNull(metadata["tool"]);
      const values = {
        [attributes.operation]: operations.tool,
        [attributes.toolName]: tool,
        [attributes.toolType]: name === "code" ? "extension" : "function",
        [attributes.toolCallId]: textOrNull(metadata["toolCallId"]) ?? textOrNull(metadata["cellId"]),
        [attributes.toolDescription]: input.description ?? null,
        [ownAttributes.requestId]: requestId,
      };
      return { name: named(operations.tool, tool), kind: SpanKind.INTERNAL, values: definedOnly(values) };
    }
    default: {
      const agent = textOrNull(metadata["agent"]);
      const values = { [attributes.operation]: operations.agent, [attributes.agent]: agent, ...shared };
      return { name: named(operations.agent, agent), kind: SpanKind.INTERNAL, values: definedOnly(values) };
    }
  }
}

/** The operations of requests to providers, which the metrics measure. */
const clientOperations = {
  model: operations.model,
  image: operations.image,
  embeddings: operations.embeddings,
  rerank: ownOperations.rerank,
};

function named(operation: string, subject: string | null): string {
  return subject === null ? operation : `${operation} ${subject}`;
}

function requestAttributes(request: ModelRequest | undefined): Values {
  if (request === undefined) return {};
  const { maxTokens, temperature, topP, seed, stopSequences, responseFormat } = request;
  return {
    [attributes.maxTokens]: maxTokens,
    [attributes.temperature]: temperature,
    [attributes.topP]: topP,
    [attributes.seed]: seed,
    [attributes.stopSequences]: stopSequences.length === 0 ? null : stopSequences,
    [attributes.outputType]: responseFormat === null ? null : responseFormat.type === "text" ? "text" : "json",
  };
}

function resultAttributes({ result }: SpanEnd): Values {
  const usage = reportedUsage(result);
  const finishReason = textOrNull(result["finishReason"]);
  const firstMs = numberOf(result["firstOutputMs"]);
  return {
    [attributes.responseId]: textOrNull(result["responseId"]),
    [attributes.responseModel]: textOrNull(result["responseModel"]),
    [attributes.finishReasons]: finishReason === null ? null : [finishReason],
    [attributes.timeToFirstChunk]: firstMs === null ? null : firstMs / 1000,
    [attributes.inputTokens]: numberOf(usage["inputTokens"]),
    [attributes.outputTokens]: numberOf(usage["outputTokens"]),
    [attributes.cacheReadTokens]: numberOf(usage["cachedInputTokens"]),
    [attributes.cacheWriteTokens]: numberOf(usage["cacheWriteInputTokens"]),
    [attributes.dimensions]: numberOf(result["dimensions"]),
    [attributes.reasoningTokens]: numberOf(usage["reasoningTokens"]),
    [ownAttributes.cost]: numberOf(usage["totalCost"]),
    [ownAttributes.haltedReason]: textOrNull(result["haltedReason"]),
    [ownAttributes.steps]: numberOf(result["steps"]),
  };
}

function reportedUsage({ usage = null }: JsonObject): { readonly [name: string]: unknown } {
  return isPlainObject(usage) ? usage : {};
}

function providerOf({ provider }: JsonObject): string | null {
  return typeof provider === "string" ? providerName(provider) : null;
}

/** The requested model without the name of its provider, which a model name may start with. */
function qualifiedModel({ provider, model }: JsonObject): string | null {
  const name = textOrNull(model);
  const prefix = `${textOrNull(provider) ?? ""}:`;
  return name !== null && prefix.length > 1 && name.startsWith(prefix) ? name.slice(prefix.length) : name;
}

function textOrNull(value: unknown): string | null {
  return typeof value === "string" ? value : null;
}

function numberOf(value: unknown): number | null {
  return typeof value === "number" ? value : null;
}

function definedOnly(values: Values): Attributes {
  const defined: Attributes = {};
  for (const [name, value] of Object.entries(values)) {
    if (value !== null) defined[name] = typeof value === "object" ? [...value] : value;
  }
  return defined;
}

/**
 * Milliseconds as seconds and nanoseconds. The SDK takes a number before the start of the process for a time of
 * `performance.now()`, and a turn may have been accepted before this process started.
 */
function timeOf(ms: number): HrTime {
  const whole = Math.floor(ms / 1000);
  return [whole, Math.round((ms - whole * 1000) * 1e6)];
}

// Stored trace contexts.

const linkFields = {
  traceId: required(string),
  spanId: required(string),
  flags: fallback(number, TraceFlags.NONE),
};
/** The span context of a link, as stored. */
type StoredLink = Infer<typeof linkFields>;

const traceFields = {
  traceId: required(string),
  /** `null`: the span of the turn has no parent. */
  parentId: fallback(nullable(string), null),
  /** The trace flags of the parent. */
  flags: fallback(number, TraceFlags.NONE),
  /** The trace state of the parent (W3C `tracestate`). */
  state: fallback(nullable(string), null),
  links: fallback(array(object(linkFields)), []),
};
/** The trace context that is stored with a turn. */
type StoredTrace = Infer<typeof traceFields>;
const traceShape = object(traceFields);

/** Reads a stored trace context; `null`: there is none, or it is not one of this library. */
function readTrace(stored: JsonObject | null): StoredTrace | null {
  return stored === null ? null : readOrNull(traceShape, stored);
}

/** The trace of a durable turn that was accepted by a process without OpenTelemetry. Every process derives the same. */
function untraced(key: string, { sessionId = null }: JsonObject): StoredTrace {
  const traceId = traceIdOf(JSON.stringify([sessionId, key]));
  return { traceId, parentId: null, flags: TraceFlags.SAMPLED, state: null, links: [] };
}

/** The context in which the span of a durable turn starts. */
function remoteContext({ traceId, parentId, flags, state }: StoredTrace): Context {
  if (parentId === null) return ROOT_CONTEXT;
  const parent = spanContextOf({ traceId, spanId: parentId, flags });
  return trace.setSpanContext(
    ROOT_CONTEXT,
    state === null ? parent : { ...parent, traceState: createTraceState(state) },
  );
}

function spanContextOf({ traceId, spanId, flags }: StoredLink): SpanContext {
  return { traceId, spanId, traceFlags: flags, isRemote: true };
}

function linkOf({ traceId, spanId, traceFlags }: SpanContext): StoredLink {
  return { traceId, spanId, flags: traceFlags };
}

/**
 * The parent of spans of a turn without a parent, if the tracer provider chooses their ids. It is exported by no
 * process.
 */
function phantom({ traceId, spanId }: { readonly traceId: string; readonly spanId: string }): SpanContext {
  return spanContextOf({ traceId, spanId, flags: TraceFlags.SAMPLED });
}

/** The active span of the caller; `null`: none. */
function activeSpan(): SpanContext | null {
  const active = trace.getSpanContext(context.active());
  return active !== undefined && isSpanContextValid(active) ? active : null;
}

/** Has the tracer provider chosen another id? Without a tracer provider, spans have no valid id. */
function isOther(span: Span, spanId: string): boolean {
  const spanContext = span.spanContext();
  return isSpanContextValid(spanContext) && spanContext.spanId !== spanId;
}
