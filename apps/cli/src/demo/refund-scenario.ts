// The scenario of the demo: a customer asks for a refund. Instructions of the agent, its tools, and the messages that
// the demo sends in place of the user.
//
// Each tool shows one feature: `find_order` and `track_parcel` run in parallel and report progress, `ask_customer` asks
// the user, `refund` needs approval and must never run twice (replay policy `never`), `send_receipt` may be repeated
// (`safe`).

import type { SideEffectLog } from "./side-effect-log.ts";
import type { Tool } from "everturn";

import { setTimeout as pause } from "node:timers/promises";

import { askUser, tool } from "everturn";

export const instructions = [
  "You are the refund agent of a small shop. Write plain text, without Markdown, and keep to this order:",
  "1. In one short sentence say that you will look, and in the same reply call find_order and track_parcel, both at once.",
  "2. Call ask_customer once, to ask whether the money should go back to the card or become store credit.",
  "3. Call refund with the full amount. A person approves or denies it; do not ask for approval yourself.",
  "4. If the refund went through, call send_receipt.",
  "5. Close with four or five friendly sentences: what was paid and to where, that banks need two to three days, that nothing has to be sent back.",
].join("\n");

/** The first message of the customer. */
export const complaint = "Order 1042 came broken. I want my money back, please.";

/** The answer to the agent's question if none is typed. */
export const preference = "To the card, please.";

/** Sent to a real model that stops before it has called `refund`. */
export const reminder = "Please go on: refund it to my card. You have everything you need.";

/** The tool that pays, and the tool that asks the user. */
export const refundTool = "refund";
export const askTool = "ask_customer";

/** The tools of the agent. Each run is written to the side-effect log; `null`: the process runs no tools. */
export function refundTools(log: SideEffectLog | null): readonly Tool[] {
  const ofOrder = { type: "object", properties: { order: { type: "string" } }, required: ["order"] };
  return [
    tool({
      name: "find_order",
      description: "Finds an order: what was bought, and how it was paid.",
      schema: ofOrder,
      replay: "safe",
      handler: async (_, { idempotencyKey, progress, signal }) => {
        log?.toolStarted("find_order", idempotencyKey);
        progress("searching the orders");
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
        log?.toolStarted("track_parcel", idempotencyKey);
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
        log?.toolStarted(askTool, idempotencyKey);
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
      // A payment must not run twice, and a person has to approve it.
      replay: "never",
      needsApproval: true,
      handler: async ({ amount = null, to = null }, { idempotencyKey, signal }) => {
        log?.toolStarted(refundTool, idempotencyKey);
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
        log?.toolStarted("send_receipt", idempotencyKey);
        await pause(200, undefined, { signal });
        return { mailed: true };
      },
    }),
  ];
}
