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
import type { Decoder, ErrorResponse, Frame, WireContext } from "../codec.ts";

import {
  adapterFailure,
  opaquePart,
  parseJson,
  streamFailure,
  usage as usageFrom,
  withFiniteNumbers,
} from "../../model/internal.ts";
import { classify } from "../classify.ts";
import { asObject, countAt, flagAt, listAt, numberAt, objectAt, objectsAt, omitNullish, textAt } from "../fields.ts";
import { rawChunk, ReplyBuilder } from "../reply-builder.ts";
import { PartialArguments } from "./arguments.ts";

export function decoder(context: WireContext): Decoder {
  const reader = new ResponseReader(context, true);
  return {
    push: (frames) => frames.flatMap((frame) => reader.readFrame(frame)),
    end: () => reader.endStream(),
    counts: reader.counts,
  };
}

export function decodeReply(body: Json, context: WireContext): readonly ModelEvent[] {
  const reader = new ResponseReader(context, false);
  // Without `alt=sse` a stream is one list of its pieces.
  const pieces = Array.isArray(body) ? body : [body];
  return [...pieces.flatMap((piece: Json) => reader.readValue(piece)), ...reader.endReply(body)];
}

type OpenRun = { readonly type: "text" | "reasoning"; readonly id: string; signature: string | null };
type OpenCall = {
  readonly key: string;
  readonly apiId: string | null;
  partial: PartialArguments | null;
  args: Json;
  signature: string | null;
};

class ResponseReader {
  readonly counts = { understood: 0, opaque: 0, unknown: 0 };
  readonly #context: WireContext;
  readonly #builder: ReplyBuilder;
  readonly #emitsDeltas: boolean;
  #isStarted = false;
  #isDone = false;
  #run: OpenRun | null = null;
  #call: OpenCall | null = null;
  #runCount = 0;
  #callCount = 0;
  readonly #callIds = new Set<string>();
  #lastTextId: string | null = null;
  #usage: Usage | null = null;
  #responseId: string | null = null;
  #model: string | null = null;
  #metadata: JsonObject = {};
  #sources: JsonObject = {};

  constructor(context: WireContext, emitsDeltas: boolean) {
    this.#context = context;
    this.#emitsDeltas = emitsDeltas;
    this.#builder = new ReplyBuilder(context);
  }

  readFrame({ data }: Frame): readonly ModelEvent[] {
    const text = data.trim();
    if (text === "" || text === "[DONE]") return [];
    const parsed = parseJson(text);
    if (parsed !== null) return this.readValue(parsed.value);
    this.counts.unknown += 1;
    return this.#fail(streamFailure("malformed_event", { provider: this.#context.route.provider, raw: text }));
  }

