// The chat protocol: the model answers with text, or calls tools natively and continues with their results.
//
// How a step can end; the first matching row wins. Rows 1 to 3 are decided by the call with the lowest index that
// matches one of them.
//   1. a tool asks a question                ask_user             no checkpoint
//   2. a tool fails and `stops` is set       tool_error           no checkpoint
//   3. a tool halts the turn                 reason of the tool   no checkpoint; a control value can finish, fail or
//                                                                 hand off
//   4. calls are pending                     manual_tool_calls, approval, outcome_unknown
//   5. mode `manual`: the caller runs tools  manual_tool_calls
//   6. the model has answered                completed            after the checkpoint `before_completion`; a paused
//                                                                 reply continues instead
//   7. the model call failed                 error                decided by the machine (responses.ts)
//   8. the driver says stop                    halt_when, budget    at `after_work`; the verdict comes first (Q11)
//   9. `maxTurns` is reached                 max_turns            at `after_work`
//
// Tools run only on the finish reason `tool_calls`. Calls of a reply that ended otherwise (`length`, `content_filter`,
// …) may be incomplete; they are answered `not_run`. Every call of a reply gets an answer or is listed as pending (S2).

import type {
  AssistantMessage,
  AssistantPart,
  ModelReply,
  PendingToolCall,
  ToolCall,
  ToolMessage,
  ToolMode,
  TurnOutcome,
} from "../../model/internal.ts";
import type { CompletedToolCall, StepEnd } from "../machine/turn.ts";
import type { ProtocolDriver, TurnProtocol, UnitTurnProtocol } from "./protocol.ts";
import type { Context, DriverAction } from "./shared-actions.ts";

import { adapterFailure, engineFailure, normalizeContent, unknownToolText } from "../../model/internal.ts";
import { toolEffectId } from "../machine/pending-effects.ts";
import { ending, outcomeOfText } from "./ending.ts";
import { haltOf, pendingCall, questionMessage, waitingOutcome, waitOf } from "./halts.ts";
import { replyMessage } from "./reply-message.ts";
import { joinParagraph } from "./reply-text.ts";
import { complete, continuePaused, finish, messageId, nextIteration, stoppingWhere } from "./shared-actions.ts";
import { answerOf, unrunAnswer } from "./tool-answer.ts";

/** Options of the chat protocol. They are stored with the turn (core/run/plan/pinned.ts). */
export type ChatProtocolOptions = {
  /** `auto`: the library runs the tools. `manual`: every call is pending for the caller. Default: `auto`. */
  readonly mode: ToolMode;
  /**
   * A reply with finish `stop` and no text completes the turn, or is an error unless it follows a tool result. Default:
   * `complete`.
   */
  readonly onEmptyReply: "complete" | "error";
  /** A call of an unknown tool ends the turn, or is answered `not_found` and the turn continues. Default: `error`. */
  readonly onUnknownTool: "error" | "answer";
  /**
   * End the turn after one reply (its calls are pending), or after one reply and its tools. Default: `null`, where the
   * configuration of the turn says.
   */
  readonly stopAfter: "reply" | "step" | null;
};

/**
 * The protocol of conversations with tool calls. Other protocols can wrap the driver it returns. Default mode:
 * `auto`.
 */
export function chatProtocol<P extends TurnProtocol = UnitTurnProtocol>(
  options: Partial<ChatProtocolOptions> = {},
): ProtocolDriver<P> {
  const settings: ChatProtocolOptions = {
    mode: "auto",
    onEmptyReply: "complete",
    onUnknownTool: "error",
    stopAfter: null,
    ...options,
  };
  return {
    prepareProtocolIteration: () => [{ type: "start_llm", useTools: true, overrides: {}, driverState: null }],
    handleLlmSuccess: (context, reply) => onReply(stoppingWhere(settings, context), context, reply),
    handleToolResults: (context, completed) => onToolResults(stoppingWhere(settings, context), context, completed),
    // The protocol starts no cell. A turn that resumes a cell of another protocol fails when the cell ends: the list
    // has no direction.
    handleExecResult: () => [],
  };
}

