// The tools of the scenarios. They do nothing outside of this process, and take the time that a real tool would take. Their schemas are complete, because forms are
// made from them: an approval shows a number with limits, a choice, and a switch.

import type { Json, Tool, ToolContext } from "everturn";

import { askUser, fail, tool } from "everturn";

import { pause } from "../pause.ts";
import { usualPaceMs } from "./script.ts";

/** Returns the tools. `paceMs`: the delay between two words of the model; the tools are faster or slower with it. */
export function scenarioTools(paceMs: number): readonly Tool[] {
  const factor = paceMs / usualPaceMs;
  const work = (context: Work, ms: number, stages: readonly Json[]) => workThrough(context, ms * factor, stages);
  return [
    tool({
      name: "get_weather",
      description: "Returns the weather forecast of a city.",
      schema: {
        type: "object",
        properties: {
          city: { type: "string", description: "The name of the city." },
          days: { type: "integer", minimum: 1, maximum: 14, default: 5, description: "The number of days." },
        },
        required: ["city"],
        additionalProperties: false,
      },
      replay: "safe",
      handler: async ({ city }, context) => {
        const forecasts: { readonly [city: string]: { readonly ms: number; readonly forecast: Json } } = {
          Lisbon: { ms: 1400, forecast: { sky: "sunny", celsius: 19, rainPercent: 5 } },
          Oslo: { ms: 2100, forecast: { sky: "snow", celsius: -2, rainPercent: 60 } },
          Kyoto: { ms: 2600, forecast: { sky: "rain", celsius: 12, rainPercent: 80 } },
        };
        const { ms, forecast } = forecasts[String(city)] ?? { ms: 1000, forecast: { sky: "unknown" } };
        await work(context, ms, ["asking the weather service", "reading the forecast"]);
        return { city: String(city), forecast };
      },
    }),
    tool({
      name: "compare_travel",
      description: "Compares the journeys of a team to several cities.",
      schema: {
        type: "object",
        properties: {
          cities: { type: "array", items: { type: "string" }, minItems: 1, maxItems: 5 },
          travellers: { type: "integer", minimum: 1, maximum: 50 },
        },
        required: ["cities", "travellers"],
        additionalProperties: false,
      },
      replay: "safe",
      handler: async ({ travellers }, context) => {
        const total = Number(travellers);
        await work(
          context,
          3400,
          Array.from({ length: total }, (_, done) => ({ done: done + 1, total })),
        );
        return { Lisbon: "3 h 10 min", Oslo: "3 h 40 min", Kyoto: "14 h 20 min" };
      },
    }),
    tool({
      name: "find_rooms",
      description: "Finds free meeting rooms in an office.",
      schema: {
        type: "object",
        properties: {
          city: { type: "string", enum: ["Lisbon", "Oslo", "Kyoto"] },
          people: { type: "integer", minimum: 1, maximum: 40 },
          equipment: { type: "array", items: { type: "string", enum: ["screen", "whiteboard", "phone"] } },
        },
        required: ["city", "people"],
        additionalProperties: false,
      },
      replay: "safe",
      handler: async (_, context) => {
        await work(context, 900, ["reading the calendar"]);
        return { room: "Belém", seats: 12, free: ["Tuesday", "Wednesday", "Thursday"] };
      },
    }),
    tool({
      name: "find_order",
      description: "Finds an order: what was bought, and how it was paid.",
      schema: {
        type: "object",
        properties: { order: { type: "string", description: "The number of the order.", pattern: "^[0-9]+$" } },
        required: ["order"],
        additionalProperties: false,
      },
      replay: "safe",
      handler: async ({ order }, context) => {
        await work(context, 1100, ["searching the orders", "found the invoice"]);
        return { order: String(order), item: "coffee grinder", paid: "189.00 EUR", card: "ends in 4242" };
      },
    }),
    tool({
      name: "issue_refund",
      description: "Pays money back to a customer.",
      schema: {
        type: "object",
        properties: {
          order: { type: "string", description: "The number of the order.", pattern: "^[0-9]+$" },
          amount: { type: "number", minimum: 0.01, maximum: 500, description: "How much is paid back." },
          currency: { type: "string", enum: ["EUR", "USD", "GBP"] },
          method: { type: "string", enum: ["card", "store credit"], description: "Where the money goes." },
          reason: { type: "string", enum: ["damaged", "late", "wrong item", "other"] },
          notifyCustomer: { type: "boolean", default: true, description: "Whether a message is sent." },
        },
        required: ["order", "amount", "currency", "method", "reason"],
        additionalProperties: false,
      },
      // A payment must not run twice, and a person has to approve it.
      replay: "never",
      needsApproval: true,
      handler: async ({ amount, currency, method }, context) => {
        await work(context, 1500, ["asking the bank", "the bank has accepted"]);
        return `${Number(amount).toFixed(2)} ${String(currency)} to the ${String(method)}`;
      },
    }),
    tool({
      name: "find_restaurants",
      description: "Finds restaurants with a free table.",
      schema: {
        type: "object",
        properties: { day: { type: "string" }, people: { type: "integer", minimum: 1, maximum: 20 } },
        required: ["day", "people"],
        additionalProperties: false,
      },
      replay: "safe",
      handler: async (_, context) => {
        await work(context, 1800, ["asking 14 restaurants", "3 have a table"]);
        return ["Trattoria Verde", "Kumo Ramen", "The Old Harbour"];
      },
    }),
    tool({
      name: "ask_user",
      description: "Asks the user one question, and waits for the answer.",
      schema: {
        type: "object",
        properties: {
          question: { type: "string" },
          options: { type: "array", items: { type: "string" }, maxItems: 5 },
        },
        required: ["question"],
        additionalProperties: false,
      },
      replay: "safe",
      handler: ({ question, options = [] }) => askUser(String(question), { answerAs: "tool_result", options }),
    }),
    tool({
      name: "book_table",
      description: "Books a table in a restaurant.",
      schema: {
        type: "object",
        properties: {
          restaurant: { type: "string" },
          time: { type: "string", pattern: "^[0-2][0-9]:[0-5][0-9]$" },
          people: { type: "integer", minimum: 1, maximum: 20 },
        },
        required: ["restaurant", "time", "people"],
        additionalProperties: false,
      },
      replay: "never",
      handler: async ({ restaurant, time }, context) => {
        await work(context, 1200, ["calling the restaurant"]);
        return { booked: true, restaurant: String(restaurant), time: String(time) };
      },
    }),
    tool({
      name: "read_commits",
      description: "Reads the commits between two versions.",
      schema: {
        type: "object",
        properties: { from: { type: "string" }, to: { type: "string" } },
        required: ["from", "to"],
        additionalProperties: false,
      },
      replay: "safe",
      handler: async (_, context) => {
        await work(context, 1300, ["reading 61 commits"]);
        return { commits: 61, authors: 14 };
      },
    }),
    tool({
      name: "read_issues",
      description: "Reads the issues of a milestone.",
      schema: {
        type: "object",
        properties: { milestone: { type: "string" }, state: { type: "string", enum: ["open", "closed", "all"] } },
        required: ["milestone"],
        additionalProperties: false,
      },
      replay: "safe",
      handler: async (_, context) => {
        await work(context, 900, ["reading 18 issues"]);
        return { closed: 18, labels: { added: 3, changed: 2, fixed: 3 } };
      },
    }),
    tool({
      name: "read_tickets",
      description: "Reads the support tickets of a day.",
      schema: {
        type: "object",
        properties: {
          day: { type: "string", enum: ["today", "yesterday"] },
          source: { type: "string", enum: ["primary", "replica"] },
        },
        required: ["day", "source"],
        additionalProperties: false,
      },
      replay: "safe",
      handler: async ({ source }, context) => {
        if (source === "primary") {
          await work(context, 2000, ["connecting", "still connecting"]);
          return fail("the ticket system did not answer within 2 s");
        }
        await work(context, 900, ["reading 23 tickets"]);
        return { tickets: 23, closed: 19, topics: { parcels: 11, invoices: 7, other: 5 } };
      },
    }),
  ];
}

/** The tools of the researchers. */
export function researchTools(paceMs: number): readonly Tool[] {
  return [
    tool({
      name: "search_documents",
      description: "Searches the documents of the team.",
      schema: {
        type: "object",
        properties: { query: { type: "string" }, limit: { type: "integer", minimum: 1, maximum: 20, default: 5 } },
        required: ["query"],
        additionalProperties: false,
      },
      replay: "safe",
      handler: async ({ query }, context) => {
        await workThrough(context, (1200 * paceMs) / usualPaceMs, ["searching", "reading 5 documents"]);
        return { query: String(query), documents: 5 };
      },
    }),
  ];
}

type Work = Pick<ToolContext, "progress" | "signal">;

/** Takes some time, and reports each stage when it begins. */
async function workThrough({ progress, signal }: Work, ms: number, stages: readonly Json[]): Promise<void> {
  for (const stage of stages) {
    progress(stage);
    await pause(ms / stages.length, signal);
  }
}
