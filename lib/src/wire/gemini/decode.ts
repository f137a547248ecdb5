// What Gemini answers: `GenerateContentResponse`, whole or as a stream of pieces of it. Both are read by the same eyes (W3).
//
// Rules:
//   1. A run of text, or of thoughts, is one part whatever pieces it came in. A signature belongs to the run or the call it came with; a second
//      signature begins a new part.
//   2. Calls are known by the API's id. Where it gives none they are counted (`call_0`); an id that was counted is never sent back.
//   3. The end is a `finishReason`, or a prompt that was blocked. After it only usage is listened to.
//   4. What no event can hold is not told as it came: numbers that are none are `null`, and a body nested too deep is malformed.
//   5. Parts of kinds we do not read (code that Gemini ran, searches, media) stay in their place, whole, as opaque parts.

import type {
  AdapterFailure,
  Failure,
  FinishReason,
  Json,
  JsonObject,
  ModelEvent,
  Usage,
} from "../../model/internal.ts";
import type { Decoder, ErrorAnswer, Frame, WireContext } from "../codec.ts";

import {
  adapterFailure,
  opaquePart,
  parseJson,
  streamFailure,
  usage as usageFrom,
  withFiniteNumbers,
} from "../../model/internal.ts";
import { classify } from "../classify.ts";
import { asObject, countAt, flagAt, listAt, numberAt, objectAt, objectsAt, said, textAt } from "../fields.ts";
import { rawChunk, ReplyBuilder } from "../reply-builder.ts";
import { PartialArguments } from "./arguments.ts";

export function decoder(context: WireContext): Decoder {
  const reading = new Reading(context, true);
  return {
    push: (frames) => frames.flatMap((frame) => reading.frame(frame)),
    end: () => reading.cut(),
    heard: reading.heard,
  };
}

export function decodeReply(body: Json, context: WireContext): readonly ModelEvent[] {
  const reading = new Reading(context, false);
  // Without `alt=sse` a stream is one list of its pieces.
  const pieces = Array.isArray(body) ? body : [body];
  return [...pieces.flatMap((piece: Json) => reading.value(piece)), ...reading.over(body)];
}

type OpenRun = { readonly type: "text" | "reasoning"; readonly id: string; signature: string | null };
type OpenCall = {
  readonly key: string;
  readonly given: string | null;
  partial: PartialArguments | null;
  args: Json;
  signature: string | null;
};

class Reading {
  readonly heard = { understood: 0, opaque: 0, unknown: 0 };
  readonly #context: WireContext;
  readonly #builder: ReplyBuilder;
  readonly #streams: boolean;
  #started = false;
  #done = false;
  #run: OpenRun | null = null;
  #call: OpenCall | null = null;
  #runs = 0;
  #calls = 0;
  readonly #callIds = new Set<string>();
  #lastText: string | null = null;
  #usage: Usage | null = null;
  #responseId: string | null = null;
  #model: string | null = null;
  #metadata: JsonObject = {};
  #sources: JsonObject = {};

  constructor(context: WireContext, streams: boolean) {
    this.#context = context;
    this.#streams = streams;
    this.#builder = new ReplyBuilder(context);
  }

  frame({ data }: Frame): readonly ModelEvent[] {
    const text = data.trim();
    if (text === "" || text === "[DONE]") return [];
    const parsed = parseJson(text);
    if (parsed !== null) return this.value(parsed.value);
    this.heard.unknown += 1;
    return this.#fail(streamFailure("malformed_event", { provider: this.#context.route.provider, raw: text }));
  }

