// The language of scenario scripts, and the model that plays them. It needs no API key and no network.
//
// A script has a prompt, which is the user message that starts it, and the replies of the model in order. The model
// keeps no state: the reply follows from the messages of the request alone, so every process gives the same one. That
// is what a turn needs that another process continues after a crash.

import type { Adapter, FakeStep, JsonObject, Message, ModelRequest, ToolCall } from "everturn";

import { fake, messageText } from "everturn";

/** One reply of the model. */
type Reply = {
  readonly reasoning?: string;
  readonly text: string;
  readonly calls?: readonly { readonly name: string; readonly args: JsonObject }[];
  /** Errors of the provider, one for each attempt before the one that succeeds. The engine retries them. */
  readonly errors?: readonly ProviderError[];
};

type ProviderError = Omit<Extract<FakeStep, { readonly type: "error" }>, "type">;

/** A conversation: the text that starts it, and the replies. A reply may depend on the results of tools. */
export type Script = {
  readonly prompt: string;
  readonly replies: readonly (Reply | ((results: ToolResults) => Reply))[];
};

/** Returns the result of the newest call of a tool; `null`: there is none. */
type ToolResults = (name: string) => { readonly ok: boolean; readonly text: string } | null;

/**
 * The delay between two words at which a script takes the time that its texts and tools are made for, in milliseconds.
 */
export const usualPaceMs = 25;

/**
 * The model of the scripts. A request whose newest user message starts no script goes to `other`. `paceMs`: the delay
 * between two words, in milliseconds.
 */
export function scriptedModel(scripts: readonly Script[], paceMs: number, other: Adapter): Adapter {
  const provider = "offline";
  return {
    provider,
    stream: (request, call) => {
      const reply = replyTo(request, scripts);
      if (reply === null) return other.stream(request, call);
      return fake({ provider, script: stepsOf(reply, request, call.attempt, paceMs) }).stream(request, call);
    },
  };
}

function replyTo({ messages }: ModelRequest, scripts: readonly Script[]): Reply | null {
  const prompts = messages.findLastIndex(({ role }) => role === "user");
  const prompt = messages[prompts];
  if (prompt === undefined) return null;
  const promptText = messageText(prompt);
  const script = scripts.find((candidate) => candidate.prompt === promptText);
  const answered = messages.slice(prompts + 1).filter((message) => hasCalls(message)).length;
  // Every reply but the last one has calls.
  const reply = script?.replies[answered] ?? null;
  return typeof reply === "function" ? reply((name) => newestResult(messages, name)) : reply;
}

function stepsOf(
  { reasoning = "", text, calls = [], errors = [] }: Reply,
  { messages, tools }: ModelRequest,
  attempt: number,
  paceMs: number,
): readonly FakeStep[] {
  const error = errors[attempt - 1];
  // The time that a provider takes before its first word.
  const start: readonly FakeStep[] = paceMs > 0 ? [{ type: "delay", ms: paceMs * 12 }] : [];
  if (error !== undefined) {
    const { retryAfterMs, ...details } = error;
    const wait = retryAfterMs === undefined ? {} : { retryAfterMs: (retryAfterMs * paceMs) / usualPaceMs };
    return [...start, { type: "error", ...details, ...wait }];
  }
  const step = messages.filter((message) => hasCalls(message)).length;
  const toolCalls = calls.map(({ name, args }, index): FakeStep => {
    return { type: "tool_call", id: `call_${messages.length}_${step}_${index}`, name, arguments: args };
  });
  const usage = {
    inputTokens: estimateTokens([messages, tools]),
    outputTokens: estimateTokens([reasoning, text, calls]),
  };
  return [
    ...start,
    ...wordByWord("reasoning", reasoning, paceMs),
    ...wordByWord("text", text, paceMs),
    ...toolCalls,
    { type: "usage", usage },
  ];
}

/** An estimate: four characters a token. */
function estimateTokens(value: readonly unknown[]): number {
  return Math.ceil(JSON.stringify(value).length / 4);
}

function wordByWord(type: "reasoning" | "text", text: string, paceMs: number): readonly FakeStep[] {
  return (text.match(/\S+\s*/g) ?? []).flatMap((word): readonly FakeStep[] => [
    ...(paceMs > 0 ? [{ type: "delay", ms: paceMs } as const] : []),
    { type, text: word },
  ]);
}

function hasCalls(message: Message): boolean {
  return message.role === "assistant" && message.toolCalls.length > 0;
}

function newestResult(messages: readonly Message[], name: string): ReturnType<ToolResults> {
  const calls = messages.flatMap((message): readonly ToolCall[] =>
    message.role === "assistant" ? message.toolCalls : [],
  );
  const call = calls.findLast((toolCall) => toolCall.name === name);
  const answer = messages.findLast((message) => message.role === "tool" && message.toolCallId === call?.id);
  return answer?.role === "tool" ? { ok: answer.status === "success", text: messageText(answer) } : null;
}
