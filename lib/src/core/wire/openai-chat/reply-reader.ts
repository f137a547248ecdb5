// Reads the content of one Chat Completions reply. A whole body is read as one chunk that holds everything, so streams
// and whole bodies give the same message (W3).
//
// Invariants
//   1. A reply is one text, one reasoning and a list of calls, as in a whole body, in whatever order the stream mixes
//      them.
//   2. Only the first choice that appears is read.
//   3. Unknown fields of a message become opaque parts (fixtures/wire/openai-chat/unknown-fields). The encoder decides
//      which of them are sent back.
//   4. Replay data of reasoning holds the field it came in (`field`: `reasoning` or `reasoning_content`), OpenRouter's
//      `reasoning_details` (`details`), which have to be sent back unchanged, or a mark for Mistral's `thinking`
//      content pieces (reasoning, reasoning-details, thinking-pieces).
//   5. Values that arrive in pieces are collected in lists and joined once, at the end, so the cost of a chunk does not
//      grow with the chunks before it.
//   6. Generated images (`images` of OpenRouter) are image parts after the text.
//   7. A `finish_reason` that reports an error (`error`, `insufficient_system_resource`, a call of Gemini that its
//      server rejected) gives an error event and no message (error-ending).

import type { ImageContent, Json, JsonObject, ModelEvent, Usage } from "../../model/internal.ts";
import type { Decoder, WireContext } from "../codec.ts";

import {
  adapterFailure,
  imageFromBase64,
  imageFromUrl,
  imagePart,
  isJsonArray,
  opaquePart,
  toolResultPart,
} from "../../model/internal.ts";
import {
  asObject,
  countAt,
  listAt,
  numberAt,
  objectAt,
  objectsAt,
  omitNullish,
  pickFields,
  textAt,
} from "../fields.ts";
import { ReplyBuilder } from "../reply-builder.ts";
import { finishReasonOf, rejectedCallOf, chatUsage } from "./finish-usage-errors.ts";
import { CallReader } from "./tool-calls.ts";

/** The events of a chunk, and how the chunk was treated. */
type ReadResult = { readonly events: readonly ModelEvent[]; readonly eventClass: keyof Decoder["counts"] };

/** Ids of the blocks of a reply in the builder. */
const contentBlock = "content";
const reasoningBlock = "reasoning";
const refusalBlock = "refusal";

/** Fields of a message that are read here. All others are unknown and become opaque parts. */
const messageFields = new Set([
  "role",
  "content",
  "refusal",
  "reasoning",
  "reasoning_content",
  "reasoning_details",
  "tool_calls",
  "function_call",
  "executed_tools",
  "annotations",
  "audio",
  "images",
]);
/** Fields of a chunk that become metadata of the text, and those that become metadata of the reply. */
const sourceFields = ["citations", "search_results"];
const metadataFields = ["service_tier", "system_fingerprint", "provider"];

/** Reads one reply, chunk by chunk. */
export class ChatReader {
  readonly #context: WireContext;
  readonly #builder: ReplyBuilder;
  readonly #calls: CallReader;
  #isStarted = false;
  /** The index of the choice that is read; `null` before the first. */
  #choiceIndex: number | null = null;
  #rawFinishReason: string | null = null;
  /** The word of the provider behind a gateway (OpenRouter). */
  #nativeFinishReason: string | null = null;
  #usage: Usage | null = null;
  #responseId: string | null = null;
  #model: string | null = null;
  #hasText = false;
  #hasRefusal = false;
  #hasReasoning = false;
  /** Reasoning came as `thinking` content pieces and has to be sent back as such. */
  #hasThinking = false;
  /** The field in which reasoning text came first. */
  #reasoningField: string | null = null;
  readonly #details = new ReasoningDetails();
  readonly #executedTools = new Map<string, JsonObject>();
  #sources: JsonObject = {};
  #metadata: JsonObject = {};
  readonly #annotations: Json[] = [];
  readonly #images: ImageContent[] = [];
  readonly #logprobs = new Map<string, Json[]>();
  readonly #audioFields = new Map<string, Json>();
  #audioData = "";
  /** Unknown message fields by name, and unknown content pieces by `content.<type>`. */
  readonly #unknownFields = new Map<string, UnknownField>();
  /** The chunk that is being read has unknown fields, so it counts as opaque. */
  #hasUnknownFields = false;

