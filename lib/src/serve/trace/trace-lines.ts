// Writes the spans of a process as lines of JSON (JSON Lines), for files and log collectors. It needs no package and no
// server.
//
// Two records for each span: `span_started` when the work begins, `span_ended` when its result is recorded
// (core/engine/span-observer.ts). A process that crashes or loses its lease leaves starts without an end; the process
// that does the work again writes a start with the same `span`, and the only end. So there is exactly one end for each
// span whose result was recorded, and lines of several processes can be merged by `span`.
//
// Versions: a new kind of record or a new field does not change `version`. A renamed or removed field, or another
// meaning, does.

import type { ObservedSpan, SpanEnd, SpanObserver, SpanStart } from "../../core/engine/internal.ts";
import type { JsonObject } from "../../core/model/internal.ts";

import { observeSpans, redacted } from "../../core/engine/internal.ts";
import { truncateMiddle } from "../../core/model/internal.ts";

/** Options of `traceTo`. */
type TraceOptions = {
  /**
   * Whether records contain messages, tool definitions, and arguments and results of tools. They may contain personal
   * data. The redaction hook (`configure({ redact })`) is applied to all strings of a record. Default: `false`.
   */
  readonly captureContent?: boolean;
  /** Characters of each text in a record; longer texts are cut in the middle. Default: 32,768. */
  readonly maxTextLength?: number;
};

/** One line of a trace. */
export type TraceRecord = {
  readonly everturn: "trace";
  readonly version: 1;
  readonly type: "span_started" | "span_ended";
  /** When the work started or ended, in milliseconds since 1970. */
  readonly at: number;
  /** Identifies the span. In a durable turn it is the same in every process that does the work. */
  readonly span: string;
  /** The enclosing span; `null`: none. */
  readonly parent: string | null;
  /** What the span measures: `chat`, `step`, `generate`, `model`, `tool`, `code`, `image`, `embeddings` or `rerank`. */
  readonly name: string;
  readonly requestId: string;
  /** Identifies the process that wrote the record. */
  readonly process: string;
  /** Details of the span, for example the name of a tool or the model. */
  readonly metadata: JsonObject;
  /** Content of the input; only with `captureContent`. */
  readonly input?: JsonObject;
  /** Only in `span_ended`, in milliseconds. */
  readonly durationMs?: number;
  /** Only in `span_ended`; `null`: the work succeeded. */
  readonly error?: { readonly type: string; readonly message: string } | null;
  /** Only in `span_ended`: finish reason, usage, the time to the first output, and others. */
  readonly result?: JsonObject;
  /** Content of the output; only with `captureContent`. */
  readonly output?: JsonObject;
};

/**
 * Writes every span of this process as two lines of JSON: when it starts, and when its result is recorded. `write` gets
 * one line with its line break; it is called synchronously and must not block. If it throws, the trace ends and the
 * runs go on. Returns a function that ends the trace.
 *
 * @example
 * ```ts
 * import { chat, engine, fake } from "everturn";
 * import { traceTo } from "everturn/middleware";
 *
 * const lines: string[] = [];
 * const stop = traceTo((line) => lines.push(line));
 * await chat(engine({ adapter: fake({ script: [{ type: "text", text: "Hello." }] }) }), "Hi!");
 * stop();
 * lines.map((line) => JSON.parse(line).type).join(); // => "span_started,span_started,span_ended,span_ended"
 * ```
 */
export function traceTo(write: (line: string) => void, options: TraceOptions = {}): () => void {
  const { captureContent = false, maxTextLength = 32_768 } = options;
  return observeSpans(new TraceLines(write, captureContent, maxTextLength));
}

class TraceLines implements SpanObserver {
  readonly #write: (line: string) => void;
  readonly #hasContent: boolean;
  readonly #maxLength: number;
  readonly #process = crypto.randomUUID().slice(0, 8);
  readonly #names = new WeakMap<ObservedSpan, string>();
  #count = 0;

  constructor(write: (line: string) => void, hasContent: boolean, maxLength: number) {
    this.#write = write;
    this.#hasContent = hasContent;
    this.#maxLength = maxLength;
  }

  start({ key, parent, name, requestId, metadata, startedAt, input }: SpanStart): ObservedSpan {
    this.#count += 1;
    const shared = {
      everturn: "trace",
      version: 1,
      span: key ?? `${this.#process}-${this.#count}`,
      parent: parent === null ? null : (this.#names.get(parent) ?? null),
      name,
      requestId,
      process: this.#process,
      metadata,
    } as const;
    const { request, arguments: args, description } = input;
    const content =
      request === undefined
        ? { arguments: args ?? null, description: description ?? null }
        : { messages: request.messages, tools: request.tools };
    this.#append({ ...shared, type: "span_started", at: startedAt, ...(this.#hasContent ? { input: content } : {}) });
    const observed: ObservedSpan = {
      within: (work) => work(),
      stopped: () => undefined,
      ended: ({ endedAt, error, result, output: { reply, value } }: SpanEnd) => {
        const output = { message: reply?.message ?? null, value: value ?? null };
        const end = { durationMs: endedAt - startedAt, error, result, ...(this.#hasContent ? { output } : {}) };
        this.#append({ ...shared, type: "span_ended", at: endedAt, ...end });
      },
    };
    this.#names.set(observed, shared.span);
    return observed;
  }

  #append(record: TraceRecord): void {
    const text = (_: string, value: unknown) =>
      typeof value === "string" ? truncateMiddle(redacted(value, "log"), this.#maxLength) : value;
    this.#write(`${JSON.stringify(record, text)}\n`);
  }
}
