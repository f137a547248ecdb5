// What Anthropic Messages answers, read: a stream of events, a whole message, or an error.
//
// Rules:
//   1. A block of a stream is put together from its start and its deltas and then closed exactly as a block of a whole message is (W3).
//   2. Input of tools is an object here, streamed as text: `rawArguments` is kept only when that text is no JSON object.
//   3. What has to go back is kept beside what is shown, and not a second time: a signature with its reasoning, the caller with its call, whose
//      result it is with what a tool of the provider's returned. Citations stand in both places; blocks nobody here understands are kept whole.
//   4. `message_stop` is the end. A second `message_start` of the same message is a duplicate; of another one while the first is open, it is the
//      work of a gateway that tried again, and the reply is broken: its thinking could never be sent back.
//   5. A call that begins again in its place is the same call. Different calls of the same id are told apart; one without an id gets one.
//   6. Blocks may come with `message_start` already: replies to code that calls tools do.

import type { AdapterFailure, FinishReason, Json, JsonObject, ModelEvent, Usage } from "../../model/internal.ts";
import type { Decoder, ErrorAnswer, Frame, WireContext } from "../codec.ts";

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
import { asObject, countAt, listAt, objectAt, objectsAt, textAt } from "../fields.ts";
import { argumentsOf, rawChunk, ReplyBuilder } from "../reply-builder.ts";

/** What became of an event, for the count. */
type Heard = "understood" | "opaque" | "unknown";

/** A block that has begun. `fields` is what the block would say if it were whole; the builder has its text. */
type OpenBlock = {
  readonly id: string;
  readonly kind: BlockKind;
  fields: JsonObject;
  hasText: boolean;
  input: string;
  readonly citations: Json[];
};

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

/** Reads the blocks of one reply, streamed or whole, and what is said about it. */
class Reply {
  readonly #builder: ReplyBuilder;
  readonly #open = new Map<number, OpenBlock>();
  /** Calls that have begun, by place and id. */
  readonly #called = new Set<string>();
  #begun = 0;
  #counts: JsonObject = {};
  #usage: Usage | null = null;
  #model: string | null = null;
  #stop: string | null = null;
  #metadata: JsonObject = {};
  id: string | null = null;
  started = false;

  constructor(context: WireContext) {
    this.#builder = new ReplyBuilder(context);
  }

