// Builds one reply: blocks of text, reasoning and tool calls, and opaque parts, in the order in which they start.
//
// Theory of operation
//   A decoder creates one builder for a reply and calls it for everything it reads: append to a block, complete a
//   block, add a part, end. Each method returns the event for the caller to emit, and updates the block; `end` builds
//   the message from all blocks. Streamed and whole replies go through the same methods, so they give the same message
//   (W3). Blocks are addressed by keys of the decoder (an index, an item id), which need not be the ids in events. A
//   text or reasoning block with the id `null` continues the newest block of its kind.
//
// Invariants
//   1. Ids of calls are unique within a reply. The second call with an id gets `id~2`.
//   2. A call is in the message only after `completeCall`. A call that was cut off leaves its events and no call.
//   3. Everything in an event can be stored. Replay data of text and reasoning, metadata and parsed arguments that
//      `isStorableJson` refuses are dropped here. The constructors of calls and parts throw for anything else that
//      cannot be stored; decoders turn that into the failure `malformed_event`.
//   4. `tool_calls` is the finish reason of exactly the replies that ended normally and hold complete calls for the
//      program.

import type {
  AssistantPart,
  FilePart,
  FinishReason,
  ImagePart,
  Json,
  JsonObject,
  ModelEvent,
  OpaquePart,
  ProviderReplay,
  StructuredOutput,
  TextPhase,
  ToolCall,
  ToolResultPart,
  Usage,
} from "../model/internal.ts";
import type { Quirks, WireContext } from "./codec.ts";

import {
  assistant,
  isStorableJson,
  parseJson,
  reasoningPart,
  textPart,
  toolCall,
  toolCallPart,
} from "../model/internal.ts";
import { isModelEvent } from "../model/parse/reading.ts";
import { asObject } from "./fields.ts";

type TextBlock = {
  readonly type: "text";
  readonly id: string | null;
  text: string;
  kind: "text" | "refusal";
  phase: TextPhase | null;
  provider: ProviderReplay | null;
  metadata: JsonObject;
};
type ReasoningBlock = {
  readonly type: "reasoning";
  readonly id: string | null;
  text: string;
  redacted: boolean;
  provider: ProviderReplay | null;
};
type CallBlock = {
  readonly type: "call";
  readonly id: string;
  name: string;
  receivedArguments: string;
  call: ToolCall | null;
  readonly providerExecuted: boolean;
};
type Block = TextBlock | ReasoningBlock | CallBlock | { readonly type: "part"; readonly part: CompletePart };

/** A part that arrives complete. */
type CompletePart = ToolResultPart | OpaquePart | ImagePart | FilePart;

/**
 * What a decoder knows at the end of a reply. `rawFinishReason` is the provider's word; `model` is the model that
 * answered.
 */
export type ReplyEnd = {
  readonly finishReason: FinishReason | null;
  readonly rawFinishReason: string | null;
  readonly responseId: string | null;
  readonly model: string | null;
  readonly usage: Usage | null;
  readonly output?: StructuredOutput | null;
  readonly metadata?: JsonObject;
};

/** Collects the blocks of one reply and returns the events for them. One instance a reply. */
export class ReplyBuilder {
  readonly #context: WireContext;
  readonly #blocks: Block[] = [];
  readonly #blocksByKey = new Map<string, Block>();
  /** For each id of a call, how many calls have requested it. */
  readonly #idUses = new Map<string, number>();

  constructor(context: WireContext) {
    this.#context = context;
  }

  /** How the server of this reply deviates from its API. */
  get quirks(): Quirks {
    return this.#context.quirks;
  }

