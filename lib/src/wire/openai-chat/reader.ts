// One reply of a Chat Completions server, as it is read. A whole body is read as one chunk that says everything, so that both ways come to the
// same message (W3).
//
// Rules:
//   1. A reply is one text, one reasoning and a list of calls, as in a whole body, however the stream mixes them.
//   2. One choice is read, the first that is heard of.
//   3. Fields of a message nobody here knows are kept as opaque parts: programs answer with the message as they got it, so servers take them back.
//   4. Reasoning carries where it stood (`field`), and the structured form some servers send (`details`), which has to go back as it was.
//   5. What arrives in pieces is collected in lists that grow, and put together once, at the end: a piece costs the same however many came before.
//   6. An ending that is an error (`error`, `insufficient_system_resource`) is one, not a message.

import type { Json, JsonObject, ModelEvent, Usage } from "../../model/internal.ts";
import type { Decoder, WireContext } from "../codec.ts";

import { adapterFailure, isJsonArray, opaquePart, toolResultPart } from "../../model/internal.ts";
import { asObject, countAt, listAt, numberAt, objectAt, objectsAt, said, textAt } from "../fields.ts";
import { ReplyBuilder } from "../reply-builder.ts";
import { CallReader } from "./calls.ts";
import { finishOf, usageOf } from "./words.ts";

/** What a chunk came to, and what it counts as. */
type Read = { readonly events: readonly ModelEvent[]; readonly heard: keyof Decoder["heard"] };

/** Ids of the only blocks a reply has. */
const content = "content";
const reasoning = "reasoning";
const refusal = "refusal";

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
]);
/** What a body or chunk says of its text, and of itself. */
const sourceFields = ["citations", "search_results"];
const factFields = ["service_tier", "system_fingerprint", "provider"];

/** One reply, as it is read. */
export class ChatReader {
  readonly #context: WireContext;
  readonly #builder: ReplyBuilder;
  readonly #calls: CallReader;
  #isStarted = false;
  #choice: number | null = null;
  #finish: string | null = null;
  #usage: Usage | null = null;
  #id: string | null = null;
  #model: string | null = null;
  #hasText = false;
  #hasRefusal = false;
  #hasReasoning = false;
  #hasThinking = false;
  #field: string | null = null;
  readonly #details = new Details();
  readonly #executed = new Map<string, JsonObject>();
  #sources: JsonObject = {};
  #facts: JsonObject = {};
  readonly #annotations: Json[] = [];
  readonly #logprobs = new Map<string, Json[]>();
  readonly #audio = new Map<string, Json>();
  #speech = "";
  /** Fields and pieces of content without a meaning here, by the word for them. */
  readonly #kept = new Map<string, Kept>();
  #keepsSome = false;

  constructor(context: WireContext) {
    this.#context = context;
    this.#builder = new ReplyBuilder(context);
    this.#calls = new CallReader(this.#builder);
  }

  /** Has the protocol's own end been heard? */
  get hasEnded(): boolean {
    return this.#finish !== null;
  }

  get usage(): Usage | null {
    return this.#usage;
  }