  constructor(context: WireContext) {
    this.#context = context;
    this.#builder = new ReplyBuilder(context);
    this.#calls = new CallReader(this.#builder);
  }

  /** Was a choice read? */
  get hasStarted(): boolean {
    return this.#isStarted;
  }

  /** Was a `finish_reason` read? */
  get hasEnded(): boolean {
    return this.#rawFinishReason !== null;
  }

  get usage(): Usage | null {
    return this.#usage;
  }

  /**
   * Reads a chunk, or a whole body (`isBody`). Perplexity sends `delta` and `message` in both: `delta` is empty in a
   * body, `message` repeats the text in a stream.
   */
  read(chunk: JsonObject, isBody = false): ReadResult {
    const text = this.#isStarted ? this.#plainText(chunk) : null;
    if (text !== null) return { events: this.#appendText(contentBlock, text), eventClass: "understood" };
    const reportedUsage = this.readUsage(chunk);
    const isChunk = chunk["choices"] !== undefined || reportedUsage !== null;
    if (!isChunk) return { events: [], eventClass: "unknown" };
    this.#responseId ??= nonEmptyTextAt(chunk, "id");
    this.#model ??= nonEmptyTextAt(chunk, "model");
    this.#sources = withFields(this.#sources, chunk, sourceFields);
    this.#metadata = withFields(this.#metadata, chunk, metadataFields);
    this.#hasUnknownFields = false;
    const events = objectsAt(chunk, "choices").flatMap((choice) => this.#readChoice(choice, isBody));
    return { events, eventClass: this.#hasUnknownFields ? "opaque" : "understood" };
  }

  /**
   * Fast path: the text of a chunk that holds one text delta and nothing else, as nearly all chunks do. `null`: any
   * other chunk.
   */
  #plainText(chunk: JsonObject): string | null {
    const choices = chunk["choices"];
    if (choices === undefined || !isJsonArray(choices) || choices.length !== 1) return null;
    if ((chunk["usage"] ?? null) !== null || chunk["x_groq"] !== undefined) return null;
    const choice = asObject(choices[0]);
    if (choice === null || (choice["finish_reason"] ?? null) !== null || (choice["logprobs"] ?? null) !== null)
      return null;
    if ((choice["index"] ?? 0) !== this.#choiceIndex || choice["usage"] !== undefined || choice["error"] !== undefined)
      return null;
    const delta = asObject(choice["delta"]);
    const text = delta?.["content"];
    return delta !== null && typeof text === "string" && Object.keys(delta).length === 1 ? text : null;
  }

  /** Reads usage: at the top of the chunk, in `x_groq` (Groq), or in the choice. `null`: the chunk has none. */
  readUsage(chunk: JsonObject): Usage | null {
    const [choice = null] = objectsAt(chunk, "choices");
    const raw = objectAt(chunk, "usage") ?? objectAt(objectAt(chunk, "x_groq"), "usage") ?? objectAt(choice, "usage");
    if (raw === null || Object.keys(raw).length === 0) return null;
    this.#usage = chatUsage(raw);
    return this.#usage;
  }

  /** Ends the reply: completes its blocks and calls, adds opaque parts, and returns the last events. */
  complete(): readonly ModelEvent[] {
    const rawReason = this.#rawFinishReason;
    const reason = rawReason === null ? null : finishReasonOf(rawReason);
    const rejectedCall = rejectedCallOf(this.#nativeFinishReason) ?? rejectedCallOf(rawReason);
    if (rejectedCall !== null || reason === "error") return this.#fail(`${rawReason}`, rejectedCall);
    const textEvents = this.#hasText ? [this.#endText()] : [];
    const refusalEvents = this.#hasRefusal
      ? [
          this.#builder.completeText(refusalBlock, {
            kind: "refusal",
            provider: this.#builder.replayData({ refusal: true }),
          }),
        ]
      : [];
    const blockEvents = [
      ...this.#start(),
      ...this.#endReasoning(),
      ...textEvents,
      ...refusalEvents,
      ...this.#endExecuted(),
    ];
    for (const image of this.#images) this.#builder.part(imagePart(image));
    const callEvents = this.#calls.end();
    for (const [kind, unknownField] of this.#unknownFields) {
      const value = valueOf(unknownField);
      const isContentPiece = kind.startsWith("content.");
      const data = isContentPiece ? { content: value } : { fields: { [kind]: value } };
      this.#builder.part(opaquePart(kind, this.#builder.replayData(data)));
    }
    const logprobs = Object.fromEntries(this.#logprobs);
    const isRefused = this.#hasRefusal && (reason === null || reason === "stop");
    return [
      ...blockEvents,
      ...callEvents,
      ...this.#builder.end({
        finishReason: isRefused ? "content_filter" : reason,
        rawFinishReason: rawReason,
        responseId: this.#responseId,
        model: this.#model,
        usage: this.#usage,
        metadata: this.#logprobs.size === 0 ? this.#metadata : { ...this.#metadata, logprobs },
      }),
    ];
  }

  /** The events of a reply whose `finish_reason` reports an error (invariant 7). */
  #fail(rawReason: string, rejectedCall: string | null): readonly ModelEvent[] {
    const { provider } = this.#context.route;
    const ending = `${provider}: the reply ended with the finish_reason "${rawReason}"`;
    const error =
      rejectedCall === null
        ? adapterFailure("provider_unavailable", { provider, code: rawReason, message: ending })
        : adapterFailure("malformed_response", {
            provider,
            code: rejectedCall,
            message: `${ending}: the model wrote a call that the provider rejected (${rejectedCall})`,
            retryable: true,
          });
    const reportedUsage: readonly ModelEvent[] = this.#usage === null ? [] : [{ type: "usage", usage: this.#usage }];
    return [...reportedUsage, { type: "error", error }];
  }

  #start(): readonly ModelEvent[] {
    if (this.#isStarted) return [];
    this.#isStarted = true;
    return [this.#builder.messageStarted()];
  }

  #readChoice(choice: JsonObject, isBody: boolean): readonly ModelEvent[] {
    const index = numberAt(choice, "index") ?? 0;
    this.#choiceIndex ??= index;
    if (index !== this.#choiceIndex) return [];
    const whole = objectAt(choice, "message");
    const delta = isBody && whole !== null ? null : objectAt(choice, "delta");
    const message = delta ?? whole;
    this.#rawFinishReason ??= nonEmptyTextAt(choice, "finish_reason");
    this.#nativeFinishReason ??= nonEmptyTextAt(choice, "native_finish_reason");
    this.#readLogprobs(objectAt(choice, "logprobs"));
    return [...this.#start(), ...(message === null ? [] : this.#readMessage(message, delta === null))];
  }

  /** Reads a delta, or a whole message. `function_call` is the API's deprecated form of a single call. */
  #readMessage(message: JsonObject, isWhole: boolean): readonly ModelEvent[] {
    const legacyCall = nonBlankObjectAt(message, "function_call");
    const events = [
      ...this.#readReasoning(message, isWhole),
      ...objectsAt(message, "executed_tools").flatMap((entry) => this.#readExecuted(entry)),
      ...this.#readContent(message["content"] ?? null),
      ...this.#appendText(refusalBlock, textAt(message, "refusal") ?? ""),
      ...this.#readAudio(objectAt(message, "audio")),
      ...objectsAt(message, "tool_calls").flatMap((entry) => this.#calls.readEntry(entry, isWhole)),
      ...(legacyCall === null ? [] : this.#calls.readEntry({ index: 0, function: legacyCall }, isWhole)),
    ];
    for (const entry of objectsAt(message, "images")) this.#readImage(entry);
    for (const annotation of listAt(message, "annotations")) this.#annotations.push(annotation);
    for (const [key, value] of Object.entries(message)) if (!messageFields.has(key)) this.#keepUnknown(key, value);
    return events;
  }

  /** Reads `content`: a string, or a list of pieces. Pieces of unknown types are kept. */
  #readContent(value: Json): readonly ModelEvent[] {
    if (typeof value === "string") return this.#appendText(contentBlock, value);
    if (!isJsonArray(value)) return [];
    return value.flatMap((item): readonly ModelEvent[] => {
      const piece = asObject(item);
      switch (textAt(piece, "type")) {
        case "text":
          return this.#appendText(contentBlock, textAt(piece, "text") ?? "");
        case "refusal":
          return this.#appendText(refusalBlock, textAt(piece, "refusal") ?? "");
        case "thinking": {
          this.#hasThinking = true;
          const thinkingTexts = objectsAt(piece, "thinking").map((thought) => textAt(thought, "text") ?? "");
          return this.#appendReasoning(thinkingTexts.join(""));
        }
        default:
          if (piece !== null) this.#keepUnknown(`content.${textAt(piece, "type") ?? ""}`, [piece]);
          return [];
      }
    });
  }

  /** Appends to the text or the refusal of the reply. */
  #appendText(block: "content" | "refusal", delta: string): readonly ModelEvent[] {
    if (delta === "") return [];
    if (block === refusalBlock) this.#hasRefusal = true;
    else this.#hasText = true;
    return [this.#builder.text(block, delta, block === refusalBlock ? "refusal" : "text")];
  }

  #appendReasoning(delta: string): readonly ModelEvent[] {
    if (delta === "") return [];
    this.#hasReasoning = true;
    return [this.#builder.reasoning(reasoningBlock, delta)];
  }

  /**
   * Reads reasoning text. A delta may have both fields, one of them empty, and `reasoning_details` that repeat the
   * text: the text field wins, and the details are shown only if it is empty.
   */
  #readReasoning(message: JsonObject, isWhole: boolean): readonly ModelEvent[] {
    const preferredField = this.#context.quirks.reasoningField ?? "reasoning_content";
    const fields = [preferredField, preferredField === "reasoning" ? "reasoning_content" : "reasoning"];
    const field =
      fields.find((name) => (textAt(message, name) ?? "") !== "") ??
      fields.find((name) => textAt(message, name) !== null);
    if (field !== undefined) this.#reasoningField ??= field;
    const details = objectsAt(message, "reasoning_details");
    for (const detail of details) this.#details.add(detail, isWhole);
    const text = field === undefined ? "" : (textAt(message, field) ?? "");
    return this.#appendReasoning(text === "" ? details.map(detailText).join("") : text);
  }

  /** Completes the reasoning with its replay data (invariant 4). */
  #endReasoning(): readonly ModelEvent[] {
    // A server that sends the reasoning field requires it with calls, also when it was empty.
    const details = this.#details.list;
    const mustReturn =
      this.#hasReasoning || details.length > 0 || (this.#reasoningField !== null && !this.#calls.isEmpty);
    if (!mustReturn) return [];
    const data = omitNullish({
      field: this.#reasoningField,
      details: details.length === 0 ? null : details,
      thinking: this.#hasThinking ? true : null,
    });
    const isHidden = !this.#hasReasoning && details.length > 0;
    return [
      this.#builder.completeReasoning(reasoningBlock, {
        redacted: isHidden,
        provider: Object.keys(data).length === 0 ? null : this.#builder.replayData(data),
      }),
    ];
  }

