// The types of a page: messages, tools and data parts of a chat, from the engine, with the AI SDK 6 and 7.

import type { ChatTransport, UIMessage } from "ai";
import type { ChatTransport as ChatTransport6, UIMessage as UIMessage6 } from "ai-6";
import type { UiData, UiMetadata, UiTools } from "everturn/client";

import { askUser, engine, tool } from "everturn";
import { chatTransport } from "everturn/client";
import { expect, expectTypeOf, test } from "vitest";
import { z } from "zod";

const refund = tool({
  name: "refund",
  description: "Refunds.",
  schema: z.object({ euros: z.number() }),
  handler: async ({ euros }) => (euros > 100 ? askUser("Really?") : { paid: euros }),
});
const count = tool({ name: "count", description: "Counts.", schema: { type: "object" }, handler: () => 3 });
const search = tool({
  name: "search",
  description: "Searches.",
  schema: z.object({ text: z.string() }),
  handler: async function* ({ text }) {
    yield { percent: 50 };
    return [text];
  },
});
const agent = engine({ tools: [refund, count, search] });
const withContext = engine({ context: { user: "ada" }, tools: [refund] });

type Tools = UiTools<typeof agent>;
type Message = UIMessage<UiMetadata, UiData, Tools>;
type Message6 = UIMessage6<UiMetadata, UiData, Tools>;

test("tools have the names, arguments and results of the engine", () => {
  expectTypeOf<keyof Tools>().toEqualTypeOf<"refund" | "count" | "search">();
  expectTypeOf<Tools["refund"]>().toEqualTypeOf<{ input: { euros: number }; output: { paid: number } }>();
  expectTypeOf<Tools["count"]["output"]>().toEqualTypeOf<string>();
  expectTypeOf<Tools["search"]["output"]>().toEqualTypeOf<string[]>();
  expectTypeOf<UiTools<typeof withContext>["refund"]["output"]>().toEqualTypeOf<{ paid: number }>();
});

test("messages of version 6 and 7 have typed parts", () => {
  const outputOf = (message: Message | Message6): number | null => {
    for (const part of message.parts) {
      if (part.type === "tool-refund" && part.state === "output-available") return part.output.paid;
      if (part.type === "data-question") expectTypeOf(part.data.question).toBeString();
      // @ts-expect-error The engine has no such tool.
      if (part.type === "tool-refnud") return 0;
    }
    expectTypeOf(message.metadata?.turnId).toEqualTypeOf<string | undefined>();
    return null;
  };
  expectTypeOf(outputOf).returns.toEqualTypeOf<number | null>();
});

test("a chat of these messages takes the transport", () => {
  const transport: ChatTransport<Message> = chatTransport({ url: "/" });
  const transport6: ChatTransport6<Message6> = chatTransport({ url: "/", sdk: 6 });
  expect([typeof transport.sendMessages, typeof transport6.sendMessages]).toEqual(["function", "function"]);
});
