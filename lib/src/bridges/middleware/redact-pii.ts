// Replaces personal data in requests by placeholders, and puts it back into replies.
//
// Theory of operation
//   Values are found in the messages of a request, in order, and numbered by kind: `[EMAIL_1]`, `[EMAIL_2]`. The same
//   value has the same placeholder, so the model can refer to it. Numbers follow from the messages alone: a later step
//   of the turn, a replay and another process compute the same ones, and the provider's prompt cache keeps its prefix.
//   A placeholder that occurs in the messages as text is not given to a value. Replies are restored while they are
//   streamed: the end of a delta that may be the beginning of a placeholder waits for the next one. Tool calls are
//   restored too, so tools, approvals and the history have the real values; the next request replaces them again.
//
// What is not changed
//   - system messages: they are text of the program;
//   - reasoning and other parts with replay data of a provider, which has to be returned byte for byte (W4). The model
//     has only seen placeholders;
//   - images, files, names of authors, descriptions and schemas of tools.
//
// Messages are scanned once: the result is kept by the identity of the message, so a step of a long conversation scans
// only what is new.

import type { Middleware, Rules } from "../../core/engine/internal.ts";
import type {
  AssistantMessage,
  AssistantPart,
  Json,
  JsonObject,
  Message,
  ModelEvent,
  ModelReply,
  ModelRequest,
  ToolCall,
  UserPart,
} from "../../core/model/internal.ts";
import type { Detector, PiiKind } from "./pii-patterns.ts";

import { anything, checkOptions } from "../../core/engine/internal.ts";
import { invalidArgument, isJsonArray } from "../../core/model/internal.ts";
import { detectors } from "./pii-patterns.ts";
import { readReply, replyEvents } from "./reply-events.ts";

/** Options of {@link redactPii}. */
type RedactPiiOptions = {
  /** The built-in kinds to find. Default: all. */
  readonly kinds?: readonly PiiKind[];
  /**
   * More kinds, by name: a regular expression that matches the whole value, for example `{ employee: /E-\d{6}/ }`. The
   * name is part of the placeholder.
   */
  readonly patterns?: { readonly [kind: string]: RegExp };
  /** Whether replies and tool calls get the values back in place of the placeholders. Default: true. */
  readonly restore?: boolean;
  /**
   * `true` also replaces personal data that the model writes itself, by `[EMAIL]`. The reply is then held back until it
   * is complete. With `restore`, values of the request stay. Default: false.
   */
  readonly replies?: boolean;
  /** The name of the middleware. Default: `redact_pii`. */
  readonly name?: string;
};

const optionRules: Rules<RedactPiiOptions> = {
  kinds: anything,
  patterns: anything,
  restore: anything,
  replies: anything,
  name: anything,
};

/** A value that was found, with its kind in upper case. */
type Found = { readonly kind: string; readonly value: string };

/** Replaces every value that is found in a text. */
type Rewrite = (text: string, placeholderOf: (found: Found) => string) => string;

/**
 * Replaces personal data in requests by placeholders such as `[EMAIL_1]`, so that the provider does not receive it, and
 * restores it in replies. Finds e-mail addresses, phone numbers, card numbers, IBANs, US social security numbers and IP
 * addresses by their form, and no names or addresses. Throws `MisuseError` for invalid options.
 *
 * @example
 * ```ts
 * import { chat, engine, fake } from "everturn";
 * import { redactPii } from "everturn/middleware";
 *
 * const adapter = fake({ script: [{ type: "text", text: "I will write to [EMAIL_1]." }] });
 * const result = await chat(engine({ adapter, model: "fake:m", middleware: [redactPii()] }), "I am ada@example.com.");
 * adapter.calls[0]?.request.messages[0]?.content; // => "I am [EMAIL_1]."
 * result.finalResponse?.outputText; // => "I will write to ada@example.com."
 * ```
 */
export function redactPii(options: RedactPiiOptions = {}): Middleware {
  checkOptions("redactPii", options, optionRules);
  const { restore = true, replies = false, name = "redact_pii" } = options;
  const rewrite = rewriterOf(options);
  const scanner = new Scanner(rewrite);
  return {
    name,
    async *model(call, next) {
      const { request, values } = scanner.redact(call.request);
      if (values.size > 0) call.note("redacted", { values: values.size });
      const stream = next(request);
      // Values in an answer that is JSON are escaped.
      const isJson = request.responseFormat !== null && request.responseFormat.type !== "text";
      if (replies) {
        const reply = await readReply(stream);
        yield replyEvents(cleanedReply(reply, rewrite, restore ? values : new Map(), isJson));
      } else if (restore && values.size > 0) {
        const restorer = new StreamRestorer(values, isJson);
        for await (const batch of stream) yield batch.flatMap((event) => restorer.events(event));
      } else {
        yield* stream;
      }
    },
  };
}

