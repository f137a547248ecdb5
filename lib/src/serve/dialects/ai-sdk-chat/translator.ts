// Translates the events of a turn to chunks of the AI SDK's UI message stream.
//
// Rules
//   1. The client rejects a stream with a chunk for a block or call that was not started. So no chunk refers to a block
//      or call before it was started in this stream or is known to be in the message, also for a reader that joins
//      late.
//   2. Live events (text, reasoning and argument deltas) are sent as deltas. A call is complete when its reply is
//      stored. Approvals and questions are requested when the turn has ended, because the session accepts no answer
//      before.
//   3. An `error` chunk ends the stream for the client. It is sent when the turn has failed, and not for attempts that
//      are retried.
//
// Mapping of events to chunks
//   message_started                 start-step
//   text, reasoning                 text-start / reasoning-start once, then deltas
//   call_started, arguments         tool-input-start, tool-input-delta, while the reply is received
//   call, part, reply               tool-input-available for each call, files, results of provider-executed tools, ends
//                                   of blocks
//   tool_progress                   data-tool-progress (transient: not part of the message, because it is not stored)
//   tool_result_encoded, tool_halt  tool-output-available or tool-output-error, also for a denial by policy
//   tool_execution_completed        the same for a call of code, whose result the model is not shown
//   input_accepted (steering)       data-steering-message
//   warning                         data-warning (transient: not part of the message)
//   compaction_started, _ended      data-compaction (transient)
//   step_reset (discarded)          reset-step; data-step-reset for version 6 of the SDK
//   step_completed                  tool-output-error for calls that were not run, finish-step
//   chat_completed                  questions of pending calls
//   end of the turn                 error, abort, finish, requests for approvals (ending.ts)
//
// `TurnView` folds the events of a reply (core/model/turn/turn-view.ts), so live events may be missing or repeated for
// a reader that joins late or reconnects; stored events alone result in the same message.

import type {
  ChatResult,
  Json,
  JsonObject,
  PendingToolCall,
  ToolCall,
  ToolResultPart,
  TurnChange,
  TurnEvent,
} from "../../../core/model/internal.ts";
import type { RuntimeEvent, TurnEnd } from "../../../durable/internal.ts";
import type { UiProgress } from "../../contract/internal.ts";
import type { UiChunk } from "./chunks.ts";
import type { ToolAnswer, UiResult } from "./parts.ts";

import { canonicalJson, TurnView } from "../../../core/model/internal.ts";
import { parseCursor } from "../../../durable/internal.ts";
import { compactionChunk, deniedChunk, requestChunk } from "./chunks.ts";
import { endingChunks, failureIn } from "./ending.ts";
import { approvalOf, fileOf, notRunText, pendingInput, resultOf, resultOfMessage, userParts } from "./parts.ts";
import { ReplyBlocks } from "./reply-blocks.ts";

export type UiTranslatorOptions = {
  /** The id of the message. Default: the id of the turn. */
  readonly messageId?: string;
  /** The calls that the message already contains. `open`: the reader waits for their result. */
  readonly existingCalls?: Iterable<readonly [toolCallId: string, state: "open" | "settled"]>;
  /** The cursor after which events are read. If it is inside of a reply, only the missing text is sent. */
  readonly after?: string;
  /** The major version of the client's SDK. Default: 7. */
  readonly sdk?: UiSdk;
};

/** The major version of the AI SDK. Version 6 rejects `reset-step`. */
export type UiSdk = 6 | 7;

/**
 * What was sent of a call. `streaming`: its arguments as deltas. `open`: complete arguments. `waiting`: an answer or a
 * result of the provider is pending. `settled`: its result.
 */
type CallState = "streaming" | "open" | "waiting" | "settled";

/** Translates the events of one turn, in the order they are read. */
export class UiTranslator {
  #messageId: string | null;
  #turnId: string | null = null;
  /** The state of every call of the message, by id. */
  readonly #calls: Map<string, CallState>;
  /** Calls that no reply of this stream has. Code made them, or the reader joined after the reply. */
  readonly #callsOfCode = new Set<string>();
  /** Options of questions, by call id. The stored result of the turn has them for one question only. */
  readonly #questionOptions = new Map<string, JsonObject>();
  #view: TurnView;
  /** The number of completed steps. It is part of block ids. */
  #step = 0;
  /** The reply of the open step; `null` if no step is open. */
  #reply: ReplyBlocks | null = null;
  /** The requests for approvals of the calls that the turn left pending. */
  #requests: readonly UiChunk[] = [];
  /** The result of the turn; events after it are ignored. */
  #result: ChatResult | null = null;
  /** Whether the newest step of the message has calls, other than those that the provider executes. */
  #lastStepHasCalls: boolean;
  readonly #sdk: UiSdk;
  /** The number of withdrawn attempts. It is part of the ids of `data-step-reset`. */
  #resets = 0;
  #cursor: string | null = null;

