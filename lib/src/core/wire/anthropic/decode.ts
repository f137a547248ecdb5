// Decodes replies of Anthropic's Messages API: streams, whole messages and errors.
//
// Theory of operation
//   message_start          readStart: id, model, usage so far, and blocks that are complete already
//   content_block_start    startBlock: opens the block of an index
//   content_block_delta    appendDelta: text_delta, thinking_delta, signature_delta, input_json_delta, citations_delta
//   content_block_stop     stopBlock: closes the block
//   message_delta          readEnding: stop_reason and final usage
//   message_stop           complete: closes open blocks and emits the message
//   ping                   ignored
//   error                  the failure; what follows is ignored
//   A whole message is read by `readStart`, which creates and closes each of its blocks with the same code as a stream
//   (W3).
//
// Invariants
//   1. The `input` of a `tool_use` block is an object, streamed as JSON text. `rawArguments` is kept only if that text
//      is no JSON object.
//   2. Replay data holds what the API requires back and the part does not hold: the `signature` of `thinking`
//      (fixtures/wire/anthropic-messages/reasoning), the `caller` of a call, the `tool_use_id` and type of a provider's
//      result (provider-tool). Citations are in metadata and in replay data. Blocks of unknown types are kept complete.
//   3. `message_stop` is the protocol's end (E1). A repeated `message_start` of the same id is ignored. A
//      `message_start` of another id before the end comes from a gateway that retried upstream and joined two streams
//      (spliced): the reply fails as `interrupted`, because the signatures of its thinking would be refused.
//   4. A block with a call that starts again at the same index is the same call. Calls without an id get `call_<n>`;
//      repeated ids are made unique.
//   5. `message_start` may carry complete content blocks: replies to calls that code execution makes do
//      (called-by-code).
//   6. The `container` in which the provider ran code is metadata of the reply, and an opaque part, because the next
//      request has to name it (provider-tool).
//   7. A frame that is no JSON interrupts the reply (damaged-frame.ts).
//   8. A call of a toolset (`toolset_name`) is a call of the toolset: its argument `action` is the name of the member,
//      as in the older computer tool. The member's own name is replay data. Its arguments are not streamed, because the
//      text of its deltas has no `action`.

import type { AdapterFailure, FinishReason, Json, JsonObject, ModelEvent, Usage } from "../../model/internal.ts";
import type { Decoder, ErrorResponse, Frame, WireContext } from "../codec.ts";

import {
  isStorableJson,
  MisuseError,
  opaquePart,
  parseJson,
  streamFailure,
  toolResultPart,
  usage,
} from "../../model/internal.ts";
import { classify } from "../classify.ts";
import { damagedFrame, isDamagedFrame } from "../damaged-frame.ts";
import { asObject, countAt, listAt, objectAt, objectsAt, textAt } from "../fields.ts";
import { parseArguments, rawChunk, ReplyBuilder } from "../reply-builder.ts";

/** How an event was treated, for `Decoder.counts`. */
type EventClass = "understood" | "opaque" | "unknown";

/**
 * An open content block. `fields` are those of the block as it would be in a whole message, except its text, which the
 * builder holds, and its input.
 */
type OpenBlock = {
  readonly id: string;
  readonly kind: BlockKind;
  fields: JsonObject;
  hasText: boolean;
  input: string;
  readonly citations: Json[];
};

/**
 * `call`: the program runs it. `provider_call` and `result`: the provider ran it. `opaque`: a type that is not known
 * here.
 */
type BlockKind = "text" | "thinking" | "redacted_thinking" | "call" | "provider_call" | "result" | "opaque";

function kindOf(type: string): BlockKind {
  switch (type) {
    case "text":
    case "thinking":
    case "redacted_thinking":
      return type;
    case "tool_use":
      return "call";
    case "server_tool_use":
    case "mcp_tool_use":
      return "provider_call";
    default:
      return type.endsWith("_tool_result") ? "result" : "opaque";
  }
}

