// The protocol of conversations: the model answers, or calls tools by their names, and goes on with their results.
//
// How a step can end, first match wins. Rows 1 to 3 belong to the call with the lowest index that has any of them.
//   1. a tool asks a question          ask_user             no checkpoint
//   2. a tool failed, and that stops   tool_error           no checkpoint
//   3. a tool stops the loop           its own word         no checkpoint; or what its control says: finish, fail, hand off
//   4. calls wait                      manual_tool_calls, approval, outcome_unknown
//   5. the caller runs the tools       manual_tool_calls
//   6. the model has answered          completed            asks `before_completion`
//   7. the call failed                 error                decided by the machine
//   8. the host says stop              halt_when, budget    at `after_work`, whose verdict comes first
//   9. the limit is reached            max_turns            at `after_work`

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

import { adapterFailure, engineFailure, normalizeContent, runtimeFailure } from "../../model/internal.ts";
import { toolEffectId } from "../machine/turn.ts";
import { ending, outcomeOfText } from "./ending.ts";
import { haltOf, pendingCall, questionMessage, waitingOutcome, waitOf } from "./halts.ts";
import { replyMessage } from "./reply-message.ts";
import { joinParagraph } from "./reply-text.ts";
import { complete, finish, messageId, nextIteration } from "./shared-actions.ts";
import { answerOf, unrunAnswer } from "./tool-answer.ts";

export type ChatProtocolOptions = {
  /** Who runs the tools. */
  readonly mode: ToolMode;
  /** A reply without a word completes the turn, or is an error unless it follows a tool's result. */
  readonly onEmptyReply: "complete" | "error";
  /** A call of a tool nobody knows ends the turn, or is answered like a call that failed. */
  readonly onUnknownTool: "error" | "answer";
  /** Stop after one reply, or after one reply and its tools. */
  readonly stopAfter: "reply" | "step" | null;
};

/**
 * The protocol of conversations with tool calls. Other protocols can wrap the driver it returns. Default mode:
 * `auto`.
 */
export function chatProtocol<P extends TurnProtocol = UnitTurnProtocol>(
  options: Partial<ChatProtocolOptions> = {},
): ProtocolDriver<P> {
  const chosen: ChatProtocolOptions = {
    mode: "auto",
    onEmptyReply: "complete",
    onUnknownTool: "error",
    stopAfter: null,
    ...options,
  };
  return {
    prepareProtocolIteration: () => [{ type: "start_llm", useTools: true, overrides: {}, driverState: null }],
    handleLlmSuccess: (context, reply) => onReply(chosen, context, reply),
    handleToolResults: (context, completed) => onToolResults(chosen, context, completed),
    handleExecResult: () => {
      const failure = runtimeFailure("invalid_actions", { message: "the chat protocol runs no code" });
      return [finish({ type: "runtime_error", failure })];
    },
  };
}

function onReply(options: ChatProtocolOptions, context: Context, reply: ModelReply): readonly DriverAction[] {
  const said = replyMessage(reply, messageId(context, "reply"));
  const append: DriverAction = { type: "append_events", messages: [said] };
  if (reply.finishReason === "tool_calls" && said.toolCalls.length > 0) {
    return [append, ...onCalls(options, context, reply, said)];
  }
  const text = spokenText(said);
  const outcome = outcomeOfText(reply, text);
  const why = `the reply ended as ${reply.finishReason ?? "unknown"}, so its calls are not run`;
  const unrun = said.toolCalls.map((call, slot) => unrunAnswer(call, "not_run", why, answerId(context, slot)));
  const step = stepEnd(options, reply, unrun);
  const isEmpty = outcome.type === "empty" && said.toolCalls.length === 0;
  if (isEmpty && options.onEmptyReply === "error" && context.lastMessage?.role !== "tool") {
    const message = "Model returned no assistant text or tool calls.";
    const failure = adapterFailure("malformed_response", { message, code: "empty_response" });
    const error: DriverAction = { type: "emit", event: { type: "error", error: failure } };
    return [error, step, finish({ type: "provider_error", failure })];
  }
  const kept: DriverAction = { type: "append_events", messages: unrun };
  return [append, kept, step, options.stopAfter === null ? complete(outcome) : finish(outcome)];
}

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
  return answerAndGoOn(options, context, calls, []);
}

/** All calls of the reply are answered, and the turn ends: nobody could have run them. */
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
      ? unrunAnswer(call, "not_found", `no tool is called ${call.name}`, answerId(context, slot))
      : unrunAnswer(call, "not_run", "another call of the reply named no tool", answerId(context, slot)),
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
  return answerAndGoOn(options, context, context.openReply?.toolCalls ?? [], completed);
}

/** The answers of a step enter history together, in call order: those of tools that ran, and of those nobody knows. */
function answerAndGoOn(
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
      ? [{ slot, answer: unrunAnswer(call, "not_found", `no tool is called ${call.name}`, answerId(context, slot)) }]
      : [],
  );
  const answers = [...ran, ...unknown].toSorted((left, right) => left.slot - right.slot).map(({ answer }) => answer);
  return [{ type: "append_events", messages: answers }, ...afterTools(options, context, completed, answers)];
}

/** Where a step goes once its calls have been answered as far as they will be. */
function afterTools(
  options: ChatProtocolOptions,
  context: Context,
  completed: readonly CompletedToolCall[],
  answers: readonly ToolMessage[],
): readonly DriverAction[] {
  const reply = context.openReply;
  const manual = reply?.toolCalls.flatMap((call, slot) => (isManual(context, call) ? [{ call, slot }] : [])) ?? [];
  const waits = completed.flatMap((one) => waitOf(one, null));
  const left = manual.map(({ call, slot }) => pendingCall(call, "manual", { idempotencyKey: callId(context, slot) }));
  const asked = waits.find(({ reason }) => reason === "question") ?? null;
  const halt = completed.map(haltOf).find((outcome) => outcome !== null) ?? null;
  const outcome = halt === null || halt.type === "ask_user" ? waitingOutcome([...waits, ...left]) : halt;
  const asks = outcome?.type === "ask_user" ? asked : null;
  // What is asked first is the outcome of the turn; it is pending too only if its answer is to be the result of its call.
  const pendingToolCalls = [...waits, ...left].filter((call) => call !== asks || call.answerAs === "tool_result");
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
    const messages = asks === null ? [] : [questionMessage(asks, messageId(context, "question"))];
    return [...step, { type: "append_events", messages }, finishPending(outcome)];
  }
  if (options.stopAfter !== null && reply !== null) return [...step, finishPending({ type: "stop_after" })];
  // Calls that were consented to come before the first model call of their turn and are not counted.
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

/** Did the tool ask for something that is to be the result of its call? Then the call stays open. */
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

function answerId(context: Context, slot: number): string {
  return messageId(context, `answer/${slot}`);
}

/** What a message says aloud: its texts as paragraphs. */
function spokenText(message: AssistantMessage): string {
  const parts: readonly AssistantPart[] = normalizeContent<AssistantPart>(message.content);
  return parts.reduce((text, part) => (part.type === "text" ? joinParagraph(text, part.text) : text), "");
}
