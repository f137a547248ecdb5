// Decodes replies of the Gemini API: `GenerateContentResponse`, whole or as a stream of such objects that each hold a
// piece. One class reads both (W3).
//
// Theory of operation
//   Gemini has no events for the start and end of blocks. Consecutive parts of one kind form a run: a run of text, or
//   of thoughts (`thought: true`). A part of another kind, a call or the end completes the run. A `functionCall` part
//   is a complete call, or the first piece of one if it has `willContinue`; pieces after the first have no name and
//   carry `partialArgs` (arguments.ts). Candidate 0 is read, others are ignored.
//
// Invariants
//   1. A run is one part of the message, however it was cut. A `thoughtSignature` belongs to the run or the call it
//      arrives with; a second signature starts a new part, because each signature has to be sent back with its own text
//      (fixtures/wire/gemini/reasoning).
//   2. A call has the API's id. Without one it gets `call_<n>`, and that id is never sent to the API.
//   3. The protocol's end is `finishReason` (E1), or `promptFeedback.blockReason` for a blocked prompt
//      (blocked-prompt). After it only usage is read.
//   4. A frame that is no JSON, or that the end of the stream cuts, interrupts the reply (damaged-frame.ts).
//   5. Numbers that are not finite (`1e999`) become `null`, and a chunk nested deeper than `maxChunkDepth` fails the
//      reply as `malformed_event`: no stored event can hold either.
//   6. `inlineData` is an image part, or a file part if its type is not an image. Its replay data holds the other
//      fields of the part (`thoughtSignature`). Images with `thought: true` are drafts of the model; they have
//      `thought` in their metadata. Parts of other kinds (`executableCode`, `codeExecutionResult`, ...) are opaque
//      parts: they stay in their place and are sent back complete (provider-tools).
//   7. `logprobsResult` of a chunk covers its own tokens; the reply has those of all chunks (logprobs). Other fields of
//      a candidate are replaced by later chunks.
//   8. A call that `finishReason` cuts off (`MAX_TOKENS`) is not completed (length-in-call).
//   9. A `finishReason` that reports an error (`MALFORMED_FUNCTION_CALL`) gives an error event with the API's
//      `finishMessage`, and no message (malformed-call).

import type {
  AdapterFailure,
  Failure,
  FilePart,
  FinishReason,
  ImagePart,
  Json,
  JsonObject,
  ModelEvent,
  Usage,
} from "../../model/internal.ts";
import type { Decoder, ErrorResponse, Frame, WireContext } from "../codec.ts";

import {
  adapterFailure,
  filePart,
  imageFromBase64,
  imagePart,
  isJsonArray,
  opaquePart,
  parseJson,
  streamFailure,
  usage as usageFrom,
  withFiniteNumbers,
} from "../../model/internal.ts";
import { classify } from "../classify.ts";
import { damagedFrame, isDamagedFrame } from "../damaged-frame.ts";
import { asObject, countAt, flagAt, listAt, numberAt, objectAt, objectsAt, omitNullish, textAt } from "../fields.ts";
import { rawChunk, ReplyBuilder } from "../reply-builder.ts";
import { PartialArguments } from "./arguments.ts";

/** Creates the decoder of one stream. */
export function decoder(context: WireContext): Decoder {
  const reader = new ResponseReader(context, true);
  return {
    push: (frames) => frames.flatMap((frame) => reader.readFrame(frame)),
    end: () => reader.endStream(),
    counts: reader.counts,
  };
}

/** Decodes a whole reply. */
export function decodeReply(body: Json, context: WireContext): readonly ModelEvent[] {
  const reader = new ResponseReader(context, false);
  // Without `alt=sse`, `streamGenerateContent` answers with one JSON array of its chunks.
  return [...chunkList(body).flatMap((piece) => reader.readValue(piece)), ...reader.endReply(body)];
}

function chunkList(body: Json): readonly Json[] {
  return isJsonArray(body) ? body : [body];
}