  readValue(parsed: Json): readonly ModelEvent[] {
    const value = withFiniteNumbers(parsed, maxChunkDepth);
    const raw: readonly ModelEvent[] = this.#context.rawChunks ? [rawChunk(value ?? null)] : [];
    if (value === undefined) {
      this.counts.unknown += 1;
      const message = `nested more than ${maxChunkDepth} levels deep`;
      const error = streamFailure("malformed_event", { provider: this.#context.route.provider, message });
      return [...raw, ...this.#fail(error)];
    }
    const chunk = asObject(value);
    if (chunk === null) {
      this.counts.unknown += 1;
      return raw;
    }
    const opaqueBefore = this.counts.opaque;
    const events = this.#readChunk(chunk);
    if (events === null) this.counts.unknown += 1;
    else if (this.counts.opaque === opaqueBefore) this.counts.understood += 1;
    return [...raw, ...(events ?? [])];
  }

  /** The stream is over. */
  endStream(): readonly ModelEvent[] {
    return this.#fail(streamFailure("interrupted", { provider: this.#context.route.provider }));
  }

  /** There is no more of a whole reply. One without an end is taken as it is; one without anything is none. */
  endReply(body: Json): readonly ModelEvent[] {
    if (this.#isDone) return [];
    if (this.#isStarted) return this.#finish(null);
    const raw = typeof body === "string" ? body : JSON.stringify(body);
    const message = "a reply without candidates";
    return this.#fail(adapterFailure("malformed_response", { provider: this.#context.route.provider, message, raw }));
  }

  /** One piece. `null`: nothing in it says anything to us. */
  #readChunk(chunk: JsonObject): readonly ModelEvent[] | null {
    const error = objectAt(chunk, "error");
    if (error !== null) {
      const response = { status: numberAt(error, "code"), body: chunk, requestId: null, retryAfterMs: null };
      return this.#fail(decodeError(response, this.#context));
    }
    this.#responseId = textAt(chunk, "responseId") ?? this.#responseId;
    this.#model = textAt(chunk, "modelVersion") ?? this.#model;
    const reportedUsage = usageOf(objectAt(chunk, "usageMetadata"));
    this.#usage = reportedUsage ?? this.#usage;
    if (this.#isDone) return reportedUsage === null ? [] : [{ type: "usage", usage: reportedUsage }];
    const feedback = objectAt(chunk, "promptFeedback");
    const candidate =
      objectsAt(chunk, "candidates").find((candidateItem) => (numberAt(candidateItem, "index") ?? 0) === 0) ?? null;
    if (candidate === null && feedback === null) return reportedUsage === null && !hasKnownField(chunk) ? null : [];
    const events: ModelEvent[] = [];
    if (feedback !== null) this.#metadata = { ...this.#metadata, promptFeedback: feedback };
    if (candidate !== null) this.#readCandidate(candidate, events);
    const rawFinishReason = textAt(candidate, "finishReason") ?? blockReasonOf(feedback);
    if (rawFinishReason !== null) {
      this.#start(events);
      events.push(...this.#finish(rawFinishReason, textAt(candidate, "finishReason") === null));
    }
    return events;
  }

  #start(events: ModelEvent[]): void {
    if (!this.#isStarted) events.push(this.#builder.messageStarted());
    this.#isStarted = true;
  }

  #readCandidate(candidate: JsonObject, events: ModelEvent[]): void {
    this.#start(events);
    for (const part of objectsAt(objectAt(candidate, "content"), "parts")) this.#readPart(part, events);
    for (const [key, value] of Object.entries(candidate)) {
      if (key === "content" || key === "finishReason" || key === "index" || isEmpty(value)) continue;
      if (sourceKeys.has(key)) this.#sources = { ...this.#sources, [key]: value };
      else this.#metadata = { ...this.#metadata, [key]: value };
    }
  }

  #readPart(part: JsonObject, events: ModelEvent[]): void {
    const signature = textAt(part, "thoughtSignature") || null;
    const call = objectAt(part, "functionCall");
    if (call !== null) return this.#readFunctionCall(call, signature, events);
    const kind = Object.keys(part).find((key) => !partAttributeKeys.has(key)) ?? null;
    if (kind !== null && kind !== "text") {
      this.#endCall(events);
      this.#endRun(events);
      this.#builder.part(opaquePart(kind, this.#builder.replayData(part)));
      this.counts.opaque += 1;
      return;
    }
    const text = textAt(part, "text") ?? "";
    // Servers end streams with an empty text that means nothing.
    if (text !== "" || signature !== null)
      this.#appendToRun(flagAt(part, "thought") === true ? "reasoning" : "text", text, signature, events);
  }

  #appendToRun(type: OpenRun["type"], text: string, signature: string | null, events: ModelEvent[]): void {
    this.#endCall(events);
    const isSignedAgain = this.#run !== null && this.#run.signature !== null && signature !== null;
    if (this.#run?.type !== type || isSignedAgain) this.#endRun(events);
    this.#run ??= { type, id: `${type}_${this.#runCount++}`, signature: null };
    const { id } = this.#run;
    this.#run.signature = signature ?? this.#run.signature;
    if (type === "text") this.#lastTextId = id;
    const event = type === "text" ? this.#builder.text(id, text) : this.#builder.reasoning(id, text);
    if (text !== "" && this.#emitsDeltas) events.push(event);
  }

  #endRun(events: ModelEvent[]): void {
    if (this.#run === null) return;
    const { type, id, signature } = this.#run;
    this.#run = null;
    const provider = signature === null ? null : this.#builder.replayData({ thoughtSignature: signature });
    events.push(
      type === "text"
        ? this.#builder.completeText(id, { provider })
        : this.#builder.completeReasoning(id, { provider }),
    );
  }

  /** A call, or the next piece of the one that is open: pieces after the first have no name. */
  #readFunctionCall(call: JsonObject, signature: string | null, events: ModelEvent[]): void {
    const apiId = textAt(call, "id") || null;
    const name = textAt(call, "name") || null;
    const continues = name === null || (apiId !== null && apiId === this.#call?.apiId);
    if (!continues) {
      this.#endCall(events);
      this.#endRun(events);
      this.#call = this.#startCall(name, apiId, events);
    }
    const open = this.#call;
    if (open === null) return;
    open.signature = signature ?? open.signature;
    open.args = call["args"] ?? open.args;
    for (const piece of objectsAt(call, "partialArgs")) {
      open.partial ??= new PartialArguments();
      this.#appendArguments(open, open.partial.add(piece), events);
    }
    if (flagAt(call, "willContinue") !== true) this.#endCall(events);
  }

  #startCall(name: string, apiId: string | null, events: ModelEvent[]): OpenCall {
    const key = `${this.#callCount++}`;
    let id = apiId ?? `call_${key}`;
    while (this.#callIds.has(id)) id = `${id}_${key}`;
    this.#callIds.add(id);
    events.push(this.#builder.startCall(id, name, { key }));
    return { key, apiId, partial: null, args: null, signature: null };
  }

  #appendArguments({ key }: OpenCall, delta: string, events: ModelEvent[]): void {
    const event = delta === "" ? null : this.#builder.appendArguments(key, delta);
    if (event !== null && this.#emitsDeltas) events.push(event);
  }

  #endCall(events: ModelEvent[]): void {
    const open = this.#call;
    if (open === null) return;
    this.#call = null;
    const { key, apiId, partial, args, signature } = open;
    const data = omitNullish({ id: apiId, thoughtSignature: signature });
    const provider = Object.keys(data).length === 0 ? null : this.#builder.replayData(data);
    const assembled = partial?.end() ?? null;
    if (assembled !== null) this.#appendArguments(open, assembled.delta, events);
    const argsObject = args === null ? {} : asObject(args);
    const raw =
      assembled?.raw ?? (argsObject === null ? (typeof args === "string" ? args : JSON.stringify(args)) : null);
    const endEvent =
      raw === null
        ? this.#builder.completeCall(key, { arguments: { ...argsObject, ...assembled?.arguments }, provider })
        : this.#builder.completeCall(key, { raw, provider });
    if (endEvent !== null) events.push(endEvent);
  }

  /** The end of the reply. A call that was cut off by it is none. */
  #finish(rawFinishReason: string | null, isBlocked = false): readonly ModelEvent[] {
    const events: ModelEvent[] = [];
    const finishReason = isBlocked ? "content_filter" : finishReasonOf(rawFinishReason);
    if (finishReason === "stop" || finishReason === "other" || finishReason === null) this.#endCall(events);
    this.#endRun(events);
    // Sources are told at the end; they belong to the text.
    if (this.#lastTextId !== null && !isEmpty(this.#sources)) {
      this.#builder.completeText(this.#lastTextId, { metadata: this.#sources });
    }
    const metadata = this.#lastTextId === null ? { ...this.#metadata, ...this.#sources } : this.#metadata;
    this.#isDone = true;
    const ending = {
      finishReason,
      rawFinishReason: rawFinishReason,
      responseId: this.#responseId,
      model: this.#model,
      usage: this.#usage,
      metadata,
    };
    return [...events, ...this.#builder.end(ending)];
  }

  #fail(error: Failure): readonly ModelEvent[] {
    if (this.#isDone) return [];
    this.#isDone = true;
    const reportedUsage: readonly ModelEvent[] = this.#usage === null ? [] : [{ type: "usage", usage: this.#usage }];
    return [...reportedUsage, { type: "error", error }];
  }
}

/** Keys of a part that say something about it and are not what it holds. */
const partAttributeKeys: ReadonlySet<string> = new Set([
  "thought",
  "thoughtSignature",
  "partMetadata",
  "videoMetadata",
  "mediaResolution",
]);
const sourceKeys: ReadonlySet<string> = new Set(["groundingMetadata", "citationMetadata", "groundingAttributions"]);
const maxChunkDepth = 100;

function hasKnownField(chunk: JsonObject): boolean {
  return ["candidates", "usageMetadata", "modelVersion", "responseId"].some((key) => Object.hasOwn(chunk, key));
}

function isEmpty(value: Json): boolean {
  return value === null || (typeof value === "object" && Object.keys(value).length === 0);
}

function blockReasonOf(feedback: JsonObject | null): string | null {
  const reason = textAt(feedback, "blockReason");
  return reason === "BLOCK_REASON_UNSPECIFIED" ? null : reason;
}

function finishReasonOf(rawFinishReason: string | null): FinishReason | null {
  switch (rawFinishReason) {
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

const countedUsageKeys: ReadonlySet<string> = new Set([
  "promptTokenCount",
  "candidatesTokenCount",
  "responseTokenCount",
  "thoughtsTokenCount",
  "cachedContentTokenCount",
  "totalTokenCount",
]);

/** Gemini counts thoughts apart from the answer, and what its own tools gave the model apart from the prompt; we count them in. */
function usageOf(reported: JsonObject | null): Usage | null {
  const prompt = countAt(reported, "promptTokenCount");
  const answer = countAt(reported, "candidatesTokenCount") ?? countAt(reported, "responseTokenCount");
  const thoughts = countAt(reported, "thoughtsTokenCount");
  const total = countAt(reported, "totalTokenCount");
  if (reported === null || (prompt === null && answer === null && thoughts === null && total === null)) return null;
  return usageFrom({
    inputTokens: sum(prompt, countAt(reported, "toolUsePromptTokenCount")),
    outputTokens: sum(answer, thoughts),
    cachedInputTokens: countAt(reported, "cachedContentTokenCount"),
    reasoningTokens: thoughts,
    totalTokens: total,
    extra: Object.fromEntries(Object.entries(reported).filter(([key]) => !countedUsageKeys.has(key))),
  });
}

/** `null` also where the sum is too large to be a count. */
function sum(left: number | null, right: number | null): number | null {
  const total = left === null || right === null ? (left ?? right) : left + right;
  return total !== null && Number.isSafeInteger(total) ? total : null;
}

/** `google.rpc.Status`, in a list of one when the stream was asked for without `alt=sse`. */
export function decodeError(response: ErrorResponse, context: WireContext): AdapterFailure {
  const { body } = response;
  const status = isHttpStatus(response.status) ? response.status : null;
  const errorBody = Array.isArray(body) ? asObject(listAt({ body }, "body")[0]) : asObject(body);
  const error = objectAt(errorBody, "error");
  const details = objectsAt(error, "details");
  const detailsOfType = (type: string) => details.filter((item) => textAt(item, "@type")?.endsWith(type) === true);
  const delay = detailsOfType("google.rpc.RetryInfo").map((item) => textAt(item, "retryDelay"))[0] ?? null;
  const reason = detailsOfType("google.rpc.ErrorInfo").map((item) => textAt(item, "reason"))[0] ?? null;
  const quotas = detailsOfType("google.rpc.QuotaFailure").flatMap((item) =>
    objectsAt(item, "violations").map((violation) => textAt(violation, "quotaId") ?? ""),
  );
  // A bad key comes as a bad request.
  const isKeyError = reason === "API_KEY_INVALID" || reason === "API_KEY_EXPIRED";
  const providerError = {
    message: textAt(error, "message") ?? (typeof body === "string" && body !== "" ? body : null),
    code: isKeyError ? reason : textAt(error, "status"),
  };
  const retryAfterMs = response.retryAfterMs ?? millisecondsOf(delay);
  const failure = classify({ ...response, retryAfterMs, status: isKeyError ? 401 : status }, providerError, context);
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
