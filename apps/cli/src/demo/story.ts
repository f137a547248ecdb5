// The story: a customer wants money back for something that came broken. What the agent is told, the tools it has, and what the customer says when
// nobody at the terminal does.

import type { WorldLog } from "./world-log.ts";
import type { Tool } from "everturn";

import { setTimeout as pause } from "node:timers/promises";

import { askUser, tool } from "everturn";

export const instructions = [
  "You are the refund desk of a small shop. Write plain text, without Markdown, and keep to this order:",
  "1. In one short sentence say that you will look, and in the same reply call find_order and track_parcel, both at once.",
  "2. Call ask_customer once, to ask whether the money should go back to the card or become store credit.",
  "3. Call refund with the full amount. Somebody else will approve it or not; do not ask for that yourself.",
  "4. If the refund went through, call send_receipt.",
  "5. Close with four or five friendly sentences: what was paid and to where, that banks need two to three days, that nothing has to be sent back.",
].join("\n");

/** What the customer begins with. */
export const complaint = "Order 1042 came broken. I want my money back, please.";

/** What the customer says when the agent asks and nobody at the terminal answers. */
export const preference = "To the card, please.";

/** Said to a model that stops before it has asked for the refund. */
export const reminder = "Please go on: refund it to my card. You have everything you need.";

/** The tool that moves money, and the one that asks. */
export const refundTool = "refund";
export const askTool = "ask_customer";

/** The tools, as the agent has them; what they do is written to the log, where there is one. */
export function storyTools(world: WorldLog | null): readonly Tool[] {
  const ofOrder = { type: "object", properties: { order: { type: "string" } }, required: ["order"] };
  return [
    tool({
      name: "find_order",
      description: "Finds an order: what was bought, and how it was paid.",
      schema: ofOrder,
      replay: "safe",
      handler: async (_, { idempotencyKey, progress, signal }) => {
        world?.toolBegan("find_order", idempotencyKey);
        progress("opening the books");
        await pause(350, undefined, { signal });
        progress("found the invoice");
        await pause(250, undefined, { signal });
        return { item: "grinder", paid: "189.00 EUR", card: "4242" };
      },
    }),
    tool({
      name: "track_parcel",
      description: "Asks the carrier what became of the parcel of an order.",
      schema: ofOrder,
      replay: "safe",
      handler: async (_, { idempotencyKey, progress, signal }) => {
        world?.toolBegan("track_parcel", idempotencyKey);
        progress("asking the carrier");
        await pause(200, undefined, { signal });
        progress("reading 3 scans");
        await pause(200, undefined, { signal });
        return { delivered: "Monday", box: "crushed" };
      },
    }),
    tool({
      name: askTool,
      description: "Asks the customer one question, and waits for the answer.",
      schema: { type: "object", properties: { question: { type: "string" } }, required: ["question"] },
      replay: "safe",
      handler: ({ question }, { idempotencyKey }) => {
        world?.toolBegan(askTool, idempotencyKey);
        return askUser(String(question), { answerAs: "tool_result" });
      },
    }),
    tool({
      name: refundTool,
      description: "Pays money back: to the card, or as store credit.",
      schema: {
        type: "object",
        properties: {
          order: { type: "string" },
          amount: { type: "string", description: "With its currency, as in 12.50 EUR." },
          to: { type: "string", enum: ["card", "store credit"] },
        },
        required: ["order", "amount", "to"],
      },
      // Money must not move twice, and somebody has to agree to it.
      replay: "never",
      needsApproval: true,
      handler: async ({ amount = null, to = null }, { idempotencyKey, signal }) => {
        world?.toolBegan(refundTool, idempotencyKey);
        await pause(250, undefined, { signal });
        return { paid: amount, to };
      },
    }),
    tool({
      name: "send_receipt",
      description: "Mails the customer a receipt for a refund.",
      schema: ofOrder,
      replay: "safe",
      handler: async (_, { idempotencyKey, signal }) => {
        world?.toolBegan("send_receipt", idempotencyKey);
        await pause(200, undefined, { signal });
        return { mailed: true };
      },
    }),
  ];
}