  /** A chunk, or a body. */
  read(chunk: JsonObject): Read {
    const text = this.#isStarted ? this.#plainText(chunk) : null;
    if (text !== null) return { events: this.#say(content, text), heard: "understood" };
    const spent = this.readUsage(chunk);
    const isChunk = chunk["choices"] !== undefined || spent !== null;
    if (!isChunk) return { events: [], heard: "unknown" };
    this.#id ??= wordAt(chunk, "id");
    this.#model ??= wordAt(chunk, "model");
    this.#sources = { ...this.#sources, ...picked(chunk, sourceFields) };
    this.#facts = { ...this.#facts, ...picked(chunk, factFields) };
    this.#keepsSome = false;
    const events = objectsAt(chunk, "choices").flatMap((choice) => this.#readChoice(choice));
    return { events, heard: this.#keepsSome ? "opaque" : "understood" };
  }

  /** Nearly every chunk is one more piece of text and nothing else: it is read without looking for what else it might be. */
  #plainText(chunk: JsonObject): string | null {
    const choices = chunk["choices"];
    if (choices === undefined || !isJsonArray(choices) || choices.length !== 1) return null;
    if ((chunk["usage"] ?? null) !== null || chunk["x_groq"] !== undefined) return null;
    const choice = asObject(choices[0]);
    if (choice === null || (choice["finish_reason"] ?? null) !== null || (choice["logprobs"] ?? null) !== null)
      return null;
    if ((choice["index"] ?? 0) !== this.#choice || choice["usage"] !== undefined || choice["error"] !== undefined)
      return null;
    const delta = asObject(choice["delta"]);
    const text = delta?.["content"];
    return delta !== null && typeof text === "string" && Object.keys(delta).length === 1 ? text : null;
  }

  /** What the chunk says of costs: in the place of the API, or where a server keeps it. */
  readUsage(chunk: JsonObject): Usage | null {
    const [choice = null] = objectsAt(chunk, "choices");
    const raw = objectAt(chunk, "usage") ?? objectAt(objectAt(chunk, "x_groq"), "usage") ?? objectAt(choice, "usage");
    if (raw === null || Object.keys(raw).length === 0) return null;
    this.#usage = usageOf(raw);
    return this.#usage;
  }

  /** The end of the reply. */
  complete(): readonly ModelEvent[] {
    const word = this.#finish;
    const reason = word === null ? null : finishOf(word);
    if (reason === "error") return this.#failed(`${word}`);
    const text = this.#hasText ? [this.#endText()] : [];
    const refused = this.#hasRefusal
      ? [this.#builder.textEnd(refusal, { kind: "refusal", provider: this.#builder.replay({ refusal: true }) })]
      : [];
    const blocks = [...this.#start(), ...this.#endReasoning(), ...text, ...refused, ...this.#endExecuted()];
    const calls = this.#calls.end();
    for (const [kind, kept] of this.#kept) {
      const value = valueOf(kept);
      const isPiece = kind.startsWith("content.");
      const data = isPiece ? { content: value } : { fields: { [kind]: value } };
      this.#builder.part(opaquePart(kind, this.#builder.replay(data)));
    }
    const logprobs = Object.fromEntries(this.#logprobs);
    const isRefused = this.#hasRefusal && (reason === null || reason === "stop");
    return [
      ...blocks,
      ...calls,
      ...this.#builder.end({
        finishReason: isRefused ? "content_filter" : reason,
        rawFinishReason: word,
        responseId: this.#id,
        model: this.#model,
        usage: this.#usage,
        metadata: this.#logprobs.size === 0 ? this.#facts : { ...this.#facts, logprobs },
      }),
    ];
  }

  #failed(word: string): readonly ModelEvent[] {
    const { provider } = this.#context.route;
    const message = `${provider}: the reply ended with "${word}"`;
    const error = adapterFailure("provider_unavailable", { provider, code: word, message });
    const spent: readonly ModelEvent[] = this.#usage === null ? [] : [{ type: "usage", usage: this.#usage }];
    return [...spent, { type: "error", error }];
  }

  #start(): readonly ModelEvent[] {
    if (this.#isStarted) return [];
    this.#isStarted = true;
    return [this.#builder.started()];
  }

  #readChoice(choice: JsonObject): readonly ModelEvent[] {
    const index = numberAt(choice, "index") ?? 0;
    this.#choice ??= index;
    if (index !== this.#choice) return [];
    const delta = objectAt(choice, "delta");
    const message = delta ?? objectAt(choice, "message");
    this.#finish ??= wordAt(choice, "finish_reason");
    this.#readLogprobs(objectAt(choice, "logprobs"));
    return [...this.#start(), ...(message === null ? [] : this.#readMessage(message, delta === null))];
  }

  /** A delta, or the whole message. */
  #readMessage(message: JsonObject, isWhole: boolean): readonly ModelEvent[] {
    const called = objectAt(message, "function_call");
    const events = [
      ...this.#readReasoning(message, isWhole),
      ...objectsAt(message, "executed_tools").flatMap((entry) => this.#readExecuted(entry)),
      ...this.#readContent(message["content"] ?? null),
      ...this.#say(refusal, textAt(message, "refusal") ?? ""),
      ...this.#readAudio(objectAt(message, "audio")),
      ...objectsAt(message, "tool_calls").flatMap((entry) => this.#calls.hear(entry, isWhole)),
      ...(called === null ? [] : this.#calls.hear({ index: 0, function: called }, isWhole)),
    ];
    for (const annotation of listAt(message, "annotations")) this.#annotations.push(annotation);
    for (const [key, value] of Object.entries(message)) if (!messageFields.has(key)) this.#keep(key, value);
    return events;
  }

  #readContent(value: Json): readonly ModelEvent[] {
    if (typeof value === "string") return this.#say(content, value);
    if (!isJsonArray(value)) return [];
    return value.flatMap((one): readonly ModelEvent[] => {
      const piece = asObject(one);
      switch (textAt(piece, "type")) {
        case "text":
          return this.#say(content, textAt(piece, "text") ?? "");
        case "refusal":
          return this.#say(refusal, textAt(piece, "refusal") ?? "");
        case "thinking": {
          this.#hasThinking = true;
          const thoughts = objectsAt(piece, "thinking").map((thought) => textAt(thought, "text") ?? "");
          return this.#think(thoughts.join(""));
        }
        default:
          if (piece !== null) this.#keep(`content.${textAt(piece, "type") ?? ""}`, [piece]);
          return [];
      }
    });
  }

  #say(block: "content" | "refusal", delta: string): readonly ModelEvent[] {
    if (delta === "") return [];
    if (block === refusal) this.#hasRefusal = true;
    else this.#hasText = true;
    return [this.#builder.text(block, delta, block === refusal ? "refusal" : "text")];
  }

  #think(delta: string): readonly ModelEvent[] {
    if (delta === "") return [];
    this.#hasReasoning = true;
    return [this.#builder.reasoning(reasoning, delta)];
  }

  #readReasoning(message: JsonObject, isWhole: boolean): readonly ModelEvent[] {
    const first = this.#context.quirks.reasoningField ?? "reasoning_content";
    const fields = [first, first === "reasoning" ? "reasoning_content" : "reasoning"];
    const field =
      fields.find((name) => (textAt(message, name) ?? "") !== "") ??
      fields.find((name) => textAt(message, name) !== null);
    if (field !== undefined) this.#field ??= field;
    const details = objectsAt(message, "reasoning_details");
    for (const detail of details) this.#details.add(detail, isWhole);
    const text = field === undefined ? "" : (textAt(message, field) ?? "");
    return this.#think(text === "" ? details.map(detailText).join("") : text);
  }

  #endReasoning(): readonly ModelEvent[] {
    // A server that has the field wants it back with calls even where it was empty.
    const details = this.#details.list;
    const isWanted = this.#hasReasoning || details.length > 0 || (this.#field !== null && !this.#calls.isEmpty);
    if (!isWanted) return [];
    const data = said({
      field: this.#field,
      details: details.length === 0 ? null : details,
      thinking: this.#hasThinking ? true : null,
    });
    const isHidden = !this.#hasReasoning && details.length > 0;
    return [
      this.#builder.reasoningEnd(reasoning, {
        redacted: isHidden,
        provider: Object.keys(data).length === 0 ? null : this.#builder.replay(data),
      }),
    ];
  }

  /** A tool the server ran by itself. It is told of twice: when it is called, and again with its output. */
  #readExecuted(entry: JsonObject): readonly ModelEvent[] {
    const id = `executed_tool_${countAt(entry, "index") ?? 0}`;
    const before = this.#executed.get(id);
    const whole = { ...before, ...said(entry) };
    this.#executed.set(id, whole);
    const name = textAt(whole, "name") ?? textAt(whole, "type") ?? "";
    const started = before === undefined ? [this.#builder.callStart(id, name, { providerExecuted: true })] : [];
    const { index: _, type: __, name: ___, arguments: raw, output, ...rest } = whole;
    if (!this.#builder.isOpen(id) || (output === undefined && Object.keys(rest).length === 0)) return started;
    const ended = this.#builder.callEnd(id, { raw: typeof raw === "string" ? raw : "" });
    const result = Object.keys(rest).length === 0 ? (output ?? null) : said({ output, ...rest });
    this.#builder.part(toolResultPart(id, result));
    return ended === null ? started : [...started, ended];
  }

  #endExecuted(): readonly ModelEvent[] {
    return [...this.#executed].flatMap(([id, whole]) => {
      if (!this.#builder.isOpen(id)) return [];
      const ended = this.#builder.callEnd(id, { raw: textAt(whole, "arguments") ?? "" });
      return ended === null ? [] : [ended];
    });
  }

  /** Speech: its transcript is the text of the reply, its id stands for it on the way back. */
  #readAudio(audio: JsonObject | null): readonly ModelEvent[] {
    if (audio === null) return [];
    this.#speech += textAt(audio, "data") ?? "";
    for (const [key, value] of Object.entries(audio)) {
      if (key !== "transcript" && key !== "data" && value !== null) this.#audio.set(key, value);
    }
    return this.#say(content, textAt(audio, "transcript") ?? "");
  }

  #endText(): ModelEvent {
    const audio = said({ ...Object.fromEntries(this.#audio), data: this.#speech === "" ? null : this.#speech });
    const id = textAt(audio, "id");
    const annotations = this.#annotations.length === 0 ? null : this.#annotations;
    return this.#builder.textEnd(content, {
      metadata: said({ ...this.#sources, annotations, audio: isNothing(audio) ? null : audio }),
      provider: id === null ? null : this.#builder.replay({ audio: { id } }),
    });
  }

  #readLogprobs(logprobs: JsonObject | null): void {
    for (const key of [content, refusal]) {
      const more = listAt(logprobs, key);
      if (more.length === 0) continue;
      const all = this.#logprobs.get(key) ?? [];
      for (const one of more) all.push(one);
      this.#logprobs.set(key, all);
    }
  }

  #keep(kind: string, value: Json): void {
    if (isNothing(value)) return;
    this.#keepsSome = true;
    this.#kept.set(kind, joined(this.#kept.get(kind), value));
  }
}

/** Structured reasoning in pieces: text goes on under its index, everything else stands by itself. */
class Details {
  readonly #list: JsonObject[] = [];
  /** Where the newest text of a type and an index stands. */
  readonly #places = new Map<string, number>();

