// Folds the events of one turn into what a reader shows: the messages so far, the blocks of the open reply, and the
// calls with their states.
//
// Theory of operation
//   A reader passes every event to `add`, in order, as it gets them: from a run in memory (`TurnEvent`) or from a
//   stream of the runtime (`RuntimeEvent`, which has the part and the offset of each delta). `add` returns what the
//   event changed, for consumers that write a stream of their own (the dialects of HTTP, a terminal). `snapshot` is the
//   whole, for consumers that draw it again.
//
// Invariants
//   1. Each character of a text, and of the arguments of a call, is reported once, as deltas or with the complete
//      reply, also to a reader that joins late or gets deltas again. Text after a lost delta is reported with the
//      complete reply.
//   2. A view of stored events alone, without deltas, ends in the same snapshot as one of all events.
//   3. `step_reset` discards the open reply; with the reason `restart` also the reply of the open step and its calls.
//      Earlier steps stay.
//   4. The cost of a delta does not depend on what came before it. A snapshot is built when it is read, and is the same
//      object until the view changes.

import type { Failure } from "../failure/failure.ts";
import type { AssistantMessage, Message, ToolMessage } from "../message/message.ts";
import type { FilePart, ImagePart, ToolResultPart } from "../message/part.ts";
import type { Json, JsonObject } from "../parse/json.ts";
import type { RuntimeEvent } from "../session/session-view.ts";
import type { PendingToolCall } from "../tool/pending.ts";
import type { ToolOutcome } from "../tool/tool-outcome.ts";
import type { ToolCall } from "../tool/tool.ts";
import type { TurnEvent } from "./event.ts";
import type { ChatResult } from "./run-results.ts";

import { replyText } from "../call/reply.ts";
import { assistant } from "../message/message.ts";
import { canonicalJson } from "../parse/canonical-json.ts";
import { argumentsText } from "../tool/tool.ts";
import { missingTexts, ReplyParts } from "./reply-parts.ts";

/** A turn as its events show it. Plain data: the same object until the view changes. */
export type TurnSnapshot = {
  /**
   * The messages that the turn has added so far: replies, the answers to their calls in call order, and input that was
   * added to the open turn. They have no ids. What no event reports is missing until the session is read after the
   * turn: the answers to calls that were not run (denied, of an unknown tool, of a reply that was cut off, of a
   * cancelled turn), results that were submitted, the question of a tool, and the output of a code cell.
   */
  readonly messages: readonly Message[];
  /** The blocks of the reply that is being received, in order; empty if there is none. */
  readonly blocks: readonly TurnBlock[];
  /** The calls of the newest step, by id: those of its reply, and those that its tools or code make. */
  readonly calls: ReadonlyMap<string, TurnCall>;
  /** The number of completed steps. */
  readonly steps: number;
  /** The newest failure that was reported in the open step; the turn may continue after it. `null`: none. */
  readonly failure: Failure | null;
  /** The compaction that runs now: old messages are being replaced by a summary in requests. `null`: none. */
  readonly compaction: { readonly frameId: string; readonly from: number; readonly to: number } | null;
  /** The result of the turn; `null` while it is open. */
  readonly result: ChatResult | null;
};

/** A part of the reply that is being received. */
export type TurnBlock =
  | {
      readonly type: "text" | "reasoning";
      /** The name of the part in its reply, for example `text/0`. */
      readonly part: string;
      readonly text: string;
    }
  | {
      readonly type: "call";
      /** The id of the call. */
      readonly part: string;
      readonly name: string;
      /** The text of the arguments so far; `null`: the reader missed the beginning. */
      readonly text: string | null;
    };

/** A call of a tool and its state. */
export type TurnCall = {
  readonly id: string;
  readonly name: string;
  /**
   * The arguments that the handler was started with, otherwise those of the model; `null`: they are not known or not an
   * object.
   */
  readonly arguments: JsonObject | null;
  /** `called`: not started yet. `waiting`: for a person or for the program. `failed`: also a call that was not run. */
  readonly state: "called" | "running" | "waiting" | "succeeded" | "failed" | "cancelled";
  /** The last progress that the tool has reported; `null`: none. */
  readonly progress: Json;
  /** How often the handler was started. */
  readonly attempts: number;
  /** How long the handler ran, in milliseconds; `null`: it has not ended, or the time was not measured. */
  readonly durationMs: number | null;
  /** The answer as the model sees it; `null`: there is none yet. */
  readonly answer: ToolAnswer | null;
};

