// The collector: the one fold from events to results (a reply, a step, a run).
//
// Streaming verbs emit events; `await generate(…)`, `step(…)` and `chat(…)` run the stream and return what this class
// collects from it (R2). The driver uses the same class while a turn runs, and readers use it to build a result from a
// stream they left early.
//
// Two levels of state: the draft of the open model call (blocks of text and reasoning, tool calls, usage), which
// `step_reset` and the end of a step replace; and the completed steps. The text of the block that grows is held in a
// field of the collector and written back when another block opens.
//
// Invariants
//   1. Total: every event is accepted, in any order, and none throws.
//   2. A delta costs constant amortised time, whatever came before: text grows by appending, blocks and calls are found
//      by id, nothing is copied.
//   3. `step_reset` discards the open step and nothing else.
//   4. Answers are in the order of their calls, and of several halts the one with the lowest call index counts, in
//      whatever order the tools finish.
//   5. Reading a result does not change what later events lead to.

import type {
  AssistantMessage,
  AssistantPart,
  ChatResult,
  Failure,
  FinishReason,
  HaltedReason,
  JsonObject,
  MessageCompleted,
  ModelReply,
  NoticeEvent,
  StepCompleted,
  StepMetadata,
  StepResult,
  Thread,
  ToolCall,
  ToolMessage,
  ToolValue,
  TurnEvent,
  TurnOutcome,
  Usage,
  Warning,
} from "../model/internal.ts";

import {
  boundedSum,
  assistant,
  awaitingUserContent,
  haltedReasonOf,
  invalidArgument,
  messageText,
  noUsage,
  reasoningPart,
  textPart,
  toolCall,
} from "../model/internal.ts";
import { describe, failureShape, isPlainObject, read } from "../model/parse/reading.ts";
import { messagesFromEnd } from "./history/history-thread.ts";
import { withUniqueCallIds } from "./protocol/unique-calls.ts";

/** One block of text or reasoning. */
type Block = { readonly id: string | null; readonly type: "text" | "reasoning"; text: string };

/**
 * A tool call while it is received. `raw`: the JSON text of the arguments so far; `completed`: the call once
 * `tool_call_completed` arrived.
 */
type OpenCall = {
  readonly id: string;
  name: string;
  raw: string;
  completed: ToolCall | null;
  providerExecuted: boolean;
};

/** The event that halted a step. */
type Halt =
  | { readonly type: "ask_user"; readonly toolCallId: string; readonly question: string; readonly opts: JsonObject }
  | { readonly type: "halt"; readonly toolCallId: string; readonly reason: string; readonly result: ToolValue };

/** The events of one model call so far: everything that `step_reset` discards. */
class Draft {
  /** In the order in which the blocks started (a `Map` keeps insertion order). */
  readonly blocks = new Map<string, Block>();
  /** The number of blocks without an id. It makes their keys unique. */
  unnamed = 0;
  /** The newest block without an id, by type. */
  readonly newestUnnamed: { text: Block | null; reasoning: Block | null } = { text: null, reasoning: null };
  readonly calls: OpenCall[] = [];
  /** The newest call of each id: providers repeat ids. */
  readonly callsById = new Map<string, OpenCall>();
  completed: MessageCompleted | null = null;
  finishReason: FinishReason | null = null;
  usage: Usage = noUsage;
  error: Failure | null = null;
  readonly warnings: Warning[] = [];
  metadata: JsonObject = {};
}

/**
 * Folds the events of a run into a reply, a step result or a chat result. It can be read at any point; reading
 * does not change it.
 */
export class Collector {
  #draft = new Draft();
  // The block that receives deltas. Its text grows in `#openText`, where appending is cheapest, and is written to the
  // block when another block opens or a result is read.
  #openBlock: Block | null = null;
  #openIsText = false;
  #openId: string | null = null;
  #openText = "";
  #thread: Thread | null;
  #answers: ToolMessage[] = [];
  #halts: Halt[] = [];
  readonly #steps: StepResult[] = [];
  #chat: ChatResult | null = null;

  /**
   * `thread`: the thread before the run. It is needed for step and chat results; a reply can be collected without it.
   */
  constructor(thread: Thread | null = null) {
    this.#thread = thread;
  }

