// The configuration of test servers whose engine has a context policy with a small window. The model looks things up,
// counts four characters as a token, and writes summaries. A summary of a conversation whose newest message contains
// "slowly" waits for the signal `let-go`.

import type { Adapter, FakeScript, Message } from "everturn";

import { existsSync } from "node:fs";

import { engine, fake, messageText, tool } from "everturn";
import { defineConfig } from "everturn/config";

const lookUp = tool({
  name: "look_up",
  description: "Looks a thing up in the records.",
  schema: { type: "object", properties: { thing: { type: "string" } }, required: ["thing"] },
  replay: "safe",
  handler: ({ thing }) => `Record of ${String(thing)}: ${"the parcel was seen in Lisbon and went on. ".repeat(24)}`,
});

const summary = `**Goal:** find the parcels.

- Parcel 17 was seen in Lisbon.
- Nothing was refunded yet.`;

const textOf = (message: Message | undefined): string => (message === undefined ? "" : messageText(message));

/** Resolves when the file `let-go` exists in the working directory. Rejects when the call is cancelled. */
async function letGo(signal: AbortSignal): Promise<void> {
  while (!existsSync("let-go")) {
    signal.throwIfAborted();
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

const model: Adapter = {
  provider: "fake",
  stream: async function* (request, call) {
    const { messages } = request;
    const last = messages.at(-1);
    const isSummary = textOf(last).includes("replaced by a summary");
    const users = messages.filter(({ role }) => role === "user");
    const isSlow = isSummary && textOf(users.at(-2)).includes("slowly");
    if (isSlow) await letGo(call.signal);
    const size = JSON.stringify([messages, request.tools]).length;
    const script: FakeScript = isSummary
      ? [{ type: "text", text: summary }]
      : last?.role === "tool"
        ? [{ type: "text", text: `I have looked it up, and read ${messages.length} messages.` }]
        : [{ type: "tool_call", id: `call_${messages.length}`, name: "look_up", arguments: { thing: textOf(last) } }];
    const usage = { inputTokens: Math.ceil(size / 4), outputTokens: 20 };
    yield* fake({ script, usage }).stream(request, call);
  },
};

export default defineConfig({
  engines: {
    default: engine({
      adapter: model,
      model: "fake:scripted",
      instructions: "You find parcels. Look everything up in the records before you answer.",
      tools: [lookUp],
      contextPolicy: { window: 3000, reserve: 500, keepRecent: 500, prune: false },
    }),
  },
  runtime: { lease: { ttlMs: 3000, renewMs: 1000 } },
});