type ToolAnswer = Pick<ToolMessage, "content" | "status" | "code" | "ranArguments">;

/** What an event has changed in a view. An event without an entry here changes the snapshot only, or nothing. */
export type TurnChange =
  /** New text of a block. `isStart`: it is the first text of the block. */
  | {
      readonly type: "text" | "reasoning";
      readonly part: string;
      readonly delta: string;
      readonly isStart: boolean;
    }
  /** The model begins a call. */
  | { readonly type: "call_started"; readonly id: string; readonly name: string; readonly providerExecuted: boolean }
  /** New text of the arguments of a call. It is reported only if all text before it was. */
  | { readonly type: "arguments"; readonly id: string; readonly delta: string }
  /**
   * A call of a complete reply. `isReported`: the text of its arguments is the one that was reported; `false`: the
   * provider has changed it.
   */
  | {
      readonly type: "call";
      readonly call: ToolCall;
      readonly providerExecuted: boolean;
      readonly isReported: boolean;
    }
  /** Another part of a complete reply. */
  | { readonly type: "part"; readonly part: ImagePart | FilePart | ToolResultPart }
  /** The reply is complete. All its text, calls and parts have been reported before, at their places. */
  | { readonly type: "reply"; readonly message: AssistantMessage }
  /** A call was started, has reported progress, was answered, waits, or gets no further events. */
  | { readonly type: "call_changed"; readonly call: TurnCall }
  /**
   * The open reply was discarded; another attempt follows. `reply`: the complete reply of a step that is restarted;
   * otherwise `null`. `callIds`: the calls of both.
   */
  | {
      readonly type: "discarded";
      readonly blocks: readonly TurnBlock[];
      readonly reply: AssistantMessage | null;
      readonly callIds: readonly string[];
    };

/**
 * A block while it grows. Appending to a string is constant in time; it is copied when the text is read. `isWhole`: no
 * text of the arguments is missing.
 */
type OpenBlock =
  | { readonly type: "text" | "reasoning"; readonly part: string; text: string }
  | { readonly type: "call"; readonly part: string; readonly name: string; text: string; isWhole: boolean };

/** The state of one step: what a restart discards. */
type OpenStep = {
  readonly messages: Message[];
  readonly calls: Map<string, TurnCall>;
  failure: Failure | null;
  isOver: boolean;
};

/**
 * The view of one turn. Pass every event to `add`, and read `snapshot` to draw it.
 *
 * @example
 * ```ts
 * import { engine, fake, stream } from "everturn";
 * import { messageText } from "everturn"; import { TurnView } from "everturn/advanced";
 *
 * const agent = engine({ adapter: fake({ script: [{ type: "text", text: "Hello!" }] }), model: "fake:m" });
 * const view = new TurnView();
 * for await (const event of stream(agent, "hi")) view.add(event);
 * view.snapshot.messages.map(messageText); // => ["Hello!"]
 * ```
 */
export class TurnView {
  /** Messages of steps that have ended. */
  readonly #messages: Message[] = [];
  #step: OpenStep = newStep();
  /** In order; calls by `call:` and their id. */
  readonly #blocks = new Map<string, OpenBlock>();
  /** The number of characters that were received, by part of the open reply. */
  readonly #received: Map<string, number>;
  #parts = new ReplyParts();
  #steps = 0;
  #compaction: TurnSnapshot["compaction"] = null;
  #result: ChatResult | null = null;
  #snapshot: TurnSnapshot | null = null;

  /**
   * `received`: the number of characters of each part of the open reply that the reader already has, if it continues
   * inside of a reply. The blocks of that reply then have the text after them. Default: none.
   */
  constructor({ received }: { readonly received?: ReadonlyMap<string, number> } = {}) {
    this.#received = new Map(received);
  }