  /** Replay data stamped with the route of this reply (W4). */
  replayData(data: ProviderReplay["data"]): ProviderReplay {
    return { ...this.#context.route, data };
  }

  /** The first event of every reply. */
  messageStarted(): ModelEvent {
    return { type: "message_started", message: assistant("") };
  }

  /** Appends text to a block and opens the block if needed. */
  text(id: string | null, delta: string, kind: TextBlock["kind"] = "text"): ModelEvent {
    this.#textBlock(id, kind).text += delta;
    return { type: "text_delta", id, delta };
  }

  /** Completes a block of text. Fields of `details` replace what the deltas have built; absent fields keep it. */
  completeText(
    id: string | null,
    details: {
      readonly text?: string;
      readonly phase?: TextPhase | null;
      readonly provider?: ProviderReplay | null;
      readonly metadata?: JsonObject;
      readonly kind?: TextBlock["kind"];
    } = {},
  ): ModelEvent {
    const block = this.#textBlock(id, details.kind ?? "text");
    block.text = details.text ?? block.text;
    block.kind = details.kind ?? block.kind;
    block.phase = details.phase ?? block.phase;
    block.provider = storableReplay(details.provider) ?? block.provider;
    block.metadata = details.metadata === undefined ? block.metadata : storableMetadata(details.metadata);
    return { type: "text_completed", id, text: block.text, phase: block.phase, provider: block.provider };
  }

  /** Appends reasoning text to a block and opens the block if needed. */
  reasoning(id: string | null, delta: string): ModelEvent {
    this.#reasoningBlock(id).text += delta;
    return { type: "reasoning_delta", id, delta };
  }

  /** Completes a block of reasoning. `redacted`: the provider keeps the text to itself; only replay data exists. */
  completeReasoning(
    id: string | null,
    details: { readonly text?: string; readonly redacted?: boolean; readonly provider?: ProviderReplay | null } = {},
  ): ModelEvent {
    const block = this.#reasoningBlock(id);
    block.text = details.text ?? block.text;
    block.redacted = details.redacted ?? block.redacted;
    block.provider = storableReplay(details.provider) ?? block.provider;
    return { type: "reasoning_completed", id, text: block.text, redacted: block.redacted, provider: block.provider };
  }

  /**
   * Starts a call. `key` (default: its id) addresses the call in later calls of the builder. A repeated id is made
   * unique.
   */
  startCall(
    requestedId: string,
    name: string,
    options: { readonly providerExecuted?: boolean; readonly key?: string } = {},
  ): ModelEvent {
    const { providerExecuted = false, key = requestedId } = options;
    const id = this.#uniqueId(requestedId);
    const block: CallBlock = { type: "call", id, name, receivedArguments: "", call: null, providerExecuted };
    this.#blocks.push(block);
    this.#blocksByKey.set(`call:${key}`, block);
    return { type: "tool_call_started", id, name, providerExecuted };
  }

  /** The id of the call with this key, which differs from the requested id if that was taken. */
  callId(key: string): string | null {
    const block = this.#blocksByKey.get(`call:${key}`);
    return block?.type === "call" ? block.id : null;
  }

  /** Was a call with this key started? */
  hasCall(key: string): boolean {
    return this.#blocksByKey.has(`call:${key}`);
  }

  /** Was a call with this key started and not completed? */
  isCallOpen(key: string): boolean {
    const block = this.#blocksByKey.get(`call:${key}`);
    return block?.type === "call" && block.call === null;
  }

  /** Appends to the JSON text of the arguments. `null`: there is no call with this key. */
  appendArguments(key: string, argumentsDelta: string): ModelEvent | null {
    const block = this.#blocksByKey.get(`call:${key}`);
    if (block?.type !== "call") return null;
    block.receivedArguments += argumentsDelta;
    return { type: "tool_call_delta", id: block.id, argumentsDelta };
  }

  /**
   * Completes a call. Its arguments are `details.arguments`, or the parsed `details.raw`, or the parsed deltas. Text
   * that is no JSON object gives `arguments: null` with the text in `rawArguments`; the tool performer reports that to
   * the model.
   */
  completeCall(
    key: string,
    details: {
      readonly raw?: string;
      readonly arguments?: JsonObject | null;
      readonly provider?: ProviderReplay | null;
      readonly metadata?: JsonObject;
      readonly name?: string;
    } = {},
  ): ModelEvent | null {
    const block = this.#blocksByKey.get(`call:${key}`);
    if (block?.type !== "call") return null;
    const raw = details.raw ?? block.receivedArguments;
    const givenArguments = details.arguments;
    const call = toolCall({
      id: block.id,
      name: details.name ?? block.name,
      arguments: givenArguments === undefined ? parseArguments(raw) : givenArguments,
      rawArguments: givenArguments === undefined ? raw : null,
      provider: details.provider ?? null,
      metadata: details.metadata ?? {},
    });
    block.call = call;
    return { type: "tool_call_completed", ...call, providerExecuted: block.providerExecuted };
  }

  /** Adds a part in this place of the message. It has no event of its own. */
  part(part: CompletePart): void {
    this.#blocks.push({ type: "part", part });
  }

  /** The last events of the reply: usage, if it is known, and the message. Applies invariant 4. */
  end({
    finishReason,
    rawFinishReason,
    responseId,
    model,
    usage,
    output = null,
    metadata = {},
  }: ReplyEnd): readonly ModelEvent[] {
    const completedCalls = this.#completedCalls();
    const calls = completedCalls.filter(({ providerExecuted }) => !providerExecuted).map(({ call }) => call);
    const endedNormally = finishReason !== "length" && finishReason !== "content_filter" && finishReason !== "error";
    const reason =
      calls.length > 0 && endedNormally ? "tool_calls" : finishReason === "tool_calls" ? "stop" : finishReason;
    const parts = this.#parts();
    const [onlyPart] = parts;
    const isPlainText = parts.length === 1 && onlyPart?.type === "text" && isPlain(onlyPart);
    const content = parts.length === 0 ? "" : isPlainText && onlyPart?.type === "text" ? onlyPart.text : parts;
    const message = assistant(content, { toolCalls: calls, finishReason: reason });
    const usageEvents: readonly ModelEvent[] = usage === null ? [] : [{ type: "usage", usage }];
    const { route } = this.#context;
    return [
      ...usageEvents,
      {
        type: "message_completed",
        message,
        finishReason: reason,
        rawFinishReason,
        requestId: null,
        responseId,
        model,
        route,
        output,
        metadata: storableMetadata(metadata),
      },
    ];
  }

  #uniqueId(requestedId: string): string {
    let n = (this.#idUses.get(requestedId) ?? 0) + 1;
    let id = n === 1 ? requestedId : `${requestedId}~${n}`;
    while (n > 1 && this.#idUses.has(id)) {
      n += 1;
      id = `${requestedId}~${n}`;
    }
    this.#idUses.set(requestedId, n);
    if (id !== requestedId) this.#idUses.set(id, 1);
    return id;
  }

  #completedCalls(): readonly { readonly call: ToolCall; readonly providerExecuted: boolean }[] {
    return this.#blocks.flatMap((block) =>
      block.type === "call" && block.call !== null
        ? [{ call: block.call, providerExecuted: block.providerExecuted }]
        : [],
    );
  }

  /**
   * The parts in order. `tool_call` parts mark the place of calls. They are left out if the message has at most one
   * plain text and no calls before it, because `toolCalls` alone then says the same; such messages are stored as plain
   * text.
   */
  #parts(): readonly AssistantPart[] {
    const parts = this.#blocks.flatMap((block): readonly AssistantPart[] => {
      switch (block.type) {
        case "text": {
          const { text, kind, phase, provider, metadata } = block;
          return text === "" && provider === null ? [] : [textPart(text, { kind, phase, provider, metadata })];
        }
        case "reasoning": {
          const { text, redacted, provider } = block;
          return text === "" && provider === null ? [] : [reasoningPart(text, { redacted, provider })];
        }
        case "call":
          if (block.call === null) return [];
          return [toolCallPart(block.id, block.providerExecuted ? { providerExecuted: block.call } : {})];
        case "part":
          return [block.part];
      }
    });
    const firstCallIndex = parts.findIndex(({ type }) => type === "tool_call");
    const isSimple =
      parts.every((part) =>
        part.type === "tool_call" ? part.providerExecuted === null : part.type === "text" && isPlain(part),
      ) &&
      parts.filter(({ type }) => type === "text").length <= 1 &&
      (firstCallIndex === -1 || parts.slice(firstCallIndex).every(({ type }) => type === "tool_call"));
    return isSimple ? parts.filter(({ type }) => type === "text") : parts;
  }

  #textBlock(id: string | null, kind: TextBlock["kind"]): TextBlock {
    const existing = id === null ? this.#blocks.at(-1) : this.#blocksByKey.get(`text:${id}`);
    if (existing?.type === "text" && (id !== null || existing.id === null)) return existing;
    const block: TextBlock = { type: "text", id, text: "", kind, phase: null, provider: null, metadata: {} };
    this.#blocks.push(block);
    if (id !== null) this.#blocksByKey.set(`text:${id}`, block);
    return block;
  }

  #reasoningBlock(id: string | null): ReasoningBlock {
    const existing = id === null ? this.#blocks.at(-1) : this.#blocksByKey.get(`reasoning:${id}`);
    if (existing?.type === "reasoning" && (id !== null || existing.id === null)) return existing;
    const block: ReasoningBlock = { type: "reasoning", id, text: "", redacted: false, provider: null };
    this.#blocks.push(block);
    if (id !== null) this.#blocksByKey.set(`reasoning:${id}`, block);
    return block;
  }
}