/** Builds the function that replaces all kinds of the options, in order. */
function rewriterOf({ kinds = keysOf(detectors), patterns = {} }: RedactPiiOptions): Rewrite {
  const all: (Detector & { readonly kind: string })[] = kinds.map((kind) => {
    if (Object.hasOwn(detectors, kind)) return { ...detectors[kind], kind: kind.toUpperCase() };
    const names = Object.keys(detectors).join(", ");
    throw invalidArgument(`redactPii: there is no kind "${kind}"; there are ${names}`, ["kinds"]);
  });
  for (const [kind, pattern] of Object.entries(patterns)) {
    if (!/^[A-Za-z][A-Za-z0-9_]{0,30}$/.test(kind) || !(pattern instanceof RegExp)) {
      const message = `redactPii: patterns: "${kind}" has to be a short name of letters and digits, with a regular expression`;
      throw invalidArgument(message, ["patterns", kind]);
    }
    all.push({
      kind: kind.toUpperCase(),
      pattern: new RegExp(pattern.source, `${pattern.flags.replace(/[gy]/g, "")}g`),
    });
  }
  return (text, placeholderOf) => {
    // Pieces at odd positions are placeholders, which later kinds must not match.
    let pieces: readonly string[] = [text];
    for (const { kind, pattern, accepts } of all) {
      pieces = pieces.flatMap((piece, index) =>
        index % 2 === 1 ? [piece] : split(piece, pattern, accepts, (value) => placeholderOf({ kind, value })),
      );
    }
    return pieces.join("");
  };
}

/** The text as alternating pieces: text, replacement, text, … */
function split(
  text: string,
  pattern: RegExp,
  accepts: Detector["accepts"],
  replacement: (value: string) => string,
): readonly string[] {
  const pieces: string[] = [];
  let end = 0;
  for (const { 0: value, index } of text.matchAll(pattern)) {
    if (value === "" || accepts?.(value) === false) continue;
    pieces.push(text.slice(end, index), replacement(value));
    end = index + value.length;
  }
  return [...pieces, text.slice(end)];
}

/** Placeholders, with their values. */
type Values = ReadonlyMap<string, string>;

/** What was found in a message. */
type Scanned = {
  readonly found: readonly Found[];
  /** Placeholders that occur as text. */
  readonly literals: readonly string[];
  /** The message in the form it was last sent, and the placeholders it was sent with. */
  sent: { readonly placeholders: string; readonly message: Message } | null;
};

const placeholderPattern = /\[[A-Z][A-Z0-9_]{0,40}_\d{1,9}\]/g;

/** Redacts requests. Keeps what it found in each message, by its identity. */
class Scanner {
  readonly #rewrite: Rewrite;
  readonly #scanned = new WeakMap<Message, Scanned>();

  constructor(rewrite: Rewrite) {
    this.#rewrite = rewrite;
  }

  /** The request with placeholders, and their values. A request without personal data is returned unchanged. */
  redact(request: ModelRequest): { readonly request: ModelRequest; readonly values: Values } {
    const scans = request.messages.map((message) => this.#scan(message));
    const taken = new Set(scans.flatMap(({ literals }) => literals));
    const placeholders = new Map<string, string>();
    const values = new Map<string, string>();
    const counts = new Map<string, number>();
    for (const { kind, value } of scans.flatMap(({ found }) => found)) {
      const id = `${kind} ${value}`;
      if (placeholders.has(id)) continue;
      let placeholder: string;
      do {
        counts.set(kind, (counts.get(kind) ?? 0) + 1);
        placeholder = `[${kind}_${counts.get(kind)}]`;
      } while (taken.has(placeholder));
      placeholders.set(id, placeholder);
      values.set(placeholder, value);
    }
    if (values.size === 0) return { request, values };
    const placeholderOf = ({ kind, value }: Found) => placeholders.get(`${kind} ${value}`) ?? `[${kind}]`;
    const messages = request.messages.map((message, index) => {
      const scan = scans[index];
      if (scan === undefined || scan.found.length === 0) return message;
      const key = scan.found.map(placeholderOf).join("");
      if (scan.sent?.placeholders !== key) {
        scan.sent = {
          placeholders: key,
          message: rewriteMessage(message, (text) => this.#rewrite(text, placeholderOf)),
        };
      }
      return scan.sent.message;
    });
    return { request: { ...request, messages }, values };
  }

  #scan(message: Message): Scanned {
    const existing = this.#scanned.get(message);
    if (existing !== undefined) return existing;
    const found: Found[] = [];
    const literals: string[] = [];
    rewriteMessage(message, (text) => {
      for (const [literal] of text.matchAll(placeholderPattern)) literals.push(literal);
      return this.#rewrite(text, (item) => {
        found.push(item);
        return "";
      });
    });
    const scanned: Scanned = { found, literals, sent: null };
    this.#scanned.set(message, scanned);
    return scanned;
  }
}

