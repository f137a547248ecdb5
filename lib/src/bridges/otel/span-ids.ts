// Ids of spans that are known before the span exists.
//
// Why
//   OpenTelemetry exports a span when it ends, in the process that started it. A durable turn may end in another
//   process: its model calls of the first process were exported with a parent that the first process can no longer
//   export. So the ids of all spans of a durable turn are derived from the id of the trace and the key of the span,
//   which every process knows. The process that ends the turn exports the span of the turn under the id that all of its
//   children name.
//
// How
//   The API of OpenTelemetry cannot set the id of a new span; the id generator of the SDK can. `planned` is set around
//   the synchronous call of `startSpan`, and the generator returns it. Without this generator spans get random ids, and
//   spans of a process that crashed may name a parent that no process exports.

/** An id generator for a tracer provider of the OpenTelemetry SDK (option `idGenerator`). */
export type SpanIds = {
  /** Returns 32 hexadecimal digits. */
  readonly generateTraceId: () => string;
  /** Returns 16 hexadecimal digits. */
  readonly generateSpanId: () => string;
};

type PlannedIds = { readonly traceId: string; readonly spanId: string };

let planned: PlannedIds | null = null;

/**
 * The id generator that keeps the trace of a durable turn complete when the turn continues in another process. Pass it
 * to the tracer provider. Spans of other instrumentations get ids of `base`.
 *
 * @param base - The generator for all other ids. Default: random ids.
 */
export function spanIds(base: SpanIds = randomIds): SpanIds {
  return {
    generateTraceId: () => planned?.traceId ?? base.generateTraceId(),
    generateSpanId: () => planned?.spanId ?? base.generateSpanId(),
  };
}

/** Runs `start`, whose new span gets these ids if the tracer provider uses `spanIds()`. */
export function withIds<T>(ids: PlannedIds | null, start: () => T): T {
  const outer = planned;
  planned = ids;
  try {
    return start();
  } finally {
    planned = outer;
  }
}

const randomIds: SpanIds = { generateTraceId: () => randomHex(16), generateSpanId: () => randomHex(8) };

/** A random id. W3C Trace Context does not allow an id of zeros. */
export function randomHex(bytes: number): string {
  const values = crypto.getRandomValues(new Uint8Array(bytes));
  const hex = [...values].map((value) => value.toString(16).padStart(2, "0")).join("");
  return /[^0]/.test(hex) ? hex : randomHex(bytes);
}

/** The id of the span with this key in a trace: 16 hexadecimal digits. */
export function spanIdOf(traceId: string, key: string): string {
  const text = `${traceId}/${key}`;
  const hex = hash32(text, 1) + hash32(text, 2);
  return /[^0]/.test(hex) ? hex : "0000000000000001";
}

/** The id of the trace of a durable turn that was accepted without a trace context: 32 hexadecimal digits. */
export function traceIdOf(key: string): string {
  return [3, 4, 5, 6].map((seed) => hash32(key, seed)).join("");
}

/**
 * MurmurHash3 (32 bits) of the UTF-16 code units, as 8 hexadecimal digits. Not a secure hash: span ids must differ
 * between the spans of one trace, and hashes of the platform are asynchronous.
 */
function hash32(text: string, seed: number): string {
  let hash = Math.imul(seed, 0x9e3779b1);
  for (let index = 0; index < text.length; index += 1) {
    let unit = Math.imul(text.charCodeAt(index), 0xcc9e2d51);
    unit = Math.imul((unit << 15) | (unit >>> 17), 0x1b873593);
    hash ^= unit;
    hash = (hash << 13) | (hash >>> 19);
    hash = (Math.imul(hash, 5) + 0xe6546b64) | 0;
  }
  hash ^= text.length;
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return ((hash ^ (hash >>> 16)) >>> 0).toString(16).padStart(8, "0");
}
