// What a run says for the record: entries, worked out from what the turn accepted and what that came to. The same items give the same
// entries, so a replay tells the same story.

import type {
  CallTool,
  Collector,
  EndedStep,
  Ending,
  ToolReturned,
  ToolWaits,
  Transition,
  Turn,
} from "../kernel/internal.ts";
import type {
  ChatMetadata,
  ChatResult,
  Message,
  ModelReply,
  StepResult,
  Thread,
  ToolHalt,
  TurnEvent,
  TurnOutcome,
} from "../model/internal.ts";
import type { Account } from "./perform/checkpoint.ts";
import type { AnsweredFallback } from "./perform/routes.ts";
import type { RunPlan } from "./plan/plan.ts";
import type { JournalItem } from "./ports/ports.ts";

import { historyThread, pendingEffect } from "../kernel/internal.ts";
import { haltedReasonOf, toolOutcomeStatus } from "../model/internal.ts";
import { answeredFallback } from "./perform/routes.ts";

export class Narrator {
  readonly #plan: RunPlan;
  readonly #collector: Collector;
  readonly #steps: StepResult[] = [];
  #timeMs = 0;
  #idleCalls = 0;
  #lastReply: ModelReply | null = null;
  #answeredFallback: AnsweredFallback | null = null;
  #askUserOpts: ChatMetadata["askUserOpts"] | null = null;
  #result: ChatResult | null = null;

  constructor(plan: RunPlan, collector: Collector) {
    this.#plan = plan;
    this.#collector = collector;
  }

  get account(): Account {
    return {
      steps: this.#steps.length,
      timeMs: this.#timeMs,
      idleCalls: this.#idleCalls,
      lastStep: this.#steps.at(-1) ?? null,
    };
  }

  get steps(): readonly StepResult[] {
    return this.#steps;
  }

  /** What the run came to, once it has come to anything. */
  get result(): ChatResult | null {
    return this.#result;
  }

  /** The newest fallback that answered a model call of the turn, from what was recorded. */
  get answeredFallback(): AnsweredFallback | null {
    return this.#answeredFallback;
  }

  /** The newest reply that ended a step. */
  get lastReply(): ModelReply | null {
    return this.#lastReply;
  }

  readonly entries = (item: JournalItem | null, before: Turn | null, step: Transition): readonly TurnEvent[] => {
    if (step.status !== "accepted") return [];
    const told: TurnEvent[] = [];
    const say = (...events: readonly TurnEvent[]) => {
      for (const event of events) {
        this.#collector.add(event);
        told.push(event);
      }
    };
    if (item?.type === "response" && before !== null) say(...this.#answered(item.response, before));
    for (const notice of step.notices) {
      switch (notice.type) {
        case "emit":
          say(notice.event);
          break;
        case "progress":
          if (notice.stepEnded !== null) {
            say(this.#stepCompleted(step.turn, notice.stepEnded, notice.messages));
            this.#steps.push(this.#collector.stepResult());
          }
          break;
        case "done":
          this.#result = this.#chatResult(step.turn, notice.ending);
          say({ type: "chat_completed", result: this.#result });
          break;
        case "log":
          break;
      }
    }
    return told;
  };

  #answered(
    response: Extract<JournalItem, { readonly type: "response" }>["response"],
    before: Turn,
  ): readonly TurnEvent[] {
    if ("durationMs" in response) this.#timeMs += response.durationMs;
    if (response.type === "model_replied" || response.type === "model_failed") this.#idleCalls += 1;
    if (response.type === "model_replied")
      this.#answeredFallback = answeredFallback(response) ?? this.#answeredFallback;
    if (response.type !== "tool_returned" && response.type !== "tool_waits") return [];
    const effect = pendingEffect(before, response.id);
    if (effect?.type !== "call_tool") return [];
    if (response.type === "tool_returned" && response.outcome.type === "success") this.#idleCalls = 0;
    const inCell = before.phase.type === "awaiting_tools" && before.phase.cell !== null;
    return response.type === "tool_waits" ? this.#waits(effect, response) : this.#returned(effect, response, inCell);
  }

  #waits({ call }: CallTool, { reason, opts, question }: ToolWaits): readonly TurnEvent[] {
    const named = { toolCallId: call.id, toolName: call.name, opts };
    if (reason === "approval") return [{ type: "approval_requested", ...named, arguments: call.arguments ?? {} }];
    return reason === "question" ? [{ type: "ask_user_requested", ...named, question: question ?? "" }] : [];
  }

  #returned({ call }: CallTool, response: ToolReturned, inCell: boolean): readonly TurnEvent[] {
    const { outcome, durationMs } = response;
    const { id, name } = call;
    const completed: TurnEvent = { type: "tool_execution_completed", id, name, result: outcome, durationMs };
    // What a cell calls is answered to the cell, not to the model.
    if (inCell) return [completed];
    const answer = answerOf(response);
    if (outcome.type === "ask_user") {
      const { question, opts } = outcome;
      this.#askUserOpts ??= opts;
      return [completed, { type: "ask_user_requested", toolCallId: id, toolName: name, question, opts }];
    }
    const halts = haltOf(response);
    if (halts === null) return [completed, { type: "tool_result_encoded", id, ...answer }];
    return [completed, { type: "tool_halt", toolCallId: id, ...halts, ...answer }];
  }

  #stepCompleted(turn: Turn, ended: EndedStep, fresh: readonly Message[]): TurnEvent {
    const { reply: response, mode, manualToolCalls, pendingToolCalls, suspendedCell, usage } = ended;
    this.#lastReply = response;
    // A question is in the thread of the run, not in that of its step.
    const asked = fresh.at(-1)?.metadata["askUser"] === true;
    const thread = this.#thread(turn, turn.history.length - (asked ? 1 : 0));
    return { type: "step_completed", response, thread, mode, manualToolCalls, pendingToolCalls, suspendedCell, usage };
  }

  /** The thread of the first `length` messages. */
  #thread({ history: { entries } }: Turn, length: number): Thread {
    return historyThread({ entries, length }, this.#plan.thread.metadata);
  }

  #chatResult(turn: Turn, ending: Ending): ChatResult {
    const { outcome, pendingToolCalls, suspendedCell, partial } = ending;
    const asks = outcome.type === "ask_user" ? outcome : null;
    return {
      thread: this.#thread(turn, turn.history.length),
      finalResponse: this.#lastReply,
      haltedReason: haltedReasonOf(outcome),
      outcome,
      pendingQuestion: asks?.question ?? null,
      pendingToolCallId: asks?.toolCallId ?? null,
      pendingToolCalls,
      suspendedCell,
      steps: [...this.#steps],
      usage: turn.usage,
      partial,
      metadata: this.#metadata(outcome, ending),
    };
  }

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

type Answer = Pick<ToolHalt, "content" | "status" | "code" | "ranArguments">;

function answerOf({ outcome, content, ranArguments }: ToolReturned): Answer {
  const code = outcome.type === "failure" ? outcome.failure.code : null;
  return { content, status: toolOutcomeStatus(outcome), code, ranArguments };
}

/** Why a result ends the step, in the words of its event. */
function haltOf({ outcome, stops }: ToolReturned): Pick<ToolHalt, "reason" | "result"> | null {
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
  }
}
