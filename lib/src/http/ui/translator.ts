// The stream of a chat, from what happens in a turn.
//
// Rules:
//   1. A client that is told of something it has not seen begin gives the whole chat up. So nothing is told of a block or a call before it was begun
//      in this stream, or is known to be there; also to a reader that comes late.
//   2. What is only heard (text, reasoning, arguments as they are written) is shown as that; a call is whole when its reply is stored, and nobody is
//      asked for anything before the turn has ended: an answer could not be taken earlier.
//   3. An `error` ends the stream for the client. It is said when the turn has failed, and not for what was tried again.

import type {
  ChatResult,
  Json,
  JsonObject,
  MessageCompleted,
  PendingToolCall,
  StepCompleted,
  ToolCall,
  TurnEvent,
} from "../../model/internal.ts";
import type { RuntimeEvent, TurnEnd } from "../../runtime/internal.ts";
import type { UiChunk } from "./chunks.ts";
import type { UiProgress, UiResult } from "./parts.ts";

import { parseCursor } from "../../runtime/internal.ts";
import { deniedChunks, requestChunk } from "./chunks.ts";
import { endingChunks, failureIn } from "./ending.ts";
import { approvalOf, resultOf, saidParts } from "./parts.ts";
import { UiReply } from "./reply.ts";

export type UiTranslatorOptions = {
  /** The message that is told; where it is not said, it has the id of the turn. */
  readonly messageId?: string;
  /** Calls that are in the message already, with what the reader knows of them. */
  readonly known?: Iterable<readonly [toolCallId: string, state: "open" | "settled"]>;
  /** The cursor behind which events are read: of a reply that it is in the middle of, only what is missing is told. */
  readonly after?: string;
};

/** How far a call has been told. `unheard`: its arguments are not shown until they are whole; `waiting`: somebody has to answer. */
type CallState = "streaming" | "unheard" | "open" | "waiting" | "settled";

/** What happens in one turn, as chunks. Takes its events in the order they are read. */
export class UiTranslator {
  #messageId: string | null;
  #turnId: string | null = null;
  readonly #calls: Map<string, CallState>;
  /** Calls that were begun in the step that is open: a reset makes them void. */
  readonly #ofStep = new Set<string>();
  /** How much of its arguments has been told of a call that is being written. */
  readonly #written = new Map<string, number>();
  readonly #hints = new Map<string, JsonObject>();
  /** Has the first reply been heard in part before? */
  #inTheMiddle: boolean;
  #step = 0;
  /** The reply of the step that is open; `null`: none is. */
  #reply: UiReply | null = null;
  #result: ChatResult | null = null;

  constructor({ messageId, known = [], after }: UiTranslatorOptions = {}) {
    this.#messageId = messageId ?? null;
    this.#inTheMiddle = after !== undefined && (parseCursor(after).position?.offsets.size ?? 0) > 0;
    this.#calls = new Map(known);
  }

