// Derives the events that are committed with a transition (core/run/driver.ts, step 1) and the result of the run.
//
// Two kinds of events exist. Live events (deltas, progress, retries) are emitted by performers while an effect runs and
// are not stored. The events of this file are stored: they follow from the journal item and the transition it caused,
// and from nothing else, so a replay of the same items derives the same events. The collector receives both kinds and
// builds the step results from them.
//
// The class also keeps the counters that budgets need (steps, time, idle model calls). They are sums over recorded
// responses, so a replay restores them and an outage does not count as time (Q12).

import type {
  CallTool,
  Collector,
  Compacted,
  CompactionFailed,
  EndedStep,
  Ending,
  ToolReturned,
  ToolWaits,
  Transition,
  Turn,
} from "../kernel/internal.ts";
import type {
  AssistantMessage,
  ChatMetadata,
  ChatResult,
  EventOf,
  Message,
  ModelReply,
  ProtocolEvent,
  StepResult,
  Thread,
  TurnEvent,
  TurnOutcome,
} from "../model/internal.ts";
import type { Account } from "./perform/checkpoint.ts";
import type { AnsweredFallback } from "./perform/routes.ts";
import type { RunPlan } from "./plan/plan.ts";
import type { JournalItem } from "./ports/ports.ts";

import { historyThread, pendingEffect, pendingOfWait } from "../kernel/internal.ts";
import {
  boundedSum,
  haltedReasonOf,
  knownCost,
  messageText,
  modelReply,
  noUsage,
  storedWindow,
  toolOutcomeStatus,
  totalTokens,
} from "../model/internal.ts";
import { answeredFallback } from "./perform/routes.ts";

/** The committed events, the step results and the result of one run. */
export class TransitionEvents {
  readonly #plan: RunPlan;
  readonly #collector: Collector;
  readonly #steps: StepResult[] = [];
  /** The sum of recorded durations, for `budgets.timeMs`. */
  #timeMs = 0;
  /** Model calls since the last successful tool call, for `budgets.noProgress`. */
  #idleCalls = 0;
  /** Whether a model call replied without its tokens, or without its cost. */
  #hasUnknownTokens = false;
  #hasUnknownCost = false;
  #summaries: Account["summaries"] = { usage: noUsage, hasUnknownTokens: false, hasUnknownCost: false };
  #lastReply: ModelReply | null = null;
  /** What was received of the reply during which the turn was cancelled. */
  #receivedReply: ModelReply | null = null;
  #answeredFallback: AnsweredFallback | null = null;
  #askUserOpts: ChatMetadata["askUserOpts"] | null = null;
  #result: ChatResult | null = null;

  constructor(plan: RunPlan, collector: Collector) {
    this.#plan = plan;
    this.#collector = collector;
  }

  /** The counters for budgets and `haltWhen`. */
  get account(): Account {
    return {
      steps: this.#steps.length,
      timeMs: this.#timeMs,
      idleCalls: this.#idleCalls,
      hasUnknownTokens: this.#hasUnknownTokens,
      hasUnknownCost: this.#hasUnknownCost,
      summaries: this.#summaries,
      lastStep: this.#steps.at(-1) ?? null,
    };
  }

  get steps(): readonly StepResult[] {
    return this.#steps;
  }

  /** The result of the run; `null` until the turn has ended. */
  get result(): ChatResult | null {
    return this.#result;
  }

  /** The newest fallback that answered a model call of the turn, from the recorded responses (Q7). */
  get answeredFallback(): AnsweredFallback | null {
    return this.#answeredFallback;
  }

  /** The newest reply that ended a step. */
  get lastReply(): ModelReply | null {
    return this.#lastReply;
  }