/** The run that is open. `id` addresses its block in the builder. */
type OpenRun = { readonly type: "text" | "reasoning"; readonly id: string; signature: string | null };
/**
 * The call that is open. `apiId` is the id that the API gave, `args` the arguments that came complete, `partial` those
 * that come in pieces.
 */
type OpenCall = {
  readonly key: string;
  readonly apiId: string | null;
  partial: PartialArguments | null;
  args: Json;
  signature: string | null;
};

/** Reads the chunks of one reply. */
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
  /** `logprobsResult` of each chunk. It covers the tokens of that chunk only. */
  readonly #logprobs: JsonObject[] = [];
  #sources: JsonObject = {};

  constructor(context: WireContext, emitsDeltas: boolean) {
    this.#context = context;
    this.#emitsDeltas = emitsDeltas;
    this.#builder = new ReplyBuilder(context);
  }

  readFrame(frame: Frame): readonly ModelEvent[] {
    const { event, data } = frame;
    const parsed = parseJson(data);
    if (parsed !== null) return chunkList(parsed.value).flatMap((value) => this.readValue(value));
    if (isDamagedFrame(frame)) {
      const { understood, opaque, unknown } = this.counts;
      return this.#fail(damagedFrame(frame, this.#context, understood + opaque + unknown));
    }
    if (event !== "error") return [];
    return this.#fail(decodeError({ status: null, body: data, requestId: null, retryAfterMs: null }, this.#context));
  }

  readValue(parsed: Json): readonly ModelEvent[] {
    const value = withFiniteNumbers(parsed, maxChunkDepth);
    const raw: readonly ModelEvent[] = this.#context.rawChunks ? [rawChunk(value ?? null)] : [];
    if (value === undefined) {
      this.counts.unknown += 1;
      const message = `a chunk is nested more than ${maxChunkDepth} levels deep`;
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

  /** The stream is over: a failure unless its end was read. */
  endStream(): readonly ModelEvent[] {
    return this.#fail(streamFailure("interrupted", { provider: this.#context.route.provider }));
  }

  /** The whole reply was read. Without a `finishReason` it is complete as it is; without candidates it is malformed. */
  endReply(body: Json): readonly ModelEvent[] {
    if (this.#isDone) return [];
    if (this.#isStarted) return this.#finish(null);
    const raw = typeof body === "string" ? body : JSON.stringify(body);
    const message = "the reply has no candidates";
    return this.#fail(adapterFailure("malformed_response", { provider: this.#context.route.provider, message, raw }));
  }

  /** Reads one chunk. `null`: it has no known field. */
  #readChunk(chunk: JsonObject): readonly ModelEvent[] | null {
    const error = objectAt(chunk, "error");
    if (error !== null) {
      const response = { status: numberAt(error, "code"), body: chunk, requestId: null, retryAfterMs: null };
      return this.#fail(decodeError(response, this.#context));
    }
    this.#responseId = textAt(chunk, "responseId") ?? this.#responseId;
    this.#model = textAt(chunk, "modelVersion") ?? this.#model;
    const reportedUsage = decodedUsage(objectAt(chunk, "usageMetadata"));
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
      else if (key === "logprobsResult") this.#logprobs.push(objectAt(candidate, key) ?? {});
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
      const media = this.#mediaPart(part);
      this.#builder.part(media ?? opaquePart(kind, this.#builder.replayData(part)));
      if (media === null) this.counts.opaque += 1;
      return;
    }
    const text = textAt(part, "text") ?? "";
    // The last chunk of a stream often has an empty text part. It counts only if it carries a signature.
    if (text !== "" || signature !== null)
      this.#appendToRun(flagAt(part, "thought") === true ? "reasoning" : "text", text, signature, events);
  }

  /** The image or file of an `inlineData` part; `null`: the part is of another kind, or its data has no type. */
  #mediaPart(part: JsonObject): ImagePart | FilePart | null {
    const { inlineData: _, ...otherFields } = part;
    const inline = objectAt(part, "inlineData");
    const data = textAt(inline, "data");
    const mimeType = textAt(inline, "mimeType");
    if (data === null || mimeType === null) return null;
    const fields = {
      provider: isEmpty(otherFields) ? null : this.#builder.replayData(otherFields),
      metadata: flagAt(part, "thought") === true ? { thought: true } : {},
    };
    return mimeType.startsWith("image/")
      ? imagePart(imageFromBase64(data, mimeType), fields)
      : filePart({ type: "base64", data }, { mimeType, name: textAt(inline, "displayName"), ...fields });
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

  /** Reads a call, or the next piece of the open call: pieces after the first have no name. */
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

  /** Ends the reply. An open call is completed only if the reply ended normally (invariant 8). */
  #finish(rawFinishReason: string | null, isBlocked = false): readonly ModelEvent[] {
    const events: ModelEvent[] = [];
    const finishReason = isBlocked ? "content_filter" : finishReasonOf(rawFinishReason);
    if (finishReason === "error") {
      this.#endRun(events);
      return [...events, ...this.#fail(this.#endingFailure(`${rawFinishReason}`))];
    }
    if (finishReason === "stop" || finishReason === "other" || finishReason === null) this.#endCall(events);
    this.#endRun(events);
    // Grounding and citation metadata arrives with the last chunks. It becomes metadata of the last text.
    if (this.#lastTextId !== null && !isEmpty(this.#sources)) {
      this.#builder.completeText(this.#lastTextId, { metadata: this.#sources });
    }
    const sources = this.#lastTextId === null ? this.#sources : {};
    const metadata = { ...this.#metadata, ...joinLogprobs(this.#logprobs), ...sources };
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

  /** The failure of a reply whose `finishReason` reports an error (invariant 9). */
  #endingFailure(rawFinishReason: string): Failure {
    const { provider } = this.#context.route;
    const finishMessage = textAt(this.#metadata, "finishMessage");
    const ending = `${provider}: the reply ended with the finishReason ${rawFinishReason}`;
    return adapterFailure("malformed_response", {
      provider,
      code: rawFinishReason,
      message: finishMessage === null ? ending : `${ending}: ${finishMessage}`,
      retryable: retryableEndings.has(rawFinishReason),
      metadata: omitNullish({ finishMessage }),
    });
  }

  #fail(error: Failure): readonly ModelEvent[] {
    if (this.#isDone) return [];
    this.#isDone = true;
    const reportedUsage: readonly ModelEvent[] = this.#usage === null ? [] : [{ type: "usage", usage: this.#usage }];
    return [...reportedUsage, { type: "error", error }];
  }
}

/** Keys that describe a part. The remaining key names its kind. */
const partAttributeKeys: ReadonlySet<string> = new Set([
  "thought",
  "thoughtSignature",
  "partMetadata",
  "videoMetadata",
  "mediaResolution",
]);
/** Keys of a candidate that describe the sources of its text. */
const sourceKeys: ReadonlySet<string> = new Set(["groundingMetadata", "citationMetadata", "groundingAttributions"]);
/**
 * Deepest nesting of a chunk, below the limit of stored events (`maxToolValueDepth`), which wrap values of the chunk in
 * objects of their own.
 */
const maxChunkDepth = 100;

/** `logprobsResult` of the whole reply: the lists of all chunks, joined. */
function joinLogprobs(results: readonly JsonObject[]): JsonObject {
  if (results.length === 0) return {};
  const joinList = (key: string): Json | null => {
    const items = results.flatMap((result) => listAt(result, key));
    return items.length === 0 ? null : items;
  };
  const lists = omitNullish({
    topCandidates: joinList("topCandidates"),
    chosenCandidates: joinList("chosenCandidates"),
  });
  return { logprobsResult: Object.assign({}, ...results, lists) };
}

function hasKnownField(chunk: JsonObject): boolean {
  return ["candidates", "usageMetadata", "modelVersion", "responseId"].some((key) => Object.hasOwn(chunk, key));
}

function isEmpty(value: Json): boolean {
  return value === null || (typeof value === "object" && Object.keys(value).length === 0);
}

/** The reason why a prompt was blocked; `null` if it was not. */
function blockReasonOf(feedback: JsonObject | null): string | null {
  const reason = textAt(feedback, "blockReason");
  return reason === "BLOCK_REASON_UNSPECIFIED" ? null : reason;
}

/** Maps `finishReason`. */
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
    // Vertex AI: the request or the reply violates a template of Model Armor.
    case "MODEL_ARMOR":
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

/**
 * Reasons of errors after which the same request can succeed: the model wrote something that the API could not read,
 * and samples again. Gemini's own CLI retries (https://github.com/google-gemini/gemini-cli/pull/12965). The others
 * depend on the request.
 */
const retryableEndings: ReadonlySet<string> = new Set([
  "MALFORMED_FUNCTION_CALL",
  "UNEXPECTED_TOOL_CALL",
  "MALFORMED_RESPONSE",
]);

/** Fields of `usageMetadata` with a counterpart in `Usage`. The others go into `extra`. */
const countedUsageKeys: ReadonlySet<string> = new Set([
  "promptTokenCount",
  "candidatesTokenCount",
  "responseTokenCount",
  "thoughtsTokenCount",
  "cachedContentTokenCount",
  "totalTokenCount",
]);

/**
 * Inclusive usage: `thoughtsTokenCount` is added to `candidatesTokenCount`, and `toolUsePromptTokenCount` (input from
 * tools that Gemini ran) to `promptTokenCount`. `null`: no count was reported.
 */
function decodedUsage(reported: JsonObject | null): Usage | null {
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

/** Adds two counts. A missing one counts as absent, not as 0; a sum beyond `Number.MAX_SAFE_INTEGER` is `null`. */
function sum(left: number | null, right: number | null): number | null {
  const total = left === null || right === null ? (left ?? right) : left + right;
  return total !== null && Number.isSafeInteger(total) ? total : null;
}

/**
 * Reads a `google.rpc.Status`, which is in an array of one if the stream was requested without `alt=sse`. Its `details`
 * decide what the status does not say: `RetryInfo.retryDelay` is the wait, `ErrorInfo.reason` reveals an invalid key,
 * `QuotaFailure.violations` names the quota.
 */
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
  // The API answers 400 to an invalid key, not 401.
  const isKeyError = reason === "API_KEY_INVALID" || reason === "API_KEY_EXPIRED";
  const providerError = {
    message: textAt(error, "message") ?? (typeof body === "string" && body !== "" ? body : null),
    code: isKeyError ? reason : textAt(error, "status"),
  };
  const retryAfterMs = response.retryAfterMs ?? millisecondsOf(delay);
  const failure = classify({ ...response, retryAfterMs, status: isKeyError ? 401 : status }, providerError, context);
  if (failure.reason !== "rate_limited") return { ...failure, status };
  // The message is the same for a limit per minute and a limit per day. Only `quotaId` differs; waiting helps for the
  // first.
  const isDaily = quotas.some((id) => id.includes("PerDay"));
  const retryable = isDaily ? false : delay !== null || quotas.length > 0 || failure.retryable;
  return { ...failure, retryable };
}

/** Is it a valid HTTP status? `error.code` of a body can be any number. */
function isHttpStatus(status: number | null): boolean {
  return status !== null && Number.isInteger(status) && status >= 100 && status <= 599;
}

/** Parses a duration in protobuf's JSON form (`34.4s`) to milliseconds. */
function millisecondsOf(delay: string | null): number | null {
  const seconds = delay === null ? null : /^(\d+(?:\.\d+)?)s$/.exec(delay)?.[1];
  return seconds === null || seconds === undefined ? null : Math.round(Number(seconds) * 1000);
}