/** A reply: run its calls, or complete the turn with its text. */
function onReply(options: ChatProtocolOptions, context: Context, reply: ModelReply): readonly DriverAction[] {
  const message = replyMessage(reply, messageId(context, "reply"));
  const append: DriverAction = { type: "append_events", messages: [message] };
  if (reply.finishReason === "tool_calls" && message.toolCalls.length > 0) {
    return [append, ...onCalls(options, context, reply, message)];
  }
  const text = joinedText(message);
  const outcome = outcomeOfText(reply, text);
  const why = `the reply ended with finish reason ${reply.finishReason ?? "unknown"}, so its calls are not run`;
  const unrunAnswers = message.toolCalls.map((call, slot) => unrun(context, call, slot, "not_run", why));
  const step = stepEnd(options, reply, unrunAnswers);
  const isEmpty = outcome.type === "empty" && message.toolCalls.length === 0;
  if (isEmpty && options.onEmptyReply === "error" && context.lastMessage?.role !== "tool") {
    const message = "Model returned no assistant text or tool calls.";
    const failure = adapterFailure("malformed_response", { message, code: "empty_response" });
    const error: DriverAction = { type: "emit", event: { type: "error", error: failure } };
    return [error, step, finish({ type: "provider_error", failure })];
  }
  const appendUnrun: DriverAction = { type: "append_events", messages: unrunAnswers };
  if (reply.finishReason === "paused")
    return [append, appendUnrun, step, ...continuePaused(context, options.stopAfter !== null)];
  return [append, appendUnrun, step, options.stopAfter === null ? complete(outcome) : finish(outcome)];
}

/** A reply with calls: leave them to the caller, reject an unknown tool, or run them. */
function onCalls(
  options: ChatProtocolOptions,
  context: Context,
  reply: ModelReply,
  { toolCalls: calls }: AssistantMessage,
): readonly DriverAction[] {
  if (options.mode === "manual" || options.stopAfter === "reply") {
    const pendingToolCalls = calls.map((call, slot) =>
      pendingCall(call, "manual", { idempotencyKey: callId(context, slot) }),
    );
    const type = options.mode === "manual" ? "manual_tool_calls" : "stop_after";
    return [
      stepEnd(options, reply, [], pendingToolCalls),
      { type: "finish", ending: { ...ending({ type }), pendingToolCalls } },
    ];
  }
  const unknown = calls.find((call) => specOf(context, call) === undefined);
  if (unknown !== undefined && options.onUnknownTool === "error")
    return onUnknown(options, context, reply, calls, unknown);
  const runnable = calls.flatMap((call, slot) =>
    specOf(context, call) !== undefined && !isManual(context, call)
      ? [{ call, slot, decision: null, idempotencyKey: null }]
      : [],
  );
  if (runnable.length > 0) return [{ type: "start_tools", calls: runnable }];
  return answerAndContinue(options, context, calls, []);
}

/** Answers all calls of the reply (`not_found`, siblings `not_run`) and ends the turn with the error `unknown_tool`. */
function onUnknown(
  options: ChatProtocolOptions,
  context: Context,
  reply: ModelReply,
  calls: readonly ToolCall[],
  first: ToolCall,
): readonly DriverAction[] {
  const failure = engineFailure("unknown_tool", {
    message: `tool ${first.name} not in engine.tools`,
    metadata: { toolName: first.name },
  });
  const answers = calls.map((call, slot) =>
    specOf(context, call) === undefined
      ? unrun(context, call, slot, "not_found", unknownToolText(call.name))
      : unrun(context, call, slot, "not_run", "another call of this reply names an unknown tool"),
  );
  return [
    { type: "append_events", messages: answers },
    { type: "emit", event: { type: "error", error: failure } },
    stepEnd(options, reply, answers),
    finish({ type: "runtime_error", failure }),
  ];
}

function onToolResults(
  options: ChatProtocolOptions,
  context: Context,
  completed: readonly CompletedToolCall[],
): readonly DriverAction[] {
  return answerAndContinue(options, context, context.openReply?.toolCalls ?? [], completed);
}

/**
 * Appends the answers of a step to the history together, in call order: those of tools that ran, and `not_found` for
 * unknown tools.
 */
function answerAndContinue(
  options: ChatProtocolOptions,
  context: Context,
  calls: readonly ToolCall[],
  completed: readonly CompletedToolCall[],
): readonly DriverAction[] {
  const ran = completed.flatMap(({ call, slot, result }) =>
    result.type === "tool_waits" || isOpenQuestion(result)
      ? []
      : [{ slot, answer: answerOf(call, result, answerId(context, slot)) }],
  );
  const unknown = calls.flatMap((call, slot) =>
    specOf(context, call) === undefined
      ? [
          {
            slot,
            answer: unrun(context, call, slot, "not_found", unknownToolText(call.name)),
          },
        ]
      : [],
  );
  const answers = [...ran, ...unknown].toSorted((left, right) => left.slot - right.slot).map(({ answer }) => answer);
  return [{ type: "append_events", messages: answers }, ...afterTools(options, context, completed, answers)];
}

