// A reply as it is put together, whether it arrives in pieces or whole. Decoders tell it what they hear; it gives the events, and in the end the
// message. Because both ways go through it, a streamed reply and a whole one come to the same message (W3).

import type {
  AssistantPart,
  FinishReason,
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
import type { WireContext } from "./codec.ts";

import {
  assistant,
  isEvent,
  isStorableJson,
  parseJson,
  reasoningPart,
  textPart,
  toolCall,
  toolCallPart,
} from "../model/internal.ts";
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
type Block =
  | TextBlock
  | ReasoningBlock
  | CallBlock
  | { readonly type: "part"; readonly part: ToolResultPart | OpaquePart };

/** How a reply ended. */
export type ReplyEnd = {
  readonly finishReason: FinishReason | null;
  readonly rawFinishReason: string | null;
  readonly responseId: string | null;
  readonly model: string | null;
  readonly usage: Usage | null;
  readonly output?: StructuredOutput | null;
  readonly metadata?: JsonObject;
};

export class ReplyBuilder {
  readonly #context: WireContext;
  readonly #blocks: Block[] = [];
  readonly #blocksByKey = new Map<string, Block>();
  /** Ids of calls that are taken, and how often each was asked for. */
  readonly #idUses = new Map<string, number>();

  constructor(context: WireContext) {
    this.#context = context;
  }

  /** Data the provider wants back, stamped with the way it came. */
  replayData(data: ProviderReplay["data"]): ProviderReplay {
    return { ...this.#context.route, data };
  }

  messageStarted(): ModelEvent {
    return { type: "message_started", message: assistant("") };
  }

  text(id: string | null, delta: string, kind: TextBlock["kind"] = "text"): ModelEvent {
    this.#textBlock(id, kind).text += delta;
    return { type: "text_delta", id, delta };
  }

  /** A block of text is whole. What is not given is as it was heard. */
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

  reasoning(id: string | null, delta: string): ModelEvent {
    this.#reasoningBlock(id).text += delta;
    return { type: "reasoning_delta", id, delta };
  }

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

  /** A call begins. `key` is what the stream knows it by, when that is not its id. Another call of the same id gets one of its own. */
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

  /** The id of the call of that key, which is not always the one it asked for. */
  callId(key: string): string | null {
    const block = this.#blocksByKey.get(`call:${key}`);
    return block?.type === "call" ? block.id : null;
  }

  hasCall(key: string): boolean {
    return this.#blocksByKey.has(`call:${key}`);
  }

  /** Is the call of that key not whole yet? */
  isCallOpen(key: string): boolean {
    const block = this.#blocksByKey.get(`call:${key}`);
    return block?.type === "call" && block.call === null;
  }

  appendArguments(key: string, argumentsDelta: string): ModelEvent | null {
    const block = this.#blocksByKey.get(`call:${key}`);
    if (block?.type !== "call") return null;
    block.receivedArguments += argumentsDelta;
    return { type: "tool_call_delta", id: block.id, argumentsDelta };
  }

  /** A call is whole: its arguments are what was heard, or what is given. Arguments that are no JSON object are `null`, with what was written. */
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

  /** Calls that were begun and never ended, in order: some APIs say no more than the end of the reply. */
  openCalls(): readonly string[] {
    return [...this.#blocksByKey].flatMap(([key, block]) =>
      block.type === "call" && block.call === null ? [key.slice("call:".length)] : [],
    );
  }

  /** Something of the provider's that has to stay in its place. */
  part(part: ToolResultPart | OpaquePart): void {
    this.#blocks.push({ type: "part", part });
  }

  /** Does the reply hold whole calls that somebody here has to run? */
  get hasCalls(): boolean {
    return this.#blocks.some((block) => block.type === "call" && !block.providerExecuted && block.call !== null);
  }

  get heardText(): string {
    return this.#blocks.reduce((text, block) => (block.type === "text" ? text + block.text : text), "");
  }

  /** The end of the reply: what it cost, and the message. A reply that ended well and holds calls ended with calls. */
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
    const endedNormally =
      finishReason === "stop" || finishReason === "other" || finishReason === null || finishReason === "tool_calls";
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

  /** Parts in the order they were heard; calls are marked where they stand only if anything else is there to stand beside. */
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

/** A text that says nothing but its words. */
function isPlain({ kind, phase, provider, metadata }: Extract<AssistantPart, { readonly type: "text" }>): boolean {
  return kind === "text" && phase === null && provider === null && Object.keys(metadata).length === 0;
}

/** The provider's own event. One that cannot be stored is told all the same, without what it says. */
export function rawChunk(chunk: Json): ModelEvent {
  return { type: "raw_chunk", chunk: isStorableJson(chunk) ? chunk : null };
}

/** Replay data that cannot be stored whole is worth nothing: it goes back as it came or not at all. */
function storableReplay(replay: ProviderReplay | null | undefined): ProviderReplay | null {
  return replay === null || replay === undefined || !isStorableJson(replay.data) ? null : replay;
}

/** What can be stored of facts about a reply: one that cannot does not cost the reply. */
function storableMetadata(metadata: JsonObject): JsonObject {
  const call = { type: "tool_call_completed", id: "", name: "", arguments: null };
  if (Object.keys(metadata).length === 0 || isEvent({ ...call, metadata })) return metadata;
  return Object.fromEntries(
    Object.entries(metadata).filter(([key, value]) => isEvent({ ...call, metadata: { [key]: value } })),
  );
}

/** Arguments as an object; no text at all is none. `null`: what was written is no JSON object, or none that can be stored. */
export function parseArguments(raw: string): JsonObject | null {
  if (raw.trim() === "") return {};
  const parsed = parseJson(raw);
  const argumentsObject = parsed === null ? null : asObject(parsed.value);
  return argumentsObject === null || !isStorableJson(argumentsObject) ? null : argumentsObject;
}
