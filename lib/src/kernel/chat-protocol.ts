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
  PendingReason,
  PendingToolCall,
  ToolCall,
  ToolMessage,
  ToolMode,
  TurnOutcome,
} from "../model/index.ts";
import type { ToolReturned } from "./effect.ts";
import type { DriverAction, DriverContextView, ProtocolDriver } from "./protocol.ts";
import type { CompletedToolCall, Ending, StepEnd } from "./turn.ts";

import { adapterFailure, assistant, engineFailure, normalizeContent, runtimeFailure } from "../model/index.ts";
import { ending, maxTurnsEnding, outcomeOfText } from "./ending.ts";
import { replyMessage } from "./reply-message.ts";
import { joinParagraph } from "./reply-text.ts";
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

export function chatProtocol(options: Partial<ChatProtocolOptions> = {}): ProtocolDriver {
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
      return [{ type: "finish", ending: ending({ type: "runtime_error", failure }) }];
    },
  };
}

function onReply(options: ChatProtocolOptions, context: DriverContextView, reply: ModelReply): readonly DriverAction[] {
  const said = replyMessage(reply, `${context.turnId}/${context.protocolIteration}/reply`);
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
    return [
      { type: "emit", event: { type: "error", error: failure } },
      step,
      { type: "finish", ending: ending({ type: "provider_error", failure }) },
    ];
  }
  const kept: DriverAction = { type: "append_events", messages: unrun };
  if (options.stopAfter !== null) return [append, kept, step, { type: "finish", ending: ending(outcome) }];
  return [
    append,
    kept,
    step,
    { type: "start_checkpoint", checkpoint: "before_completion", onEmpty: { type: "finish", ending: ending(outcome) } },
  ];
}

function onCalls(
  options: ChatProtocolOptions,
  context: DriverContextView,
  reply: ModelReply,
  { toolCalls: calls }: AssistantMessage,
): readonly DriverAction[] {
  if (options.mode === "manual" || options.stopAfter === "reply") {
    const pendingToolCalls = calls.map((call) => pending(call, "manual"));
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
    specOf(context, call)?.manual === false ? [{ call, slot, decision: null }] : [],
  );
  if (runnable.length > 0) return [{ type: "start_tools", calls: runnable, driverState: null }];
  return answerAndGoOn(options, context, calls, []);
}

/** All calls of the reply are answered, and the turn ends: nobody could have run them. */
function onUnknown(
  options: ChatProtocolOptions,
  context: DriverContextView,
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
    { type: "finish", ending: ending({ type: "runtime_error", failure }) },
  ];
}

function onToolResults(
  options: ChatProtocolOptions,
  context: DriverContextView,
  completed: readonly CompletedToolCall[],
): readonly DriverAction[] {
  return answerAndGoOn(options, context, context.openReply?.toolCalls ?? [], completed);
}