type RewriteText = (text: string) => string;

/** The message with every text rewritten that may be. */
function rewriteMessage(message: Message, rewrite: RewriteText): Message {
  switch (message.role) {
    case "system":
      return message;
    case "assistant":
      return rewriteReply(message, rewrite, (call) => rewriteCall(call, rewrite));
    case "user":
      return { ...message, content: rewriteContent(message.content, rewrite) };
    case "tool":
      return { ...message, content: rewriteContent(message.content, rewrite) };
    case "event":
      return { ...message, content: rewriteContent(message.content, rewrite) };
  }
}

function rewriteReply(
  message: AssistantMessage,
  rewrite: RewriteText,
  rewriteOne: (call: ToolCall) => ToolCall,
): AssistantMessage {
  const { content, toolCalls } = message;
  const rewritten = typeof content === "string" ? rewrite(content) : content.map((part) => rewritePart(part, rewrite));
  return { ...message, content: rewritten, toolCalls: toolCalls.map(rewriteOne) };
}

function rewriteContent<P extends UserPart>(
  content: string | readonly P[],
  rewrite: RewriteText,
): string | readonly P[] {
  if (typeof content === "string") return rewrite(content);
  return content.map((part) => (part.type === "text" ? { ...part, text: rewrite(part.text) } : part));
}

function rewritePart(part: AssistantPart, rewrite: RewriteText): AssistantPart {
  return part.type === "text" ? { ...part, text: rewrite(part.text) } : part;
}

function rewriteCall(call: ToolCall, rewrite: RewriteText): ToolCall {
  const { arguments: given, rawArguments } = call;
  if (given === null) return { ...call, rawArguments: rawArguments === null ? null : rewrite(rawArguments) };
  const args = rewriteObject(given, rewrite);
  const text = JSON.stringify(args);
  if (text === JSON.stringify(given)) return call;
  // The text is written again from the arguments: a pattern could match a part of an escape sequence in it.
  return { ...call, arguments: args, rawArguments: rawArguments === null ? null : text };
}

function rewriteObject(object: JsonObject, rewrite: RewriteText): JsonObject {
  return Object.fromEntries(Object.entries(object).map(([key, value]) => [key, rewriteJson(value, rewrite)]));
}

function rewriteJson(value: Json, rewrite: RewriteText): Json {
  if (typeof value === "string") return rewrite(value);
  if (typeof value !== "object" || value === null) return value;
  return isJsonArray(value) ? value.map((item) => rewriteJson(item, rewrite)) : rewriteObject(value, rewrite);
}

/** Puts the values in place of the placeholders in a text; `escaped`: the text is JSON. */
function restored(text: string, values: Values, escaped = false): string {
  return text.replaceAll(placeholderPattern, (placeholder) => {
    const value = values.get(placeholder);
    if (value === undefined) return placeholder;
    return escaped ? JSON.stringify(value).slice(1, -1) : value;
  });
}

function restoredCall(call: ToolCall, values: Values): ToolCall {
  const args = call.arguments === null ? null : rewriteObject(call.arguments, (text) => restored(text, values));
  const raw = call.rawArguments === null ? null : restored(call.rawArguments, values, true);
  return { ...call, arguments: args, rawArguments: raw };
}