  /**
   * The events of a transition, in order: those of the response (tool results, questions, approvals), then those of the
   * notices (errors, the end of the step, the end of the run). A response that was not accepted has none.
   */
  readonly eventsOf = (item: JournalItem | null, before: Turn | null, transition: Transition): readonly TurnEvent[] => {
    if (transition.status !== "accepted") return [];
    const collected: TurnEvent[] = [];
    const emit = (...events: readonly TurnEvent[]) => {
      for (const event of events) {
        this.#collector.add(event);
        collected.push(event);
      }
    };
    if (item?.type === "cancel" && before?.phase.type === "awaiting_model")
      this.#receivedReply = replyOf(item.cancellation.received);
    if (item?.type === "response" && before !== null) emit(...this.#responseEvents(item.response, before));
    if (item?.type === "response" && before !== null) emit(...compactionEnded(before, transition.turn));
    for (const notice of transition.notices) {
      switch (notice.type) {
        case "emit":
          emit(notice.event);
          break;
        case "progress":
          if (notice.stepEnded !== null) {
            emit(this.#stepCompleted(transition.turn, notice.stepEnded, notice.messages));
            this.#steps.push(this.#collector.stepResult());
          }
          break;
        case "done":
          this.#result = this.#chatResult(transition.turn, notice.ending);
          emit({ type: "chat_completed", result: this.#result });
          break;
        case "log":
          break;
      }
    }
    emit(...compactionStarted(before, transition.turn));
    return collected;
  };

  /** Updates the counters with a response and returns the events of a tool response. */
  #responseEvents(
    response: Extract<JournalItem, { readonly type: "response" }>["response"],
    before: Turn,
  ): readonly TurnEvent[] {
    if ("durationMs" in response) this.#timeMs += response.durationMs;
    if (response.type === "model_replied" || response.type === "model_failed") this.#idleCalls += 1;
    if (response.type === "model_replied") {
      this.#answeredFallback = answeredFallback(response) ?? this.#answeredFallback;
      const { usage } = response.reply;
      // Every model call has an input. Servers that do not count report 0.
      if ((totalTokens(usage) ?? 0) === 0) this.#hasUnknownTokens = true;
      if (knownCost(usage.totalCost) === null) this.#hasUnknownCost = true;
    }
    if (response.type === "compacted" || response.type === "compaction_failed") this.#addSummary(response);
    if (response.type !== "tool_returned" && response.type !== "tool_waits") return [];
    const effect = pendingEffect(before, response.id);
    if (effect?.type !== "call_tool") return [];
    if (response.type === "tool_returned" && response.outcome.type === "success") this.#idleCalls = 0;
    const inCell = before.phase.type === "awaiting_tools" && before.phase.cell !== null;
    return response.type === "tool_waits" ? this.#waits(effect, response) : this.#returned(effect, response, inCell);
  }

  /** Counts the usage of a summary. A request that failed has none, if the provider reports none. */
  #addSummary({ type, usage, spent }: Compacted | CompactionFailed): void {
    const isCalled = type === "compacted";
    const hasUnknownTokens = isCalled && (totalTokens(usage) ?? 0) === 0;
    const hasUnknownCost = isCalled && knownCost(usage.totalCost) === null;
    this.#hasUnknownTokens ||= hasUnknownTokens;
    this.#hasUnknownCost ||= hasUnknownCost;
    const before = this.#summaries;
    this.#summaries = {
      usage: boundedSum(boundedSum(before.usage, spent), usage),
      hasUnknownTokens: before.hasUnknownTokens || hasUnknownTokens,
      hasUnknownCost: before.hasUnknownCost || hasUnknownCost,
    };
  }

  /**
   * The event of a call that waits. Manual calls and unknown outcomes have none: they are in the result of the step.
   */
  #waits({ call, idempotencyKey }: CallTool, response: ToolWaits): readonly TurnEvent[] {
    const { reason, opts, question } = response;
    const identity = { toolCallId: call.id, toolName: call.name, opts };
    if (reason === "approval") {
      const { shown, digest } = pendingOfWait(call, response, idempotencyKey, null);
      return [{ type: "approval_requested", ...identity, arguments: call.arguments ?? {}, shown, digest }];
    }
    return reason === "question" ? [{ type: "ask_user_requested", ...identity, question: question ?? "" }] : [];
  }

