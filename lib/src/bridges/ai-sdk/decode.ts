// Decodes the stream of an AI SDK model into model events. One decoder a stream.
//
// Theory of operation
//   Each part goes through `push`, which returns the events for it. `ReplyBuilder` builds the message, as for the
//   codecs of `wire/`.
//
//   A block of text or reasoning is opened by its start or its first delta and closed by its end. Metadata can arrive
//   with any of the three: signatures of Anthropic come with an empty delta, item ids of OpenAI with the start,
//   encrypted reasoning with the end. All of it is merged, and the sum is the replay data of the block. Some packages
//   use an id again for a later block, so blocks get ids of their own.
//
//   A call may come as one `tool-call`, or with `tool-input-…` parts before it. A call closes the open blocks: the
//   package of Google ends its blocks only at the end of the reply. The late end of such a block can still bring
//   metadata, which completes the block again.
//
// Failure cases
//   an `error` part              one error event; later parts are ignored
//   the stream ends without `finish`, or `finish` has no reason of the provider (`other`, `unknown`, `interrupted`)
//                                the error event `interrupted`: packages of providers write such a `finish` when the
//                                connection ends early
//   a `tool-approval-request`    the error event `unsupported_feature`: the provider waits for an answer that the
//                                conversation has no place for
//
// Invariants
//   1. Exactly one terminal event (E1).
//   2. Reasoning, calls and results of the provider always have replay data, so that they are recognised as made on
//      this route. Text has it only if the model sent metadata.
//   3. Only JSON is stored: bytes become base64, and metadata that cannot be stored is dropped.

import type {
  Failure,
  FinishReason,
  Json,
  JsonObject,
  ModelEvent,
  ProviderRoute,
  TextPhase,
  Usage,
  Warning,
} from "../../core/model/internal.ts";

import {
  adapterFailure,
  filePart,
  imagePart,
  opaquePart,
  streamFailure,
  toolResultPart,
  usage,
} from "../../core/model/internal.ts";
import { mergeFields, noQuirks, objectAt, rawChunk, ReplyBuilder, textAt } from "../../core/wire/internal.ts";
import { countOf, fieldOf, jsonOf, listOf, objectOf, sourceOf, textField } from "./fields.ts";

/** An open block of text or reasoning. `id` is the block's id in events. */
type OpenBlock = { readonly id: string; text: string; metadata: JsonObject };
type BlockKind = "text" | "reasoning";

/** What a decoder knows about the call. */
type DecodedCall = {
  readonly route: ProviderRoute;
  /** The names of the call options that are set. */
  readonly settings: ReadonlySet<string>;
  /** The type of the provider's response, if it is known. */
  readonly contentType: string | null;
  /** Classifies the error of an `error` part. */
  readonly failureOf: (error: unknown) => Failure;
};

