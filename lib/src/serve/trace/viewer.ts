// Builds one HTML page that shows a trace file (trace-lines.ts). The page needs no server and loads nothing.
//
// Theory of operation
//   Lines are parsed here into cards, the render model: kind, title, summary, labels, position in the timeline, raw
//   JSON, and the tabs that list the card. The script of the page draws cards and knows no kinds of records. A line
//   that is not a record of this version is shown raw, and never dropped.
//
// Safety: the trace contains texts of users and models. The embedded JSON escapes `<`, `>`, `&`, U+2028 and U+2029, so
// no text can end the script element; the script writes texts with `textContent` only; a content security policy
// forbids every other script and all requests.

import type { JsonObject } from "../../core/model/internal.ts";

import { isPlainObject } from "../../core/model/parse/reading.ts";
import { pageScript, pageStyle } from "./viewer-page.ts";

/** One entry of the page. */
type Card = {
  readonly kind: string;
  readonly tabs: readonly string[];
  readonly time: string;
  readonly title: string;
  readonly summary: string;
  readonly labels: readonly string[];
  readonly failed: boolean;
  /** Nesting of the span; 0: a root. */
  readonly depth: number;
  /** Start and length on the time axis of the trace, in percent. */
  readonly from: number;
  readonly length: number;
  readonly raw: string;
};

type TraceSpan = {
  readonly id: string;
  readonly parent: string | null;
  readonly name: string;
  readonly requestId: string;
  readonly metadata: JsonObject;
  readonly startedAt: number;
  readonly endedAt: number | null;
  readonly starts: number;
  readonly error: string | null;
  readonly result: JsonObject;
  readonly lines: readonly string[];
};

/**
 * Builds an HTML page from the text of a trace file. `title`: the heading. Lines that cannot be read are shown as they
 * are.
 */
