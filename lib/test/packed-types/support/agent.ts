// A support agent of a shop, written from the guides alone: its tools, its typed summary, and a scripted model in place
// of a provider.

import type { FakeScript } from "everturn";

import { askUser, engine, fail, fake, tool } from "everturn";
import { z } from "zod";

const orders = new Map([["1042", { product: "grinder", euros: 189 }]]);

/** Every payment by its idempotency key, as a payment service would keep it. */
export const payments = new Map<string, number>();

const findOrder = tool({
  name: "find_order",
  description: "Returns the product and the price of an order.",
  schema: z.object({ order: z.string().describe("the number on the receipt") }),
  replay: "safe",
  handler: ({ order }) => orders.get(order) ?? fail(`There is no order ${order}.`),
});

const askCustomer = tool({
  name: "ask_customer",
  description: "Asks the customer a question.",
  schema: z.object({ question: z.string() }),
  handler: ({ question }) => askUser(question, { answerAs: "tool_result" }),
});

const refund = tool({
  name: "refund",
  description: "Pays money back to the customer's card.",
  schema: z.object({ order: z.string(), euros: z.number().positive() }),
  needsApproval: ({ euros }) => euros > 50,
  handler: async ({ order, euros }, { idempotencyKey, progress }) => {
    progress({ state: "paying" });
    payments.set(idempotencyKey, euros);
    return { order, paid: euros };
  },
});

/** What is stored about a case when it is closed. */
export const Summary = z.object({
  order: z.string(),
  refunded: z.number(),
  mood: z.enum(["calm", "angry"]),
  closed: z.string().transform((day) => new Date(`${day}T00:00:00Z`)),
});

/** The agent with a scripted model: one script for each model call. */
export function supportAgent(scripts: readonly FakeScript[]) {
  return engine({
    adapter: fake({ scripts, usage: { inputTokens: 10, outputTokens: 5 } }),
    model: "fake:support",
    instructions: "You are the support of a shop. Be brief.",
    tools: [findOrder, askCustomer, refund],
    options: { maxTurns: 6 },
  });
}
