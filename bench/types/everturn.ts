// A user program that is only type-checked: five tools, a typed answer, a loop. ai-sdk.ts is the same program with the
// AI SDK.

import { chat, engine, fake, tool } from "everturn";
import { z } from "zod";

const weather = tool({
  name: "weather",
  description: "Tells the weather.",
  schema: z.object({ city: z.string(), days: z.number().int().min(1).max(7).default(1) }),
  handler: async ({ city, days }) => ({ city, forecast: Array.from({ length: days }, () => "sunny") }),
});
const search = tool({
  name: "search",
  description: "Searches the web.",
  schema: z.object({
    query: z.string(),
    filters: z.object({ site: z.string().optional(), since: z.string().optional() }),
  }),
  handler: async ({ query, filters }) => [{ title: query, url: filters.site ?? "https://example.com" }],
});
const book = tool({
  name: "book",
  description: "Books a flight.",
  schema: z.object({ from: z.string(), to: z.string(), class: z.enum(["economy", "business"]) }),
  needsApproval: true,
  handler: async ({ from, to, class: cabin }) => ({ ref: `${from}-${to}-${cabin}` }),
});
const convert = tool({
  name: "convert",
  description: "Converts money.",
  schema: z.object({ amount: z.number(), from: z.string(), to: z.string() }),
  handler: async ({ amount }) => amount * 1.1,
});
const notes = tool({
  name: "notes",
  description: "Keeps notes.",
  schema: z.object({ items: z.array(z.object({ text: z.string(), tags: z.array(z.string()) })) }),
  handler: async ({ items }) => items.map(({ text, tags }) => `${text}: ${tags.join(", ")}`),
});

export async function main(): Promise<string> {
  const of = engine({ adapter: fake(), model: "m", tools: [weather, search, book, convert, notes] });
  const output = z.object({ summary: z.string(), cities: z.array(z.string()) });
  const result = await chat(of, "Plan a trip.", { output, maxTurns: 5 });
  const calls = result.steps.flatMap((step) => step.response.toolCalls.map((call) => call.name));
  return `${result.output?.summary ?? ""} ${result.output?.cities.join(", ") ?? ""} ${calls.join(", ")}`;
}
