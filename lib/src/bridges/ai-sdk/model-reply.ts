// The reply of an engine that serves as an AI SDK model: runs the turn of a call and translates its events into parts.
// See the theory of operation in language-model.ts.

import type { ChatOptions, Tool } from "../../core/engine/internal.ts";
import type {
  AssistantMessage,
  ChatResult,
  Failure,
  ToolMessage,
  TurnChange,
  TurnEvent,
} from "../../core/model/internal.ts";
import type { AiSdkModelPart, CallContent, Metadata, ModelWarning, ResultContent } from "./model-parts.ts";
import type { AiSdkCallOptions } from "./specification.ts";

import { argumentsText, errorFromFailure, TurnView, UniqueCallIds } from "../../core/model/internal.ts";
import { settingsOf, unsupportedSettings } from "./model-call.ts";
import { filesOf, finishOf, unifiedOf, warningOf, withMetadata } from "./model-parts.ts";
import { metadataKey, plainJson } from "./prompt.ts";

/** A block that is open in the stream. */
type OpenBlock = { readonly kind: "text" | "reasoning"; readonly part: string; readonly id: string };

/** Runs the turn of a call. */
type Run = (settings: ChatOptions, signal: AbortSignal) => AsyncIterable<TurnEvent>;

/** One call: runs the turn and translates its events. */
export class Reply {
  readonly #call: AiSdkCallOptions;
  readonly #run: Run;
  readonly #stop = new AbortController();
  readonly #view = new TurnView();
  /** Names of the tools that the AI SDK runs. */
  readonly #callerTools: ReadonlySet<string>;
  readonly #warnings: ModelWarning[];
  /** Parts that end a block or a call. The last one of a reply gets the whole reply as metadata. */
  #held: AiSdkModelPart[] = [];
  #open: OpenBlock | null = null;
  #hasStarted = false;
  #hasContent = false;
  #step = 0;
  #blocks = 0;
  readonly #toolNames = new Map<string, string>();
  /** The AI SDK finds the call of a result by its id, also in earlier steps. */
  readonly #ids: UniqueCallIds;

  /** `usedIds`: the ids of the calls in the prompt. */
  constructor(call: AiSdkCallOptions, callerTools: readonly Tool[], usedIds: readonly string[], run: Run) {
    this.#ids = new UniqueCallIds(usedIds);
    this.#call = call;
    this.#run = run;
    this.#warnings = [...unsupportedSettings(call)];
    this.#callerTools = new Set(callerTools.map(({ name }) => name));
  }

  cancel(): void {
    this.#stop.abort();
  }