  /**
   * Reads an entry of `executed_tools`, a tool that the server ran (Groq). An entry arrives twice: when the tool is
   * called, and with its output.
   */
  #readExecuted(entry: JsonObject): readonly ModelEvent[] {
    const id = `executed_tool_${countAt(entry, "index") ?? 0}`;
    const previous = this.#executedTools.get(id);
    const mergedEntry = { ...previous, ...omitNullish(entry) };
    this.#executedTools.set(id, mergedEntry);
    const name = textAt(mergedEntry, "name") ?? textAt(mergedEntry, "type") ?? "";
    const startEvents = previous === undefined ? [this.#builder.startCall(id, name, { providerExecuted: true })] : [];
    // The entry of a call may hold empty results (Groq: `search_results: { results: [] }`). Only the output says that
    // the tool has run.
    if (!this.#builder.isCallOpen(id) || (mergedEntry["output"] ?? null) === null) return startEvents;
    return [...startEvents, ...this.#completeExecuted(id, mergedEntry)];
  }

  /** Completes the call of an executed tool, with its result if it has any. */
  #completeExecuted(id: string, entry: JsonObject): readonly ModelEvent[] {
    const { index: _, type: __, name: ___, arguments: raw, output, ...otherFields } = entry;
    const endEvent = this.#builder.completeCall(id, { raw: typeof raw === "string" ? raw : "" });
    const hasOtherFields = Object.keys(otherFields).length > 0;
    const result = hasOtherFields ? omitNullish({ output, ...otherFields }) : (output ?? null);
    if (result !== null) this.#builder.part(toolResultPart(id, result));
    return endEvent === null ? [] : [endEvent];
  }

  /** Completes calls of executed tools whose output never arrived. */
  #endExecuted(): readonly ModelEvent[] {
    return [...this.#executedTools].flatMap(([id, mergedEntry]) =>
      this.#builder.isCallOpen(id) ? this.#completeExecuted(id, mergedEntry) : [],
    );
  }

