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
  raw: string;
  whole: ToolCall | null;
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
  readonly #byKey = new Map<string, Block>();
  /** Ids of calls that are taken, and how often each was asked for. */
  readonly #ids = new Map<string, number>();

  constructor(context: WireContext) {
    this.#context = context;
  }

  /** Data the provider wants back, stamped with the way it came. */
  replay(data: ProviderReplay["data"]): ProviderReplay {
    return { ...this.#context.route, data };
  }

  started(): ModelEvent {
    return { type: "message_started", message: assistant("") };
  }

  text(id: string | null, delta: string, kind: TextBlock["kind"] = "text"): ModelEvent {
    this.#text(id, kind).text += delta;
    return { type: "text_delta", id, delta };
  }

  /** A block of text is whole. What is not given is as it was heard. */
  textEnd(
    id: string | null,
    rest: {
      readonly text?: string;
      readonly phase?: TextPhase | null;
      readonly provider?: ProviderReplay | null;
      readonly metadata?: JsonObject;
      readonly kind?: TextBlock["kind"];
    } = {},
  ): ModelEvent {
    const block = this.#text(id, rest.kind ?? "text");
    block.text = rest.text ?? block.text;
    block.kind = rest.kind ?? block.kind;
    block.phase = rest.phase ?? block.phase;
    block.provider = storableReplay(rest.provider) ?? block.provider;
    block.metadata = rest.metadata === undefined ? block.metadata : storableMetadata(rest.metadata);
    return { type: "text_completed", id, text: block.text, phase: block.phase, provider: block.provider };
  }

  reasoning(id: string | null, delta: string): ModelEvent {
    this.#reasoning(id).text += delta;
    return { type: "reasoning_delta", id, delta };
  }

  reasoningEnd(
    id: string | null,
    rest: { readonly text?: string; readonly redacted?: boolean; readonly provider?: ProviderReplay | null } = {},
  ): ModelEvent {
    const block = this.#reasoning(id);
    block.text = rest.text ?? block.text;
    block.redacted = rest.redacted ?? block.redacted;
    block.provider = storableReplay(rest.provider) ?? block.provider;
    return { type: "reasoning_completed", id, text: block.text, redacted: block.redacted, provider: block.provider };
  }

  /** A call begins. `key` is what the stream knows it by, when that is not its id. Another call of the same id gets one of its own. */
  callStart(
    wanted: string,
    name: string,
    options: { readonly providerExecuted?: boolean; readonly key?: string } = {},
  ): ModelEvent {
    const { providerExecuted = false, key = wanted } = options;
    const id = this.#freeId(wanted);
    const block: CallBlock = { type: "call", id, name, raw: "", whole: null, providerExecuted };
    this.#blocks.push(block);
    this.#byKey.set(`call:${key}`, block);
    return { type: "tool_call_started", id, name, providerExecuted };
  }

  /** The id of the call of that key, which is not always the one it asked for. */
  callId(key: string): string | null {
    const block = this.#byKey.get(`call:${key}`);
    return block?.type === "call" ? block.id : null;
  }

  hasCall(key: string): boolean {
    return this.#byKey.has(`call:${key}`);
  }

  /** Is the call of that key not whole yet? */
  isOpen(key: string): boolean {
    const block = this.#byKey.get(`call:${key}`);
    return block?.type === "call" && block.whole === null;
  }

  callDelta(key: string, argumentsDelta: string): ModelEvent | null {
    const block = this.#byKey.get(`call:${key}`);
    if (block?.type !== "call") return null;
    block.raw += argumentsDelta;
    return { type: "tool_call_delta", id: block.id, argumentsDelta };
  }

  /** A call is whole: its arguments are what was heard, or what is given. Arguments that are no JSON object are `null`, with what was written. */
  callEnd(
    key: string,
    rest: {
      readonly raw?: string;
      readonly arguments?: JsonObject | null;
      readonly provider?: ProviderReplay | null;
      readonly metadata?: JsonObject;
      readonly name?: string;
    } = {},
  ): ModelEvent | null {
    const block = this.#byKey.get(`call:${key}`);
    if (block?.type !== "call") return null;
    const raw = rest.raw ?? block.raw;
    const given = rest.arguments;
    const whole = toolCall({
      id: block.id,
      name: rest.name ?? block.name,
      arguments: given === undefined ? argumentsOf(raw) : given,
      rawArguments: given === undefined ? raw : null,
      provider: rest.provider ?? null,
      metadata: rest.metadata ?? {},
    });
    block.whole = whole;
    return { type: "tool_call_completed", ...whole, providerExecuted: block.providerExecuted };
  }

  /** Calls that were begun and never ended, in order: some APIs say no more than the end of the reply. */
  openCalls(): readonly string[] {
    return [...this.#byKey].flatMap(([key, block]) =>
      block.type === "call" && block.whole === null ? [key.slice("call:".length)] : [],
    );
  }

  /** Something of the provider's that has to stay in its place. */
  part(part: ToolResultPart | OpaquePart): void {
    this.#blocks.push({ type: "part", part });
  }

  /** Does the reply hold whole calls that somebody here has to run? */
  get hasCalls(): boolean {
    return this.#blocks.some((block) => block.type === "call" && !block.providerExecuted && block.whole !== null);
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
    const whole = this.#calls();
    const calls = whole.filter(({ providerExecuted }) => !providerExecuted).map(({ call }) => call);
    const well =
      finishReason === "stop" || finishReason === "other" || finishReason === null || finishReason === "tool_calls";
    const reason = calls.length > 0 && well ? "tool_calls" : finishReason === "tool_calls" ? "stop" : finishReason;
    const parts = this.#parts();
    const [only] = parts;
    const plain = parts.length === 1 && only?.type === "text" && isPlain(only);
    const content = parts.length === 0 ? "" : plain && only?.type === "text" ? only.text : parts;
    const message = assistant(content, { toolCalls: calls, finishReason: reason });
    const spent: readonly ModelEvent[] = usage === null ? [] : [{ type: "usage", usage }];
    const { route } = this.#context;
    return [
      ...spent,
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

  #freeId(wanted: string): string {
    let n = (this.#ids.get(wanted) ?? 0) + 1;
    let id = n === 1 ? wanted : `${wanted}~${n}`;
    while (n > 1 && this.#ids.has(id)) {
      n += 1;
      id = `${wanted}~${n}`;
    }
    this.#ids.set(wanted, n);
    if (id !== wanted) this.#ids.set(id, 1);
    return id;
  }

  #calls(): readonly { readonly call: ToolCall; readonly providerExecuted: boolean }[] {
    return this.#blocks.flatMap((block) =>
      block.type === "call" && block.whole !== null
        ? [{ call: block.whole, providerExecuted: block.providerExecuted }]
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
          if (block.whole === null) return [];
          return [toolCallPart(block.id, block.providerExecuted ? { providerExecuted: block.whole } : {})];
        case "part":
          return [block.part];
      }
    });
    const first = parts.findIndex(({ type }) => type === "tool_call");
    const isSimple =
      parts.every((part) =>
        part.type === "tool_call" ? part.providerExecuted === null : part.type === "text" && isPlain(part),
      ) &&
      parts.filter(({ type }) => type === "text").length <= 1 &&
      (first === -1 || parts.slice(first).every(({ type }) => type === "tool_call"));
    return isSimple ? parts.filter(({ type }) => type === "text") : parts;
  }

  #text(id: string | null, kind: TextBlock["kind"]): TextBlock {
    const known = id === null ? this.#blocks.at(-1) : this.#byKey.get(`text:${id}`);
    if (known?.type === "text" && (id !== null || known.id === null)) return known;
    const block: TextBlock = { type: "text", id, text: "", kind, phase: null, provider: null, metadata: {} };
    this.#blocks.push(block);
    if (id !== null) this.#byKey.set(`text:${id}`, block);
    return block;
  }

  #reasoning(id: string | null): ReasoningBlock {
    const known = id === null ? this.#blocks.at(-1) : this.#byKey.get(`reasoning:${id}`);
    if (known?.type === "reasoning" && (id !== null || known.id === null)) return known;
    const block: ReasoningBlock = { type: "reasoning", id, text: "", redacted: false, provider: null };
    this.#blocks.push(block);
    if (id !== null) this.#byKey.set(`reasoning:${id}`, block);
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
export function argumentsOf(raw: string): JsonObject | null {
  if (raw.trim() === "") return {};
  const parsed = parseJson(raw);
  const found = parsed === null ? null : asObject(parsed.value);
  return found === null || !isStorableJson(found) ? null : found;
}