/** Decodes one stream. */
export class ReplyDecoder {
  readonly #route: ProviderRoute;
  readonly #builder: ReplyBuilder;
  readonly #failureOf: (error: unknown) => Failure;
  readonly #contentType: string | null;
  readonly #settings: ReadonlySet<string>;
  readonly #openBlocks: { readonly [Kind in BlockKind]: Map<string, OpenBlock> } = {
    text: new Map(),
    reasoning: new Map(),
  };
  /** Blocks that a call closed and whose end has not arrived, by kind and id. */
  readonly #closedEarly = new Map<string, OpenBlock>();
  /** How many blocks had an id, by kind and id. */
  readonly #idUses = new Map<string, number>();
  /** Metadata of calls, by call id. */
  readonly #callMetadata = new Map<string, JsonObject>();
  readonly #sources: Json[] = [];
  #responseId: string | null = null;
  #model: string | null = null;
  #hasContent = false;
  #hasEnded = false;

  constructor({ route, settings, contentType, failureOf }: DecodedCall) {
    this.#route = route;
    this.#settings = settings;
    this.#contentType = contentType;
    this.#builder = new ReplyBuilder({ route, rawChunks: false, quirks: noQuirks });
    this.#failureOf = failureOf;
  }

  /** Has the terminal event been returned? */
  get hasEnded(): boolean {
    return this.#hasEnded;
  }

  /** The events of one part. Parts of unknown types have none. */
  push(part: unknown): readonly ModelEvent[] {
    if (this.#hasEnded) return [];
    const type = textField(part, "type");
    switch (type) {
      case "stream-start":
        return listOf(part, "warnings")
          .filter((warning) => this.#isAboutCaller(warning))
          .map((warning) => ({ type: "warning", warning: warningOf(warning) }));
      case "response-metadata":
        this.#responseId = textField(part, "id") ?? this.#responseId;
        this.#model = textField(part, "modelId") ?? this.#model;
        return [];
      case "text-start":
      case "text-delta":
        return this.#extendBlock("text", part);
      case "text-end":
        return this.#closeBlock("text", part);
      case "reasoning-start":
      case "reasoning-delta":
        return this.#extendBlock("reasoning", part);
      case "reasoning-end":
        return this.#closeBlock("reasoning", part);
      case "tool-input-start":
        return this.#startCall(part, textField(part, "id") ?? "");
      case "tool-input-delta":
        return this.#appendArguments(part);
      case "tool-call":
        return this.#completeCall(part);
      case "tool-result":
        return this.#addResult(part);
      case "file":
        return this.#addFile(part);
      case "reasoning-file":
      case "custom":
        return this.#addOpaque(part);
      case "source":
        this.#sources.push(jsonOf(part));
        return [];
      case "raw":
        return [rawChunk(jsonOf(fieldOf(part, "rawValue")))];
      case "tool-approval-request":
        return this.#fail(
          adapterFailure("unsupported_feature", {
            provider: this.#route.provider,
            message: `${this.#route.provider}: the provider asks for an approval of a tool that it runs itself, which an AI SDK model cannot get here; configure the tool without approval`,
          }),
        );
      case "finish":
        return this.#finish(part);
      case "error":
        return this.#fail(this.#failureOf(fieldOf(part, "error")));
      default:
        return [];
    }
  }

  /** The events at the end of the stream: the error `interrupted` if no part has ended the reply. */
  end(): readonly ModelEvent[] {
    return this.#hasEnded ? [] : this.#fail(this.interrupted());
  }

  /**
   * The failure of a reply without an end. A response of another type than a stream, such as a page of a proxy, was no
   * reply at all.
   */
  interrupted(cause: unknown = null): Failure {
    const { provider } = this.#route;
    if (!this.#hasContent && this.#contentType !== null && !/stream|ndjson|jsonl/.test(this.#contentType)) {
      const message = `${provider}: the server answered with ${this.#contentType} instead of a stream`;
      return adapterFailure("malformed_response", { provider, message, cause });
    }
    const message = `${provider}: the connection ended before the reply`;
    return streamFailure("interrupted", { provider, message, cause });
  }

  /**
   * Packages also warn about their own defaults, such as the output limit of a model that they do not know. Such a
   * warning is about nothing that the caller wrote.
   */
  #isAboutCaller(warning: unknown): boolean {
    const setting = textField(warning, "feature") ?? textField(warning, "setting");
    return setting === null || !callSettings.has(setting) || this.#settings.has(setting);
  }

  #fail(error: Failure): readonly ModelEvent[] {
    this.#hasEnded = true;
    return [{ type: "error", error }];
  }

  // Text and reasoning

  #extendBlock(kind: BlockKind, part: unknown): readonly ModelEvent[] {
    const block = this.#openBlock(kind, part);
    this.#hasContent = true;
    const delta = textField(part, "delta") ?? "";
    if (delta === "") return [];
    block.text += delta;
    return [this.#builder[kind](block.id, delta)];
  }

  #openBlock(kind: BlockKind, part: unknown): OpenBlock {
    const id = textField(part, "id") ?? "";
    const existing = this.#openBlocks[kind].get(id);
    const block = existing ?? { id: this.#uniqueId(kind, id), text: "", metadata: {} };
    if (existing === undefined) this.#openBlocks[kind].set(id, block);
    block.metadata = mergedMetadata(block.metadata, part);
    return block;
  }

  #uniqueId(kind: BlockKind, id: string): string {
    const key = `${kind}:${id}`;
    const uses = (this.#idUses.get(key) ?? 0) + 1;
    this.#idUses.set(key, uses);
    return uses === 1 ? id : `${id}~${uses}`;
  }

  #closeBlock(kind: BlockKind, part: unknown): readonly ModelEvent[] {
    const id = textField(part, "id") ?? "";
    const closed = this.#openBlocks[kind].has(id) ? undefined : this.#closedEarly.get(`${kind}:${id}`);
    this.#closedEarly.delete(`${kind}:${id}`);
    if (closed !== undefined) {
      const metadata = mergedMetadata(closed.metadata, part);
      return metadata === closed.metadata ? [] : this.#completeBlock(kind, { ...closed, metadata }, part);
    }
    const block = this.#openBlock(kind, part);
    this.#openBlocks[kind].delete(id);
    return this.#completeBlock(kind, block, part);
  }

  #completeBlock(kind: BlockKind, { id, text, metadata }: OpenBlock, part: unknown): readonly ModelEvent[] {
    const hasMetadata = Object.keys(metadata).length > 0;
    if (text === "" && !hasMetadata) return [];
    if (kind === "reasoning") {
      const redacted = text === "" && Object.keys(metadata).some((key) => isRedacted(objectAt(metadata, key)));
      return [this.#builder.completeReasoning(id, { redacted, provider: this.#replayData(metadata) })];
    }
    const citations = jsonOf(fieldOf(part, "citations"));
    return [
      this.#builder.completeText(id, {
        provider: hasMetadata ? this.#replayData(metadata) : null,
        phase: phaseOf(objectAt(metadata, "openai")),
        metadata: citations === null ? {} : { citations },
      }),
    ];
  }

  /** Closes the open blocks: before a call, and at the end of the reply. */
  #closeBlocks(): readonly ModelEvent[] {
    const kinds: readonly BlockKind[] = ["reasoning", "text"];
    return kinds.flatMap((kind) =>
      [...this.#openBlocks[kind]].flatMap(([id, block]) => {
        this.#openBlocks[kind].delete(id);
        this.#closedEarly.set(`${kind}:${id}`, block);
        return this.#completeBlock(kind, block, null);
      }),
    );
  }

  #replayData(metadata: JsonObject, further: JsonObject = {}) {
    const fields = Object.keys(metadata).length === 0 ? {} : { providerMetadata: metadata };
    return this.#builder.replayData({ ...further, ...fields });
  }

  // Calls

  #startCall(part: unknown, id: string): readonly ModelEvent[] {
    this.#callMetadata.set(id, mergedMetadata(this.#callMetadata.get(id) ?? {}, part));
    if (this.#builder.isCallOpen(id)) return [];
    this.#hasContent = true;
    const providerExecuted = fieldOf(part, "providerExecuted") === true;
    return [
      ...this.#closeBlocks(),
      this.#builder.startCall(id, textField(part, "toolName") ?? "", { providerExecuted }),
    ];
  }

  #appendArguments(part: unknown): readonly ModelEvent[] {
    const id = textField(part, "id") ?? "";
    const delta = textField(part, "delta") ?? "";
    const event = delta === "" || !this.#builder.isCallOpen(id) ? null : this.#builder.appendArguments(id, delta);
    return event === null ? [] : [event];
  }

  /**
   * Completes a call. Its input is JSON text in every specification; some models of other authors pass the value
   * instead.
   */
  #completeCall(part: unknown): readonly ModelEvent[] {
    const id = textField(part, "toolCallId") ?? "";
    const name = textField(part, "toolName");
    const events = this.#startCall(part, id);
    const raw = textField(part, "input");
    const metadata = this.#callMetadata.get(id) ?? {};
    const isOfProvider = fieldOf(part, "providerExecuted") === true;
    const completed = this.#builder.completeCall(id, {
      ...(raw === null ? { arguments: objectOf(fieldOf(part, "input")) ?? {} } : { raw }),
      ...(name === null ? {} : { name }),
      provider: isOfProvider || Object.keys(metadata).length > 0 ? this.#replayData(metadata) : null,
    });
    return completed === null ? events : [...events, completed];
  }

  /** The result of a tool that the provider ran. A preliminary result is replaced by a later one, so it is not kept. */
  #addResult(part: unknown): readonly ModelEvent[] {
    if (fieldOf(part, "preliminary") === true) return [];
    const toolName = textField(part, "toolName") ?? "";
    const provider = this.#replayData(mergedMetadata({}, part), { toolName });
    const isError = fieldOf(part, "isError") === true;
    const id = textField(part, "toolCallId") ?? "";
    this.#builder.part(
      toolResultPart(this.#builder.callId(id) ?? id, jsonOf(fieldOf(part, "result")), { isError, provider }),
    );
    return [];
  }

  // Other content

  #addFile(part: unknown): readonly ModelEvent[] {
    const source = sourceOf(fieldOf(part, "data"));
    if (source === null) return [];
    const mimeType = textField(part, "mediaType") ?? "application/octet-stream";
    const metadata = mergedMetadata({}, part);
    const provider = Object.keys(metadata).length === 0 ? null : this.#replayData(metadata);
    const isImage = mimeType.startsWith("image/");
    this.#builder.part(
      isImage ? imagePart({ source, mimeType }, { provider }) : filePart(source, { mimeType, provider }),
    );
    return [];
  }

  /**
   * Content that the library does not interpret. It is sent back in its place. Anthropic's package also reports the
   * usage at the start of a reply in this way.
   */
  #addOpaque(part: unknown): readonly ModelEvent[] {
    const kind = textField(part, "kind") ?? textField(part, "type") ?? "";
    if (kind === "anthropic.message_start") return [];
    const source = sourceOf(fieldOf(part, "data"));
    const data = source?.type === "base64" ? { data: { type: "data", data: source.data } } : {};
    const { providerMetadata: _, ...fields } = objectOf({ ...copied(part), ...data }) ?? {};
    this.#builder.part(opaquePart(kind, this.#replayData(mergedMetadata({}, part), { part: fields })));
    return [];
  }

  #finish(part: unknown): readonly ModelEvent[] {
    const { reason, raw } = finishOf(fieldOf(part, "finishReason"));
    const metadata = mergedMetadata({}, part);
    const counted = decodedUsage(fieldOf(part, "usage"), metadata);
    if (reason === null) {
      const usageEvents: readonly ModelEvent[] = counted === null ? [] : [{ type: "usage", usage: counted }];
      return [...usageEvents, ...this.#fail(this.interrupted())];
    }
    const closing = this.#closeBlocks();
    this.#hasEnded = true;
    return [
      ...closing,
      ...this.#builder.end({
        finishReason: reason,
        rawFinishReason: raw,
        responseId: this.#responseId,
        model: this.#model,
        usage: counted,
        metadata: {
          ...(this.#sources.length === 0 ? {} : { sources: this.#sources }),
          ...(Object.keys(metadata).length === 0 ? {} : { providerMetadata: metadata }),
        },
      }),
    ];
  }
}

