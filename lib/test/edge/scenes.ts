// What is played where there is no Node: turns with a scripted model and with a provider behind `fetch`, in memory and durable. Each scene tells what
// came of it, as JSON; `expected.ts` says what that has to be.

import type { Engine, Json } from "everturn";

import { chat, engine, fake, isEverturnError, openai, openaiCompatible, stream, tool } from "everturn";
import { memoryStorage } from "everturn/host/memory";
import { runtime } from "everturn/runtime";

/** Where the provider is, and its key. */
export type Stage = { readonly baseURL: string; readonly apiKey: string };

/** What a scene came to; a failure is told as text. */
export type Told = { readonly [scene: string]: Json };

const schema = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
const weather = tool({
  name: "weather",
  description: "Tells the weather.",
  schema,
  handler: ({ city }) => ({ city: String(city), sky: "clear" }),
});

/** A program with a model of a provider. */
export function agentOf({ baseURL, apiKey }: Stage): Engine {
  return engine({
    adapter: openaiCompatible({ baseURL, apiKey }),
    model: "compatible:m",
    instructions: "Be brief.",
    tools: [weather],
  });
}

const scenes: { readonly [name: string]: (stage: Stage) => Promise<Json> } = {
  /** A scripted model, a tool, and arguments that do not fit its schema: the validator is loaded for that. */
  scripted: async () => {
    const script = [
      [{ type: "tool_call", name: "weather", arguments: { city: 7 } }],
      [{ type: "tool_call", name: "weather", arguments: { city: "Rome" } }],
      [
        { type: "text", text: "Clear " },
        { type: "text", text: "in Rome." },
      ],
    ] as const;
    const events = stream(engine({ adapter: fake({ scripts: script }), model: "fake:m", tools: [weather] }), "Rome?");
    let shown = "";
    for await (const event of events) if (event.type === "text_delta") shown += event.delta;
    const { haltedReason, thread, steps } = await events.result;
    const results = thread.messages.flatMap((message) => (message.role === "tool" ? [message.code] : []));
    return { shown, haltedReason, results, steps: steps.length };
  },

  /** The same over the wire. */
  streamed: async (stage) => {
    const events = stream(agentOf(stage), "The weather in Zürich?");
    let [shown, deltas] = ["", 0];
    for await (const event of events) {
      if (event.type !== "text_delta") continue;
      shown += event.delta;
      deltas += 1;
    }
    const { haltedReason, thread, usage } = await events.result;
    const result = thread.messages.find(({ role }) => role === "tool")?.content;
    const told = typeof result === "string" ? result : null;
    return { shown, inPieces: deltas > 1, haltedReason, told, totalTokens: usage.totalTokens };
  },

  /** Whoever leaves ends the call: the provider sees it too. */
  left: async (stage) => {
    const events = stream(agentOf(stage), "Tell me something for ever.");
    let shown = "";
    for await (const event of events) {
      if (event.type !== "text_delta") continue;
      shown = event.delta;
      break;
    }
    return { shown, haltedReason: (await events.result).haltedReason };
  },

  /** There is no environment to find a key in. */
  keyless: async ({ baseURL }) => {
    try {
      await chat(engine({ adapter: openai({ baseURL, dotenv: true }), model: "openai:m" }), "Hello?");
      return "answered";
    } catch (error) {
      return isEverturnError(error) ? error.reason : String(error);
    }
  },

  /** Accepted by one runtime, driven by another, consented to, and read again from a cursor. */
  durable: async (stage) => {
    const host = memoryStorage();
    const asks = tool({
      name: "weather",
      description: "Tells the weather.",
      schema,
      needsApproval: true,
      handler: ({ city }) => ({ city: String(city), sky: "clear" }),
    });
    const agent = engine({ adapter: openaiCompatible(stage), model: "compatible:m", tools: [asks] });
    const engines = { default: agent };
    const front = runtime({ host, engines, drive: false });
    const worker = runtime({ host, engines });
    const first = await front.start("The weather in Zürich?", { id: "s1" });
    const { pickedUp } = await worker.recover();
    const { session } = await first.result;
    const callId = session.pendingToolCalls[0]?.id ?? "";
    const second = await worker.decide("s1", callId, { type: "approve", by: "ada" });
    let [shown, cursor] = ["", ""];
    for await (const { event, cursor: at } of second.events) {
      if (event.type === "text_delta") shown += event.delta;
      if (cursor === "" && event.type === "text_delta") cursor = at;
    }
    const end = await second.result;
    const rest: string[] = [];
    for await (const { event } of worker.events("s1", { after: cursor, follow: false })) rest.push(event.type);
    await worker.close();
    const after = await worker.get("s1");
    return {
      pickedUp: pickedUp ?? null,
      waited: session.status,
      shown,
      text: end.text,
      last: rest.at(-1) ?? null,
      status: after?.session.status ?? null,
    };
  },
};

export async function play(stage: Stage): Promise<Told> {
  const told: { [scene: string]: Json } = {};
  for (const [name, scene] of Object.entries(scenes)) {
    told[name] = await scene(stage).catch((error: unknown) => `failed: ${describe(error)}`);
  }
  return told;
}

function describe(error: unknown): string {
  return error instanceof Error ? `${error.message}\n${error.stack ?? ""}` : String(error);
}
