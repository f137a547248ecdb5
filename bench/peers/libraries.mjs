// The other libraries, each as its README shows it. They are installed into the folder of a run and are no dependencies
// of this workspace, so this file is not type-checked.

import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import Anthropic from "@anthropic-ai/sdk";
import { Agent } from "@earendil-works/pi-agent-core";
import { createModels, createProvider, Type } from "@earendil-works/pi-ai";
import { anthropicMessagesApi } from "@earendil-works/pi-ai/api/anthropic-messages.lazy";
import { openAICompletionsApi } from "@earendil-works/pi-ai/api/openai-completions.lazy";
import { openAIResponsesApi } from "@earendil-works/pi-ai/api/openai-responses.lazy";
import { isStepCount, streamText, tool } from "ai";
import OpenAI from "openai";
import { z } from "zod";

import { add, instructions, prompt, toolDescription, toolName, toolSchema } from "./scenario.ts";

globalThis.AI_SDK_LOG_WARNINGS = false;

const providers = {
  chat: (baseURL) => createOpenAICompatible({ name: "mock", baseURL, apiKey: "k", includeUsage: true }),
  responses: (baseURL) => createOpenAI({ baseURL, apiKey: "k" }).responses,
  anthropic: (baseURL) => createAnthropic({ baseURL, apiKey: "k" }),
};

export function aiSdk(protocol) {
  const inputSchema = z.object({ a: z.number().int(), b: z.number().int() });
  const tools = { [toolName]: tool({ description: toolDescription, inputSchema, execute: (input) => add(input) }) };
  let provider;
  const run = async (baseURL, model, options, onDelta) => {
    provider ??= providers[protocol](baseURL);
    let failure;
    const onError = ({ error }) => (failure = error);
    const providerOptions = protocol === "responses" ? { openai: { store: false } } : undefined;
    const { textStream } = streamText({
      model: provider(model),
      instructions,
      prompt,
      maxRetries: 0,
      providerOptions,
      onError,
      ...options,
    });
    for await (const text of textStream) onDelta(text);
    if (failure !== undefined) throw failure;
  };
  return {
    name: "AI SDK",
    answer: (baseURL, model, onDelta) => run(baseURL, model, {}, onDelta),
    loop: (baseURL, model, maxTurns, onDelta) =>
      run(baseURL, model, { tools, stopWhen: isStepCount(maxTurns) }, onDelta),
  };
}

/** The official client of the protocol, with a tool loop by hand. */
export function officialSdk(protocol) {
  const read = { chat: readChat, responses: readResponses, anthropic: readAnthropic }[protocol];
  let client;
  const open = (baseURL) =>
    (client ??=
      protocol === "anthropic"
        ? new Anthropic({ baseURL: baseURL.replace(/\/v1$/u, ""), apiKey: "k", maxRetries: 0 })
        : new OpenAI({ baseURL, apiKey: "k", maxRetries: 0 }));
  return {
    name: protocol === "anthropic" ? "Anthropic SDK" : "openai SDK",
    answer: async (baseURL, model, onDelta) => {
      await read(open(baseURL), model, [], false, onDelta);
    },
    loop: async (baseURL, model, _maxTurns, onDelta) => {
      const history = [];
      for (;;) {
        const added = await read(open(baseURL), model, history, true, onDelta);
        if (added.length === 0) return;
        history.push(...added);
      }
    },
  };
}

const definition = { name: toolName, description: toolDescription, parameters: toolSchema };
const user = { role: "user", content: prompt };

async function readChat(client, model, history, hasTools, onDelta) {
  const calls = [];
  const events = await client.chat.completions.create({
    model,
    stream: true,
    stream_options: { include_usage: true },
    messages: [{ role: "system", content: instructions }, user, ...history],
    ...(hasTools ? { tools: [{ type: "function", function: definition }] } : {}),
  });
  for await (const { choices } of events) {
    const delta = choices[0]?.delta;
    if (delta?.content) onDelta(delta.content);
    for (const { index, id, function: part } of delta?.tool_calls ?? []) {
      calls[index] ??= { id, type: "function", function: { name: toolName, arguments: "" } };
      calls[index].function.arguments += part.arguments;
    }
  }
  if (calls.length === 0) return [];
  const results = calls.map(({ id, function: { arguments: text } }) => ({
    role: "tool",
    tool_call_id: id,
    content: add(JSON.parse(text)),
  }));
  return [{ role: "assistant", content: null, tool_calls: calls }, ...results];
}