/** The options of a call that packages warn about by name. */
const callSettings: ReadonlySet<string> = new Set([
  "maxOutputTokens",
  "temperature",
  "topP",
  "topK",
  "seed",
  "stopSequences",
  "presencePenalty",
  "frequencyPenalty",
  "responseFormat",
  "toolChoice",
  "reasoning",
]);

function copied(part: unknown): object {
  return typeof part === "object" && part !== null ? { ...part } : {};
}

/** OpenAI's phase of a text. */
function phaseOf(metadata: JsonObject | null): TextPhase | null {
  const phase = textAt(metadata, "phase");
  return phase === "commentary" || phase === "final_answer" ? phase : null;
}

/** Anthropic and Bedrock withhold some reasoning and send it encrypted, as `redactedData`. */
function isRedacted(metadata: JsonObject | null): boolean {
  return textAt(metadata, "redactedData") !== null;
}

/** The metadata so far with that of a part. Objects are merged key by key; later values win. */
function mergedMetadata(before: JsonObject, part: unknown): JsonObject {
  const metadata = objectOf(fieldOf(part, "providerMetadata"));
  return metadata === null ? before : mergeFields(before, metadata);
}

/**
 * The finish reason; `reason` is `null` if the provider gave none. Specification v2 has one word (`unknown` without a
 * reason), v3 and v4 have `{ unified, raw }`. Packages report the pause of a long turn of Anthropic (`pause_turn`) as
 * `stop`.
 */
