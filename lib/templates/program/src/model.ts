// The model of the agent: of the first provider whose API key is set, and otherwise a script that repeats messages and
// calls the tools that they name.

import type { Adapter, Engine, FakeStep, JsonObject, ModelRequest } from "everturn";

import { anthropic, engine, fake, gemini, messageText, openai } from "everturn";

export function withModel(agent: Engine): Engine {
  if (process.env.ANTHROPIC_API_KEY) return engine({ ...agent, adapter: anthropic(), model: "claude-sonnet-5-5" });
  if (process.env.OPENAI_API_KEY) return engine({ ...agent, adapter: openai(), model: "gpt-6.1-sol" });
  if (process.env.GEMINI_API_KEY) return engine({ ...agent, adapter: gemini(), model: "gemini-3.8-flash" });
  return engine({ ...agent, adapter: scripted, model: "scripted" });
}

/** Replies word by word, so that the page shows a reply while it arrives. */
const scripted: Adapter = {
  provider: "scripted",
  stream: (request, call) => fake({ provider: "scripted", script: replyTo(request) }).stream(request, call),
};

function replyTo({ messages, tools }: ModelRequest): FakeStep[] {
  const last = messages.at(-1);
  const text = last === undefined ? "" : messageText(last);
  const named = last?.role === "user" ? tools.find(({ name }) => text.includes(name)) : undefined;
  if (named !== undefined) {
    const id = `call_${messages.length}`;
    const { name } = named;
    const args: JsonObject = name === "book_table" ? { name: "Ada", guests: 2, time: "20:00" } : {};
    return [{ type: "tool_call", id, name, arguments: args }];
  }
  const reply = last?.role === "tool" ? `The tool returned: ${text}` : `You said: ${text}`;
  const words = reply.match(/\S+\s*/g) ?? [];
  return words.flatMap((word): FakeStep[] => [
    { type: "delay", ms: 60 },
    { type: "text", text: word },
  ]);
}