/** A text part without refusal, phase, replay data or metadata: it can be stored as a string. */
function isPlain({ kind, phase, provider, metadata }: Extract<AssistantPart, { readonly type: "text" }>): boolean {
  return kind === "text" && phase === null && provider === null && Object.keys(metadata).length === 0;
}

/** The `raw_chunk` event of a provider's event. Its chunk is `null` if it cannot be stored. */
export function rawChunk(chunk: Json): ModelEvent {
  return { type: "raw_chunk", chunk: isStorableJson(chunk) ? chunk : null };
}

/** Replay data that can be stored, otherwise `null`: the provider accepts it complete or not at all. */
function storableReplay(replay: ProviderReplay | null | undefined): ProviderReplay | null {
  return replay === null || replay === undefined || !isStorableJson(replay.data) ? null : replay;
}

/** The metadata without the fields that cannot be stored. The check is the parser of events, which has the limits. */
function storableMetadata(metadata: JsonObject): JsonObject {
  const call = { type: "tool_call_completed", id: "", name: "", arguments: null };
  if (Object.keys(metadata).length === 0 || isModelEvent({ ...call, metadata })) return metadata;
  return Object.fromEntries(
    Object.entries(metadata).filter(([key, value]) => isModelEvent({ ...call, metadata: { [key]: value } })),
  );
}

/**
 * Parses the arguments of a call. Blank text is `{}`. `null`: the text is no JSON object, or one that cannot be stored.
 */
export function parseArguments(raw: string): JsonObject | null {
  if (raw.trim() === "") return {};
  const parsed = parseJson(raw);
  const argumentsObject = parsed === null ? null : asObject(parsed.value);
  return argumentsObject === null || !isStorableJson(argumentsObject) ? null : argumentsObject;
}