/** Reads the blocks, the ending and the usage of one reply, streamed or whole. */
class MessageReader {
  readonly #builder: ReplyBuilder;
  readonly #openBlocks = new Map<number, OpenBlock>();
  /** Index, kind and id of all calls and results that have started. */
  readonly #seenBlocks = new Set<string>();
  #blockCount = 0;
  #usageFields: JsonObject = {};
  #usage: Usage | null = null;
  #model: string | null = null;
  #stopReason: string | null = null;
  #metadata: JsonObject = {};
  id: string | null = null;
  started = false;

  constructor(context: WireContext) {
    this.#builder = new ReplyBuilder(context);
  }

  /** Reads `message_start`, or a whole message: id, model, ending, usage and complete blocks. */
  readStart(message: JsonObject): readonly ModelEvent[] {
    this.started = true;
    this.id = textAt(message, "id");
    this.#model = textAt(message, "model");
    this.readEnding(message, message);
    const blockEvents = objectsAt(message, "content").flatMap((block, blockIndex) => {
      this.#isRepeated(blockIndex, block);
      const created = this.#createBlock(block);
      return [...created.events, ...this.#closeBlock(created.block)];
    });
    return [this.#builder.messageStarted(), ...blockEvents];
  }

  /**
   * Reads stop reason, usage and metadata. `message_delta` has the stop reason in `delta` and the usage beside it
   * (`envelope`); a whole message has both at the top. Usage fields are merged, because `message_start` counts the
   * input and `message_delta` the output.
   */
  readEnding(delta: JsonObject, envelope: JsonObject): void {
    this.#stopReason = textAt(delta, "stop_reason") ?? this.#stopReason;
    const reportedUsage = objectAt(envelope, "usage");
    if (reportedUsage !== null) {
      this.#usageFields = { ...this.#usageFields, ...omitNulls(reportedUsage) };
      this.#usage = decodedUsage(this.#usageFields);
    }
    this.#metadata = {
      ...this.#metadata,
      ...omitNulls(pickKeys(delta, ["stop_sequence", "stop_details", "container"])),
      ...omitNulls(pickKeys(envelope, ["context_management"])),
    };
  }

  startBlock(index: number, block: JsonObject): readonly ModelEvent[] {
    if (this.#isRepeated(index, block)) return [];
    const closedEvents = this.stopBlock(index);
    const created = this.#createBlock(block);
    this.#openBlocks.set(index, created.block);
    return [...closedEvents, ...created.events];
  }

  /** Has this call or result started at this index before? Records it as started. */
  #isRepeated(index: number, block: JsonObject): boolean {
    const kind = kindOf(textAt(block, "type") ?? "");
    if (kind !== "call" && kind !== "provider_call" && kind !== "result") return false;
    const id = textAt(block, kind === "result" ? "tool_use_id" : "id") ?? "";
    const open = this.#openBlocks.get(index);
    // Without an id, only a block that is open at this index and has no input yet can be the same.
    if (id === "")
      return open?.kind === kind && open.input === "" && textAt(open.fields, "name") === textAt(block, "name");
    const key = `${index}:${kind}:${id}`;
    const isRepeated = this.#seenBlocks.has(key);
    this.#seenBlocks.add(key);
    return isRepeated;
  }

  /** The kind of the open block at an index; `null` if none is open. */
  kindAt(index: number): BlockKind | null {
    return this.#openBlocks.get(index)?.kind ?? null;
  }

  /** Applies a delta to the open block at an index. `null`: no block is open there, or its kind has no such delta. */
  appendDelta(index: number, delta: JsonObject): readonly ModelEvent[] | null {
    const type = textAt(delta, "type");
    // Some compatible servers omit `content_block_start` of text and thinking.
    const impliedType = type === "text_delta" ? "text" : type === "thinking_delta" ? "thinking" : null;
    if (impliedType !== null && !this.#openBlocks.has(index)) this.startBlock(index, { type: impliedType });
    const block = this.#openBlocks.get(index);
    if (block === undefined) return null;
    const text = textAt(delta, "text") ?? textAt(delta, "thinking") ?? textAt(delta, "partial_json") ?? "";
    switch (block.kind) {
      case "text":
        if (type === "citations_delta") {
          const { citation } = delta;
          if (citation !== undefined) block.citations.push(citation);
          return [];
        }
        return type === "text_delta" ? this.#appendText(block, text) : null;
      case "thinking":
        if (type === "signature_delta") {
          const signature = (textAt(block.fields, "signature") ?? "") + (textAt(delta, "signature") ?? "");
          block.fields = { ...block.fields, signature };
          return [];
        }
        return type === "thinking_delta" ? this.#appendText(block, text) : null;
      case "call":
      case "provider_call":
        if (type !== "input_json_delta") return null;
        block.input += text;
        return text === "" || toolsetOf(block) !== null ? [] : listOf(this.#builder.appendArguments(block.id, text));
      case "redacted_thinking":
      case "result":
      case "opaque":
        if (type === "input_json_delta") block.input += text;
        else block.fields = mergeDelta(block.fields, delta);
        return [];
    }
  }

  stopBlock(index: number): readonly ModelEvent[] {
    const block = this.#openBlocks.get(index);
    this.#openBlocks.delete(index);
    return block === undefined ? [] : this.#closeBlock(block);
  }

  /** The `usage` event for what was reported so far; none if nothing was reported. */
  usageEvents(): readonly ModelEvent[] {
    return this.#usage === null ? [] : [{ type: "usage", usage: this.#usage }];
  }

  complete(): readonly ModelEvent[] {
    const closedEvents = [...this.#openBlocks.keys()].flatMap((index) => this.stopBlock(index));
    const container = objectAt(this.#metadata, "container");
    if (textAt(container, "id") !== null)
      this.#builder.part(opaquePart("container", this.#builder.replayData({ container })));
    const endEvents = this.#builder.end({
      finishReason: finishReasonOf(this.#stopReason),
      rawFinishReason: this.#stopReason,
      responseId: this.id,
      model: this.#model,
      usage: this.#usage,
      metadata: this.#metadata,
    });
    return [...closedEvents, ...endEvents];
  }

  /** Creates a block from the fields it starts with. Its id is its position among the blocks of the reply. */
  #createBlock(fields: JsonObject): { readonly block: OpenBlock; readonly events: readonly ModelEvent[] } {
    const id = `${this.#blockCount}`;
    this.#blockCount += 1;
    const kind = kindOf(textAt(fields, "type") ?? "");
    const block: OpenBlock = {
      id,
      kind,
      fields,
      hasText: false,
      input: "",
      citations: [...listAt(fields, "citations")],
    };
    switch (kind) {
      case "text":
        return { block, events: this.#appendText(block, textAt(fields, "text") ?? "") };
      case "thinking":
        return { block, events: this.#appendText(block, textAt(fields, "thinking") ?? "") };
      case "call":
      case "provider_call": {
        const providerExecuted = kind === "provider_call";
        const apiId = textAt(fields, "id") ?? "";
        const callId = apiId === "" ? `call_${id}` : apiId;
        const name = toolsetOf(block) ?? textAt(fields, "name") ?? "";
        return { block, events: [this.#builder.startCall(callId, name, { providerExecuted, key: id })] };
      }
      case "redacted_thinking":
      case "result":
      case "opaque":
        return { block, events: [] };
    }
  }

  #appendText(block: OpenBlock, text: string): readonly ModelEvent[] {
    if (text === "") return [];
    block.hasText = true;
    return [block.kind === "text" ? this.#builder.text(block.id, text) : this.#builder.reasoning(block.id, text)];
  }

  /** Completes a block: emits its event, or adds its part to the message. */
  #closeBlock(block: OpenBlock): readonly ModelEvent[] {
    const { id, kind, fields, citations } = block;
    const builder = this.#builder;
    switch (kind) {
      case "text": {
        const citationFields = citations.length === 0 ? {} : { citations };
        const provider = citations.length === 0 ? null : builder.replayData(citationFields);
        return [builder.completeText(id, { provider, metadata: citationFields })];
      }
      case "thinking": {
        // The API accepts only thinking with its signature. Unsigned thinking is shown and never sent back.
        const isSigned = (textAt(fields, "signature") ?? "") !== "";
        const provider = isSigned ? builder.replayData(omitKeys(fields, ["thinking"])) : null;
        return [builder.completeReasoning(id, { redacted: isSigned && !block.hasText, provider })];
      }
      case "redacted_thinking":
        return [builder.completeReasoning(id, { redacted: true, provider: builder.replayData(fields) })];
      case "call":
      case "provider_call": {
        const ownInput = block.input.trim() === "" ? (objectAt(fields, "input") ?? {}) : parseArguments(block.input);
        const isMember = toolsetOf(block) !== null;
        const input = ownInput === null || !isMember ? ownInput : { action: fields["name"] ?? null, ...ownInput };
        const ownFields = ["id", "input", ...(isMember ? [] : ["name"]), ...(kind === "call" ? ["type"] : [])];
        const extraFields = omitKeys(fields, ownFields);
        const provider = Object.keys(extraFields).length === 0 ? null : builder.replayData(extraFields);
        return listOf(
          builder.completeCall(id, input === null ? { raw: block.input, provider } : { arguments: input, provider }),
        );
      }
      case "result": {
        const content = fields["content"] ?? null;
        const isError = fields["is_error"] === true || (textAt(asObject(content), "type") ?? "").endsWith("_error");
        const toolCallId = textAt(fields, "tool_use_id") ?? "";
        builder.part(
          toolResultPart(toolCallId, content, { isError, provider: builder.replayData(omitKeys(fields, ["content"])) }),
        );
        return [];
      }
      case "opaque": {
        const type = textAt(fields, "type") ?? "unknown";
        // A `fallback` block: from here on another model answers.
        if (type === "fallback") this.#model = textAt(objectAt(fields, "to"), "model") ?? this.#model;
        const input = block.input.trim() === "" ? null : parseArguments(block.input);
        builder.part(opaquePart(type, builder.replayData(input === null ? fields : { ...fields, input })));
        return [];
      }
    }
  }
}

export function anthropicDecoder(context: WireContext): Decoder {
  const reader = new MessageReader(context);
  const counts = { understood: 0, opaque: 0, unknown: 0 };
  let isTerminated = false;

  function fail(error: ModelEvent): readonly ModelEvent[] {
    isTerminated = true;
    return [...reader.usageEvents(), error];
  }

  function interrupted(message: string): readonly ModelEvent[] {
    const { provider } = context.route;
    const eventIndex = counts.understood + counts.opaque + counts.unknown;
    return fail({ type: "error", error: streamFailure("interrupted", { provider, message, eventIndex }) });
  }

  function readEvent(event: JsonObject): { readonly events: readonly ModelEvent[]; readonly eventClass: EventClass } {
    const index = countAt(event, "index") ?? 0;
    switch (textAt(event, "type")) {
      case "message_start": {
        const message = objectAt(event, "message") ?? {};
        if (!reader.started) return { events: reader.readStart(message), eventClass: "understood" };
        const isDuplicate = textAt(message, "id") === reader.id;
        return {
          events: isDuplicate ? [] : interrupted("another message started before this one ended"),
          eventClass: "understood",
        };
      }
      case "content_block_start": {
        const events = [...startIfNeeded(), ...reader.startBlock(index, objectAt(event, "content_block") ?? {})];
        return { events, eventClass: reader.kindAt(index) === "opaque" ? "opaque" : "understood" };
      }
      case "content_block_delta": {
        const startEvents = startIfNeeded();
        const events = reader.appendDelta(index, objectAt(event, "delta") ?? {});
        const eventClass = events === null ? "unknown" : reader.kindAt(index) === "opaque" ? "opaque" : "understood";
        return { events: [...startEvents, ...(events ?? [])], eventClass };
      }
      case "content_block_stop": {
        const kind = reader.kindAt(index);
        const eventClass = kind === null ? "unknown" : kind === "opaque" ? "opaque" : "understood";
        return { events: reader.stopBlock(index), eventClass };
      }
      case "message_delta":
        reader.readEnding(objectAt(event, "delta") ?? {}, event);
        return { events: [], eventClass: "understood" };
      case "message_stop": {
        isTerminated = true;
        return { events: [...startIfNeeded(), ...reader.complete()], eventClass: "understood" };
      }
      case "ping":
        return { events: [], eventClass: "understood" };
      case "error":
        return { events: fail(errorEvent(event, context)), eventClass: "understood" };
      default:
        // Some gateways send an error object without the type `error`.
        if (objectAt(event, "error") !== null)
          return { events: fail(errorEvent(event, context)), eventClass: "understood" };
        return { events: [], eventClass: "unknown" };
    }
  }

  /** Starts the reply if `message_start` is missing. */
  function startIfNeeded(): readonly ModelEvent[] {
    return reader.started ? [] : reader.readStart({});
  }

  function readFrame({ event, data }: Frame): readonly ModelEvent[] {
    const parsed = parseJson(data);
    const raw: readonly ModelEvent[] = context.rawChunks && parsed !== null ? [rawChunk(parsed.value)] : [];
    const object = parsed === null ? null : asObject(parsed.value);
    if (!isTerminated && parsed === null && isDamagedFrame({ event, data })) {
      const framesRead = counts.understood + counts.opaque + counts.unknown;
      return fail({ type: "error", error: damagedFrame({ event, data }, context, framesRead) });
    }
    if (isTerminated || (object === null && event !== "error")) {
      counts.unknown += 1;
      return raw;
    }
    try {
      const { events, eventClass } = readEvent(object ?? { type: "error", error: { message: data } });
      counts[eventClass] += 1;
      return [...raw, ...events];
    } catch (cause) {
      return [...raw, ...fail(malformedEvent(cause, context))];
    }
  }

  return {
    push: (frames) => frames.flatMap(readFrame),
    end: () => (isTerminated ? [] : interrupted("the stream ended before message_stop")),
    counts,
  };
}

/** Decodes a whole message, or an error in its place. */
export function decodeReply(body: Json, context: WireContext): readonly ModelEvent[] {
  const raw: readonly ModelEvent[] = context.rawChunks ? [rawChunk(body)] : [];
  const message = asObject(body);
  if (message === null || message["content"] === undefined) return [...raw, errorEvent(body, context)];
  const reader = new MessageReader(context);
  try {
    const startEvents = reader
      .readStart(message)
      .filter(({ type }) => type !== "text_delta" && type !== "reasoning_delta");
    return [...raw, ...startEvents, ...reader.complete()];
  } catch (cause) {
    return [...raw, ...reader.usageEvents(), malformedEvent(cause, context)];
  }
}

/** The failure of a reply that can be read but not stored, because a value is nested too deep or too large. */
function malformedEvent(cause: unknown, { route }: WireContext): ModelEvent {
  const details = cause instanceof MisuseError ? { message: cause.message } : { cause };
  return { type: "error", error: streamFailure("malformed_event", { provider: route.provider, ...details }) };
}

/**
 * Reads the error form of the API, `{"type":"error","error":{"type":…,"message":…},"request_id":…}`, and other forms
 * that gateways send.
 */
export function decodeError(response: ErrorResponse, context: WireContext): AdapterFailure {
  const body = asObject(response.body);
  const error = objectAt(body, "error");
  const message = textAt(error, "message") ?? textAt(body, "error") ?? textAt(body, "message");
  const requestId = response.requestId ?? textAt(body, "request_id");
  const text = typeof response.body === "string" && response.body.trim() !== "" ? response.body.slice(0, 500) : null;
  return classify({ ...response, requestId }, { message: message ?? text, code: textAt(error, "type") }, context);
}

function errorEvent(body: Json, context: WireContext): ModelEvent {
  return {
    type: "error",
    error: decodeError({ status: null, body, requestId: null, retryAfterMs: null }, context),
  };
}

/** Maps `stop_reason`. */
function finishReasonOf(stopReason: string | null): FinishReason | null {
  switch (stopReason) {
    case null:
      return null;
    case "end_turn":
    case "stop_sequence":
      return "stop";
    case "max_tokens":
    case "model_context_window_exceeded":
      return "length";
    case "tool_use":
      return "tool_calls";
    case "refusal":
      return "content_filter";
    // The provider expects another request that ends with this reply, and continues it.
    case "pause_turn":
    case "compaction":
      return "paused";
    default:
      return "other";
  }
}

/** Fields of `usage` with a counterpart in `Usage`. The others go into `extra`. */
const countedUsageKeys = [
  "input_tokens",
  "cache_read_input_tokens",
  "cache_creation_input_tokens",
  "output_tokens",
  "output_tokens_details",
  "server_tool_use",
];

/**
 * Inclusive usage: the API's `input_tokens` excludes `cache_read_input_tokens` and `cache_creation_input_tokens`, so
 * they are added (fixtures/wire/anthropic-messages/cached-usage). It also excludes the tokens of a compaction in the
 * same request, which are billed too: `iterations` lists them. Values that are no counts are dropped.
 */
function decodedUsage(reportedUsage: JsonObject): Usage {
  const compactions = objectsAt(reportedUsage, "iterations").filter((each) => textAt(each, "type") === "compaction");
  const sumOf = (key: string): number | null =>
    compactions.reduce(
      (total, each) => {
        const added = countAt(each, key);
        return added === null ? total : (total ?? 0) + added;
      },
      countAt(reportedUsage, key),
    );
  const uncached = sumOf("input_tokens");
  const cached = sumOf("cache_read_input_tokens");
  const written = sumOf("cache_creation_input_tokens");
  const sum = uncached === null ? null : uncached + (cached ?? 0) + (written ?? 0);
  const toolRequests = Object.entries(objectAt(reportedUsage, "server_tool_use") ?? {})
    .filter(([, count]) => typeof count === "number" && Number.isFinite(count) && count > 0)
    .map(([name, count]): [string, Json] => [name.replace(/_requests$/, ""), count]);
  return usage({
    inputTokens: Number.isSafeInteger(sum) ? sum : null,
    outputTokens: sumOf("output_tokens"),
    cachedInputTokens: cached,
    cacheWriteInputTokens: written,
    reasoningTokens: countAt(objectAt(reportedUsage, "output_tokens_details"), "thinking_tokens"),
    toolUsage: Object.fromEntries(toolRequests),
    extra: Object.fromEntries(
      Object.entries(omitKeys(reportedUsage, countedUsageKeys)).filter(([key, value]) =>
        isStorableJson({ [key]: value }),
      ),
    ),
  });
}

/** The toolset of a call (`toolset_name`); `null` if the block is no call of a toolset (invariant 8). */
function toolsetOf({ kind, fields }: Pick<OpenBlock, "kind" | "fields">): string | null {
  const toolset = kind === "call" ? textAt(fields, "toolset_name") : null;
  return toolset === "" ? null : toolset;
}

/** Merges a delta into the fields of an opaque block: strings are appended, other values replaced. */
function mergeDelta(fields: JsonObject, delta: JsonObject): JsonObject {
  const changes = Object.entries(omitNulls(omitKeys(delta, ["type"]))).map(([key, value]): [string, Json] => {
    const previous = fields[key];
    return [key, typeof previous === "string" && typeof value === "string" ? previous + value : value];
  });
  return { ...fields, ...Object.fromEntries(changes) };
}

function omitKeys(fields: JsonObject, keys: readonly string[]): JsonObject {
  return Object.fromEntries(Object.entries(fields).filter(([key]) => !keys.includes(key)));
}

function pickKeys(fields: JsonObject, keys: readonly string[]): JsonObject {
  return Object.fromEntries(Object.entries(fields).filter(([key]) => keys.includes(key)));
}

function omitNulls(fields: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== null));
}

function listOf(event: ModelEvent | null): readonly ModelEvent[] {
  return event === null ? [] : [event];
}
