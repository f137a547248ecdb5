// The conversation that every contender has: questions whose answers need a tool with results of up to 200 KB, and
// payments that wait for an approval. A provider on the loopback interface plays the model: its replies follow from the
// messages that it gets, and its summaries repeat the facts that it can see.

import type { CountedReply, CountedRequest } from "../../lib/test/counting-provider.ts";

import { CountingProvider } from "../../lib/test/counting-provider.ts";

export const window = 32_000;
export const instructions = "You look things up, and pay invoices.";
/** The length at which a contender cuts tool results that has no other protection against long ones, in characters. */
export const cutAt = 8_000;

/** A turn: what the person writes, the length of the tool result in characters, and the invoice that is paid. */
export type ScriptTurn = { readonly text: string; readonly size: number; readonly invoice: number | null };

export function scriptOf(turns: number): readonly ScriptTurn[] {
  return Array.from({ length: turns }, (_, turn): ScriptTurn => {
    const size = turn % 20 === 7 ? 200_000 : 1_000 + (turn % 5) * 1_500;
    if (turn % 25 === 12) return { text: `Pay invoice ${turn}.`, size, invoice: turn };
    return { text: turn === 0 ? "The code word is heron. Question 0." : `Question ${turn}.`, size, invoice: null };
  });
}

export function resultOf(size: number): string {
  return "result ".repeat(Math.ceil(size / 7));
}

type Messages = Parameters<ConstructorParameters<typeof CountingProvider>[0]["reply"]>[0];

/** The facts in messages: the code word, and the invoices that were paid. */
function factsIn(text: string): readonly string[] {
  return [...new Set(text.match(/heron|paid invoice \d+/g) ?? [])];
}

/** Starts the provider. `asksForSummary`: how a contender asks for a summary, in the last message of its request. */
export async function startProvider(asksForSummary: (text: string) => boolean): Promise<CountingProvider> {
  const provider = new CountingProvider({
    window,
    // Providers remember the prompts of some minutes.
    remembered: 8,
    asksForSummary,
    summary: (messages) => `Facts so far: ${factsIn(JSON.stringify(messages)).join(", ")}.`,
    reply,
  });
  await provider.listen();
  return provider;
}

function reply(messages: Messages): CountedReply {
  const last = messages.at(-1);
  if (last?.role !== "user") return { text: "Done." };
  const text = JSON.stringify(last.content);
  const [, invoice] = /Pay invoice (\d+)\./.exec(text) ?? [];
  if (invoice !== undefined) return { call: "pay", arguments: { invoice: Number(invoice) } };
  return text.includes("uestion ") ? { call: "lookup", arguments: { of: "it" } } : { text: "Done." };
}

/** What a contender reports of itself: turns that failed, and how often the tool paid each invoice. */
export type Reported = { readonly failed: number; readonly paid: { readonly [invoice: string]: number } };

/** What is measured of a contender. Tokens are those of the provider. */
export type Measured = {
  readonly requests: number;
  readonly summaries: number;
  readonly refused: number;
  readonly failed: number;
  readonly input: number;
  readonly cached: number;
  /** Facts of the script in the last request, of `facts`. */
  readonly kept: number;
  readonly facts: number;
  /** Payments that were made once, of `payments`. */
  readonly paidOnce: number;
  readonly payments: number;
  /** Requests with a call without a result, or a result without a call. */
  readonly unpaired: number;
};

export function measured(
  script: readonly ScriptTurn[],
  { requests }: CountingProvider,
  { failed, paid }: Reported,
): Measured {
  const answered = requests.filter(({ status }) => status === 200);
  const sum = (of: (request: CountedRequest) => number) => answered.reduce((total, request) => total + of(request), 0);
  const payments = script.filter(({ invoice }) => invoice !== null).length;
  const last = answered.findLast(({ isSummary }) => !isSummary);
  return {
    requests: requests.length,
    summaries: answered.filter(({ isSummary }) => isSummary).length,
    refused: requests.length - answered.length,
    failed,
    input: sum(({ tokens }) => tokens),
    cached: sum(({ cached }) => cached),
    kept: factsIn(last?.messages.join("\n") ?? "").length,
    facts: payments + 1,
    paidOnce: Object.values(paid).filter((times) => times === 1).length,
    payments,
    unpaired: answered.filter(({ messages, isSummary }) => !isSummary && hasUnpaired(messages)).length,
  };
}

type WireMessage = {
  readonly role: string;
  readonly tool_call_id?: string;
  readonly tool_calls?: readonly { readonly id: string }[];
};

/** Whether a call has no result directly after it, or a result no call. Real providers refuse such requests. */
function hasUnpaired(messages: readonly string[]): boolean {
  let open: string[] = [];
  for (const text of messages) {
    const message: WireMessage = JSON.parse(text);
    if (message.role === "tool") {
      const id = message.tool_call_id ?? "";
      if (!open.includes(id)) return true;
      open = open.filter((other) => other !== id);
      continue;
    }
    if (open.length > 0) return true;
    open = (message.tool_calls ?? []).map(({ id }) => id);
  }
  return open.length > 0;
}