  /**
   * Adds one event. Throws `MisuseError` for a value that is not an event; events of types that this release does not
   * know are ignored.
   */
  add(event: TurnEvent): void {
    // Fast path: nearly every event of a long reply is a text delta of the open block. Kept small so that engines
    // inline it; measured twice as fast.
    if (event?.type === "text_delta" && typeof event.delta === "string") {
      if (!this.#openIsText || this.#openId !== event.id) this.#open("text", event.id);
      this.#openText += event.delta;
    } else {
      this.#addOther(event);
    }
  }

  #addOther(event: TurnEvent): void {
    checkEvent(event);
    switch (event.type) {
      case "text_delta":
        // Not reached: `add` has appended the text, and `checkEvent` throws for a delta that is no string.
        return;
      case "reasoning_delta":
        this.#open("reasoning", event.id);
        this.#openText += event.delta;
        return;
      case "tool_call_delta":
        this.#call(event.id).raw += event.argumentsDelta;
        return;
      case "text_completed":
        this.#replace("text", event.id, event.text);
        return;
      case "reasoning_completed":
        this.#replace("reasoning", event.id, event.text);
        return;
      case "tool_call_started": {
        const call = this.#newCall(event.id);
        call.name = event.name;
        call.providerExecuted = event.providerExecuted;
        return;
      }
      case "tool_call_completed": {
        const { type: _, providerExecuted, ...completed } = event;
        const call = this.#newCall(event.id);
        call.completed = completed;
        call.providerExecuted = providerExecuted;
        return;
      }
      case "usage":
        this.#draft.usage = event.usage;
        return;
      case "warning":
        this.#draft.warnings.push(event.warning);
        return;
      case "message_completed":
        this.#draft.completed = event;
        // A missing finish reason does not erase an earlier one, and an error is final.
        if (this.#draft.error === null) this.#draft.finishReason = event.finishReason ?? this.#draft.finishReason;
        this.#draft.metadata = { ...this.#draft.metadata, ...event.metadata };
        return;
      case "error":
        this.#draft.error = event.error;
        this.#draft.finishReason = "error";
        return;
      case "tool_result_encoded":
        this.#answer(event.id, event);
        return;
      case "tool_halt":
        this.#answer(event.toolCallId, event);
        this.#halts.push({ ...event, type: "halt" });
        return;
      case "ask_user_requested":
        this.#answer(event.toolCallId, { content: awaitingUserContent, status: "awaiting_user" });
        this.#halts.push({ ...event, type: "ask_user" });
        return;
      case "step_reset":
        this.#startStep();
        return;
      case "step_completed":
        this.#steps.push(this.#stepOf(event));
        this.#thread = event.thread;
        this.#startStep();
        return;
      case "chat_completed":
        this.#chat = event.result;
        return;
      default:
        return ignoreNotice(event);
    }
  }

  /**
   * The text of the reply so far, or `""`. Deltas take precedence; without deltas it is the text of the completed
   * message.
   */
  get text(): string {
    if (this.#draft.blocks.size === 0 && this.#draft.completed !== null)
      return messageText(this.#draft.completed.message);
    return this.#blocks().reduce((text, block) => (block.type === "text" ? text + block.text : text), "");
  }

  /** The reply so far. A failure is in `error`; this does not throw. */
  reply(): ModelReply {
    const { completed, finishReason, usage, error, warnings, metadata } = this.#draft;
    // Calls of a failed reply are never run, so it has none.
    const toolCalls = error === null ? this.#toolCalls() : [];
    return withUniqueCallIds({
      id: completed?.responseId ?? null,
      model: completed?.model ?? null,
      route: completed?.route ?? null,
      output: completed?.output ?? null,
      rawFinishReason: completed?.rawFinishReason ?? null,
      message: completed === null ? null : this.#messageOf(completed, toolCalls),
      outputText: this.text,
      finishReason,
      requestId: completed?.requestId ?? null,
      toolCalls,
      usage,
      error,
      warnings: [...warnings],
      raw: null,
      metadata,
    });
  }

  /**
   * The received part of an incomplete reply as a message, or `null`: text and reasoning without tool calls, because
   * those must not run.
   */
  partial(): AssistantMessage | null {
    if (this.#draft.completed !== null) return null;
    const parts = this.#blocks()
      .filter((block) => block.text !== "")
      .map(partOf);
    return parts.length === 0 ? null : assistant(parts.every(isPlainText) ? this.text : parts);
  }

  /** The newest completed step; before the first one, the open step with `haltedReason` `cancelled`. */
  stepResult(): StepResult {
    const thread = this.#needThread("a step");
    const completed = this.#steps.at(-1);
    if (completed !== undefined) return completed;
    const { usage } = this.#draft;
    const defaults = { mode: "auto", manualToolCalls: [], pendingToolCalls: [], suspendedCell: null, usage } as const;
    const open = this.#stepOf({ type: "step_completed", response: this.reply(), thread, ...defaults });
    return { ...open, metadata: { haltedReason: "cancelled", ...open.metadata } };
  }

  /**
   * The result of `chat_completed`; for a stream that was left before that event, a failed or cancelled run with the
   * events received.
   */
  chatResult(): ChatResult {
    if (this.#chat !== null) return this.#chat;
    const thread = this.#needThread("a run");
    const lastStep = this.#steps.at(-1);
    const error = this.#draft.error ?? lastStep?.metadata.error ?? null;
    const outcome: TurnOutcome =
      error === null
        ? { type: "cancelled", evidence: { requestId: "consumer", origin: null, reason: "the stream was left early" } }
        : { type: "provider_error", failure: error };
    const { completed, blocks, calls } = this.#draft;
    const hasOpenReply = completed !== null || this.#draft.error !== null || blocks.size > 0 || calls.length > 0;
    return {
      thread,
      finalResponse: hasOpenReply ? this.reply() : (lastStep?.response ?? null),
      haltedReason: haltedReasonOf(outcome),
      outcome,
      pendingQuestion: null,
      pendingToolCallId: null,
      pendingToolCalls: lastStep?.pendingToolCalls ?? [],
      suspendedCell: lastStep?.suspendedCell ?? null,
      steps: [...this.#steps],
      usage: this.#spent(),
      contextWindow: null,
      protocolEvents: [],
      partial: this.partial(),
      metadata: error === null ? {} : { error },
    };
  }

  /** The usage of all steps and the open one. An addend that would overflow the sum is left out. */
  #spent(): Usage {
    const usages = [...this.#steps.map((step) => step.usage), this.#draft.usage];
    return usages.reduce(boundedSum, noUsage);
  }

  /** Discards the draft, the answers and the halts of the open step. */
  #startStep(): void {
    this.#begin(new Draft());
    this.#answers = [];
    this.#halts = [];
  }

  /** Opens the block with this id, existing or new. Without an id a change of type starts a new block. */
  #open(type: Block["type"], id: string | null): void {
    if (this.#openBlock?.type === type && this.#openBlock.id === id) return;
    this.#flushOpenText();
    const { blocks } = this.#draft;
    if (id === null) this.#draft.unnamed += 1;
    const key = id === null ? `${type}#${this.#draft.unnamed}` : `${type}:${id}`;
    const block = blocks.get(key) ?? { id, type, text: "" };
    blocks.set(key, block);
    if (id === null) this.#draft.newestUnnamed[type] = block;
    this.#openBlock = block;
    this.#openId = id;
    this.#openIsText = type === "text";
    this.#openText = block.text;
  }

  /**
   * Sets the complete text of a block: the one with this id or, without an id, the newest block of this type without an
   * id.
   */
  #replace(type: Block["type"], id: string | null, text: string): void {
    const unnamed = id === null ? this.#draft.newestUnnamed[type] : null;
    if (unnamed === null) {
      this.#open(type, id);
      this.#openText = text;
    } else {
      unnamed.text = text;
      if (unnamed === this.#openBlock) this.#openText = text;
    }
  }

  /** Writes `#openText` to the open block. */
  #flushOpenText(): void {
    if (this.#openBlock !== null) this.#openBlock.text = this.#openText;
  }

  /** All blocks, the open one up to date. */
  #blocks(): readonly Block[] {
    this.#flushOpenText();
    return [...this.#draft.blocks.values()];
  }

  #begin(draft: Draft): void {
    this.#draft = draft;
    this.#openBlock = null;
    this.#openIsText = false;
    this.#openText = "";
  }

  #call(id: string): OpenCall {
    return this.#draft.callsById.get(id) ?? this.#addCall(id);
  }

  /** The incomplete call with this id, or a new one: after a completed call the same id starts another call. */
  #newCall(id: string): OpenCall {
    const call = this.#draft.callsById.get(id);
    return call === undefined || call.completed !== null ? this.#addCall(id) : call;
  }

  #addCall(id: string): OpenCall {
    const call: OpenCall = { id, name: "", raw: "", completed: null, providerExecuted: false };
    this.#draft.calls.push(call);
    this.#draft.callsById.set(id, call);
    return call;
  }

  /** Adds an answer to a call. If the id has as many answers as calls, the new answer replaces the last one. */
  #answer(toolCallId: string, answer: Pick<ToolMessage, "content" | "status"> & Partial<ToolMessage>): void {
    const { content, status, code = null, ranArguments = null } = answer;
    const message = { id: null, name: null, origin: null, metadata: {}, role: "tool", toolCallId } as const;
    const calls = this.#draft.calls.filter((call) => call.id === toolCallId).length;
    const answerCount = this.#answers.filter((existing) => existing.toolCallId === toolCallId).length;
    if (answerCount >= Math.max(1, calls))
      this.#answers.splice(
        this.#answers.findLastIndex((existing) => existing.toolCallId === toolCallId),
        1,
      );
    this.#answers.push({ ...message, content, status, code, ranArguments });
  }

  /**
   * The calls that need an answer, without those the provider executes itself. A call that the stream left incomplete
   * is taken from the completed message, or else returned with `arguments: null` and its raw text.
   */
  #toolCalls(): readonly ToolCall[] {
    const messageCalls = this.#draft.completed?.message.toolCalls ?? [];
    const streamedCalls = this.#draft.calls.filter((call) => !call.providerExecuted);
    if (streamedCalls.length === 0) return messageCalls;
    return streamedCalls.map(({ id, name, raw, completed }) => {
      const complete = completed ?? messageCalls.find((call) => call.id === id);
      return complete ?? toolCall({ id, name, arguments: null, rawArguments: raw });
    });
  }

  /** The message of the reply: plain text is taken from the stream, a list of parts from the completed message. */
  #messageOf({ message }: MessageCompleted, toolCalls: readonly ToolCall[]): AssistantMessage {
    const content = typeof message.content === "string" ? this.text : message.content;
    return { ...message, content, toolCalls, finishReason: this.#draft.finishReason };
  }

  /**
   * The result of a step. `done`: the run ends after it, because a tool halted it, or the reply is not paused and asks
   * for no calls (also if its finish reason is `tool_calls`).
   */
  #stepOf(event: StepCompleted): StepResult {
    const order = new Map(event.response.toolCalls.map((call, index) => [call.id, index]));
    // Answers to no call of this reply come last.
    const place = (id: string) => order.get(id) ?? order.size;
    const byCall = (left: { readonly toolCallId: string }, right: { readonly toolCallId: string }) =>
      place(left.toolCallId) - place(right.toolCallId);
    const [halt = null] = this.#halts.toSorted(byCall);
    const finish = this.#draft.finishReason ?? event.response.finishReason;
    const callsTools = finish === "tool_calls" && event.response.toolCalls.length > 0;
    const continues = callsTools || finish === "paused";
    return {
      thread: event.thread,
      response: event.response,
      toolResults: answersIn(event) ?? this.#answers.toSorted(byCall),
      pendingToolCalls: event.pendingToolCalls,
      suspendedCell: event.suspendedCell,
      usage: event.usage,
      done: halt !== null || (!continues && event.suspendedCell === null),
      metadata: this.#stepMetadata(event, halt),
    };
  }

  #stepMetadata(event: StepCompleted, halt: Halt | null): StepMetadata {
    const error = this.#draft.error ?? event.response.error;
    const { finishReason, toolCalls } = event.response;
    const manual = event.mode === "manual" && finishReason === "tool_calls" && toolCalls.length > 0;
    return {
      ...(halt === null ? {} : haltMetadata(halt)),
      ...(manual ? { mode: "manual" as const } : {}),
      ...(event.manualToolCalls.length === 0 ? {} : { manualToolCalls: event.manualToolCalls }),
      ...(error === null ? {} : { error }),
    };
  }

  #needThread(what: string): Thread {
    if (this.#thread !== null) return this.#thread;
    throw invalidArgument(`Collector: collecting ${what} needs the thread before the run: new Collector(thread)`);
  }
}