  /** The head of a message: its names, what it cost so far, and blocks that are there already. */
  head(message: JsonObject): readonly ModelEvent[] {
    this.started = true;
    this.id = textAt(message, "id");
    this.#model = textAt(message, "model");
    this.ended(message, message);
    const whole = objectsAt(message, "content").flatMap((block, at) => {
      this.#isCalled(at, block);
      const begun = this.#begin(block);
      return [...begun.events, ...this.#close(begun.block)];
    });
    return [this.#builder.started(), ...whole];
  }

  /** What is said about the end: in a stream in two places, in a whole message in one. */
  ended(delta: JsonObject, around: JsonObject): void {
    this.#stop = textAt(delta, "stop_reason") ?? this.#stop;
    const spent = objectAt(around, "usage");
    if (spent !== null) {
      this.#counts = { ...this.#counts, ...withoutNulls(spent) };
      this.#usage = usageOf(this.#counts);
    }
    this.#metadata = {
      ...this.#metadata,
      ...withoutNulls(only(delta, ["stop_sequence", "stop_details", "container"])),
      ...withoutNulls(only(around, ["context_management"])),
    };
  }

  begin(index: number, block: JsonObject): readonly ModelEvent[] {
    if (this.#isCalled(index, block)) return [];
    const before = this.stop(index);
    const begun = this.#begin(block);
    this.#open.set(index, begun.block);
    return [...before, ...begun.events];
  }

  /** Has this call, or the result of a call, begun in this place before? From now on it has. */
  #isCalled(index: number, block: JsonObject): boolean {
    const kind = kindOf(textAt(block, "type") ?? "");
    if (kind !== "call" && kind !== "provider_call" && kind !== "result") return false;
    const id = textAt(block, kind === "result" ? "tool_use_id" : "id") ?? "";
    const open = this.#open.get(index);
    // Without an id only the block that has just begun can be the same.
    if (id === "")
      return open?.kind === kind && open.input === "" && textAt(open.fields, "name") === textAt(block, "name");
    const key = `${index}:${kind}:${id}`;
    const isKnown = this.#called.has(key);
    this.#called.add(key);
    return isKnown;
  }

  kindAt(index: number): BlockKind | null {
    return this.#open.get(index)?.kind ?? null;
  }

  /** More of a block; `null` when there is no such block, or it does not take this. */
  delta(index: number, delta: JsonObject): readonly ModelEvent[] | null {
    const type = textAt(delta, "type");
    // Some servers forget to begin their text.
    const implied = type === "text_delta" ? "text" : type === "thinking_delta" ? "thinking" : null;
    if (implied !== null && !this.#open.has(index)) this.begin(index, { type: implied });
    const block = this.#open.get(index);
    if (block === undefined) return null;
    const text = textAt(delta, "text") ?? textAt(delta, "thinking") ?? textAt(delta, "partial_json") ?? "";
    switch (block.kind) {
      case "text":
        if (type === "citations_delta") {
          const { citation } = delta;
          if (citation !== undefined) block.citations.push(citation);
          return [];
        }
        return type === "text_delta" ? this.#grow(block, text) : null;
      case "thinking":
        if (type === "signature_delta") {
          const signature = (textAt(block.fields, "signature") ?? "") + (textAt(delta, "signature") ?? "");
          block.fields = { ...block.fields, signature };
          return [];
        }
        return type === "thinking_delta" ? this.#grow(block, text) : null;
      case "call":
      case "provider_call":
        if (type !== "input_json_delta") return null;
        block.input += text;
        return text === "" ? [] : some(this.#builder.callDelta(block.id, text));
      case "redacted_thinking":
      case "result":
      case "opaque":
        if (type === "input_json_delta") block.input += text;
        else block.fields = grown(block.fields, delta);
        return [];
    }
  }

  stop(index: number): readonly ModelEvent[] {
    const block = this.#open.get(index);
    this.#open.delete(index);
    return block === undefined ? [] : this.#close(block);
  }

  /** What is known to have been spent; nothing when nothing is. */
  spent(): readonly ModelEvent[] {
    return this.#usage === null ? [] : [{ type: "usage", usage: this.#usage }];
  }

  end(): readonly ModelEvent[] {
    const closed = [...this.#open.keys()].flatMap((index) => this.stop(index));
    const end = this.#builder.end({
      finishReason: finishReasonOf(this.#stop),
      rawFinishReason: this.#stop,
      responseId: this.id,
      model: this.#model,
      usage: this.#usage,
      metadata: this.#metadata,
    });
    return [...closed, ...end];
  }

  /** A block by what it begins with. Its id is its place among the blocks of the reply. */
  #begin(fields: JsonObject): { readonly block: OpenBlock; readonly events: readonly ModelEvent[] } {
    const id = `${this.#begun}`;
    this.#begun += 1;
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
        return { block, events: this.#grow(block, textAt(fields, "text") ?? "") };
      case "thinking":
        return { block, events: this.#grow(block, textAt(fields, "thinking") ?? "") };
      case "call":
      case "provider_call": {
        const providerExecuted = kind === "provider_call";
        const given = textAt(fields, "id") ?? "";
        const called = given === "" ? `call_${id}` : given;
        const name = textAt(fields, "name") ?? "";
        return { block, events: [this.#builder.callStart(called, name, { providerExecuted, key: id })] };
      }
      case "redacted_thinking":
      case "result":
      case "opaque":
        return { block, events: [] };
    }
  }

  #grow(block: OpenBlock, text: string): readonly ModelEvent[] {
    if (text === "") return [];
    block.hasText = true;
    return [block.kind === "text" ? this.#builder.text(block.id, text) : this.#builder.reasoning(block.id, text)];
  }

  /** A block is whole. */
  #close(block: OpenBlock): readonly ModelEvent[] {
    const { id, kind, fields, citations } = block;
    const builder = this.#builder;
    switch (kind) {
      case "text": {
        const cited = citations.length === 0 ? {} : { citations };
        const provider = citations.length === 0 ? null : builder.replay(cited);
        return [builder.textEnd(id, { provider, metadata: cited })];
      }
      case "thinking": {
        // The API takes back only thinking it has signed.
        const isSigned = (textAt(fields, "signature") ?? "") !== "";
        const provider = isSigned ? builder.replay(except(fields, ["thinking"])) : null;
        return [builder.reasoningEnd(id, { redacted: isSigned && !block.hasText, provider })];
      }
      case "redacted_thinking":
        return [builder.reasoningEnd(id, { redacted: true, provider: builder.replay(fields) })];
      case "call":
      case "provider_call": {
        const input = block.input.trim() === "" ? (objectAt(fields, "input") ?? {}) : argumentsOf(block.input);
        const rest = except(fields, ["id", "name", "input", ...(kind === "call" ? ["type"] : [])]);
        const provider = Object.keys(rest).length === 0 ? null : builder.replay(rest);
        return some(
          builder.callEnd(id, input === null ? { raw: block.input, provider } : { arguments: input, provider }),
        );
      }
      case "result": {
        const content = fields["content"] ?? null;
        const isError = fields["is_error"] === true || (textAt(asObject(content), "type") ?? "").endsWith("_error");
        const toolCallId = textAt(fields, "tool_use_id") ?? "";
        builder.part(
          toolResultPart(toolCallId, content, { isError, provider: builder.replay(except(fields, ["content"])) }),
        );
        return [];
      }
      case "opaque": {
        const type = textAt(fields, "type") ?? "unknown";
        // From here on another model answers.
        if (type === "fallback") this.#model = textAt(objectAt(fields, "to"), "model") ?? this.#model;
        const input = block.input.trim() === "" ? null : argumentsOf(block.input);
        builder.part(opaquePart(type, builder.replay(input === null ? fields : { ...fields, input })));
        return [];
      }
    }
  }
}

export function anthropicDecoder(context: WireContext): Decoder {
  const reply = new Reply(context);
  const heard = { understood: 0, opaque: 0, unknown: 0 };
  let isOver = false;

  function fail(error: ModelEvent): readonly ModelEvent[] {
    isOver = true;
    return [...reply.spent(), error];
  }

  function interrupted(message: string): readonly ModelEvent[] {
    const { provider } = context.route;
    const eventIndex = heard.understood + heard.opaque + heard.unknown;
    return fail({ type: "error", error: streamFailure("interrupted", { provider, message, eventIndex }) });
  }

  function take(event: JsonObject): { readonly events: readonly ModelEvent[]; readonly as: Heard } {
    const index = countAt(event, "index") ?? 0;
    switch (textAt(event, "type")) {
      case "message_start": {
        const message = objectAt(event, "message") ?? {};
        if (!reply.started) return { events: reply.head(message), as: "understood" };
        const isSame = textAt(message, "id") === reply.id;
        return {
          events: isSame ? [] : interrupted("another message began before this one had ended"),
          as: "understood",
        };
      }
      case "content_block_start": {
        const events = [...begun(), ...reply.begin(index, objectAt(event, "content_block") ?? {})];
        return { events, as: reply.kindAt(index) === "opaque" ? "opaque" : "understood" };
      }
      case "content_block_delta": {
        const first = begun();
        const events = reply.delta(index, objectAt(event, "delta") ?? {});
        const as = events === null ? "unknown" : reply.kindAt(index) === "opaque" ? "opaque" : "understood";
        return { events: [...first, ...(events ?? [])], as };
      }
      case "content_block_stop": {
        const kind = reply.kindAt(index);
        const as = kind === null ? "unknown" : kind === "opaque" ? "opaque" : "understood";
        return { events: reply.stop(index), as };
      }
      case "message_delta":
        reply.ended(objectAt(event, "delta") ?? {}, event);
        return { events: [], as: "understood" };
      case "message_stop": {
        isOver = true;
        return { events: [...begun(), ...reply.end()], as: "understood" };
      }
      case "ping":
        return { events: [], as: "understood" };
      case "error":
        return { events: fail(errorEvent(event, context)), as: "understood" };
      default:
        // A gateway's complaint in a form of its own.
        if (objectAt(event, "error") !== null) return { events: fail(errorEvent(event, context)), as: "understood" };
        return { events: [], as: "unknown" };
    }
  }

  /** A reply without a head begins with whatever comes first. */
  function begun(): readonly ModelEvent[] {
    return reply.started ? [] : reply.head({});
  }

  function read({ event, data }: Frame): readonly ModelEvent[] {
    const parsed = parseJson(data);
    const raw: readonly ModelEvent[] = context.rawChunks && parsed !== null ? [rawChunk(parsed.value)] : [];
    const object = parsed === null ? null : asObject(parsed.value);
    if (isOver || (object === null && event !== "error")) {
      heard.unknown += 1;
      return raw;
    }
    try {
      const { events, as } = take(object ?? { type: "error", error: { message: data } });
      heard[as] += 1;
      return [...raw, ...events];
    } catch (cause) {
      return [...raw, ...fail(malformed(cause, context))];
    }
  }

  return {
    push: (frames) => frames.flatMap(read),
    end: () => (isOver ? [] : interrupted("the stream ended before message_stop")),
    heard,
  };
}

/** The events of a whole message, or of the error in its place. */
export function decodeReply(body: Json, context: WireContext): readonly ModelEvent[] {
  const raw: readonly ModelEvent[] = context.rawChunks ? [rawChunk(body)] : [];
  const message = asObject(body);
  if (message === null || message["content"] === undefined) return [...raw, errorEvent(body, context)];
  const reply = new Reply(context);
  try {
    const head = reply.head(message).filter(({ type }) => type !== "text_delta" && type !== "reasoning_delta");
    return [...raw, ...head, ...reply.end()];
  } catch (cause) {
    return [...raw, ...reply.spent(), malformed(cause, context)];
  }
}

/** What can be read but not stored, because it is nested too deep or too large, fails the reply. */
function malformed(cause: unknown, { route }: WireContext): ModelEvent {
  const why = cause instanceof MisuseError ? { message: cause.message } : { cause };
  return { type: "error", error: streamFailure("malformed_event", { provider: route.provider, ...why }) };
}

/** What went wrong, from `{"type":"error","error":{"type":…,"message":…},"request_id":…}` or whatever stands in its place. */
export function decodeError(answer: ErrorAnswer, context: WireContext): AdapterFailure {
  const body = asObject(answer.body);
  const error = objectAt(body, "error");
  const message = textAt(error, "message") ?? textAt(body, "error") ?? textAt(body, "message");
  const requestId = answer.requestId ?? textAt(body, "request_id");
  const text = typeof answer.body === "string" && answer.body.trim() !== "" ? answer.body.slice(0, 500) : null;
  return classify({ ...answer, requestId }, { message: message ?? text, code: textAt(error, "type") }, context);
}

function errorEvent(body: Json, context: WireContext): ModelEvent {
  return {
    type: "error",
    error: decodeError({ status: null, body, requestId: null, retryAfterMs: null }, context),
  };
}

function finishReasonOf(stop: string | null): FinishReason | null {
  switch (stop) {
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
    default:
      // `pause_turn`, `compaction`: the provider wants to be asked to go on.
      return "other";
  }
}

const counted = [
  "input_tokens",
  "cache_read_input_tokens",
  "cache_creation_input_tokens",
  "output_tokens",
  "output_tokens_details",
  "server_tool_use",
];

/**
 * Usage with the prompt counted whole: the provider counts what came from a cache, and what went there, on their own. A count that is none is
 * left out: it does not cost the reply.
 */
function usageOf(spent: JsonObject): Usage {
  const fresh = countAt(spent, "input_tokens");
  const cached = countAt(spent, "cache_read_input_tokens");
  const written = countAt(spent, "cache_creation_input_tokens");
  const sum = fresh === null ? null : fresh + (cached ?? 0) + (written ?? 0);
  const used = Object.entries(objectAt(spent, "server_tool_use") ?? {})
    .filter(([, count]) => typeof count === "number" && Number.isFinite(count) && count > 0)
    .map(([name, count]): [string, Json] => [name.replace(/_requests$/, ""), count]);
  return usage({
    inputTokens: Number.isSafeInteger(sum) ? sum : null,
    outputTokens: countAt(spent, "output_tokens"),
    cachedInputTokens: cached,
    cacheWriteInputTokens: written,
    reasoningTokens: countAt(objectAt(spent, "output_tokens_details"), "thinking_tokens"),
    toolUsage: Object.fromEntries(used),
    extra: Object.fromEntries(
      Object.entries(except(spent, counted)).filter(([key, value]) => isStorableJson({ [key]: value })),
    ),
  });
}

/** What a delta adds to fields nobody here knows: text goes on, anything else is set. */
function grown(fields: JsonObject, delta: JsonObject): JsonObject {
  const added = Object.entries(withoutNulls(except(delta, ["type"]))).map(([key, value]): [string, Json] => {
    const before = fields[key];
    return [key, typeof before === "string" && typeof value === "string" ? before + value : value];
  });
  return { ...fields, ...Object.fromEntries(added) };
}

function except(fields: JsonObject, keys: readonly string[]): JsonObject {
  return Object.fromEntries(Object.entries(fields).filter(([key]) => !keys.includes(key)));
}

function only(fields: JsonObject, keys: readonly string[]): JsonObject {
  return Object.fromEntries(Object.entries(fields).filter(([key]) => keys.includes(key)));
}

function withoutNulls(fields: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== null));
}

function some(event: ModelEvent | null): readonly ModelEvent[] {
  return event === null ? [] : [event];
}
