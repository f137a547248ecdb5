// The tools of the scenarios. They do nothing outside of this process, and take the time that a real tool would take.
// Their schemas are complete, because forms are made from them: an approval shows a number with limits, a choice, and a
// switch.

import type { Json, JsonObject, Tool, ToolContext } from "everturn";

import { askUser, fail, tool } from "everturn";

import { pause } from "../pause.ts";
import { usualPaceMs } from "./script.ts";

const orderNumber = { type: "string", description: "The number of the order.", pattern: "^[0-9]+$" };

/** Returns the tools. `paceMs`: the delay between two words of the model; the tools are faster or slower with it. */
export function scenarioTools(paceMs: number): readonly Tool[] {
  const make = maker(paceMs);
  return [
    make({
      name: "get_weather",
      description: "Returns the weather forecast of a city.",
      fields: {
        city: { type: "string", description: "The name of the city." },
        days: { type: "integer", minimum: 1, maximum: 14, default: 5, description: "The number of days." },
      },
      required: ["city"],
      run: async ({ city }, work) => {
        const { ms, forecast } = forecasts[String(city)] ?? { ms: 1000, forecast: { sky: "unknown" } };
        await work(ms, ["asking the weather service", "reading the forecast"]);
        return { city: String(city), forecast };
      },
    }),
    make({
      name: "compare_travel",
      description: "Compares the journeys of a team to several cities.",
      fields: {
        cities: { type: "array", items: { type: "string" }, minItems: 1, maxItems: 5 },
        travellers: { type: "integer", minimum: 1, maximum: 50 },
      },
      run: async ({ travellers }, work) => {
        const total = Number(travellers);
        const stages = Array.from({ length: total }, (_, done) => ({ done: done + 1, total }));
        await work(3400, stages);
        return { Lisbon: "3 h 10 min", Oslo: "3 h 40 min", Kyoto: "14 h 20 min" };
      },
    }),
    make({
      name: "find_rooms",
      description: "Finds free meeting rooms in an office.",
      fields: {
        city: { type: "string", enum: ["Lisbon", "Oslo", "Kyoto"] },
        people: { type: "integer", minimum: 1, maximum: 40 },
        equipment: { type: "array", items: { type: "string", enum: ["screen", "whiteboard", "phone"] } },
      },
      required: ["city", "people"],
      run: async (_, work) => {
        await work(900, ["reading the calendar"]);
        return { room: "Belém", seats: 12, free: ["Tuesday", "Wednesday", "Thursday"] };
      },
    }),
    make({
      name: "find_order",
      description: "Finds an order: what was bought, and how it was paid.",
      fields: { order: orderNumber },
      run: async ({ order }, work) => {
        await work(1100, ["searching the orders", "found the invoice"]);
        return { order: String(order), item: "coffee grinder", paid: "189.00 EUR", card: "ends in 4242" };
      },
    }),
    make({
      name: "issue_refund",
      description: "Pays money back to a customer.",
      fields: {
        order: orderNumber,
        amount: { type: "number", minimum: 0.01, maximum: 500, description: "How much is paid back." },
        currency: { type: "string", enum: ["EUR", "USD", "GBP"] },
        method: { type: "string", enum: ["card", "store credit"], description: "Where the money goes." },
        reason: { type: "string", enum: ["damaged", "late", "wrong item", "other"] },
        notifyCustomer: { type: "boolean", default: true, description: "Whether a message is sent." },
      },
      required: ["order", "amount", "currency", "method", "reason"],
      // A payment must not run twice, and a person has to approve it.
      replay: "never",
      needsApproval: true,
      run: async ({ amount, currency, method }, work) => {
        await work(1500, ["asking the bank", "the bank has accepted"]);
        return `${Number(amount).toFixed(2)} ${String(currency)} to the ${String(method)}`;
      },
    }),
    make({
      name: "find_restaurants",
      description: "Finds restaurants with a free table.",
      fields: { day: { type: "string" }, people: { type: "integer", minimum: 1, maximum: 20 } },
      run: async (_, work) => {
        await work(1800, ["asking 14 restaurants", "3 have a table"]);
        return ["Trattoria Verde", "Kumo Ramen", "The Old Harbour"];
      },
    }),
    make({
      name: "ask_user",
      description: "Asks the user one question, and waits for the answer.",
      fields: {
        question: { type: "string" },
        options: { type: "array", items: { type: "string" }, maxItems: 5 },
      },
      required: ["question"],
      run: ({ question, options = [] }) => askUser(String(question), { answerAs: "tool_result", options }),
    }),
    make({
      name: "book_table",
      description: "Books a table in a restaurant.",
      fields: {
        restaurant: { type: "string" },
        time: { type: "string", pattern: "^[0-2][0-9]:[0-5][0-9]$" },
        people: { type: "integer", minimum: 1, maximum: 20 },
      },
      replay: "never",
      run: async ({ restaurant, time }, work) => {
        await work(1200, ["calling the restaurant"]);
        return { booked: true, restaurant: String(restaurant), time: String(time) };
      },
    }),
    make({
      name: "read_commits",
      description: "Reads the commits between two versions.",
      fields: { from: { type: "string" }, to: { type: "string" } },
      run: async (_, work) => {
        await work(1300, ["reading 61 commits"]);
        return { commits: 61, authors: 14 };
      },
    }),
    make({
      name: "read_issues",
      description: "Reads the issues of a milestone.",
      fields: { milestone: { type: "string" }, state: { type: "string", enum: ["open", "closed", "all"] } },
      required: ["milestone"],
      run: async (_, work) => {
        await work(900, ["reading 18 issues"]);
        return { closed: 18, labels: { added: 3, changed: 2, fixed: 3 } };
      },
    }),
    make({
      name: "read_tickets",
      description: "Reads the support tickets of a day.",
      fields: {
        day: { type: "string", enum: ["today", "yesterday"] },
        source: { type: "string", enum: ["primary", "replica"] },
      },
      run: async ({ source }, work) => {
        if (source === "primary") {
          await work(2000, ["connecting", "still connecting"]);
          return fail("the ticket system did not answer within 2 s");
        }
        await work(900, ["reading 23 tickets"]);
        return { tickets: 23, closed: 19, topics: { parcels: 11, invoices: 7, other: 5 } };
      },
    }),
  ];
}