function finishOf(finish: unknown): { readonly reason: FinishReason | null; readonly raw: string | null } {
  const raw = textField(finish, "raw");
  const word = typeof finish === "string" ? finish : textField(finish, "unified");
  if (raw === "pause_turn") return { reason: "paused", raw };
  switch (word) {
    case "stop":
    case "length":
    case "error":
      return { reason: word, raw };
    case "content-filter":
      return { reason: "content_filter", raw };
    case "tool-calls":
      return { reason: "tool_calls", raw };
    case "other":
      return { reason: raw === null && typeof finish !== "string" ? null : "other", raw };
    default:
      return { reason: null, raw };
  }
}

/** The usage of a call; `null` if the model reports none. Counts are inclusive (docs/decisions/0009). */
function decodedUsage(counts: unknown, metadata: JsonObject): Usage | null {
  const [input, output] = [fieldOf(counts, "inputTokens"), fieldOf(counts, "outputTokens")];
  if (typeof input === "object" || typeof output === "object") {
    const inputTokens = countOf(input, "total");
    const outputTokens = countOf(output, "total");
    if (inputTokens === null && outputTokens === null) return null;
    return usage({
      inputTokens,
      outputTokens,
      cachedInputTokens: countOf(input, "cacheRead"),
      cacheWriteInputTokens: countOf(input, "cacheWrite"),
      reasoningTokens: countOf(output, "reasoning"),
    });
  }
  const inputTokens = countOf(counts, "inputTokens");
  const outputTokens = countOf(counts, "outputTokens");
  if (inputTokens === null && outputTokens === null) return null;
  const cachedInputTokens = countOf(counts, "cachedInputTokens");
  // Specification v2 leaves open whether input contains cached tokens. Anthropic's package passes on the API's count,
  // which does not.
  const anthropic = objectAt(metadata, "anthropic");
  const written = countOf(anthropic, "cacheCreationInputTokens");
  const separate = anthropic === null ? 0 : (cachedInputTokens ?? 0) + (written ?? 0);
  return usage({
    inputTokens: inputTokens === null ? null : inputTokens + separate,
    outputTokens,
    cachedInputTokens,
    cacheWriteInputTokens: written,
    reasoningTokens: countOf(counts, "reasoningTokens"),
    totalTokens: anthropic === null ? countOf(counts, "totalTokens") : null,
  });
}

/** A warning of the model's package as a warning of the reply. */
function warningOf(warning: unknown): Warning {
  const tool = textField(fieldOf(warning, "tool"), "name");
  const path =
    textField(warning, "feature") ?? textField(warning, "setting") ?? (tool === null ? "request" : `tools.${tool}`);
  const details = textField(warning, "details") ?? textField(warning, "message") ?? "the model does not support it";
  return { reason: "unsupported", path, message: `${path}: ${details}` };
}