/** Nothing is left to fold. Does not compile for a type of event that is no notice and has no case above. */
function ignoreNotice(_notice: NoticeEvent): void {}

type ReadFields = { readonly [field: string]: "string" | "object" };

/** The fields that the collector reads of an event, with their types. */
const readFields: { readonly [Type in Exclude<TurnEvent["type"], NoticeEvent["type"]>]: ReadFields } = {
  text_delta: { delta: "string" },
  reasoning_delta: { delta: "string" },
  tool_call_delta: { id: "string", argumentsDelta: "string" },
  text_completed: { text: "string" },
  reasoning_completed: { text: "string" },
  tool_call_started: { id: "string", name: "string" },
  tool_call_completed: { id: "string", name: "string" },
  usage: { usage: "object" },
  warning: { warning: "object" },
  message_completed: { message: "object" },
  error: { error: "object" },
  tool_result_encoded: { id: "string" },
  tool_halt: { toolCallId: "string" },
  ask_user_requested: { toolCallId: "string", question: "string" },
  step_reset: {},
  step_completed: { response: "object", thread: "object" },
  chat_completed: { result: "object" },
};
const readFieldsByType: ReadonlyMap<string, ReadFields> = new Map(Object.entries(readFields));

/**
 * Throws `MisuseError` for a value that is not an event. Constant time: `parse("event", value)` checks an event
 * completely.
 */