  /**
   * Reads audio output: the transcript becomes the text of the reply; `audio.id` is the replay data that refers to the
   * audio.
   */
  #readAudio(audio: JsonObject | null): readonly ModelEvent[] {
    if (audio === null || isBlank(audio)) return [];
    this.#audioData += textAt(audio, "data") ?? "";
    for (const [key, value] of Object.entries(audio)) {
      if (key !== "transcript" && key !== "data" && value !== null) this.#audioFields.set(key, value);
    }
    // Audio without a transcript is a text without characters: its metadata holds the audio.
    this.#hasText = true;
    return this.#appendText(contentBlock, textAt(audio, "transcript") ?? "");
  }

  /** Reads a generated image (OpenRouter): a data URL, or the address of the image. */
  #readImage(entry: JsonObject): void {
    const url = textAt(objectAt(entry, "image_url"), "url");
    if (url === null || url === "") return this.#keepUnknown("images", [entry]);
    const [, mimeType, data] = /^data:([^;,]+);base64,(.*)$/s.exec(url) ?? [];
    this.#images.push(
      mimeType === undefined || data === undefined ? imageFromUrl(url) : imageFromBase64(data, mimeType),
    );
  }

  /** Completes the text with its sources, annotations and audio as metadata. */
  #endText(): ModelEvent {
    const audio = omitNullish({
      ...Object.fromEntries(this.#audioFields),
      data: this.#audioData === "" ? null : this.#audioData,
    });
    const id = nonEmptyTextAt(audio, "id");
    const annotations = this.#annotations.length === 0 ? null : this.#annotations;
    return this.#builder.completeText(contentBlock, {
      metadata: omitNullish({ ...this.#sources, annotations, audio: isEmpty(audio) ? null : audio }),
      provider: id === null ? null : this.#builder.replayData({ audio: { id } }),
    });
  }

  #readLogprobs(logprobs: JsonObject | null): void {
    for (const key of [contentBlock, refusalBlock]) {
      const added = listAt(logprobs, key);
      if (added.length === 0) continue;
      const all = this.#logprobs.get(key) ?? [];
      for (const item of added) all.push(item);
      this.#logprobs.set(key, all);
    }
  }

  /**
   * Collects an unknown field. Empty values are ignored: servers send unused fields as `null` or empty in every chunk.
   */
  #keepUnknown(kind: string, value: Json): void {
    if (isEmpty(value)) return;
    this.#hasUnknownFields = true;
    this.#unknownFields.set(kind, appendToField(this.#unknownFields.get(kind), value));
  }
}

