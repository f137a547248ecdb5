// The one fold from events to what they add up to: a reply, a step, a run. Streaming verbs emit the events, their awaitable twins
// are this (R2), and whoever stops watching early still gets an honest account of what was seen.
//
// Rules:
//   1. Total: every event is taken, in any order, and none makes it throw.
//   2. A delta costs the same whatever came before it: text grows by appending, nothing held is copied.
//   3. `step_reset` forgets the attempt it ends, and nothing else.
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
} from "../model/index.ts";

import {
  assistant,
  awaitingUserContent,
  chatResult,
  MisuseError,
  modelReply,
  noUsage,
  reasoningPart,
  stepResult,
  textPart,
  toolCall,
  toolResult,
} from "../model/index.ts";

/** One run of text or reasoning, as it grows. */
type Block = { readonly id: string | null; readonly type: "text" | "reasoning"; text: string };

/** A call as it arrives; whole once its arguments are. */
type OpenCall = { readonly id: string; name: string; raw: string; whole: ToolCall | null; providerExecuted: boolean };

/** What stopped a step. */
type Halt =
  | { readonly type: "ask_user"; readonly toolCallId: string; readonly question: string; readonly opts: JsonObject }
  | { readonly type: "halt"; readonly toolCallId: string; readonly reason: string; readonly result: ToolValue };

/** What one model call has said so far: all that a `step_reset` makes void. */
class Attempt {
  readonly blocks: Block[] = [];
  readonly calls: OpenCall[] = [];
  completed: MessageCompleted | null = null;
  finishReason: FinishReason | null = null;
  usage: Usage = noUsage;
  error: Failure | null = null;
  metadata: JsonObject = {};
}

export class Collector {
  #attempt = new Attempt();
  // The block that is being added to. Its text grows here, where appending is cheapest, and is written to the block when another
  // one is opened or somebody asks.
  #openType: Block["type"] | null = null;
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
      if (this.#openType !== "text" || this.#openId !== event.id) this.#open("text", event.id);
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
        this.#open("text", event.id);
        this.#openText = event.text;
        return;
      case "reasoning_completed":
        this.#open("reasoning", event.id);
        this.#openText = event.text;
        return;
      case "tool_call_started": {
        const call = this.#call(event.id);
        call.name = event.name;
        call.providerExecuted = event.providerExecuted;
        return;
      }
      case "tool_call_completed": {
        const { type: _, providerExecuted, ...whole } = event;
        const call = this.#call(event.id);
        call.whole = whole;
        call.providerExecuted = providerExecuted;
        return;
      }
      case "usage":
        this.#attempt.usage = event.usage;
        return;
      case "message_completed":
        this.#attempt.completed = event;
        // A provider that says nothing about the end does not unsay what was known about it.
        this.#attempt.finishReason = event.finishReason ?? this.#attempt.finishReason;
        this.#attempt.metadata = { ...this.#attempt.metadata, ...event.metadata };
        return;
      case "error":
        this.#attempt.error = event.error;
        this.#attempt.finishReason = "error";
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
        this.#begin(new Attempt());
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

  /** The text of the reply so far; `""` when there is none. */
  get text(): string {
    return this.#blocks().reduce((text, block) => (block.type === "text" ? text + block.text : text), "");
  }

  /** The reply so far. A failure is in it and does not throw. */
  reply(): ModelReply {
    const { completed, finishReason, usage, error, metadata } = this.#attempt;
    const toolCalls = this.#toolCalls();
    return modelReply({
      id: completed?.responseId ?? null,
      model: completed?.model ?? null,
      route: completed?.route ?? null,
      output: completed?.output ?? null,
      rawFinishReason: completed?.rawFinishReason ?? null,
      message: completed === null ? null : this.#messageOf(completed, toolCalls),
      outputText: this.text,
      finishReason,
      toolCalls,
      usage,
      error,
      metadata,
    });
  }

  /** What has arrived of a reply that never ended, as a message: text and reasoning, and no call, since none may be run. */
  partial(): AssistantMessage | null {
    if (this.#attempt.completed !== null) return null;
    const parts = this.#blocks()
      .filter((block) => block.text !== "")
      .map(partOf);
    return parts.length === 0 ? null : assistant(parts.every(isPlainText) ? this.text : parts);
  }

  /** The step under way, as far as it got. */
  stepResult(): StepResult {
    const thread = this.#needThread("a step");
    const [finished] = this.#steps;
    if (finished !== undefined) return finished;
    return this.#stepOf({
      type: "step_completed",
      response: this.reply(),
      thread,
      mode: "auto",
      manualToolCalls: [],
      pendingToolCalls: [],
      usage: this.#attempt.usage,
    });
  }