/** The longest beginning of a placeholder at the end of a text. */
const openPlaceholder = /\[(?:[A-Z][A-Z0-9_]{0,50})?$/;

/** Restores the values in the events of one reply. */
class StreamRestorer {
  readonly #values: Values;
  /** The text of the reply is JSON. */
  readonly #isJson: boolean;
  /**
   * The end of each block that may be the beginning of a placeholder: text blocks by `text <id>`, calls by `call <id>`.
   */
  readonly #pending = new Map<string, string>();

  constructor(values: Values, isJson: boolean) {
    this.#values = values;
    this.#isJson = isJson;
  }

  /** The events in place of an event of the stream. */
  events(event: ModelEvent): readonly ModelEvent[] {
    switch (event.type) {
      case "text_delta": {
        const delta = this.#push(`text ${event.id}`, event.delta, this.#isJson);
        return delta === "" ? [] : [{ ...event, delta }];
      }
      case "tool_call_delta": {
        const argumentsDelta = this.#push(`call ${event.id}`, event.argumentsDelta, true);
        return argumentsDelta === "" ? [] : [{ ...event, argumentsDelta }];
      }
      case "text_completed": {
        const { id } = event;
        const rest = this.#take(`text ${id}`);
        const text = restored(event.text, this.#values, this.#isJson);
        return [...(rest === "" ? [] : [{ type: "text_delta", id, delta: rest } as const]), { ...event, text }];
      }
      case "tool_call_completed": {
        const { id } = event;
        const rest = this.#take(`call ${id}`);
        const { arguments: args, rawArguments } = restoredCall({ ...event }, this.#values);
        const delta = rest === "" ? [] : [{ type: "tool_call_delta", id, argumentsDelta: rest } as const];
        return [...delta, { ...event, arguments: args, rawArguments }];
      }
      case "message_completed": {
        const { message, output } = event;
        const restore: RewriteText = (text) => restored(text, this.#values, this.#isJson);
        const restoreValue: RewriteText = (text) => restored(text, this.#values);
        const restoredReply = rewriteReply(message, restore, (call) => restoredCall(call, this.#values));
        const restoredOutput = output === null ? null : { value: rewriteJson(output.value, restoreValue) };
        return [...this.#flush(), { ...event, message: restoredReply, output: restoredOutput }];
      }
      case "error":
        return [...this.#flush(), event];
      default:
        return [event];
    }
  }

  /** The text that can be emitted; the rest waits. */
  #push(block: string, delta: string, escaped: boolean): string {
    const text = (this.#pending.get(block) ?? "") + delta;
    const open = openPlaceholder.exec(text.slice(-60));
    const held = open === null ? "" : open[0];
    this.#pending.set(block, held);
    return restored(held === "" ? text : text.slice(0, -held.length), this.#values, escaped);
  }

  #take(block: string): string {
    const rest = this.#pending.get(block) ?? "";
    this.#pending.delete(block);
    return rest;
  }

  /** The text of blocks that have no end of their own. */
  #flush(): readonly ModelEvent[] {
    const events: ModelEvent[] = [];
    for (const [block, rest] of this.#pending) {
      if (rest === "") continue;
      const id = block.slice(5);
      if (block.startsWith("text")) events.push({ type: "text_delta", id: id === "null" ? null : id, delta: rest });
      else events.push({ type: "tool_call_delta", id, argumentsDelta: rest });
    }
    this.#pending.clear();
    return events;
  }
}

/** The reply without personal data of the model's own, and with the values of the request. */
function cleanedReply(reply: ModelReply, rewrite: Rewrite, values: Values, isJson: boolean): ModelReply {
  const clean = (escaped: boolean): RewriteText => {
    return (text) =>
      restored(
        rewrite(text, ({ kind }) => `[${kind}]`),
        values,
        escaped,
      );
  };
  const cleanText = clean(isJson);
  const cleanCall = (call: ToolCall) => restoredCall(call, values);
  return {
    ...reply,
    outputText: reply.outputText === null ? null : cleanText(reply.outputText),
    toolCalls: reply.toolCalls.map(cleanCall),
    message: reply.message === null ? null : rewriteReply(reply.message, cleanText, cleanCall),
    output: reply.output === null ? null : { value: rewriteJson(reply.output.value, clean(false)) },
  };
}

function keysOf(record: typeof detectors): readonly PiiKind[] {
  const isKind = (name: string): name is PiiKind => Object.hasOwn(record, name);
  return Object.keys(record).filter(isKind);
}