/**
 * Collects `reasoning_details`. Pieces of `reasoning.text` and `reasoning.summary` with one index are joined; other
 * pieces are kept as they are.
 */
class ReasoningDetails {
  readonly #list: JsonObject[] = [];
  /** The position in the list of the newest text for a type and an index. */
  readonly #indexes = new Map<string, number>();

  get list(): readonly JsonObject[] {
    return this.#list;
  }

  add(piece: JsonObject, isWhole: boolean): void {
    const type = textAt(piece, "type");
    const isText = type === "reasoning.text" || type === "reasoning.summary";
    const groupKey = `${type} ${numberAt(piece, "index")}`;
    const position = this.#indexes.get(groupKey) ?? -1;
    const previous = this.#list[position];
    if (isWhole || !isText || previous === undefined) {
      if (isText) this.#indexes.set(groupKey, this.#list.length);
      this.#list.push(piece);
      return;
    }
    const mergedTexts = ["text", "summary"].map((key): [string, Json] => [
      key,
      textAt(previous, key) === null && textAt(piece, key) === null
        ? null
        : (textAt(previous, key) ?? "") + (textAt(piece, key) ?? ""),
    ]);
    this.#list[position] = { ...previous, ...omitNullish(piece), ...omitNullish(Object.fromEntries(mergedTexts)) };
  }
}