export function traceViewer(text: string, { title = "Everturn trace" }: { readonly title?: string } = {}): string {
  const lines = text.split(/\r?\n/).filter((line) => line.trim() !== "");
  const { spans, unread } = spansOf(lines);
  const cards = [...cardsOf(spans), ...unread.map(rawCard)];
  const calls = spans.filter(({ name }) => name === "model");
  // Turns have the tokens of their model calls too.
  const requests = spans.filter(({ name }) => ["model", "embeddings", "rerank"].includes(name));
  const totals = [
    `${lines.length} records`,
    `${calls.length} model calls`,
    `${cards.filter(({ failed }) => failed).length} failures`,
    `${requests.reduce((sum, { result }) => sum + tokensOf(result), 0)} tokens`,
  ];
  const data = { title, totals, tabs: ["Timeline", "Model calls", "Streams", "Raw"], cards };
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'">
<title>${escapeHtml(title)}</title>
<style>${pageStyle}</style>
</head>
<body>
<script type="application/json" id="data">${embedded(JSON.stringify(data))}</script>
<script>${pageScript}</script>
</body>
</html>
`;
}

/** Groups records by span. A span that several processes started has one entry. */
function spansOf(lines: readonly string[]): {
  readonly spans: readonly TraceSpan[];
  readonly unread: readonly string[];
} {
  const spans = new Map<string, TraceSpan>();
  const unread: string[] = [];
  for (const line of lines) {
    const record = recordOf(line);
    if (record === null) unread.push(line);
    else spans.set(record.id, merged(spans.get(record.id), record));
  }
  return { spans: [...spans.values()].toSorted((a, b) => a.startedAt - b.startedAt), unread };
}

/** A span from one of its records; `null`: the line is not a record of this version. */
function recordOf(line: string): TraceSpan | null {
  const value = parsed(line);
  if (!isPlainObject(value) || value["everturn"] !== "trace" || value["version"] !== 1) return null;
  const { type, at, span, parent, name, requestId, metadata, durationMs = 0, error = null, result = {} } = value;
  const isEnd = type === "span_ended";
  if (typeof at !== "number" || typeof span !== "string" || typeof name !== "string") return null;
  if ((type !== "span_started" && !isEnd) || typeof durationMs !== "number") return null;
  return {
    id: span,
    parent: typeof parent === "string" ? parent : null,
    name,
    requestId: String(requestId),
    metadata: jsonCopy(metadata),
    startedAt: isEnd ? at - durationMs : at,
    endedAt: isEnd ? at : null,
    starts: isEnd ? 0 : 1,
    error: isPlainObject(error) ? `${String(error["type"])}: ${String(error["message"])}` : null,
    result: jsonCopy(result),
    lines: [line],
  };
}

function merged(before: TraceSpan | undefined, next: TraceSpan): TraceSpan {
  if (before === undefined) return next;
  const end = next.endedAt === null ? before : next;
  return {
    ...before,
    endedAt: end.endedAt,
    error: end.error,
    result: end.result,
    starts: before.starts + next.starts,
    lines: [...before.lines, ...next.lines],
  };
}

/** The cards of all spans, each below its parent. */
function cardsOf(spans: readonly TraceSpan[]): readonly Card[] {
  const first = Math.min(...bounds(spans, ({ startedAt }) => startedAt));
  const last = Math.max(...bounds(spans, ({ startedAt, endedAt }) => endedAt ?? startedAt));
  const total = Math.max(1, last - first);
  const ids = new Set(spans.map(({ id }) => id));
  const inside = new Map<string | null, TraceSpan[]>();
  for (const span of spans) {
    const parent = span.parent !== null && ids.has(span.parent) ? span.parent : null;
    const siblings = inside.get(parent);
    if (siblings === undefined) inside.set(parent, [span]);
    else siblings.push(span);
  }
  const cards: Card[] = [];
  const shown = new Set<string>();
  // Damaged records can be parents of each other; the rest is listed after all roots, so that no span is left out.
  const open = [...(inside.get(null) ?? []), ...spans].map((span) => ({ span, depth: 0 })).toReversed();
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    const { span, depth } = next;
    if (shown.has(span.id)) continue;
    shown.add(span.id);
    const from = (100 * (span.startedAt - first)) / total;
    const length = (100 * ((span.endedAt ?? last) - span.startedAt)) / total;
    cards.push(cardOf(span, depth, from, length));
    for (const child of (inside.get(span.id) ?? []).toReversed()) open.push({ span: child, depth: depth + 1 });
  }
  return cards;
}

/**
 * The values of all spans; 0 if there are none. A spread of many arguments would exceed the stack, so the extremes of
 * slices are taken.
 */
function bounds(spans: readonly TraceSpan[], valueOf: (span: TraceSpan) => number): readonly number[] {
  if (spans.length === 0) return [0];
  const values = spans.map(valueOf);
  return [values.reduce((a, b) => Math.min(a, b)), values.reduce((a, b) => Math.max(a, b))];
}

function cardOf(span: TraceSpan, depth: number, from: number, length: number): Card {
  const { name, metadata, result, error, endedAt, startedAt, starts } = span;
  const isModel = name === "model";
  const reason = error ?? (typeof result["error"] === "string" ? result["error"] : null);
  const duration = endedAt === null ? "not ended" : `${Math.round(endedAt - startedAt)} ms`;
  const firstMs = result["firstOutputMs"];
  const facts = [
    duration,
    ...(typeof firstMs === "number" ? [`first output after ${Math.round(firstMs)} ms`] : []),
    ...(tokensOf(result) > 0 ? [`${tokensOf(result)} tokens`] : []),
    ...(typeof result["finishReason"] === "string" ? [result["finishReason"]] : []),
    ...(typeof result["haltedReason"] === "string" ? [result["haltedReason"]] : []),
    ...(starts > 1 ? [`started ${starts} times`] : []),
    ...(reason === null ? [] : [reason]),
  ];
  const labels = ["agent", "sessionId", "attempt", "toolCallId", "provider"].flatMap((label) => {
    const value = metadata[label];
    return typeof value === "string" || typeof value === "number" ? [`${label} ${value}`] : [];
  });
  return {
    kind: name,
    tabs: ["Timeline", ...(isModel ? ["Model calls"] : []), ...(typeof firstMs === "number" ? ["Streams"] : []), "Raw"],
    time: timeText(startedAt),
    title: `${name} ${String(metadata["tool"] ?? metadata["model"] ?? metadata["agent"] ?? "")}`.trim(),
    summary: facts.join(" · "),
    labels: [...labels, `request ${span.requestId}`, `span ${span.id}`],
    failed: reason !== null,
    depth,
    from,
    length,
    raw: span.lines.map(pretty).join("\n"),
  };
}

/** A line that is not a record of this version. */
function rawCard(line: string): Card {
  const place = { time: "", failed: false, depth: 0, from: 0, length: 0 };
  return {
    kind: "other",
    tabs: ["Raw"],
    title: "not a trace record",
    summary: "",
    labels: [],
    ...place,
    raw: pretty(line),
  };
}

function tokensOf({ usage = null }: JsonObject): number {
  const { inputTokens, outputTokens } = jsonCopy(usage);
  return (typeof inputTokens === "number" ? inputTokens : 0) + (typeof outputTokens === "number" ? outputTokens : 0);
}

function jsonCopy(value: unknown): JsonObject {
  const text: unknown = isPlainObject(value) ? value : {};
  const copy: JsonObject = JSON.parse(JSON.stringify(text));
  return copy;
}

function parsed(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch {
    return null;
  }
}

function pretty(line: string): string {
  const value = parsed(line);
  return value === null ? line : JSON.stringify(value, null, 2);
}

/** Milliseconds since 1970 as `HH:MM:SS.mmm` (UTC). */
function timeText(ms: number): string {
  const inDay = ((ms % 86_400_000) + 86_400_000) % 86_400_000;
  const milliseconds = String(Math.floor(inDay % 1000)).padStart(3, "0");
  return `${two(inDay / 3_600_000)}:${two((inDay / 60_000) % 60)}:${two((inDay / 1000) % 60)}.${milliseconds}`;
}

function two(value: number): string {
  return String(Math.floor(value)).padStart(2, "0");
}

function escapeHtml(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}

/** JSON that can stand in a script element: it contains no markup and no line separators of JavaScript. */
function embedded(json: string): string {
  return json.replaceAll(/[<>&\u2028\u2029]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`);
}