function checkEvent(event: unknown): void {
  if (!isPlainObject(event) || typeof event["type"] !== "string") {
    throw invalidArgument(`Collector: add takes an event, not ${describe(event)}`);
  }
  const type = event["type"];
  for (const [field, expected] of Object.entries(readFieldsByType.get(type) ?? {})) {
    const value = event[field];
    if (typeof value === expected && value !== null) continue;
    const message = `Collector: ${field} of ${type} must be ${expected === "string" ? "a string" : "an object"}, not ${describe(value)}`;
    throw invalidArgument(message, [field]);
  }
}

function haltMetadata(halt: Halt): StepMetadata {
  switch (halt.type) {
    case "ask_user":
      return {
        haltedReason: "ask_user",
        pendingToolCallId: halt.toolCallId,
        pendingQuestion: halt.question,
        askUserOpts: halt.opts,
      };
    case "halt": {
      const haltedReason: HaltedReason = halt.reason;
      // The result of a failed tool is in the answer to its call; only a halt that a tool asked for has a `haltResult`.
      if (haltedReason === "tool_error") {
        return { haltedReason, haltToolCallId: halt.toolCallId, ...stoppingFailure(halt.result) };
      }
      return { haltedReason, haltToolCallId: halt.toolCallId, haltResult: halt.result };
    }
  }
}

