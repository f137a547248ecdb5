// Helpers for tests of the turn machine: a configuration, replies and tool results, and a turn as lines of text.

import type { ChatProtocolOptions, Transition } from "../src/core/kernel/internal.ts";
import type { Message, ModelReply, ToolCall, ToolOutcome, TurnOutcome } from "everturn";
import type { EffectResponse, Notice, Turn, TurnInput, TurnMachineConfig } from "everturn/advanced";

import { assistant, orThrow, user } from "everturn";
import {
  chatProtocol,
  checkpointDelivered,
  modelReplied,
  toolReturned,
  turnConfig,
  turnInput,
  modelReply,
  toolCall,
  toolSpec,
  usage,
} from "everturn/advanced";

import { advance, pendingEffects, startTurn } from "../src/core/kernel/internal.ts";
import { encodeToolValue } from "../src/core/model/internal.ts";

const weather = toolSpec({ name: "weather", description: "Tells the weather.", schema: { type: "object" } });
const clock = toolSpec({ name: "clock", description: "Tells the time.", schema: { type: "object" } });
const pay = toolSpec({ name: "pay", description: "Pays.", schema: { type: "object" }, manual: true });

export function config(
  chat: Partial<ChatProtocolOptions> = {},
  rest: Partial<TurnMachineConfig> = {},
): TurnMachineConfig {
  const named = { sessionId: "s1", model: "test-model", systemPrompt: "Be brief.", toolSpecs: [weather, clock, pay] };
  return turnConfig({ ...named, protocolDriver: chatProtocol(chat), ...rest });
}

export function input(rest: Partial<TurnInput> = {}): TurnInput {
  return turnInput("t", { messages: [user("hi")], ...rest });
}

/** A reply with this text. */
export function says(text: string, rest: Partial<ModelReply> = {}): ModelReply {
  const spent = usage({ inputTokens: 10, outputTokens: 5 });
  return modelReply({ message: assistant(text), outputText: text, finishReason: "stop", usage: spent, ...rest });
}

/** A reply with tool calls whose ids are their positions. */
export function calls(...names: readonly string[]): ModelReply {
  const toolCalls = names.map((name, slot): ToolCall => toolCall({ id: `c${slot}`, name, arguments: {} }));
  return says("", { toolCalls, message: assistant("", { toolCalls }), finishReason: "tool_calls" });
}

export const replied = (id: string, reply: ModelReply): EffectResponse => modelReplied(id, reply);

export function returned(id: string, outcome: ToolOutcome, stops = false): EffectResponse {
  const content = outcome.type === "success" && typeof outcome.value === "string" ? outcome.value : outcome.type;
  return toolReturned(id, outcome, { content, stops });
}

/** The outcome of a tool that asks the user a question. */
export const asks = (question: string): ToolOutcome => ({
  type: "ask_user",
  question,
  answerAs: "user_message",
  opts: {},
});

export const result = (id: string, value: string): EffectResponse =>
  returned(id, { type: "success", value: orThrow(encodeToolValue(value)), control: null });

export function delivered(id: string, ...messages: readonly Message[]): EffectResponse {
  return checkpointDelivered(id, { messages });
}

/** A turn as lines: `>` pending effects, `<` responses, `!` notices, `=` the outcome. */
export function transcript(
  settings: TurnMachineConfig,
  begin: TurnInput,
  story: readonly EffectResponse[],
): { readonly lines: readonly string[]; readonly turn: Turn } {
  const lines: string[] = [];
  const tell = ({ notices, turn, status }: Transition) => {
    if (status !== "accepted") lines.push(`! ${status}`);
    for (const notice of notices) lines.push(...noticeLines(notice));
    const waits = pendingEffects(turn).map(({ id }) => id.replace(/^t\//, ""));
    if (waits.length > 0) lines.push(`> ${waits.join(", ")}`);
    return turn;
  };
  let turn = tell(startTurn(settings, begin));
  for (const response of story) {
    lines.push(`< ${response.type} ${response.id.replace(/^t\//, "")}`);
    turn = tell(advance(settings, turn, response));
  }
  return { lines, turn };
}

function noticeLines(notice: Notice): readonly string[] {
  switch (notice.type) {
    case "emit":
      return [`! ${notice.event.type}`];
    case "log":
      return [`! log ${notice.event.type}`];
    case "progress": {
      const said = notice.messages.map((message) => message.role).join(" ");
      return [`! progress ${notice.step}: ${said}${notice.stepEnded === null ? "" : " | step"}`];
    }
    case "done":
      return [
        `= ${outcomeWords(notice.ending.outcome)}${notice.ending.pendingToolCalls.map((call) => ` +${call.id}`).join("")}`,
      ];
  }
}

function outcomeWords(outcome: TurnOutcome): string {
  return outcome.type === "halted" ? outcome.reason : outcome.type;
}
