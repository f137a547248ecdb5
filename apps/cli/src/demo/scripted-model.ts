// The script of the demo's model, which needs no API key and no network. The server plays it like the scripts of its
// scenarios: the reply depends only on the messages of the request, so every process gives the same one.

import type { Adapter, JsonObject } from "everturn";

import { offline, scriptedModel } from "@everturn/server";

import { askTool, complaint, refundTool } from "./refund-scenario.ts";

export const scriptedName = "refund-agent";

const order = "1042";
/** The delay between two words, in milliseconds. */
const paceMs = 25;

/** The model of the demo. */
export function demoModel(): Adapter {
  return scriptedModel(
    [
      {
        prompt: complaint,
        replies: [
          {
            text: "I am sorry. Let me look at the order and at the parcel.",
            calls: [call("find_order", { order }), call("track_parcel", { order })],
          },
          {
            text: "The box was crushed on its way, so this one is on us.",
            calls: [
              call(askTool, {
                question: "Should the 189.00 EUR go back to your card ending in 4242, or become store credit?",
              }),
            ],
          },
          (results) => ({
            text: "Thank you. I am asking for the refund to be approved.",
            calls: [call(refundTool, { order, amount: "189.00 EUR", to: targetIn(results(askTool)?.text) })],
          }),
          (results) =>
            results(refundTool)?.ok === true
              ? { text: "It is paid. I am mailing the receipt.", calls: [call("send_receipt", { order })] }
              : { text: denied },
          (results) => ({ text: closing[targetIn(results(askTool)?.text)] }),
        ],
      },
    ],
    paceMs,
    offline({ paceMs }),
  );
}

function call(name: string, args: JsonObject): { readonly name: string; readonly args: JsonObject } {
  return { name, args };
}

/** Where the money goes, from the answer of the customer. */
function targetIn(answer = ""): keyof typeof closing {
  return /credit|voucher|store/i.test(answer) ? "store credit" : "card";
}

const denied =
  "I am sorry: the refund was not approved, so nothing has been paid, neither to your card nor as store credit. " +
  "A colleague will read this conversation and call you tomorrow morning. Your order stays open until then, and you do not have to do anything.";

const thanks =
  "You do not have to send the broken grinder back. I am sorry for the trouble, and thank you for your patience.";

const closing = {
  card:
    "All done: the 189.00 EUR are on their way to your card ending in 4242, and the receipt is in your mailbox. " +
    `Banks usually need two to three days to show it. ${thanks}`,
  "store credit":
    "All done: the 189.00 EUR are in your account as store credit, and the receipt is in your mailbox. " +
    `It does not run out, and pays for anything in the shop. ${thanks}`,
};
