// The program of everturn.ts, written with the AI SDK.

import { generateText, Output, stepCountIs, tool } from "ai";
import { z } from "zod";

const weather = tool({
  description: "Tells the weather.",
  inputSchema: z.object({ city: z.string(), days: z.number().int().min(1).max(7).default(1) }),
  execute: async ({ city, days }) => ({ city, forecast: Array.from({ length: days }, () => "sunny") }),
});
const search = tool({
  description: "Searches the web.",
  inputSchema: z.object({
    query: z.string(),
    filters: z.object({ site: z.string().optional(), since: z.string().optional() }),
  }),
  execute: async ({ query, filters }) => [{ title: query, url: filters.site ?? "https://example.com" }],
});
const book = tool({
  description: "Books a flight.",
  inputSchema: z.object({ from: z.string(), to: z.string(), class: z.enum(["economy", "business"]) }),
  needsApproval: true,
  execute: async ({ from, to, class: cabin }) => ({ ref: `${from}-${to}-${cabin}` }),
});
const convert = tool({
  description: "Converts money.",
  inputSchema: z.object({ amount: z.number(), from: z.string(), to: z.string() }),
  execute: async ({ amount }) => amount * 1.1,
});
const notes = tool({
  description: "Keeps notes.",
  inputSchema: z.object({ items: z.array(z.object({ text: z.string(), tags: z.array(z.string()) })) }),
  execute: async ({ items }) => items.map(({ text, tags }) => `${text}: ${tags.join(", ")}`),
});

export async function main(): Promise<string> {
  const output = Output.object({ schema: z.object({ summary: z.string(), cities: z.array(z.string()) }) });
  const result = await generateText({
    model: "m",
    tools: { weather, search, book, convert, notes },
    prompt: "Plan a trip.",
    output,
    stopWhen: stepCountIs(5),
  });
  const calls = result.steps.flatMap((step) => step.toolCalls.map((call) => call.toolName));
  return `${result.output.summary} ${result.output.cities.join(", ")} ${calls.join(", ")}`;
}
