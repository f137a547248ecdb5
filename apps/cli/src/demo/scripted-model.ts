// The scripted model of the demo, which needs no API key and no network. It is stateless: the reply depends only on the messages of the request, so
// every process gets the same reply.

import type { Adapter, FakeStep, JsonObject, Message, ModelRequest, ToolCall } from "everturn";

import { fake } from "everturn";
import { messageText } from "everturn/model";

export const scriptedName = "refund-agent";

/** The delay between two words, in milliseconds. */
const wordMs = 32;

export function scriptedModel(): Adapter {
  const provider = "scripted";
  return {
    provider,
    stream: (request, call) => fake({ script: scriptFor(request), provider }).stream(request, call),
  };
}

function scriptFor(request: ModelRequest): readonly FakeStep[] {
  const { text, calls } = replyTo(request.messages);
  const words = text.split(/(?<= )/).flatMap((word): readonly FakeStep[] => [
    { type: "delay", ms: wordMs },
    { type: "text", text: word },
  ]);
  const turn = request.messages.filter(({ role }) => role === "assistant").length;
  const toolCalls = calls.map(({ name, args }, index): FakeStep => {
    return { type: "tool_call", id: `call_${turn}_${index}`, name, arguments: args };
  });
  // An estimate of tokens: four characters each.
  const inputTokens = Math.ceil(JSON.stringify([request.messages, request.tools]).length / 4);
  const outputTokens = Math.ceil((text.length + JSON.stringify(calls).length) / 4);
  return [...words, ...toolCalls, { type: "usage", usage: { inputTokens, outputTokens } }];
}

type Scripted = {
  readonly text: string;
  readonly calls: readonly { readonly name: string; readonly args: JsonObject }[];
};

/** The reply for the first step of the scenario that the conversation does not contain yet. */
function replyTo(messages: readonly Message[]): Scripted {
  const order = "1042";
  if (resultOf(messages, "find_order") === null) {
    return {
      text: "I am sorry. Let me look at the order and at the parcel.",
      calls: [
        { name: "find_order", args: { order } },
        { name: "track_parcel", args: { order } },
      ],
    };
  }
  const preferred = resultOf(messages, "ask_customer");
  if (preferred === null) {
    const question = "Should the 189.00 EUR go back to your card ending in 4242, or become store credit?";
    return {
      text: "The box was crushed on its way, so this one is on us.",
      calls: [{ name: "ask_customer", args: { question } }],
    };
  }
  const to = /credit|voucher|store/i.test(preferred.text) ? "store credit" : "card";
  const refunded = resultOf(messages, "refund");
  if (refunded === null) {
    const args = { order, amount: "189.00 EUR", to };
    return { text: "Thank you. I am asking for the refund to be approved.", calls: [{ name: "refund", args }] };
  }
  if (!refunded.ok) {
    const text =
      "I am sorry: the refund was not approved, so nothing has been paid, neither to your card nor as store credit. " +
      "A colleague will read this conversation and call you tomorrow morning. Your order stays open until then, and you do not have to do anything.";
    return { text, calls: [] };
  }
  if (resultOf(messages, "send_receipt") === null) {
    return { text: "It is paid. I am mailing the receipt.", calls: [{ name: "send_receipt", args: { order } }] };
  }
  const [where, when] =
    to === "card"
      ? ["on their way to your card ending in 4242", "Banks usually need two to three days to show it."]
      : ["in your account as store credit", "It does not run out, and pays for anything in the shop."];
  const text =
    `All done: the 189.00 EUR are ${where}, and the receipt is in your mailbox. ${when} ` +
    "You do not have to send the broken grinder back. " +
    "I am sorry for the trouble, and thank you for your patience.";
  return { text, calls: [] };
}

/** The result of the newest call of a tool; `null`: it was not called, or has no result yet. */
function resultOf(messages: readonly Message[], name: string): { readonly ok: boolean; readonly text: string } | null {
  const calls = messages.flatMap((message): readonly ToolCall[] =>
    message.role === "assistant" ? message.toolCalls : [],
  );
  const call = calls.findLast((toolCall) => toolCall.name === name);
  if (call === undefined) return null;
  const answer = messages.findLast((message) => message.role === "tool" && message.toolCallId === call.id);
  if (answer?.role !== "tool") return null;
  return { ok: answer.status === "success", text: messageText(answer) };
}