  get list(): readonly JsonObject[] {
    return this.#list;
  }

  add(piece: JsonObject, isWhole: boolean): void {
    const type = textAt(piece, "type");
    const isText = type === "reasoning.text" || type === "reasoning.summary";
    const name = `${type} ${numberAt(piece, "index")}`;
    const at = this.#places.get(name) ?? -1;
    const before = this.#list[at];
    if (isWhole || !isText || before === undefined) {
      if (isText) this.#places.set(name, this.#list.length);
      this.#list.push(piece);
      return;
    }
    const grown = ["text", "summary"].map((key): [string, Json] => [
      key,
      textAt(before, key) === null && textAt(piece, key) === null
        ? null
        : (textAt(before, key) ?? "") + (textAt(piece, key) ?? ""),
    ]);
    this.#list[at] = { ...before, ...said(piece), ...said(Object.fromEntries(grown)) };
  }
}

function detailText(detail: JsonObject): string {
  return textAt(detail, "text") ?? textAt(detail, "summary") ?? "";
}

/** A text that says something. */
function wordAt(object: JsonObject, key: string): string | null {
  const text = textAt(object, key);
  return text === "" ? null : text;
}

function picked(object: JsonObject, keys: readonly string[]): JsonObject {
  return said(Object.fromEntries(keys.map((key) => [key, object[key]])));
}

function isNothing(value: Json): boolean {
  if (value === null || value === "") return true;
  return typeof value === "object" && Object.keys(value).length === 0;
}

/** A field nobody here knows, as it grows. */
type Kept =
  | { readonly type: "list"; readonly items: Json[] }
  | { readonly type: "object"; readonly fields: Map<string, Json> }
  | { readonly type: "value"; readonly value: Json };

/** A field that arrives in pieces: texts and lists go on, objects are filled up, the last word counts for the rest. */
function joined(before: Kept | undefined, more: Json): Kept {
  if (isJsonArray(more)) {
    const kept: Kept = before?.type === "list" ? before : { type: "list", items: [] };
    for (const one of more) kept.items.push(one);
    return kept;
  }
  const object = asObject(more);
  if (object !== null) {
    const kept: Kept = before?.type === "object" ? before : { type: "object", fields: new Map() };
    for (const [key, value] of Object.entries(object)) kept.fields.set(key, value);
    return kept;
  }
  const goesOn = before?.type === "value" && typeof before.value === "string" && typeof more === "string";
  return { type: "value", value: goesOn ? `${before.value}${more}` : more };
}

function valueOf(kept: Kept): Json {
  switch (kept.type) {
    case "list":
      return kept.items;
    case "object":
      return Object.fromEntries(kept.fields);
    case "value":
      return kept.value;
  }
}