  /** The run: as it reported itself, or, when it was left before it could, as failed or cancelled with what was seen of it. */
  chatResult(): ChatResult {
    if (this.#chat !== null) return this.#chat;
    const thread = this.#needThread("a run");
    const { error } = this.#attempt;
    const lastStep = this.#steps.at(-1);
    const outcome: TurnOutcome =
      error === null
        ? { type: "cancelled", evidence: { requestId: "consumer", origin: null, reason: "the stream was left early" } }
        : { type: "provider_error", failure: error };
    return chatResult(outcome, {
      thread,
      finalResponse: lastStep?.response ?? this.reply(),
      steps: this.#steps,
      partial: this.partial(),
      usage: this.#attempt.usage,
      metadata: error === null ? {} : { error },
    });
  }

  #startStep(): void {
    const { error, metadata, usage } = this.#attempt;
    this.#begin(Object.assign(new Attempt(), { error, metadata, usage }));
    this.#answers = [];
    this.#halts = [];
  }

  /** Goes on with the block of this id, or begins one. Without ids, what follows something else is a new block. */
  #open(type: Block["type"], id: string | null): void {
    if (this.#openType === type && this.#openId === id) return;
    const blocks = this.#blocks();
    const known = id === null ? undefined : blocks.find((block) => block.id === id && block.type === type);
    const block = known ?? { id, type, text: "" };
    if (known === undefined) this.#attempt.blocks.push(block);
    this.#openType = type;
    this.#openId = id;
    this.#openText = block.text;
  }

  /** All blocks, the open one up to date. */
  #blocks(): readonly Block[] {
    const open = this.#attempt.blocks.findLast((block) => block.type === this.#openType && block.id === this.#openId);
    if (open !== undefined) open.text = this.#openText;
    return this.#attempt.blocks;
  }

  #begin(attempt: Attempt): void {
    this.#attempt = attempt;
    this.#openType = null;
    this.#openText = "";
  }

  #call(id: string): OpenCall {
    const { calls } = this.#attempt;
    const known = calls.findLast((call) => call.id === id);
    if (known !== undefined) return known;
    const call: OpenCall = { id, name: "", raw: "", whole: null, providerExecuted: false };
    calls.push(call);
    return call;
  }

  #answer(id: string, answer: Pick<ToolMessage, "content" | "status"> & Partial<ToolMessage>): void {
    const { content, status, code = null, ranArguments = null } = answer;
    this.#answers.push(toolResult(id, content, { status, code, ranArguments }));
  }

  #toolCalls(): readonly ToolCall[] {
    return this.#attempt.calls
      .filter((call) => !call.providerExecuted)
      .map(({ id, name, raw, whole }) => whole ?? toolCall({ id, name, arguments: null, rawArguments: raw }));
  }

  /** What was heard counts: a message of plain text gets the text of the stream, one of parts is as its adapter made it. */
  #messageOf({ message }: MessageCompleted, toolCalls: readonly ToolCall[]): AssistantMessage {
    const content = typeof message.content === "string" ? this.text : message.content;
    return { ...message, content, toolCalls, finishReason: this.#attempt.finishReason };
  }

  #stepOf(event: StepCompleted): StepResult {
    const order = event.response.toolCalls.map((call) => call.id);
    const byCall = (left: string, right: string) => order.indexOf(left) - order.indexOf(right);
    const [halt = null] = this.#halts.toSorted((left, right) => byCall(left.toolCallId, right.toolCallId));
    const finish = this.#attempt.finishReason ?? event.response.finishReason;
    return stepResult({
      thread: event.thread,
      response: event.response,
      toolResults: this.#answers.toSorted((left, right) => byCall(left.toolCallId, right.toolCallId)),
      pendingToolCalls: event.pendingToolCalls,
      usage: event.usage,
      done: halt !== null || finish !== "tool_calls",
      metadata: this.#stepMetadata(event, halt),
    });
  }

  #stepMetadata(event: StepCompleted, halt: Halt | null): StepMetadata {
    const { error } = this.#attempt;
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
      if (haltedReason === "tool_error") return { haltedReason, haltToolCallId: halt.toolCallId };
      return { haltedReason, haltToolCallId: halt.toolCallId, haltResult: halt.result };
    }
  }
}

function partOf(block: Block): AssistantPart {
  return block.type === "text" ? textPart(block.text) : reasoningPart(block.text);
}

function isPlainText(part: AssistantPart): boolean {
  return part.type === "text";
}