/** The failure that halted the step, and the exception if the `onToolError` function of the caller threw. */
function stoppingFailure(result: ToolValue): StepMetadata {
  const failure = read(failureShape, result);
  if ("issues" in failure) return {};
  const { cause, metadata } = failure.value;
  const raised = metadata["onToolErrorRaised"] === true && cause !== null;
  return { error: failure.value, ...(raised ? { onToolErrorException: cause } : {}) };
}

/**
 * The answers to the calls of a step, in call order, as its thread has them; `null` if the thread has no reply with
 * calls. Reads the thread from its end: the cost does not depend on earlier steps (H5).
 */
function answersIn({ thread, response }: StepCompleted): readonly ToolMessage[] | null {
  if (response.toolCalls.length === 0) return [];
  const answers: ToolMessage[] = [];
  for (const message of messagesFromEnd(thread)) {
    if (message.role === "tool") answers.push(message);
    if (message.role !== "assistant" || message.toolCalls.length === 0) continue;
    const order = new Map(response.toolCalls.map((call, index) => [call.id, index]));
    const place = ({ toolCallId }: ToolMessage) => order.get(toolCallId) ?? order.size;
    return answers.toReversed().toSorted((left, right) => place(left) - place(right));
  }
  return null;
}

function partOf(block: Block): AssistantPart {
  return block.type === "text" ? textPart(block.text) : reasoningPart(block.text);
}

function isPlainText(part: AssistantPart): boolean {
  return part.type === "text";
}
