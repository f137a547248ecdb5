// The one fold from events to what they add up to: a reply, a step, a run. Streaming verbs emit the events, their awaitable twins
// are this (R2), and whoever stops watching early still gets an honest account of what was seen.
//
// Rules:
//   1. Total: every event is taken, in any order, and none makes it throw.
//   2. A delta costs the same whatever came before it: text grows by appending, blocks and calls are found by their ids, and nothing
//      that is held is copied.
//   3. `step_reset` forgets what the open step has said, and nothing else.
//   4. Answers stand in the order of their calls, and of several halts the one with the lowest call index counts, in whatever order
//      the tools happened to finish.

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
} from "../model/internal.ts";

import {
  addUsage,
  assistant,
  awaitingUserContent,
  haltedReasonOf,
  messageText,
  MisuseError,
  noUsage,
  parse,
  reasoningPart,
  textPart,
  toolCall,
} from "../model/internal.ts";
import { messagesFromEnd } from "./history/history-thread.ts";

/** One run of text or reasoning, as it grows. */
type Block = { readonly id: string | null; readonly type: "text" | "reasoning"; text: string };

/** A call as it arrives; whole once its arguments are. */
type OpenCall = { readonly id: string; name: string; raw: string; whole: ToolCall | null; providerExecuted: boolean };

/** What stopped a step. */
type Halt =
  | { readonly type: "ask_user"; readonly toolCallId: string; readonly question: string; readonly opts: JsonObject }
  | { readonly type: "halt"; readonly toolCallId: string; readonly reason: string; readonly result: ToolValue };

/** What one model call has said so far: all that a `step_reset` makes void. Maps keep the order in which things were first heard of. */
class Draft {
  readonly blocks = new Map<string, Block>();
  /** How many blocks had no id to be found by, and the newest of each kind. */
  unnamed = 0;
  readonly newestUnnamed: { text: Block | null; reasoning: Block | null } = { text: null, reasoning: null };
  readonly calls: OpenCall[] = [];
  /** The newest call of each id: providers repeat them. */
  readonly callsById = new Map<string, OpenCall>();
  completed: MessageCompleted | null = null;
  finishReason: FinishReason | null = null;
  usage: Usage = noUsage;
  error: Failure | null = null;
  metadata: JsonObject = {};
}

/**
 * Folds the events of a run into a reply, a step result or a chat result. It can be read at any point; reading
 * does not change it.
 */
export class Collector {
  #draft = new Draft();
  // The block that is being added to. Its text grows here, where appending is cheapest, and is written to the block when another
  // one is opened or somebody asks.
  #openBlock: Block | null = null;
  #openIsText = false;
  #openId: string | null = null;
  #openText = "";
  #thread: Thread | null;
  #answers: ToolMessage[] = [];
  #halts: Halt[] = [];
  readonly #steps: StepResult[] = [];
  #chat: ChatResult | null = null;

  /** With a thread, steps and runs can be collected; without one, a single reply. */
  constructor(thread: Thread | null = null) {
    this.#thread = thread;
  }