  /** The message begins. Said before anything else, once; with the first event at the latest. */
  start(turnId: string): readonly UiChunk[] {
    if (this.#turnId !== null) return [];
    this.#turnId = turnId;
    this.#messageId ??= turnId;
    return [{ type: "start", messageId: this.#messageId, messageMetadata: { turnId } }];
  }

  add(told: RuntimeEvent): readonly UiChunk[] {
    const begun = this.start(told.turnId);
    if (told.turnId !== this.#turnId || this.#result !== null) return begun;
    return [...begun, ...this.#told(told, told.event)];
  }

  /** What is said at the end, with what the turn came to; `null`: nobody knows, the reading was cut. */
  end(end: TurnEnd | null): readonly UiChunk[] {
    return [...this.#finishStep(), ...endingChunks(this.#turnId ?? end?.turnId ?? "", this.#result, end)];
  }

  #told(told: RuntimeEvent, event: TurnEvent): readonly UiChunk[] {
    switch (event.type) {
      case "message_started":
        return this.#openStep();
      case "text_delta":
        return this.#delta("text", told, event.delta);
      case "reasoning_delta":
        return this.#delta("reasoning", told, event.delta);
      case "reasoning_completed":
        return this.#reply?.endReasoning() ?? [];
      case "tool_call_started":
        return this.#callStarted(event.id, event.name, event.providerExecuted);
      case "tool_call_delta":
        return this.#callDelta(told, event.id, event.argumentsDelta);
      case "message_completed":
        return this.#settle(event.message);
      case "tool_execution_started":
        return this.#known(event.id, event.name, event.arguments);
      case "tool_progress": {
        const { id, name, progress } = event;
        const data: UiProgress = { toolCallId: id, toolName: name, progress };
        return [
          ...this.#known(id, name, {}),
          { type: "data-tool-progress", id: `${this.#turnId ?? ""}/${this.#step}/${id}`, data },
        ];
      }
      case "tool_execution_completed": {
        const result = resultOf(event.result);
        return [...this.#known(event.id, event.name, {}), ...(result === null ? [] : this.#answered(event.id, result))];
      }
      case "ask_user_requested":
        this.#hints.set(event.toolCallId, event.opts);
        return this.#waits(event.toolCallId, event.toolName, {});
      case "approval_requested":
        return this.#waits(event.toolCallId, event.toolName, event.arguments);
      case "input_accepted":
        // What a turn begins with is a message of its own.
        if (event.checkpoint === null) return [];
        return event.inputs.flatMap(({ id, message }, index): readonly UiChunk[] =>
          message.role === "user"
            ? [
                {
                  type: "steering-message",
                  id: id ?? message.id ?? `${this.#turnId ?? ""}/${this.#step}/input/${index}`,
                  parts: saidParts(message.content),
                },
              ]
            : [],
        );
      case "step_reset":
        return this.#reset();
      case "step_completed":
        return this.#stepCompleted(event);
      case "chat_completed":
        return this.#completed(event.result);
      case "text_completed":
      case "tool_call_completed":
      case "usage":
      case "raw_chunk":
      case "error":
      case "tool_result_encoded":
      case "tool_halt":
      case "turn_started":
      case "retry_scheduled":
        return [];
    }
  }

  #openStep(): readonly UiChunk[] {
    if (this.#reply !== null) return [];
    this.#beginReply();
    return [{ type: "start-step" }];
  }

  #beginReply(): void {
    this.#reply = new UiReply(`${this.#turnId ?? ""}/${this.#step}`);
    if (this.#inTheMiddle) this.#reply.hear();
    this.#inTheMiddle = false;
    this.#ofStep.clear();
    this.#written.clear();
  }

  #finishStep(): readonly UiChunk[] {
    if (this.#reply === null) return [];
    const ended = this.#reply.endAll();
    this.#reply = null;
    return [...ended, { type: "finish-step" }];
  }

  #stepCompleted({ response, pendingToolCalls }: StepCompleted): readonly UiChunk[] {
    const { outputText, finishReason } = response;
    // A reply that broke off is told by no entry of its own: what there is of it is kept.
    const isTold = finishReason !== "error" || this.#reply?.heard === true;
    const rest = isTold || outputText === null || outputText === "" ? [] : this.#brokenOff(outputText);
    const chunks = [...rest, ...this.#close(pendingToolCalls, "not_run: the call was not run"), ...this.#finishStep()];
    this.#step += 1;
    return chunks;
  }

  #brokenOff(text: string): readonly UiChunk[] {
    const opened = this.#openStep();
    return [...opened, ...(this.#reply?.wholeText(text) ?? [])];
  }

  /** What the step has shown is void. The client keeps what came before it, also when nothing of the step has been shown. */
  #reset(): readonly UiChunk[] {
    if (this.#reply === null) return [];
    for (const id of this.#ofStep) this.#calls.delete(id);
    this.#beginReply();
    return [{ type: "reset-step" }];
  }

  #delta(kind: "text" | "reasoning", { delta }: RuntimeEvent, text: string): readonly UiChunk[] {
    const opened = this.#openStep();
    return [...opened, ...(this.#reply?.delta(kind, delta?.part ?? `${kind}/0`, text) ?? [])];
  }

  #callStarted(id: string, toolName: string, providerExecuted: boolean): readonly UiChunk[] {
    const opened = this.#openStep();
    if (this.#ofStep.has(id)) return opened;
    this.#ofStep.add(id);
    this.#calls.set(id, "streaming");
    const by = providerExecuted ? { providerExecuted } : {};
    return [...opened, { type: "tool-input-start", toolCallId: id, toolName, ...by }];
  }

  #callDelta({ delta }: RuntimeEvent, id: string, inputTextDelta: string): readonly UiChunk[] {
    this.#reply?.hear();
    if (!this.#ofStep.has(id) || this.#calls.get(id) !== "streaming") return [];
    const heard = this.#written.get(id) ?? 0;
    // The beginning was told to somebody else: half of it is no JSON.
    if (delta !== null && delta.offset !== heard) {
      this.#calls.set(id, "unheard");
      return [];
    }
    this.#written.set(id, heard + inputTextDelta.length);
    return [{ type: "tool-input-delta", toolCallId: id, inputTextDelta }];
  }

  /** A reply is stored: its calls are whole. */
  #settle(message: MessageCompleted["message"]): readonly UiChunk[] {
    const opened = this.#openStep();
    const calls = new Map(message.toolCalls.map((call) => [call.id, call]));
    const told = this.#reply?.settle(message, (part) => {
      if (part.type === "tool_result") return this.#providerResult(part.toolCallId, part.content, part.isError);
      const call = part.providerExecuted ?? calls.get(part.toolCallId);
      calls.delete(part.toolCallId);
      return call === undefined ? [] : this.#whole(call, part.providerExecuted !== null);
    });
    return [...opened, ...(told ?? []), ...[...calls.values()].flatMap((call) => this.#whole(call, false))];
  }

  #whole({ id, name, arguments: args, rawArguments }: ToolCall, providerExecuted: boolean): readonly UiChunk[] {
    this.#ofStep.add(id);
    // One that its provider runs is nobody's to answer, and its result may be in a later reply.
    this.#calls.set(id, providerExecuted ? "waiting" : "open");
    // What the model wrote, where that is no JSON object.
    return [this.#available(id, name, args ?? rawArguments ?? {}, providerExecuted)];
  }

  #available(toolCallId: string, toolName: string, input: Json, providerExecuted = false): UiChunk {
    const by = providerExecuted ? { providerExecuted } : {};
    const toolMetadata = { turnId: this.#turnId ?? "" };
    return { type: "tool-input-available", toolCallId, toolName, input, toolMetadata, ...by };
  }

  #providerResult(toolCallId: string, content: Json, isError: boolean): readonly UiChunk[] {
    if (!this.#calls.has(toolCallId)) return [];
    this.#calls.set(toolCallId, "settled");
    if (isError) {
      const errorText = typeof content === "string" ? content : JSON.stringify(content);
      return [{ type: "tool-output-error", toolCallId, errorText }];
    }
    return [{ type: "tool-output-available", toolCallId, output: content, providerExecuted: true }];
  }

  /** Tells of a call that this reader has not seen being made: it came late, or the call was made by code. */
  #known(id: string, name: string, args: JsonObject): readonly UiChunk[] {
    const state = this.#calls.get(id);
    if (state !== undefined && state !== "streaming" && state !== "unheard") return [];
    this.#calls.set(id, "open");
    if (this.#reply !== null) this.#ofStep.add(id);
    return [this.#available(id, name, args)];
  }

  #waits(id: string, name: string, args: JsonObject): readonly UiChunk[] {
    const known = this.#known(id, name, args);
    this.#calls.set(id, "waiting");
    return known;
  }

  #answered(toolCallId: string, result: UiResult): readonly UiChunk[] {
    this.#calls.set(toolCallId, "settled");
    switch (result.type) {
      case "output":
        return [{ type: "tool-output-available", toolCallId, output: result.output }];
      case "error":
        return [{ type: "tool-output-error", toolCallId, errorText: result.errorText }];
      case "denied": {
        const approvalId = `${this.#turnId ?? ""}:policy:${toolCallId}`;
        return deniedChunks(toolCallId, approvalId, result.reason, { isAutomatic: true });
      }
    }
  }

  /** Calls that nobody will hear of again. */
  #close(pending: readonly PendingToolCall[], errorText: string): readonly UiChunk[] {
    const waiting = new Set(pending.map(({ id }) => id));
    return [...this.#calls].flatMap(([toolCallId, state]): readonly UiChunk[] => {
      if (state === "settled" || state === "waiting" || waiting.has(toolCallId)) return [];
      this.#calls.set(toolCallId, "settled");
      return [{ type: "tool-output-error", toolCallId, errorText }];
    });
  }

  #completed(result: ChatResult): readonly UiChunk[] {
    this.#result = result;
    const turnId = this.#turnId ?? "";
    const pending = result.pendingToolCalls.filter(({ decision }) => decision === null);
    const cancelled = result.outcome.type === "cancelled";
    const chunks: UiChunk[] = [
      ...this.#close(pending, cancelled ? "cancelled: the turn was cancelled" : "not_run: the call was not run"),
      ...this.#finishStep(),
    ];
    for (const call of pending) {
      const { id: toolCallId, name, arguments: args, reason } = call;
      chunks.push(...this.#waits(toolCallId, name, args ?? {}));
      if (reason === "approval" || reason === "outcome_unknown")
        chunks.push(requestChunk(toolCallId, approvalOf(turnId, call)));
    }
    const asked = pending.find(({ reason }) => reason === "question") ?? null;
    const question = result.pendingQuestion ?? asked?.question ?? null;
    if (question !== null && failureIn(result) === null) {
      const toolCallId = result.pendingToolCallId ?? asked?.id ?? "";
      const opts = this.#hints.get(toolCallId) ?? result.metadata.askUserOpts ?? asked?.opts ?? {};
      chunks.push({ type: "data-question", id: `${turnId}/${toolCallId}`, data: { toolCallId, question, opts } });
    }
    return chunks;
  }
}
