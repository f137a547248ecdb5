// Writes scripted replies in the format of each provider: whole JSON bodies, which the adapters accept in place of a
// stream. Reasoning and calls have the ids and signatures that the APIs require when the reply is sent back.

import type { FakeStep } from "../core/adapters/internal.ts";
import type { JsonObject } from "../core/model/internal.ts";
import type { ProviderApi } from "./provider-rules/rule.ts";

/** One step of a script for {@link strictProvider}: an output of the model, or its usage. */
export type ProviderStep = Extract<
  FakeStep,
  { readonly type: "text" | "reasoning" } | { readonly type: "tool_call" } | { readonly type: "usage" }
>;

/** A signature or encrypted content: the base64 form of "signature". */
const signature = "c2lnbmF0dXJl";

/** The reply number `number` (from 1) of an API. */
export function scriptedReply(api: ProviderApi, script: readonly ProviderStep[], number: number): JsonObject {
  switch (api) {
    case "openai-responses":
      return responsesReply(script, number);
    case "openai-chat":
      return chatReply(script, number);
    case "anthropic-messages":
      return anthropicReply(script, number);
    case "gemini":
      return geminiReply(script);
  }
}

type Call = Extract<ProviderStep, { readonly type: "tool_call" }>;

function scriptedCalls(script: readonly ProviderStep[]): readonly Call[] {
  return script.filter((step) => step.type === "tool_call");
}

function argumentsOf(step: Call): string {
  return step.rawArguments ?? JSON.stringify(step.arguments ?? {});
}

function tokensOf(script: readonly ProviderStep[]): { readonly input: number; readonly output: number } {
  const usages = script.flatMap((step) => (step.type === "usage" ? [step.usage] : []));
  const last = (field: "inputTokens" | "outputTokens") =>
    usages.findLast((usage) => typeof usage[field] === "number")?.[field];
  return { input: last("inputTokens") ?? 10, output: last("outputTokens") ?? 5 };
}

function responsesReply(script: readonly ProviderStep[], number: number): JsonObject {
  const { input, output } = tokensOf(script);
  const items = script.flatMap((step, at): readonly JsonObject[] => {
    const id = `${number}_${at}`;
    switch (step.type) {
      case "text": {
        const content = [{ type: "output_text", text: step.text, annotations: [] }];
        return [{ type: "message", id: `msg_${id}`, role: "assistant", status: "completed", content }];
      }
      case "reasoning": {
        const summary = [{ type: "summary_text", text: step.text }];
        return [{ type: "reasoning", id: `rs_${id}`, summary, encrypted_content: signature }];
      }
      case "tool_call": {
        const call_id = step.id ?? `call_${id}`;
        const { name } = step;
        return [
          { type: "function_call", id: `fc_${id}`, call_id, name, arguments: argumentsOf(step), status: "completed" },
        ];
      }
      case "usage":
        return [];
    }
  });
  const usage = { input_tokens: input, output_tokens: output, total_tokens: input + output };
  return { id: `resp_${number}`, object: "response", status: "completed", output: items, usage };
}

function chatReply(script: readonly ProviderStep[], number: number): JsonObject {
  const { input, output } = tokensOf(script);
  const text = script.map((step) => (step.type === "text" ? step.text : "")).join("");
  const calls = scriptedCalls(script);
  const tool_calls = calls.map((step, at) => ({
    id: step.id ?? `call_${number}_${at}`,
    type: "function",
    function: { name: step.name, arguments: argumentsOf(step) },
  }));
  const message = {
    role: "assistant",
    content: text === "" ? null : text,
    ...(tool_calls.length === 0 ? {} : { tool_calls }),
  };
  return {
    id: `chatcmpl_${number}`,
    object: "chat.completion",
    choices: [{ index: 0, message, finish_reason: calls.length === 0 ? "stop" : "tool_calls" }],
    usage: { prompt_tokens: input, completion_tokens: output, total_tokens: input + output },
  };
}

function anthropicReply(script: readonly ProviderStep[], number: number): JsonObject {
  const { input, output } = tokensOf(script);
  const content = script.flatMap((step, at): readonly JsonObject[] => {
    switch (step.type) {
      case "text":
        return [{ type: "text", text: step.text }];
      case "reasoning":
        return [{ type: "thinking", thinking: step.text, signature }];
      case "tool_call":
        return [
          { type: "tool_use", id: step.id ?? `toolu_${number}_${at}`, name: step.name, input: step.arguments ?? {} },
        ];
      case "usage":
        return [];
    }
  });
  return {
    id: `msg_${number}`,
    type: "message",
    role: "assistant",
    content,
    stop_reason: scriptedCalls(script).length === 0 ? "end_turn" : "tool_use",
    usage: { input_tokens: input, output_tokens: output },
  };
}

function geminiReply(script: readonly ProviderStep[]): JsonObject {
  const { input, output } = tokensOf(script);
  const first = script.findIndex(({ type }) => type === "tool_call");
  const parts = script.flatMap((step, at): readonly JsonObject[] => {
    switch (step.type) {
      case "text":
        return [{ text: step.text }];
      case "reasoning":
        return [{ text: step.text, thought: true }];
      case "tool_call": {
        const id = step.id === undefined ? {} : { id: step.id };
        const functionCall = { name: step.name, args: step.arguments ?? {}, ...id };
        // Only the first call of a reply has a signature.
        return [{ functionCall, ...(at === first ? { thoughtSignature: signature } : {}) }];
      }
      case "usage":
        return [];
    }
  });
  return {
    candidates: [{ content: { role: "model", parts }, finishReason: "STOP", index: 0 }],
    usageMetadata: { promptTokenCount: input, candidatesTokenCount: output, totalTokenCount: input + output },
  };
}