/** The answers of a step enter history together, in call order: those of tools that ran, and of those nobody knows. */
function answerAndGoOn(
  options: ChatProtocolOptions,
  context: DriverContextView,
  calls: readonly ToolCall[],
  completed: readonly CompletedToolCall[],
): readonly DriverAction[] {
  const ran = completed.flatMap(({ call, slot, result }) =>
    result.type === "tool_returned" ? [{ slot, answer: answerOf(call, result, answerId(context, slot)) }] : [],
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
  context: DriverContextView,
  completed: readonly CompletedToolCall[],
  answers: readonly ToolMessage[],
): readonly DriverAction[] {
  const reply = context.openReply;
  const manual = reply?.toolCalls.filter((call) => specOf(context, call)?.manual === true) ?? [];
  const halts = completed.flatMap(haltsOf);
  const [halt] = halts;
  const pendingToolCalls = [
    ...completed.flatMap(({ call, result }) =>
      result.type === "tool_waits" ? [{ ...pending(call, result.reason), opts: result.opts }] : [],
    ),
    ...manual.map((call) => pending(call, "manual")),
    ...halts
      .slice(1)
      .flatMap(({ outcome, call, opts }) =>
        outcome.type === "ask_user" ? [{ ...pending(call, "question"), question: outcome.question, opts }] : [],
      ),
  ];
  const step: readonly DriverAction[] =
    reply === null ? [] : [stepEnd(options, reply, answers, pendingToolCalls, manual)];
  const finish = (outcome: TurnOutcome): DriverAction => {
    const how: Ending = { ...ending(outcome), pendingToolCalls };
    return { type: "finish", ending: how };
  };
  if (halt !== undefined) {
    const { outcome } = halt;
    const question =
      outcome.type === "ask_user"
        ? [
            assistant(outcome.question, {
              id: `${context.turnId}/${context.protocolIteration}/question`,
              metadata: { askUser: true, toolCallId: outcome.toolCallId },
            }),
          ]
        : [];
    return [...step, { type: "append_events", messages: question }, finish(outcome)];
  }
  const waits = waitingOutcome(pendingToolCalls);
  if (waits !== null) return [...step, finish(waits)];
  if (options.stopAfter !== null) return [...step, finish({ type: "stop_after" })];
  const { maxTurns } = context;
  // Calls that were consented to come before the first model call of their turn and are not counted.
  const free = reply === null;
  const limit = !free && maxTurns !== null && context.protocolIteration + 1 >= context.protocolRunOffset + maxTurns;
  return [
    ...step,
    { type: "advance_protocol_iteration", free },
    {
      type: "start_checkpoint",
      checkpoint: "after_work",
      onEmpty: limit ? { type: "finish", ending: maxTurnsEnding(context.config) } : { type: "prepare_iteration" },
    },
  ];
}

type Halt = { readonly call: ToolCall; readonly outcome: TurnOutcome; readonly opts: PendingToolCall["opts"] };

/** What of a result ends the turn, if anything does. */
function haltsOf({ call, result }: CompletedToolCall): readonly Halt[] {
  if (result.type !== "tool_returned") return [];
  const outcome = haltOf(call, result);
  const opts = result.outcome.type === "ask_user" ? result.outcome.opts : {};
  return outcome === null ? [] : [{ call, outcome, opts }];
}

function haltOf(call: ToolCall, { outcome, stops }: ToolReturned): TurnOutcome | null {
  switch (outcome.type) {
    case "ask_user":
      return { type: "ask_user", toolCallId: call.id, question: outcome.question };
    case "halt":
      return { type: "halted", reason: outcome.reason, toolCallId: call.id, value: outcome.value };
    case "failure":
      return stops ? { type: "tool_error", toolName: call.name, toolCallId: call.id, failure: outcome.failure } : null;
    case "cancelled":
      return null;
    case "success":
      return outcome.control === null ? null : controlOf(call, outcome.control);
  }
}

function controlOf(
  call: ToolCall,
  control: NonNullable<Extract<ToolReturned["outcome"], { type: "success" }>["control"]>,
) {
  switch (control.type) {
    case "finish":
      return { type: "tool_value", toolName: call.name, value: control.value } as const;
    case "fail":
      return { type: "tool_error", toolName: call.name, toolCallId: call.id, failure: control.failure } as const;
    case "handoff": {
      const { target, task, initialMessages } = control;
      // Nobody can take over without knowing who and what.
      if (target.trim() === "" || (task ?? "").trim() === "") return null;
      return { type: "handoff", target, task, initialMessages } as const;
    }
  }
}

function waitingOutcome(calls: readonly PendingToolCall[]): TurnOutcome | null {
  const reasons = new Set(calls.map((call) => call.reason));
  if (reasons.has("manual")) return { type: "manual_tool_calls" };
  if (reasons.has("approval")) return { type: "approval" };
  return reasons.size > 0 ? { type: "outcome_unknown" } : null;
}

function pending(call: ToolCall, reason: PendingReason): PendingToolCall {
  return {
    ...call,
    reason,
    question: null,
    answerAs: "user_message",
    opts: {},
    decision: null,
    idempotencyKey: null,
    cellId: null,
    path: [],
  };
}

function stepEnd(
  { mode }: ChatProtocolOptions,
  reply: ModelReply,
  toolResults: readonly ToolMessage[],
  pendingToolCalls: readonly PendingToolCall[] = [],
  manualToolCalls: readonly ToolCall[] = [],
): DriverAction {
  const step: StepEnd = { reply, toolResults, pendingToolCalls, manualToolCalls, mode };
  return { type: "end_step", ...step };
}

function specOf(context: DriverContextView, call: ToolCall) {
  return context.environment.tools.find((tool) => tool.name === call.name);
}

function answerId(context: DriverContextView, slot: number): string {
  return `${context.turnId}/${context.protocolIteration}/answer/${slot}`;
}

/** What a message says aloud: its texts as paragraphs. */
function spokenText(message: AssistantMessage): string {
  const parts: readonly AssistantPart[] = normalizeContent<AssistantPart>(message.content);
  return parts.reduce((text, part) => (part.type === "text" ? joinParagraph(text, part.text) : text), "");
}