/** The tools of the researchers. */
export function researchTools(paceMs: number): readonly Tool[] {
  return [
    maker(paceMs)({
      name: "search_documents",
      description: "Searches the documents of the team.",
      fields: { query: { type: "string" }, limit: { type: "integer", minimum: 1, maximum: 20, default: 5 } },
      required: ["query"],
      run: async ({ query }, work) => {
        await work(1200, ["searching", "reading 5 documents"]);
        return { query: String(query), documents: 5 };
      },
    }),
  ];
}

const forecasts: { readonly [city: string]: { readonly ms: number; readonly forecast: Json } } = {
  Lisbon: { ms: 1400, forecast: { sky: "sunny", celsius: 19, rainPercent: 5 } },
  Oslo: { ms: 2100, forecast: { sky: "snow", celsius: -2, rainPercent: 60 } },
  Kyoto: { ms: 2600, forecast: { sky: "rain", celsius: 12, rainPercent: 80 } },
};

type ScenarioTool = {
  readonly name: string;
  readonly description: string;
  /** The properties of the schema of the arguments. */
  readonly fields: JsonObject;
  /** Default: all fields. */
  readonly required?: readonly string[];
  readonly replay?: "safe" | "never";
  readonly needsApproval?: boolean;
  /** `work` takes some time, and reports each stage when it begins. */
  readonly run: (args: JsonObject, work: (ms: number, stages: readonly Json[]) => Promise<void>) => unknown;
};

/** Returns a function that makes tools, which are safe to run again unless they say otherwise. */
function maker(paceMs: number): (options: ScenarioTool) => Tool {
  return ({ fields, required = Object.keys(fields), run, ...options }) =>
    tool({
      replay: "safe",
      ...options,
      schema: { type: "object", properties: fields, required: [...required], additionalProperties: false },
      handler: (args, context) => run(args, (ms, stages) => workThrough(context, (ms * paceMs) / usualPaceMs, stages)),
    });
}

async function workThrough(
  { progress, signal }: Pick<ToolContext, "progress" | "signal">,
  ms: number,
  stages: readonly Json[],
): Promise<void> {
  for (const stage of stages) {
    progress(stage);
    await pause(ms / stages.length, signal);
  }
}