  /** The view as plain data. */
  get snapshot(): TurnSnapshot {
    this.#snapshot ??= {
      messages: [...this.#messages, ...stepMessages(this.#step)],
      blocks: this.#openBlocks(),
      calls: new Map(this.#step.calls),
      steps: this.#steps,
      failure: this.#step.failure,
      compaction: this.#compaction,
      result: this.#result,
    };
    return this.#snapshot;
  }

  /** A call of the newest step; `undefined`: there is none with this id. */
  call(id: string): TurnCall | undefined {
    return this.#step.calls.get(id);
  }

  /** Applies an event and returns what it changed. */
  add(added: TurnEvent | RuntimeEvent): readonly TurnChange[] {
    const event = "event" in added ? added.event : added;
    this.#snapshot = null;
    switch (event.type) {
      case "message_started":
        this.#startStep();
        return [];
      case "text_delta":
      case "reasoning_delta": {
        const type = event.type === "text_delta" ? "text" : "reasoning";
        const { part, offset } = this.#locate(added, event);
        return this.#append(type, part, event.delta, offset);
      }
      case "tool_call_started":
        return this.#startCall(event);
      case "tool_call_delta":
        return this.#appendArguments(event.id, event.argumentsDelta, this.#locate(added, event).offset);
      case "tool_call_completed":
        return this.#completeCall(event, event.providerExecuted).changes;
      case "message_completed":
        return [...this.#complete(event.message), { type: "reply", message: event.message }];
      case "tool_execution_started": {
        const { id, name, arguments: args } = event;
        const attempts = (this.call(id)?.attempts ?? 0) + 1;
        return this.#change(id, name, { state: "running", arguments: args, progress: null, attempts });
      }
      case "tool_progress":
        return this.#change(event.id, event.name, { progress: event.progress });
      case "tool_execution_completed":
        return this.#change(event.id, event.name, {
          durationMs: event.durationMs,
          state: outcomeStates[event.result.type],
        });
      case "tool_result_encoded":
        return this.#change(event.id, null, answered(event));
      case "tool_halt":
        return this.#change(event.toolCallId, null, answered(event));
      case "ask_user_requested":
      case "approval_requested":
        return this.#change(event.toolCallId, event.toolName, { state: "waiting" });
      case "input_accepted":
        // Input that starts a turn is a message of the session, not of the turn.
        if (event.checkpoint === null) return [];
        this.#endStep();
        this.#messages.push(...event.inputs.map(({ message }) => message));
        return [];
      case "error":
        if (this.#step.isOver) this.#endStep();
        this.#step.failure = event.error;
        return [];
      case "step_reset":
        return [this.#reset(event.reason === "restart")];
      case "compaction_started": {
        const { frameId, from, to } = event;
        this.#compaction = { frameId, from, to };
        return [];
      }
      case "compaction_ended":
        this.#compaction = null;
        return [];
      case "step_completed": {
        // A reply that failed has no `message_completed`. The text that was received of it is a message.
        const text = event.response.finishReason === "error" ? (replyText(event.response) ?? "") : "";
        const hasReply = this.#step.messages.length > 0 && !this.#step.isOver;
        const changes = hasReply || text === "" ? [] : this.#complete(assistant(text));
        const ended = this.#endCalls(event.pendingToolCalls, "failed");
        this.#step.isOver = true;
        this.#steps += 1;
        this.#discardReply();
        return [...changes, ...ended];
      }
      case "chat_completed": {
        const { outcome, finalResponse, pendingToolCalls } = event.result;
        const isCancelled = outcome.type === "cancelled";
        const changes = isCancelled ? this.#completeCancelled(finalResponse?.message ?? null) : [];
        const ended = this.#endCalls(pendingToolCalls, isCancelled ? "cancelled" : "failed");
        this.#compaction = null;
        this.#result = event.result;
        this.#discardReply();
        return [...changes, ...ended];
      }
      case "text_completed":
      case "reasoning_completed":
      case "usage":
      case "warning":
      case "raw_chunk":
      case "turn_started":
      case "retry_scheduled":
        return [];
    }
  }

  /** The part and the offset of a delta: as the runtime reports them, or counted here. */
  #locate(
    added: TurnEvent | RuntimeEvent,
    event: TurnEvent,
  ): { readonly part: string; readonly offset: number | null } {
    if ("event" in added && added.delta !== null) return added.delta;
    return { part: this.#parts.locate(event).part ?? "", offset: null };
  }

  #append(type: "text" | "reasoning", part: string, delta: string, offset: number | null): readonly TurnChange[] {
    const received = this.#received.get(part) ?? 0;
    // After a lost delta: the complete reply reports the rest.
    if (offset !== null && offset > received) return [];
    const newText = offset === null ? delta : delta.slice(received - offset);
    if (newText === "") return [];
    this.#received.set(part, received + newText.length);
    const block = this.#blocks.get(part);
    if (block === undefined) {
      this.#startStep();
      this.#blocks.set(part, { type, part, text: newText });
    } else block.text += newText;
    return [{ type, part, delta: newText, isStart: block === undefined }];
  }

  #startCall({
    id,
    name,
    providerExecuted,
  }: Omit<Extract<TurnEvent, { readonly type: "tool_call_started" }>, "type">): readonly TurnChange[] {
    if (this.#openCall(id) !== null) return [];
    this.#startStep();
    this.#blocks.set(`call:${id}`, { type: "call", part: id, name, text: "", isWhole: true });
    return [{ type: "call_started", id, name, providerExecuted }];
  }

  #appendArguments(id: string, delta: string, offset: number | null): readonly TurnChange[] {
    const call = this.#openCall(id);
    if (call === null || !call.isWhole) return [];
    if (offset !== null && offset > call.text.length) {
      call.isWhole = false;
      return [];
    }
    const newText = offset === null ? delta : delta.slice(call.text.length - offset);
    if (newText === "") return [];
    call.text += newText;
    return [{ type: "arguments", id, delta: newText }];
  }

  /** The call is complete: reports what did not arrive as deltas. */
  #completeCall(
    call: Pick<ToolCall, "id" | "name" | "arguments" | "rawArguments">,
    providerExecuted: boolean,
  ): { readonly changes: readonly TurnChange[]; readonly isReported: boolean } {
    const started = this.#startCall({ ...call, providerExecuted });
    const open = this.#openCall(call.id);
    const text = argumentsText(call);
    if (open === null || !text.startsWith(open.text)) return { changes: started, isReported: false };
    open.isWhole = true;
    const rest = this.#appendArguments(call.id, text.slice(open.text.length), null);
    return { changes: [...started, ...rest], isReported: true };
  }

  /**
   * The complete reply: reports the text that did not arrive as deltas, the calls and the other parts, in the order of
   * the content.
   */
  #complete(message: AssistantMessage): readonly TurnChange[] {
    const { content, toolCalls } = message;
    const changes: TurnChange[] = [];
    const calls = new Map(toolCalls.map((call) => [call.id, call]));
    const texts = new Map(missingTexts(message, this.#received).map((missing) => [missing.index, missing]));
    const addCall = (call: ToolCall, providerExecuted: boolean): void => {
      const { changes: before, isReported } = this.#completeCall(call, providerExecuted);
      changes.push(...before, { type: "call", call, providerExecuted, isReported });
    };
    this.#startStep();
    for (const [index, part] of typeof content === "string" ? [content].entries() : content.entries()) {
      const missing = texts.get(index);
      if (missing !== undefined) changes.push(...this.#append(missing.type, missing.part, missing.text, null));
      if (typeof part === "string") continue;
      switch (part.type) {
        case "tool_call": {
          const call = part.providerExecuted ?? calls.get(part.toolCallId);
          if (call !== undefined) addCall(call, part.providerExecuted !== null);
          calls.delete(part.toolCallId);
          break;
        }
        case "image":
        case "file":
        case "tool_result":
          changes.push({ type: "part", part });
          break;
        case "text":
        case "reasoning":
        case "opaque":
          break;
      }
    }
    for (const call of calls.values()) addCall(call, false);
    this.#discardReply();
    this.#step.messages.push(message);
    for (const { id, name, arguments: args } of toolCalls) this.#change(id, name, { arguments: args });
    return changes;
  }

  /**
   * What was received of the reply during which the turn was cancelled. A turn that was cancelled at another time has
   * the reply of its last step in the same place.
   */
  #completeCancelled(message: AssistantMessage | null): readonly TurnChange[] {
    if (message === null) return [];
    const replies = [...this.#messages, ...this.#step.messages].filter(({ role }) => role === "assistant");
    const isReply = replies.some((reply) => canonicalJson(reply) === canonicalJson(message));
    return isReply ? [] : this.#complete(message);
  }

  #reset(isRestart: boolean): TurnChange {
    const blocks = this.#openBlocks();
    const openIds = blocks.flatMap(({ type, part }) => (type === "call" ? [part] : []));
    const isWithdrawn = isRestart && !this.#step.isOver;
    const callIds = isWithdrawn ? [...new Set([...this.#step.calls.keys(), ...openIds])] : openIds;
    const reply = this.#step.messages.find((message) => message.role === "assistant") ?? null;
    this.#discardReply();
    if (isWithdrawn) this.#step = newStep();
    return { type: "discarded", blocks, reply: isWithdrawn ? reply : null, callIds };
  }

  /** The calls that have not been answered wait for an answer, or get no further events. */
  #endCalls(pending: readonly PendingToolCall[], state: "failed" | "cancelled"): readonly TurnChange[] {
    const waiting = new Set(pending.map(({ id }) => id));
    const unanswered = [...this.#step.calls.values()].filter(
      (call) => call.state === "called" || call.state === "running",
    );
    return unanswered.flatMap(({ id }) => this.#change(id, null, { state: waiting.has(id) ? "waiting" : state }));
  }

  /**
   * The first event of a reply ends the step before it, or the answers to calls of an earlier turn, with which a turn
   * may start.
   */
  #startStep(): void {
    const hasAnswers = [...this.#step.calls.values()].some(({ answer }) => answer !== null);
    if (this.#step.messages.length > 0 || hasAnswers) this.#endStep();
  }

  #endStep(): void {
    this.#messages.push(...stepMessages(this.#step));
    this.#step = newStep();
  }

  #discardReply(): void {
    this.#blocks.clear();
    this.#received.clear();
    this.#parts = new ReplyParts();
  }

  #openCall(id: string): Extract<OpenBlock, { readonly type: "call" }> | null {
    const block = this.#blocks.get(`call:${id}`);
    return block?.type === "call" ? block : null;
  }

  #openBlocks(): readonly TurnBlock[] {
    return [...this.#blocks.values()].map((block): TurnBlock => {
      const { part, text } = block;
      if (block.type !== "call") return { type: block.type, part, text };
      return { type: "call", part, name: block.name, text: block.isWhole ? text : null };
    });
  }

  #change(id: string, name: string | null, changes: Partial<TurnCall>): readonly TurnChange[] {
    const call = { ...(this.call(id) ?? { ...newCall, id, name: name ?? "" }), ...changes };
    this.#step.calls.set(id, call);
    return [{ type: "call_changed", call }];
  }
}

