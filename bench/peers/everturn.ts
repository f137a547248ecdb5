// Everturn as its README shows it: engines are made once, the stream is read event by event, the tool loop is its own.

import type { Contender, Protocol } from "./scenario.ts";
import type { Adapter } from "everturn";

import { anthropic, engine, openai, openaiCompatible, stream, tool } from "everturn";
import { z } from "zod";

import { add, instructions, prompt, toolDescription, toolName } from "./scenario.ts";

const schema = z.object({ a: z.number().int(), b: z.number().int() });
const tools = [tool({ name: toolName, description: toolDescription, schema, handler: (input) => add(input) })];

const adapters: { readonly [name in Protocol]: (baseURL: string) => Adapter } = {
  chat: (baseURL) => openaiCompatible({ name: "mock", baseURL, apiKey: "k" }),
  responses: (baseURL) => openai({ baseURL, apiKey: "k" }),
  anthropic: (baseURL) => anthropic({ baseURL, apiKey: "k" }),
};

export function everturn(protocol: Protocol): Contender {
  let adapter: Adapter | null = null;
  const engines = new Map<string, ReturnType<typeof engine>>();
  const engineOf = (baseURL: string, model: string) => {
    adapter ??= adapters[protocol](baseURL);
    const hasTools = model.startsWith("loop");
    const known =
      engines.get(model) ?? engine({ adapter, model, instructions, retry: false, tools: hasTools ? tools : [] });
    engines.set(model, known);
    return known;
  };
  return {
    name: "Everturn",
    answer: (baseURL, model, onDelta) => run(stream(engineOf(baseURL, model), prompt), onDelta),
    loop: (baseURL, model, maxTurns, onDelta) => run(stream(engineOf(baseURL, model), prompt, { maxTurns }), onDelta),
  };
}

async function run(events: ReturnType<typeof stream>, onDelta: (text: string) => void): Promise<void> {
  for await (const event of events) if (event.type === "text_delta") onDelta(event.delta);
  const { haltedReason } = await events.result;
  if (haltedReason !== "completed") throw new Error(`the run ended with ${haltedReason}`);
}