async function readResponses(client, model, history, hasTools, onDelta) {
  const added = [];
  const events = await client.responses.create({
    model,
    stream: true,
    store: false,
    instructions,
    input: [user, ...history],
    ...(hasTools ? { tools: [{ type: "function", strict: false, ...definition }] } : {}),
  });
  for await (const event of events) {
    if (event.type === "response.output_text.delta") onDelta(event.delta);
    if (event.type !== "response.output_item.done" || event.item.type !== "function_call") continue;
    const { call_id, name, arguments: text } = event.item;
    added.push({ type: "function_call", call_id, name, arguments: text });
    added.push({ type: "function_call_output", call_id, output: add(JSON.parse(text)) });
  }
  return added;
}

async function readAnthropic(client, model, history, hasTools, onDelta) {
  const uses = [];
  const events = await client.messages.create({
    model,
    stream: true,
    max_tokens: 4096,
    system: instructions,
    messages: [user, ...history],
    ...(hasTools ? { tools: [{ name: toolName, description: toolDescription, input_schema: toolSchema }] } : {}),
  });
  for await (const event of events) {
    if (event.type === "content_block_start" && event.content_block.type === "tool_use")
      uses.push({ id: event.content_block.id, text: "" });
    if (event.type !== "content_block_delta") continue;
    if (event.delta.type === "text_delta") onDelta(event.delta.text);
    else uses.at(-1).text += event.delta.partial_json;
  }
  if (uses.length === 0) return [];
  const calls = uses.map(({ id, text }) => ({ type: "tool_use", id, name: toolName, input: JSON.parse(text) }));
  const results = calls.map(({ id, input }) => ({ type: "tool_result", tool_use_id: id, content: add(input) }));
  return [
    { role: "assistant", content: calls },
    { role: "user", content: results },
  ];
}

const piApis = {
  chat: { name: "openai-completions", make: openAICompletionsApi },
  responses: { name: "openai-responses", make: openAIResponsesApi },
  anthropic: { name: "anthropic-messages", make: anthropicMessagesApi },
};

/** pi: its models for an answer, its agent for a loop. */
export function pi(protocol) {
  const api = piApis[protocol];
  const auth = { apiKey: { name: "mock", resolve: async () => ({ auth: { apiKey: "k" } }) } };
  const models = createModels();
  models.setProvider(createProvider({ id: "mock", name: "mock", auth, models: [], api: api.make() }));
  const limits = {
    contextWindow: 10_000_000,
    maxTokens: 4096,
    cost: { input: 1, output: 1, cacheRead: 1, cacheWrite: 1 },
  };
  const known = new Map();
  const modelOf = (baseURL, id) => {
    const baseUrl = protocol === "anthropic" ? baseURL.replace(/\/v1$/u, "") : baseURL;
    const model = {
      id,
      name: id,
      api: api.name,
      provider: "mock",
      baseUrl,
      reasoning: false,
      input: ["text"],
      ...limits,
    };
    if (!known.has(id)) known.set(id, model);
    return known.get(id);
  };
  const adder = {
    name: toolName,
    label: "Add",
    description: toolDescription,
    parameters: Type.Object({ a: Type.Integer(), b: Type.Integer() }),
    execute: async (_id, input) => ({ content: [{ type: "text", text: add(input) }], details: undefined }),
  };
  return {
    name: "pi",
    answer: async (baseURL, model, onDelta) => {
      const messages = [{ role: "user", content: prompt, timestamp: Date.now() }];
      const context = { systemPrompt: instructions, messages };
      for await (const event of models.stream(modelOf(baseURL, model), context, { apiKey: "k", maxRetries: 0 })) {
        if (event.type === "text_delta") onDelta(event.delta);
        if (event.type === "error") throw new Error(event.error.errorMessage);
      }
    },
    loop: async (baseURL, model, _maxTurns, onDelta) => {
      const initialState = { systemPrompt: instructions, model: modelOf(baseURL, model), tools: [adder] };
      const streamFn = models.streamSimple.bind(models);
      const agent = new Agent({ initialState, streamFn, getApiKey: () => "k" });
      agent.subscribe((event) => {
        if (event.type !== "message_update") return;
        const { assistantMessageEvent: update } = event;
        if (update.type === "text_delta") onDelta(update.delta);
      });
      await agent.prompt(prompt);
      if (agent.state.errorMessage) throw new Error(agent.state.errorMessage);
    },
  };
}