  /** Takes one more event in. */
  add(event: TurnEvent): void {
    // Nearly every event of a long reply goes on with the text that is open. Small enough to be inlined, this is twice as fast.
    if (event.type === "text_delta") {
      if (!this.#openIsText || this.#openId !== event.id) this.#open("text", event.id);
      this.#openText += event.delta;
    } else {
      this.#take(event);
    }
  }

  #take(event: Exclude<TurnEvent, { type: "text_delta" }>): void {
    switch (event.type) {
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
        const { type: _, providerExecuted, ...whole } = event;
        const call = this.#newCall(event.id);
        call.whole = whole;
        call.providerExecuted = providerExecuted;
        return;
      }
      case "usage":
        this.#draft.usage = event.usage;
        return;
      case "message_completed":
        this.#draft.completed = event;
        // A provider that says nothing about the end does not unsay what was known about it, and a failure stays one.
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
      case "message_started":
      case "raw_chunk":
      case "tool_execution_started":
      case "tool_progress":
      case "tool_execution_completed":
      case "approval_requested":
      case "turn_started":
      case "input_accepted":
      case "retry_scheduled":
        return;
    }
  }

  /** The text of the reply so far; `""` when there is none. What was heard counts; unheard, what the whole message says. */
  get text(): string {
    if (this.#draft.blocks.size === 0 && this.#draft.completed !== null)
      return messageText(this.#draft.completed.message);
    return this.#blocks().reduce((text, block) => (block.type === "text" ? text + block.text : text), "");
  }

  /** The reply so far. A failure is in it and does not throw. */
  reply(): ModelReply {
    const { completed, finishReason, usage, error, metadata } = this.#draft;
    // Calls of a reply that failed are never run: it has none.
    const toolCalls = error === null ? this.#toolCalls() : [];
    return {
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
      raw: null,
      metadata,
    };
  }

  /** What has arrived of a reply that never ended, as a message: text and reasoning, and no call, since none may be run. */
  partial(): AssistantMessage | null {
    if (this.#draft.completed !== null) return null;
    const parts = this.#blocks()
      .filter((block) => block.text !== "")
      .map(partOf);
    return parts.length === 0 ? null : assistant(parts.every(isPlainText) ? this.text : parts);
  }

  /** The newest step that completed; before one has, the step under way as far as it got, as cancelled. */
  stepResult(): StepResult {
    const thread = this.#needThread("a step");
    const finished = this.#steps.at(-1);
    if (finished !== undefined) return finished;
    const { usage } = this.#draft;
    const rest = { mode: "auto", manualToolCalls: [], pendingToolCalls: [], suspendedCell: null, usage } as const;
    const open = this.#stepOf({ type: "step_completed", response: this.reply(), thread, ...rest });
    return { ...open, metadata: { haltedReason: "cancelled", ...open.metadata } };
  }

  /** The run: as it reported itself, or, when it was left before it could, as failed or cancelled with what was seen of it. */
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
    const heard = completed !== null || this.#draft.error !== null || blocks.size > 0 || calls.length > 0;
    return {
      thread,
      finalResponse: heard ? this.reply() : (lastStep?.response ?? null),
      haltedReason: haltedReasonOf(outcome),
      outcome,
      pendingQuestion: null,
      pendingToolCallId: null,
      pendingToolCalls: lastStep?.pendingToolCalls ?? [],
      suspendedCell: lastStep?.suspendedCell ?? null,
      steps: [...this.#steps],
      usage: this.#spent(),
      partial: this.partial(),
      metadata: error === null ? {} : { error },
    };
  }

  /** What all steps and the open one have cost. A sum that cannot be counted on is left at what could. */
  #spent(): Usage {
    return [...this.#steps.map((step) => step.usage), this.#draft.usage].reduce((sum, usage) => {
      const more = addUsage(sum, usage);
      return more.ok ? more.value : sum;
    }, noUsage);
  }

  #startStep(): void {
    this.#begin(new Draft());
    this.#answers = [];
    this.#halts = [];
  }

  /** Goes on with the block of this id, or begins one. Without ids, what follows something else is a new block. */
  #open(type: Block["type"], id: string | null): void {
    if (this.#openBlock?.type === type && this.#openBlock.id === id) return;
    this.#settle();
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

  /** Sets the whole text of a block: the one of this id or, without one, the newest of its kind that has none either. */
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

  /** Writes the text of the open block down. */
  #settle(): void {
    if (this.#openBlock !== null) this.#openBlock.text = this.#openText;
  }

  /** All blocks, the open one up to date. */
  #blocks(): readonly Block[] {
    this.#settle();
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

  /** The call of this id that is not whole yet: after a whole one, another begins. */
  #newCall(id: string): OpenCall {
    const call = this.#draft.callsById.get(id);
    return call === undefined || call.whole !== null ? this.#addCall(id) : call;
  }

  #addCall(id: string): OpenCall {
    const call: OpenCall = { id, name: "", raw: "", whole: null, providerExecuted: false };
    this.#draft.calls.push(call);
    this.#draft.callsById.set(id, call);
    return call;
  }

  /** Where there are as many answers to an id as calls of it, the last one counts. */
  #answer(toolCallId: string, answer: Pick<ToolMessage, "content" | "status"> & Partial<ToolMessage>): void {
    const { content, status, code = null, ranArguments = null } = answer;
    const message = { id: null, name: null, origin: null, metadata: {}, role: "tool", toolCallId } as const;
    const calls = this.#draft.calls.filter((call) => call.id === toolCallId).length;
    const given = this.#answers.filter((known) => known.toolCallId === toolCallId).length;
    if (given >= Math.max(1, calls))
      this.#answers.splice(
        this.#answers.findLastIndex((known) => known.toolCallId === toolCallId),
        1,
      );
    this.#answers.push({ ...message, content, status, code, ranArguments });
  }

  /** The calls somebody has to answer. What the stream left unfinished, the whole message may have. */
  #toolCalls(): readonly ToolCall[] {
    const said = this.#draft.completed?.message.toolCalls ?? [];
    const heard = this.#draft.calls.filter((call) => !call.providerExecuted);
    if (heard.length === 0) return withOwnIds(said);
    return withOwnIds(
      heard.map(({ id, name, raw, whole }) => {
        const known = whole ?? said.find((call) => call.id === id);
        return known ?? toolCall({ id, name, arguments: null, rawArguments: raw });
      }),
    );
  }

  /** What was heard counts: a message of plain text gets the text of the stream, one of parts is as its adapter made it. */
  #messageOf({ message }: MessageCompleted, toolCalls: readonly ToolCall[]): AssistantMessage {
    const content = typeof message.content === "string" ? this.text : message.content;
    return { ...message, content, toolCalls, finishReason: this.#draft.finishReason };
  }

  #stepOf(event: StepCompleted): StepResult {
    const order = new Map(event.response.toolCalls.map((call, index) => [call.id, index]));
    // What answers no call of this reply comes last.
    const place = (id: string) => order.get(id) ?? order.size;
    const byCall = (left: { readonly toolCallId: string }, right: { readonly toolCallId: string }) =>
      place(left.toolCallId) - place(right.toolCallId);
    const [halt = null] = this.#halts.toSorted(byCall);
    const finish = this.#draft.finishReason ?? event.response.finishReason;
    return {
      thread: event.thread,
      response: event.response,
      toolResults: answersIn(event) ?? this.#answers.toSorted(byCall),
      pendingToolCalls: event.pendingToolCalls,
      suspendedCell: event.suspendedCell,
      usage: event.usage,
      done: halt !== null || (finish !== "tool_calls" && event.suspendedCell === null),
      metadata: this.#stepMetadata(event, halt),
    };
  }

  #stepMetadata(event: StepCompleted, halt: Halt | null): StepMetadata {
    const error = this.#draft.error ?? event.response.error;
    const manual = event.mode === "manual" && event.response.finishReason === "tool_calls";
    return {
      ...(halt === null ? {} : haltMetadata(halt)),
      ...(manual ? { mode: "manual" as const } : {}),
      ...(event.manualToolCalls.length === 0 ? {} : { manualToolCalls: event.manualToolCalls }),
      ...(error === null ? {} : { error }),
    };
  }

  #needThread(what: string): Thread {
    if (this.#thread !== null) return this.#thread;
    throw new MisuseError("invalid_argument", `to collect ${what}, give the collector the thread it began with`);
  }
}