  /** The events of a tool result: its completion, then what the model sees of it, a question, or a halt. */
  #returned({ call }: CallTool, response: ToolReturned, inCell: boolean): readonly TurnEvent[] {
    const { outcome, durationMs } = response;
    const { id, name } = call;
    const completed: TurnEvent = { type: "tool_execution_completed", id, name, result: outcome, durationMs };
    // The result of a cell's call goes to the cell; the model does not see it as a tool message.
    if (inCell) return [completed];
    const answer = toAnswer(response);
    if (outcome.type === "ask_user") {
      const { question, opts } = outcome;
      this.#askUserOpts ??= opts;
      return [completed, { type: "ask_user_requested", toolCallId: id, toolName: name, question, opts }];
    }
    const halt = haltOf(response);
    if (halt === null) return [completed, { type: "tool_result_encoded", id, ...answer }];
    return [completed, { type: "tool_halt", toolCallId: id, ...halt, ...answer }];
  }

  /** The `step_completed` event, with the thread up to the end of the step. */
  #stepCompleted(turn: Turn, ended: EndedStep, newMessages: readonly Message[]): TurnEvent {
    const { reply: response, mode, manualToolCalls, pendingToolCalls, suspendedCell, usage } = ended;
    this.#lastReply = response;
    // The question of a tool is in the thread of the run but not in the thread of its step (Q15).
    const endsWithQuestion = newMessages.at(-1)?.metadata["askUser"] === true;
    const thread = this.#thread(turn, turn.history.length - (endsWithQuestion ? 1 : 0));
    return { type: "step_completed", response, thread, mode, manualToolCalls, pendingToolCalls, suspendedCell, usage };
  }

  /** The thread of the first `length` messages, sharing the history (constant memory). */
  #thread({ history: { entries } }: Turn, length: number): Thread {
    return historyThread({ entries, length }, this.#plan.thread.metadata);
  }

  /** The result of the run, from the final state of the turn. */
  #chatResult(turn: Turn, ending: Ending): ChatResult {
    const { outcome, pendingToolCalls, suspendedCell, partial } = ending;
    const question = outcome.type === "ask_user" ? outcome : null;
    return {
      thread: this.#thread(turn, turn.history.length),
      finalResponse: this.#receivedReply ?? this.#lastReply,
      haltedReason: haltedReasonOf(outcome),
      outcome,
      pendingQuestion: question?.question ?? null,
      pendingToolCallId: question?.toolCallId ?? null,
      pendingToolCalls,
      suspendedCell,
      steps: [...this.#steps],
      usage: turn.usage,
      contextWindow: storedWindow(turn.contextWindow),
      protocolEvents: this.#protocolEvents(turn),
      partial,
      metadata: this.#metadata(outcome, ending),
    };
  }

  /** The records that the protocol appended in this turn. */
  #protocolEvents({ events: { entries, length } }: Turn): readonly ProtocolEvent[] {
    const { pinned, input } = this.#plan;
    const { protocol } = pinned;
    if (protocol.type !== "own") return [];
    return entries.slice(input.events.length, length).map((event) => ({ protocol: protocol.name, event }));
  }

  /**
   * The metadata of the result: the details of the outcome, manual calls, and how the loop ended before a structured
   * call.
   */
  #metadata(outcome: TurnOutcome, { pass1, pass2Error, pendingToolCalls }: Ending): ChatMetadata {
    const structuredFinalize =
      pass1 === null ? {} : { structuredFinalize: { pass1Halted: haltedReasonOf(pass1), pass2Error } };
    const last = this.#steps.at(-1)?.metadata ?? {};
    const manual = pendingToolCalls.some(({ reason }) => reason === "manual")
      ? {
          manualTurnIndex: Math.max(0, this.#steps.length - 1),
          ...(last.manualToolCalls === undefined ? {} : { manualToolCalls: last.manualToolCalls }),
        }
      : {};
    return { ...this.#outcomeMetadata(outcome, last), ...manual, ...structuredFinalize };
  }

  #outcomeMetadata(outcome: TurnOutcome, last: StepResult["metadata"]): ChatMetadata {
    switch (outcome.type) {
      case "ask_user":
        return {
          pendingQuestion: outcome.question,
          pendingToolCallId: outcome.toolCallId,
          askUserOpts: last.askUserOpts ?? this.#askUserOpts ?? {},
        };
      case "tool_error":
        return {
          ...(outcome.toolCallId === null ? {} : { haltToolCallId: outcome.toolCallId }),
          ...(last.onToolErrorException === undefined ? {} : { onToolErrorException: last.onToolErrorException }),
          error: outcome.failure,
        };
      case "halted":
        return { haltToolCallId: outcome.toolCallId, haltResult: outcome.value };
      case "halt_when":
        return { haltWhenStepIndex: this.#steps.length - 1 };
      case "max_turns":
        return { maxTurns: outcome.maxTurns };
      case "budget":
        return { budget: outcome.budget };
      case "cancelled":
        return { cancellation: outcome.evidence };
      case "provider_error":
      case "runtime_error":
        return { error: outcome.failure };
      case "assistant_message":
      case "final_value":
      case "tool_value":
      case "empty":
      case "incomplete":
      case "filtered":
      case "other":
      case "handoff":
      case "manual_tool_calls":
      case "approval":
      case "outcome_unknown":
      case "stop_after":
      case "submitted_error":
        return {};
    }
  }
}

