// The scenes that run without Node: turns with a scripted model and with a provider over `fetch`, in memory and
// durable. Each returns its result as JSON; `expected.ts` has the expected results.

import type { Engine, Json } from "everturn";

import { chat, engine, fake, isEverturnError, openai, openaiCompatible, stream, tool } from "everturn";
import { memoryStorage, runtime } from "everturn/runtime";

/** The URL of the provider, and its key. */
export type Stage = { readonly baseURL: string; readonly apiKey: string };

/** The result of a scene; an error is reported as text. */
export type SceneResults = { readonly [scene: string]: Json };

const schema = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
const weather = tool({
  name: "weather",
  description: "Tells the weather.",
  schema,
  handler: ({ city }) => ({ city: String(city), sky: "clear" }),
});

/** An engine with a model of the provider. */
export function agentOf({ baseURL, apiKey }: Stage): Engine {
  return engine({
    adapter: openaiCompatible({ baseURL, apiKey }),
    model: "compatible:m",
    instructions: "Be brief.",
    tools: [weather],
  });
}

const scenes: { readonly [name: string]: (stage: Stage) => Promise<Json> } = {
  /** A scripted model, a tool, and arguments that violate its schema, which loads the JSON Schema validator. */
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

  /** A turn with the provider over HTTP. */
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
    const toolResult = typeof result === "string" ? result : null;
    return { shown, inPieces: deltas > 1, haltedReason, toolResult, totalTokens: usage.totalTokens };
  },

  /** Ending the iteration aborts the model call, and the provider sees it. */
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

  /** Without Node there is no environment variable for the key. */
  keyless: async ({ baseURL }) => {
    try {
      await chat(engine({ adapter: openai({ baseURL, dotenv: true }), model: "openai:m" }), "Hello?");
      return "answered";
    } catch (error) {
      return isEverturnError(error) ? error.reason : String(error);
    }
  },

  /** A turn that is accepted by one runtime, driven by another, approved, and read again from a cursor. */
  durable: async (stage) => {
    const host = memoryStorage();
    const asks = tool({
      name: "weather",
      description: "Tells the weather.",
      schema,
      needsApproval: true,
      handler: ({ city }) => ({ city: String(city), sky: "clear" }),
    });
    const agent = engine({
      adapter: openaiCompatible({ baseURL: stage.baseURL, apiKey: stage.apiKey }),
      model: "compatible:m",
      tools: [asks],
    });
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

export async function play(stage: Stage): Promise<SceneResults> {
  const results: { [scene: string]: Json } = {};
  for (const [name, scene] of Object.entries(scenes)) {
    results[name] = await scene(stage).catch((error: unknown) => `failed: ${describe(error)}`);
  }
  return results;
}

function describe(error: unknown): string {
  return error instanceof Error ? `${error.message}\n${error.stack ?? ""}` : String(error);
}