/** Decides how the turn continues after its calls: halt, wait, stop after the step, or the next step. */
function afterTools(
  options: ChatProtocolOptions,
  context: Context,
  completed: readonly CompletedToolCall[],
  answers: readonly ToolMessage[],
): readonly DriverAction[] {
  const reply = context.openReply;
  const manual = reply?.toolCalls.flatMap((call, slot) => (isManual(context, call) ? [{ call, slot }] : [])) ?? [];
  const waits = completed.flatMap((completedCall) => waitOf(completedCall, null));
  const manualPending = manual.map(({ call, slot }) =>
    pendingCall(call, "manual", { idempotencyKey: callId(context, slot) }),
  );
  const firstQuestion = waits.find(({ reason }) => reason === "question") ?? null;
  const halt = completed.map(haltOf).find((outcome) => outcome !== null) ?? null;
  const outcome = halt === null || halt.type === "ask_user" ? waitingOutcome([...waits, ...manualPending]) : halt;
  const question = outcome?.type === "ask_user" ? firstQuestion : null;
  // The first question is the outcome of the turn. It is a pending call as well only if its answer becomes the result
  // of the call.
  const pendingToolCalls = [...waits, ...manualPending].filter(
    (call) => call !== question || call.answerAs === "tool_result",
  );
  const step: readonly DriverAction[] =
    reply === null
      ? []
      : [
          stepEnd(
            options,
            reply,
            answers,
            pendingToolCalls,
            manual.map(({ call }) => call),
          ),
        ];
  const finishPending = (outcome: TurnOutcome): DriverAction => ({
    type: "finish",
    ending: { ...ending(outcome), pendingToolCalls },
  });
  if (outcome !== null) {
    const messages = question === null ? [] : [questionMessage(question, messageId(context, "question"))];
    return [...step, { type: "append_events", messages }, finishPending(outcome)];
  }
  if (options.stopAfter !== null && reply !== null) return [...step, finishPending({ type: "stop_after" })];
  // Without a reply these were approved calls, which run before the first model call of the turn and do not count
  // against `maxTurns`.
  return [...step, ...nextIteration(context, reply === null)];
}

function stepEnd(
  { mode }: ChatProtocolOptions,
  reply: ModelReply,
  toolResults: readonly ToolMessage[],
  pendingToolCalls: readonly PendingToolCall[] = [],
  manualToolCalls: readonly ToolCall[] = [],
): DriverAction {
  const step: StepEnd = { reply, toolResults, pendingToolCalls, manualToolCalls, suspendedCell: null, mode };
  return { type: "end_step", ...step };
}

/** Did the tool ask a question whose answer becomes the result of its call? Then the call stays open. */
function isOpenQuestion({
  outcome,
}: Extract<CompletedToolCall["result"], { readonly type: "tool_returned" }>): boolean {
  return outcome.type === "ask_user" && outcome.answerAs === "tool_result";
}

function isManual(context: Context, call: ToolCall): boolean {
  return specOf(context, call)?.manual ?? false;
}

function specOf(context: Context, call: ToolCall) {
  return context.environment.tools.find((tool) => tool.name === call.name);
}

function callId(context: Context, slot: number): string {
  return toolEffectId({ turnId: context.turnId, step: context.protocolIteration }, slot);
}

/** The answer to a call that is not run. */
function unrun(
  context: Context,
  call: ToolCall,
  slot: number,
  reason: "not_run" | "not_found",
  message: string,
): ToolMessage {
  return unrunAnswer(call, reason, message, answerId(context, slot), context.revision);
}

function answerId(context: Context, slot: number): string {
  return messageId(context, `answer/${slot}`);
}

/** The text parts of a message, joined as paragraphs. */
function joinedText(message: AssistantMessage): string {
  const parts: readonly AssistantPart[] = normalizeContent<AssistantPart>(message.content);
  return parts.reduce((text, part) => (part.type === "text" ? joinParagraph(text, part.text) : text), "");
}