  /**
   * The parts of the reply. `discard` drops the parts of a step whose model call is repeated; without it, such a step
   * ends the stream with an error.
   */
  async *parts(discard: ((step: string) => void) | null = null): AsyncGenerator<AiSdkModelPart, undefined> {
    const { abortSignal } = this.#call;
    const cancelled = () => this.#stop.abort(abortSignal?.reason);
    abortSignal?.throwIfAborted();
    abortSignal?.addEventListener("abort", cancelled);
    try {
      for await (const event of this.#run(settingsOf(this.#call), this.#stop.signal)) {
        for (const change of this.#view.add(event)) {
          if (change.type !== "discarded") yield* this.#change(change);
          else if (this.#hasContent && discard === null) {
            const message =
              "the model call failed after a part of the reply was sent, and cannot be repeated in this stream";
            yield { type: "error", error: new Error(message) };
            yield { type: "finish", ...finishOf("error", "step_reset", null) };
            return;
          } else if (this.#hasContent) {
            discard?.(`${this.#step}`);
            for (const callId of change.callIds) this.#ids.withdraw(callId);
            [this.#open, this.#held, this.#hasContent] = [null, [], false];
          }
        }
        yield* this.#translate(event);
        if (event.type === "chat_completed") yield* this.#end(event.result);
      }
    } finally {
      abortSignal?.removeEventListener("abort", cancelled);
    }
    abortSignal?.throwIfAborted();
  }

  /** The parts for a change of the reply. */
  #change(change: Exclude<TurnChange, { readonly type: "discarded" }>): readonly AiSdkModelPart[] {
    switch (change.type) {
      case "text":
      case "reasoning":
        return this.#append(change.type, change.part, change.delta);
      case "call_started": {
        const { name } = change;
        this.#toolNames.set(change.id, name);
        const id = this.#ids.begin(change.id);
        return this.#content([
          ...this.#closeBlock(),
          { type: "tool-input-start", id, toolName: name, ...this.#runner(name) },
        ]);
      }
      case "arguments":
        return [{ type: "tool-input-delta", id: this.#ids.of(change.id), delta: change.delta }];
      case "call":
      case "part":
      case "reply":
      case "call_changed":
        return [];
    }
  }

  /** The parts for an event that changes more than a reply, or tells more about it. */
  #translate(event: TurnEvent): readonly AiSdkModelPart[] {
    switch (event.type) {
      case "warning":
        this.#warnings.push(warningOf(event.warning));
        return [];
      case "text_completed":
        return this.#holdEnd("text");
      case "reasoning_completed":
        return this.#holdEnd("reasoning");
      case "tool_call_completed": {
        const { name } = event;
        const id = this.#ids.of(event.id);
        const input = argumentsText(event);
        const call: CallContent = { type: "tool-call", toolCallId: id, toolName: name, input, ...this.#runner(name) };
        return [...this.#release(), { type: "tool-input-end", id }, ...this.#hold([call])];
      }
      case "message_completed":
        return this.#completeReply(event.message, event.responseId, event.model);
      case "tool_result_encoded":
        return this.#content([this.#resultOf(event)]);
      case "step_completed":
        this.#step += 1;
        this.#hasContent = false;
        return [];
      case "raw_chunk":
        return [...this.#start(), { type: "raw", rawValue: event.chunk }];
      default:
        return [];
    }
  }

  /** The reply with the ids of the AI SDK, as it comes back in a later prompt. */
  #renamed(message: AssistantMessage): AssistantMessage {
    const { content, toolCalls } = message;
    if (toolCalls.every(({ id }) => this.#ids.of(id) === id)) return message;
    return {
      ...message,
      content:
        typeof content === "string"
          ? content
          : content.map((part) =>
              part.type === "tool_call" ? { ...part, toolCallId: this.#ids.of(part.toolCallId) } : part,
            ),
      toolCalls: toolCalls.map((call) => ({ ...call, id: this.#ids.of(call.id) })),
    };
  }

  /**
   * Who runs a tool: the engine's calls are those of the provider for the AI SDK, and their names are not known there.
   */
  #runner(name: string): { providerExecuted?: boolean; dynamic?: boolean } {
    return this.#callerTools.has(name) ? {} : { providerExecuted: true, dynamic: true };
  }

  /** The metadata of a part: its step, and with the last part of a reply the reply. */
  #metadata(message: AssistantMessage | null = null): Required<Metadata> {
    const fields = { step: `${this.#step}`, ...(message === null ? {} : { message: JSON.stringify(message) }) };
    return { providerMetadata: { [metadataKey]: fields } };
  }

  /** The first part, with the warnings so far. */
  #start(): readonly AiSdkModelPart[] {
    if (this.#hasStarted) return [];
    this.#hasStarted = true;
    return [{ type: "stream-start", warnings: this.#warnings }];
  }

  #content(parts: readonly AiSdkModelPart[]): readonly AiSdkModelPart[] {
    this.#hasContent = true;
    return [...this.#start(), ...this.#release(), ...parts];
  }

  #hold(parts: readonly AiSdkModelPart[]): readonly AiSdkModelPart[] {
    this.#held.push(...parts);
    return [];
  }

  #release(): readonly AiSdkModelPart[] {
    const held = this.#held;
    this.#held = [];
    return held.map((part) => ("providerMetadata" in part ? part : withMetadata(part, this.#metadata())));
  }

  #append(kind: OpenBlock["kind"], part: string, delta: string): readonly AiSdkModelPart[] {
    const opened = this.#open?.part === part ? [] : [...this.#closeBlock(), ...this.#openBlock(kind, part)];
    return this.#content([...opened, { type: `${kind}-delta`, id: this.#open?.id ?? "", delta }]);
  }

  #openBlock(kind: OpenBlock["kind"], part: string): readonly AiSdkModelPart[] {
    this.#blocks += 1;
    const id = `${this.#blocks}`;
    this.#open = { kind, part, id };
    return [{ type: `${kind}-start`, id }];
  }

  #closeBlock(): readonly AiSdkModelPart[] {
    const block = this.#open;
    this.#open = null;
    return block === null ? [] : [{ type: `${block.kind}-end`, id: block.id, ...this.#metadata() }];
  }

  /** Ends the open block if it is of this kind. Its end is held back, because it may be the last part of the reply. */
  #holdEnd(kind: OpenBlock["kind"]): readonly [] {
    const block = this.#open;
    if (block?.kind !== kind) return [];
    this.#open = null;
    this.#hold([{ type: `${kind}-end`, id: block.id }]);
    return [];
  }

  #completeReply(message: AssistantMessage, id: string | null, modelId: string | null): readonly AiSdkModelPart[] {
    if (this.#open !== null) this.#holdEnd(this.#open.kind);
    const last = this.#held.at(-1);
    const marked = last === undefined ? [] : [withMetadata(last, this.#metadata(this.#renamed(message)))];
    this.#held = [...this.#held.slice(0, -1), ...marked];
    return [
      ...this.#start(),
      { type: "response-metadata", ...(id === null ? {} : { id }), ...(modelId === null ? {} : { modelId }) },
      ...this.#release(),
      ...filesOf(message),
    ];
  }

  #resultOf({ id, content, status }: { readonly id: string } & Pick<ToolMessage, "content" | "status">): ResultContent {
    const isError = status === "failure" || status === "cancelled" || status === "not_run";
    return {
      type: "tool-result",
      toolCallId: this.#ids.of(id),
      toolName: this.#toolNames.get(id) ?? "",
      result: typeof content === "string" ? content : (plainJson(content) ?? ""),
      ...(isError ? { isError } : {}),
      dynamic: true,
      ...this.#metadata(),
    };
  }

  *#end(result: ChatResult): Generator<AiSdkModelPart> {
    if (result.haltedReason === "cancelled") return;
    yield* this.#start();
    yield* this.#closeBlock();
    yield* this.#release();
    const { haltedReason, finalResponse, usage, pendingToolCalls, metadata } = result;
    const waiting = pendingToolCalls.find(({ name }) => !this.#callerTools.has(name));
    const failure: Failure | null = metadata.error ?? finalResponse?.error ?? null;
    const error =
      waiting === undefined
        ? failure === null
          ? null
          : errorFromFailure(failure)
        : new Error(
            `the call of the tool "${waiting.name}" waits for a person (${waiting.reason}), which a language model of the AI SDK cannot do; use a session of Everturn`,
          );
    if (error !== null) yield { type: "error", error };
    const reason = finalResponse?.finishReason ?? null;
    const raw = haltedReason === "completed" ? (finalResponse?.rawFinishReason ?? reason) : haltedReason;
    const unified =
      error !== null
        ? "error"
        : pendingToolCalls.length > 0
          ? "tool-calls"
          : haltedReason === "completed"
            ? unifiedOf(reason)
            : "other";
    yield { type: "finish", ...finishOf(unified, raw, usage) };
  }
}