/**
 * The event of a compaction that the turn waits for since a transition. The parts of a long history are compactions
 * that directly follow each other, each with a frame of its own.
 */
function compactionStarted(before: Turn | null, { phase }: Turn): readonly TurnEvent[] {
  if (phase.type !== "awaiting_compaction") return [];
  const { frame: frameId, from, to } = phase;
  if (before?.phase.type === "awaiting_compaction" && before.phase.frame === frameId) return [];
  return [{ type: "compaction_started", frameId, from, to }];
}

/** The event of a compaction that a response has ended. */
function compactionEnded({ phase }: Turn, { contextWindow: { frame } }: Turn): readonly TurnEvent[] {
  if (phase.type !== "awaiting_compaction") return [];
  const { frame: frameId, from, to } = phase;
  const status = frame?.id !== frameId ? "failed" : frame.summary === null ? "left_out" : "summarized";
  return [{ type: "compaction_ended", frameId, from, to, status }];
}

/** The fields that the events of a tool result share with its tool message. */
type Answer = Pick<EventOf<"tool_halt">, "content" | "status" | "code" | "ranArguments">;

function toAnswer({ outcome, content, ranArguments }: ToolReturned): Answer {
  const code = outcome.type === "failure" ? outcome.failure.code : null;
  return { content, status: toolOutcomeStatus(outcome), code, ranArguments };
}

/** The reason and the result of the `tool_halt` event if the response ends the step; otherwise `null`. */
function haltOf({ outcome, stops }: ToolReturned): Pick<EventOf<"tool_halt">, "reason" | "result"> | null {
  if (outcome.type === "halt") return { reason: outcome.reason, result: outcome.value };
  if (outcome.type === "failure") return stops ? { reason: "tool_error", result: { ...outcome.failure } } : null;
  if (outcome.type !== "success" || outcome.control === null) return null;
  switch (outcome.control.type) {
    case "finish":
      return { reason: "completed", result: outcome.control.value };
    case "fail":
      return { reason: "tool_error", result: { ...outcome.control.failure } };
    case "handoff":
      return { reason: "handoff", result: outcome.value };
    case "compact":
      return null;
  }
}

/** A reply that was cut by a cancel, from the message that was received; `null` if nothing was received. */
function replyOf(received: AssistantMessage | null): ModelReply | null {
  return received === null
    ? null
    : modelReply({ message: received, outputText: messageText(received), finishReason: "other" });
}