function newStep(): OpenStep {
  return { messages: [], calls: new Map(), failure: null, isOver: false };
}

/**
 * The answers to calls of an earlier turn, in their order of arrival; then the reply of a step and the answers to its
 * calls, in call order.
 */
function stepMessages({ messages, calls }: OpenStep): readonly Message[] {
  const ownCalls = messages.flatMap((message) => (message.role === "assistant" ? message.toolCalls : []));
  const ownIds = new Set(ownCalls.map(({ id }) => id));
  const earlier = [...calls.values()].filter(({ id }) => !ownIds.has(id));
  return [
    ...earlier.flatMap(answerMessage),
    ...messages,
    ...ownCalls.flatMap(({ id }) => answerMessage(calls.get(id))),
  ];
}

function answerMessage(call: TurnCall | undefined): readonly ToolMessage[] {
  if (call === undefined || call.answer === null) return [];
  const fields = {
    id: null,
    name: call.name === "" ? null : call.name,
    origin: null,
    metadata: {},
    providerOptions: {},
  };
  return [{ role: "tool", toolCallId: call.id, ...fields, ...call.answer }];
}

const newCall: Omit<TurnCall, "id" | "name"> = {
  arguments: null,
  state: "called",
  progress: null,
  attempts: 0,
  durationMs: null,
  answer: null,
};

const outcomeStates: { readonly [T in ToolOutcome["type"]]: TurnCall["state"] } = {
  success: "succeeded",
  halt: "succeeded",
  failure: "failed",
  cancelled: "cancelled",
  ask_user: "waiting",
};

const answerStates: { readonly [S in ToolMessage["status"]]: TurnCall["state"] } = {
  success: "succeeded",
  failure: "failed",
  not_run: "failed",
  cancelled: "cancelled",
  awaiting_user: "waiting",
};

function answered({ content, status, code, ranArguments }: ToolAnswer): Partial<TurnCall> {
  return { answer: { content, status, code, ranArguments }, state: answerStates[status] };
}