function detailText(detail: JsonObject): string {
  return textAt(detail, "text") ?? textAt(detail, "summary") ?? "";
}

/** The string under a key; `null` if it is absent or empty. */
function nonEmptyTextAt(object: JsonObject, key: string): string | null {
  const text = textAt(object, key);
  return text === "" ? null : text;
}

/**
 * Are all values of the object empty or 0? Some servers send every field of the API, unused ones with such values
 * (Snowflake).
 */
function isBlank(object: JsonObject): boolean {
  return Object.values(object).every((value) => value === 0 || isEmpty(value));
}

/** The object under a key; `null` if it is absent or blank. */
function nonBlankObjectAt(object: JsonObject, key: string): JsonObject | null {
  const value = objectAt(object, key);
  return value === null || isBlank(value) ? null : value;
}

/** The fields, and those of these names that the object has with a value. */
function withFields(fields: JsonObject, object: JsonObject, keys: readonly string[]): JsonObject {
  const present = keys.filter((key) => (object[key] ?? null) !== null);
  return present.length === 0 ? fields : { ...fields, ...pickFields(object, present) };
}

function isEmpty(value: Json): boolean {
  if (value === null || value === "") return true;
  return typeof value === "object" && Object.keys(value).length === 0;
}

/** An unknown field while its pieces arrive. */
type UnknownField =
  | { readonly type: "list"; readonly items: Json[] }
  | { readonly type: "object"; readonly fields: Map<string, Json> }
  | { readonly type: "value"; readonly value: Json };

/** Adds a piece to an unknown field: strings and lists are appended, objects merged, other values replaced. */
function appendToField(previous: UnknownField | undefined, added: Json): UnknownField {
  if (isJsonArray(added)) {
    const field: UnknownField = previous?.type === "list" ? previous : { type: "list", items: [] };
    for (const item of added) field.items.push(item);
    return field;
  }
  const object = asObject(added);
  if (object !== null) {
    const field: UnknownField = previous?.type === "object" ? previous : { type: "object", fields: new Map() };
    for (const [key, value] of Object.entries(object)) field.fields.set(key, value);
    return field;
  }
  const continuesString = previous?.type === "value" && typeof previous.value === "string" && typeof added === "string";
  return { type: "value", value: continuesString ? `${previous.value}${added}` : added };
}

function valueOf(field: UnknownField): Json {
  switch (field.type) {
    case "list":
      return field.items;
    case "object":
      return Object.fromEntries(field.fields);
    case "value":
      return field.value;
  }
}