  value(given: Json): readonly ModelEvent[] {
    const value = withFiniteNumbers(given, maxDepth);
    const raw: readonly ModelEvent[] = this.#context.rawChunks ? [rawChunk(value ?? null)] : [];
    if (value === undefined) {
      this.heard.unknown += 1;
      const message = `nested more than ${maxDepth} levels deep`;
      const error = streamFailure("malformed_event", { provider: this.#context.route.provider, message });
      return [...raw, ...this.#fail(error)];
    }
    const chunk = asObject(value);
    if (chunk === null) {
      this.heard.unknown += 1;
      return raw;
    }
    const unread = this.heard.opaque;
    const events = this.#chunk(chunk);
    if (events === null) this.heard.unknown += 1;
    else if (this.heard.opaque === unread) this.heard.understood += 1;
    return [...raw, ...(events ?? [])];
  }

  /** The stream is over. */
  cut(): readonly ModelEvent[] {
    return this.#fail(streamFailure("interrupted", { provider: this.#context.route.provider }));
  }

  /** There is no more of a whole reply. One without an end is taken as it is; one without anything is none. */
  over(body: Json): readonly ModelEvent[] {
    if (this.#done) return [];
    if (this.#started) return this.#finish(null);
    const raw = typeof body === "string" ? body : JSON.stringify(body);
    const message = "a reply without candidates";
    return this.#fail(adapterFailure("malformed_response", { provider: this.#context.route.provider, message, raw }));
  }

  /** One piece. `null`: nothing in it says anything to us. */
  #chunk(chunk: JsonObject): readonly ModelEvent[] | null {
    const error = objectAt(chunk, "error");
    if (error !== null) {
      const answer = { status: numberAt(error, "code"), body: chunk, requestId: null, retryAfterMs: null };
      return this.#fail(decodeError(answer, this.#context));
    }
    this.#responseId = textAt(chunk, "responseId") ?? this.#responseId;
    this.#model = textAt(chunk, "modelVersion") ?? this.#model;
    const spent = usageOf(objectAt(chunk, "usageMetadata"));
    this.#usage = spent ?? this.#usage;
    if (this.#done) return spent === null ? [] : [{ type: "usage", usage: spent }];
    const feedback = objectAt(chunk, "promptFeedback");
    const candidate = objectsAt(chunk, "candidates").find((one) => (numberAt(one, "index") ?? 0) === 0) ?? null;
    if (candidate === null && feedback === null) return spent === null && !isKnown(chunk) ? null : [];
    const events: ModelEvent[] = [];
    if (feedback !== null) this.#metadata = { ...this.#metadata, promptFeedback: feedback };
    if (candidate !== null) this.#candidate(candidate, events);
    const end = textAt(candidate, "finishReason") ?? blockOf(feedback);
    if (end !== null) {
      this.#start(events);
      events.push(...this.#finish(end, textAt(candidate, "finishReason") === null));
    }
    return events;
  }

  #start(events: ModelEvent[]): void {
    if (!this.#started) events.push(this.#builder.started());
    this.#started = true;
  }

  #candidate(candidate: JsonObject, events: ModelEvent[]): void {
    this.#start(events);
    for (const part of objectsAt(objectAt(candidate, "content"), "parts")) this.#part(part, events);
    for (const [key, value] of Object.entries(candidate)) {
      if (key === "content" || key === "finishReason" || key === "index" || isEmpty(value)) continue;
      if (sourceKeys.has(key)) this.#sources = { ...this.#sources, [key]: value };
      else this.#metadata = { ...this.#metadata, [key]: value };
    }
  }

  #part(part: JsonObject, events: ModelEvent[]): void {
    const signature = textAt(part, "thoughtSignature") || null;
    const call = objectAt(part, "functionCall");
    if (call !== null) return this.#functionCall(call, signature, events);
    const kind = Object.keys(part).find((key) => !aboutParts.has(key)) ?? null;
    if (kind !== null && kind !== "text") {
      this.#endCall(events);
      this.#endRun(events);
      this.#builder.part(opaquePart(kind, this.#builder.replay(part)));
      this.heard.opaque += 1;
      return;
    }
    const text = textAt(part, "text") ?? "";
    // Servers end streams with an empty text that means nothing.
    if (text !== "" || signature !== null)
      this.#words(flagAt(part, "thought") === true ? "reasoning" : "text", text, signature, events);
  }

  #words(type: OpenRun["type"], text: string, signature: string | null, events: ModelEvent[]): void {
    this.#endCall(events);
    const isSigned = this.#run !== null && this.#run.signature !== null && signature !== null;
    if (this.#run?.type !== type || isSigned) this.#endRun(events);
    this.#run ??= { type, id: `${type}_${this.#runs++}`, signature: null };
    const { id } = this.#run;
    this.#run.signature = signature ?? this.#run.signature;
    if (type === "text") this.#lastText = id;
    const event = type === "text" ? this.#builder.text(id, text) : this.#builder.reasoning(id, text);
    if (text !== "" && this.#streams) events.push(event);
  }

  #endRun(events: ModelEvent[]): void {
    if (this.#run === null) return;
    const { type, id, signature } = this.#run;
    this.#run = null;
    const provider = signature === null ? null : this.#builder.replay({ thoughtSignature: signature });
    events.push(
      type === "text" ? this.#builder.textEnd(id, { provider }) : this.#builder.reasoningEnd(id, { provider }),
    );
  }

  /** A call, or the next piece of the one that is open: pieces after the first have no name. */
  #functionCall(call: JsonObject, signature: string | null, events: ModelEvent[]): void {
    const given = textAt(call, "id") || null;
    const name = textAt(call, "name") || null;
    const continues = name === null || (given !== null && given === this.#call?.given);
    if (!continues) {
      this.#endCall(events);
      this.#endRun(events);
      this.#call = this.#startCall(name, given, events);
    }
    const open = this.#call;
    if (open === null) return;
    open.signature = signature ?? open.signature;
    open.args = call["args"] ?? open.args;
    for (const piece of objectsAt(call, "partialArgs")) {
      open.partial ??= new PartialArguments();
      this.#grow(open, open.partial.add(piece), events);
    }
    if (flagAt(call, "willContinue") !== true) this.#endCall(events);
  }

  #startCall(name: string, given: string | null, events: ModelEvent[]): OpenCall {
    const key = `${this.#calls++}`;
    let id = given ?? `call_${key}`;
    while (this.#callIds.has(id)) id = `${id}_${key}`;
    this.#callIds.add(id);
    events.push(this.#builder.callStart(id, name, { key }));
    return { key, given, partial: null, args: null, signature: null };
  }

  #grow({ key }: OpenCall, delta: string, events: ModelEvent[]): void {
    const event = delta === "" ? null : this.#builder.callDelta(key, delta);
    if (event !== null && this.#streams) events.push(event);
  }

  #endCall(events: ModelEvent[]): void {
    const open = this.#call;
    if (open === null) return;
    this.#call = null;
    const { key, given, partial, args, signature } = open;
    const data = said({ id: given, thoughtSignature: signature });
    const provider = Object.keys(data).length === 0 ? null : this.#builder.replay(data);
    const whole = partial?.end() ?? null;
    if (whole !== null) this.#grow(open, whole.delta, events);
    const object = args === null ? {} : asObject(args);
    const raw = whole?.raw ?? (object === null ? (typeof args === "string" ? args : JSON.stringify(args)) : null);
    const end =
      raw === null
        ? this.#builder.callEnd(key, { arguments: { ...object, ...whole?.arguments }, provider })
        : this.#builder.callEnd(key, { raw, provider });
    if (end !== null) events.push(end);
  }

  /** The end of the reply. A call that was cut off by it is none. */
  #finish(word: string | null, isBlocked = false): readonly ModelEvent[] {
    const events: ModelEvent[] = [];
    const finishReason = isBlocked ? "content_filter" : finishReasonOf(word);
    if (finishReason === "stop" || finishReason === "other" || finishReason === null) this.#endCall(events);
    this.#endRun(events);
    // Sources are told at the end; they belong to the text.
    if (this.#lastText !== null && !isEmpty(this.#sources)) {
      this.#builder.textEnd(this.#lastText, { metadata: this.#sources });
    }
    const metadata = this.#lastText === null ? { ...this.#metadata, ...this.#sources } : this.#metadata;
    this.#done = true;
    const end = {
      finishReason,
      rawFinishReason: word,
      responseId: this.#responseId,
      model: this.#model,
      usage: this.#usage,
      metadata,
    };
    return [...events, ...this.#builder.end(end)];
  }

  #fail(error: Failure): readonly ModelEvent[] {
    if (this.#done) return [];
    this.#done = true;
    const spent: readonly ModelEvent[] = this.#usage === null ? [] : [{ type: "usage", usage: this.#usage }];
    return [...spent, { type: "error", error }];
  }
}

/** Keys of a part that say something about it and are not what it holds. */
const aboutParts: ReadonlySet<string> = new Set([
  "thought",
  "thoughtSignature",
  "partMetadata",
  "videoMetadata",
  "mediaResolution",
]);
const sourceKeys: ReadonlySet<string> = new Set(["groundingMetadata", "citationMetadata", "groundingAttributions"]);
const maxDepth = 100;

function isKnown(chunk: JsonObject): boolean {
  return ["candidates", "usageMetadata", "modelVersion", "responseId"].some((key) => Object.hasOwn(chunk, key));
}

function isEmpty(value: Json): boolean {
  return value === null || (typeof value === "object" && Object.keys(value).length === 0);
}

function blockOf(feedback: JsonObject | null): string | null {
  const reason = textAt(feedback, "blockReason");
  return reason === "BLOCK_REASON_UNSPECIFIED" ? null : reason;
}

function finishReasonOf(word: string | null): FinishReason | null {
  switch (word) {
    case null:
      return null;
    case "STOP":
      return "stop";
    case "MAX_TOKENS":
      return "length";
    case "SAFETY":
    case "RECITATION":
    case "LANGUAGE":
    case "BLOCKLIST":
    case "PROHIBITED_CONTENT":
    case "SPII":
    case "IMAGE_SAFETY":
    case "IMAGE_PROHIBITED_CONTENT":
    case "IMAGE_RECITATION":
      return "content_filter";
    case "MALFORMED_FUNCTION_CALL":
    case "UNEXPECTED_TOOL_CALL":
    case "TOO_MANY_TOOL_CALLS":
    case "MISSING_THOUGHT_SIGNATURE":
    case "MALFORMED_RESPONSE":
      return "error";
    default:
      return "other";
  }
}

const counted: ReadonlySet<string> = new Set([
  "promptTokenCount",
  "candidatesTokenCount",
  "responseTokenCount",
  "thoughtsTokenCount",
  "cachedContentTokenCount",
  "totalTokenCount",
]);

/** Gemini counts thoughts apart from the answer, and what its own tools gave the model apart from the prompt; we count them in. */
function usageOf(told: JsonObject | null): Usage | null {
  const prompt = countAt(told, "promptTokenCount");
  const answer = countAt(told, "candidatesTokenCount") ?? countAt(told, "responseTokenCount");
  const thoughts = countAt(told, "thoughtsTokenCount");
  const total = countAt(told, "totalTokenCount");
  if (told === null || (prompt === null && answer === null && thoughts === null && total === null)) return null;
  return usageFrom({
    inputTokens: sum(prompt, countAt(told, "toolUsePromptTokenCount")),
    outputTokens: sum(answer, thoughts),
    cachedInputTokens: countAt(told, "cachedContentTokenCount"),
    reasoningTokens: thoughts,
    totalTokens: total,
    extra: Object.fromEntries(Object.entries(told).filter(([key]) => !counted.has(key))),
  });
}

/** `null` also where the sum is too large to be a count. */
function sum(left: number | null, right: number | null): number | null {
  const both = left === null || right === null ? (left ?? right) : left + right;
  return both !== null && Number.isSafeInteger(both) ? both : null;
}

/** `google.rpc.Status`, in a list of one when the stream was asked for without `alt=sse`. */
export function decodeError(answer: ErrorAnswer, context: WireContext): AdapterFailure {
  const { body } = answer;
  const status = isHttpStatus(answer.status) ? answer.status : null;
  const outer = Array.isArray(body) ? asObject(listAt({ body }, "body")[0]) : asObject(body);
  const error = objectAt(outer, "error");
  const details = objectsAt(error, "details");
  const detail = (type: string) => details.filter((one) => textAt(one, "@type")?.endsWith(type) === true);
  const delay = detail("google.rpc.RetryInfo").map((one) => textAt(one, "retryDelay"))[0] ?? null;
  const reason = detail("google.rpc.ErrorInfo").map((one) => textAt(one, "reason"))[0] ?? null;
  const quotas = detail("google.rpc.QuotaFailure").flatMap((one) =>
    objectsAt(one, "violations").map((violation) => textAt(violation, "quotaId") ?? ""),
  );
  // A bad key comes as a bad request.
  const isKey = reason === "API_KEY_INVALID" || reason === "API_KEY_EXPIRED";
  const complaint = {
    message: textAt(error, "message") ?? (typeof body === "string" && body !== "" ? body : null),
    code: isKey ? reason : textAt(error, "status"),
  };
  const retryAfterMs = answer.retryAfterMs ?? millisecondsOf(delay);
  const failure = classify({ ...answer, retryAfterMs, status: isKey ? 401 : status }, complaint, context);
  if (failure.reason !== "rate_limited") return { ...failure, status };
  // The words are the same for a limit a minute and a limit a day; only the details tell them apart.
  const isDaily = quotas.some((id) => id.includes("PerDay"));
  const retryable = isDaily ? false : delay !== null || quotas.length > 0 || failure.retryable;
  return { ...failure, retryable };
}

/** Bodies hold any number as their code. */
function isHttpStatus(status: number | null): boolean {
  return status !== null && Number.isInteger(status) && status >= 100 && status <= 599;
}

/** A duration as protobuf writes it: `34.4s`. */
function millisecondsOf(delay: string | null): number | null {
  const seconds = delay === null ? null : /^(\d+(?:\.\d+)?)s$/.exec(delay)?.[1];
  return seconds === null || seconds === undefined ? null : Math.round(Number(seconds) * 1000);
}