/** Calls of one reply are told apart by their ids; a provider that repeats one gets it back with a number. */
function withOwnIds(calls: readonly ToolCall[]): readonly ToolCall[] {
  if (new Set(calls.map(({ id }) => id)).size === calls.length) return calls;
  const given = new Set(calls.map(({ id }) => id));
  const taken = new Set<string>();
  return calls.map((call) => {
    let { id } = call;
    for (let n = 2; taken.has(id); n += 1) id = given.has(`${call.id}~${n}`) ? id : `${call.id}~${n}`;
    taken.add(id);
    return id === call.id ? call : { ...call, id };
  });
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
      // What a failing tool came to is in the answer to its call; only a halt of its own has a result.
      if (haltedReason === "tool_error") {
        return { haltedReason, haltToolCallId: halt.toolCallId, ...stoppingFailure(halt.result) };
      }
      return { haltedReason, haltToolCallId: halt.toolCallId, haltResult: halt.result };
    }
  }
}

/** Why a tool stopped the step, and what the caller's own policy threw when it was asked about it. */
function stoppingFailure(result: ToolValue): StepMetadata {
  const failure = parse("failure", result);
  if (!failure.ok) return {};
  const { cause, metadata } = failure.value;
  const raised = metadata["onToolErrorRaised"] === true && cause !== null;
  return { error: failure.value, ...(raised ? { onToolErrorException: cause } : {}) };
}

/**
 * The answers to the calls of a step, in call order, as its thread has them; `null` when the thread does not hold the reply. Reads the thread from its
 * end: the cost does not depend on the steps before.
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