  constructor({ messageId, existingCalls = [], after, sdk = 7 }: UiTranslatorOptions = {}) {
    this.#messageId = messageId ?? null;
    this.#sdk = sdk;
    const received = after === undefined ? undefined : parseCursor(after).position?.offsets;
    this.#view = new TurnView(received === undefined ? {} : { received });
    this.#calls = new Map(existingCalls);
    this.#lastStepHasCalls = this.#calls.size > 0;
  }

  /** The cursor of the last event; `null`: none was added. */
  get cursor(): string | null {
    return this.#cursor;
  }

  /**
   * Continues after a cursor, of which the stored events were added: the step and the blocks that the reader has of the
   * open reply are open, and only the text after them is sent.
   */
  continueAfter(cursor: string): void {
    const { position } = parseCursor(cursor);
    this.#cursor = cursor;
    if (position === null) return;
    this.#view = new TurnView({ received: position.offsets });
    this.#openStep();
    for (const part of position.offsets.keys()) {
      if (part.startsWith("reasoning/")) this.#reply?.delta("reasoning", part, "");
      if (part.startsWith("text/")) this.#reply?.delta("text", part, "");
    }
  }

  /** The `start` chunk. It is the first chunk and is sent once, with the first event at the latest. */
  start(turnId: string): readonly UiChunk[] {
    if (this.#turnId !== null) return [];
    this.#turnId = turnId;
    this.#messageId ??= turnId;
    return [{ type: "start", messageId: this.#messageId, messageMetadata: { turnId } }];
  }

  /** The chunks of one event. Events of other turns are ignored. */
  add(runtimeEvent: RuntimeEvent): readonly UiChunk[] {
    this.#cursor = runtimeEvent.cursor;
    const startChunks = this.start(runtimeEvent.turnId);
    if (runtimeEvent.turnId !== this.#turnId || this.#result !== null) return startChunks;
    const { event } = runtimeEvent;
    const changes = this.#view.add(runtimeEvent).flatMap((change) => this.#change(change, event));
    return [...startChunks, ...changes, ...this.#translate(event)];
  }

  /** The chunks that end the stream. `end` is the stored end of the turn; `null` if the reader was disconnected. */
  end(end: TurnEnd | null): readonly UiChunk[] {
    const turnId = this.#turnId ?? end?.turnId ?? "";
    return [...this.#finishStep(), ...endingChunks(turnId, this.#result, end, this.#lastStepHasCalls, this.#requests)];
  }

  /** The chunks of a change of the reply. */
  #change(change: TurnChange, event: TurnEvent): readonly UiChunk[] {
    const isComplete = event.type === "message_completed";
    switch (change.type) {
      case "text":
      case "reasoning": {
        const { type, part, delta, isStart } = change;
        return [
          ...this.#openStep(),
          // In a complete reply, each block ends before the next one.
          ...(isComplete && isStart ? this.#endBlocks() : []),
          ...(this.#reply?.delta(type, part, delta) ?? []),
        ];
      }
      case "call_started":
        return isComplete ? [] : [...this.#openStep(), ...this.#callStarted(change)];
      case "arguments":
        return event.type === "tool_call_delta"
          ? [{ type: "tool-input-delta", toolCallId: change.id, inputTextDelta: change.delta }]
          : [];
      case "call":
        return isComplete ? [...this.#openStep(), ...this.#endBlocks(), ...this.#completeCall(change)] : [];
      case "part": {
        const { part } = change;
        const ends = [...this.#openStep(), ...this.#endBlocks()];
        if (part.type === "tool_result") return [...ends, ...this.#providerResult(part)];
        const file = fileOf(part);
        return file === null ? ends : [...ends, { type: "file", url: file.url, mediaType: file.mediaType }];
      }
      case "reply":
        return [...this.#openStep(), ...this.#endBlocks()];
      case "call_changed":
        return [];
      case "discarded":
        return this.#reset(change.callIds);
    }
  }

  /** The chunks of an event that changes more than a reply. */
  #translate(event: TurnEvent): readonly UiChunk[] {
    switch (event.type) {
      case "message_started":
        return this.#openStep();
      case "reasoning_completed":
        return this.#reply?.endReasoning() ?? [];
      case "tool_execution_started":
        return this.#ensureCall(event.id, event.name, event.arguments);
      case "tool_progress": {
        const { id, name, progress } = event;
        const data: UiProgress = { toolCallId: id, toolName: name, progress };
        return [...this.#ensureCall(id, name, {}), { type: "data-tool-progress", data, transient: true }];
      }
      case "tool_execution_completed": {
        const ensured = this.#ensureCall(event.id, event.name, {});
        const result = this.#callsOfCode.has(event.id) ? resultOf(event.result) : null;
        return [...ensured, ...(result === null ? [] : this.#settleCall(event.id, result))];
      }
      // What is stored of a result is what the model is shown: a page that is loaded again shows the same.
      case "tool_result_encoded":
        return this.#encoded({ ...event, toolCallId: event.id });
      case "tool_halt":
        return this.#encoded(event);
      case "ask_user_requested":
        this.#questionOptions.set(event.toolCallId, event.opts);
        return this.#markWaiting(event.toolCallId, event.toolName, {});
      case "approval_requested":
        return this.#markWaiting(event.toolCallId, event.toolName, event.arguments);
      case "input_accepted":
        // Input that starts a turn is a user message of its own.
        if (event.checkpoint === null) return [];
        return event.inputs.flatMap(({ id, message }, index): readonly UiChunk[] =>
          message.role === "user"
            ? [
                {
                  type: "data-steering-message",
                  id: id ?? message.id ?? `${this.#turnId ?? ""}/${this.#step}/input/${index}`,
                  data: { parts: userParts(message.content) },
                },
              ]
            : [],
        );
      case "warning":
        return [{ type: "data-warning", data: event.warning, transient: true }];
      case "compaction_started":
        return [compactionChunk(event, "running")];
      case "compaction_ended":
        return [compactionChunk(event, event.status)];
      case "step_completed": {
        const chunks = [...this.#closeCalls(event.pendingToolCalls, notRunText), ...this.#finishStep()];
        this.#step += 1;
        return chunks;
      }
      case "chat_completed":
        return this.#completed(event.result);
      default:
        return [];
    }
  }

  /** Starts a step unless one is open. A reader that joins late may receive a delta before `message_started`. */
  #openStep(): readonly UiChunk[] {
    if (this.#reply !== null) return [];
    this.#startReply();
    return [{ type: "start-step" }];
  }

  #startReply(): void {
    this.#reply = new ReplyBlocks(`${this.#turnId ?? ""}/${this.#step}`);
    this.#lastStepHasCalls = false;
  }

  #endBlocks(): readonly UiChunk[] {
    return this.#reply?.endAll() ?? [];
  }

  #finishStep(): readonly UiChunk[] {
    if (this.#reply === null) return [];
    const ended = this.#endBlocks();
    this.#reply = null;
    return [...ended, { type: "finish-step" }];
  }

  /**
   * Voids what was sent of the open step. Without an open step nothing is sent: `reset-step` would remove earlier parts
   * of the message.
   */
  #reset(callIds: readonly string[]): readonly UiChunk[] {
    if (this.#reply === null) return [];
    const withdrawnCalls = callIds.filter((id) => this.#calls.get(id) === "streaming");
    for (const id of callIds) this.#calls.delete(id);
    if (this.#sdk === 7) {
      this.#startReply();
      return [{ type: "reset-step" }];
    }
    const id = `${this.#turnId ?? ""}/${this.#step}/reset/${(this.#resets += 1)}`;
    const chunks: readonly UiChunk[] = [
      ...withdrawnCalls.map((toolCallId): UiChunk => ({
        type: "tool-output-error",
        toolCallId,
        errorText: "withdrawn: the reply was cut",
      })),
      ...this.#finishStep(),
      { type: "data-step-reset", id, data: {} },
      { type: "start-step" },
    ];
    this.#startReply();
    return chunks;
  }

  #callStarted({ id, name, providerExecuted }: Extract<TurnChange, { type: "call_started" }>): readonly UiChunk[] {
    if (!providerExecuted) this.#lastStepHasCalls = true;
    this.#calls.set(id, "streaming");
    const providerFields = providerExecuted ? { providerExecuted } : {};
    return [{ type: "tool-input-start", toolCallId: id, toolName: name, ...providerFields }];
  }

  #completeCall({
    call,
    providerExecuted,
  }: {
    readonly call: ToolCall;
    readonly providerExecuted: boolean;
  }): readonly UiChunk[] {
    const { id, name, arguments: args, rawArguments } = call;
    if (!providerExecuted) this.#lastStepHasCalls = true;
    // A call that the provider executes is not answered here; its result may be in a later reply.
    this.#calls.set(id, providerExecuted ? "waiting" : "open");
    // `rawArguments` if the arguments are not a JSON object.
    return [this.#available(id, name, args ?? rawArguments ?? {}, providerExecuted)];
  }

  #available(toolCallId: string, toolName: string, input: Json, providerExecuted = false): UiChunk {
    const providerFields = providerExecuted ? { providerExecuted } : {};
    const toolMetadata = { turnId: this.#turnId ?? "" };
    return { type: "tool-input-available", toolCallId, toolName, input, toolMetadata, ...providerFields };
  }

  /** The result of a tool that the provider executed. Without its call it is not sent (rule 1). */
  #providerResult({ toolCallId, content, isError }: ToolResultPart): readonly UiChunk[] {
    if (!this.#calls.has(toolCallId)) return [];
    this.#calls.set(toolCallId, "settled");
    if (isError) {
      const errorText = typeof content === "string" ? content : JSON.stringify(content);
      return [{ type: "tool-output-error", toolCallId, errorText }];
    }
    return [{ type: "tool-output-available", toolCallId, output: content, providerExecuted: true }];
  }

  /** Sends a call that was not sent yet: the reader joined late, or the call was made by code. */
  #ensureCall(id: string, name: string, args: JsonObject): readonly UiChunk[] {
    const state = this.#calls.get(id);
    if (state !== undefined && state !== "streaming") return [];
    if (state === undefined) this.#callsOfCode.add(id);
    this.#calls.set(id, "open");
    this.#lastStepHasCalls = true;
    return [this.#available(id, name, args)];
  }

  #markWaiting(id: string, name: string, args: JsonObject): readonly UiChunk[] {
    const callChunks = this.#ensureCall(id, name, args);
    this.#calls.set(id, "waiting");
    return callChunks;
  }

  #encoded(answer: ToolAnswer): readonly UiChunk[] {
    const { toolCallId } = answer;
    const state = this.#calls.get(toolCallId);
    // A call that runs again after its question was answered looks like one of code until here, and is shown settled.
    const isSettled = state === "settled" && !this.#callsOfCode.has(toolCallId);
    const result = state === undefined || isSettled ? null : resultOfMessage(answer);
    return result === null ? [] : this.#settleCall(toolCallId, result);
  }

  /** The result of a call. A denial here was made by a policy: decisions of users arrive between turns. */
  #settleCall(toolCallId: string, result: UiResult): readonly UiChunk[] {
    this.#calls.set(toolCallId, "settled");
    switch (result.type) {
      case "output":
        return [{ type: "tool-output-available", toolCallId, output: result.output }];
      case "error":
        return [{ type: "tool-output-error", toolCallId, errorText: result.errorText }];
      case "denied":
        return [deniedChunk(toolCallId, result.reason)];
    }
  }

  /** Ends the calls that get no further events. */
  #closeCalls(pending: readonly PendingToolCall[], errorText: string): readonly UiChunk[] {
    const waiting = new Set(pending.map(({ id }) => id));
    return [...this.#calls].flatMap(([toolCallId, state]): readonly UiChunk[] => {
      if (state === "settled" || state === "waiting" || waiting.has(toolCallId)) return [];
      this.#calls.set(toolCallId, "settled");
      return [{ type: "tool-output-error", toolCallId, errorText }];
    });
  }

  /** The turn has ended: closes calls without a result, shows pending ones, and asks the open question. */
  #completed(result: ChatResult): readonly UiChunk[] {
    this.#result = result;
    const turnId = this.#turnId ?? "";
    const pending = result.pendingToolCalls.filter(({ decision }) => decision === null);
    const cancelled = result.outcome.type === "cancelled";
    const chunks: UiChunk[] = [
      ...this.#closeCalls(pending, cancelled ? "cancelled: the turn was cancelled" : notRunText),
      ...this.#finishStep(),
    ];
    for (const call of pending) {
      const { id: toolCallId, name, arguments: args, reason } = call;
      chunks.push(...this.#markWaiting(toolCallId, name, args ?? {}));
      if (reason !== "approval" && reason !== "outcome_unknown") continue;
      // A hook has changed the arguments: the client shows those that would run.
      const input = pendingInput(call);
      if (input !== null && canonicalJson(input) !== canonicalJson(args))
        chunks.push({ type: "tool-input-available", toolCallId, toolName: name, input });
      this.#requests = [...this.#requests, requestChunk(toolCallId, approvalOf(turnId, call))];
    }
    const asked = pending.find(({ reason }) => reason === "question") ?? null;
    const question = result.pendingQuestion ?? asked?.question ?? null;
    if (question !== null && failureIn(result) === null) {
      const toolCallId = result.pendingToolCallId ?? asked?.id ?? "";
      const opts = this.#questionOptions.get(toolCallId) ?? result.metadata.askUserOpts ?? asked?.opts ?? {};
      chunks.push({ type: "data-question", id: `${turnId}/${toolCallId}`, data: { toolCallId, question, opts } });
    }
    return chunks;
  }
}
