// Warnings from the codec to the caller: on the reply, as events of a stream, and in the stored events of a durable
// turn.

import type { FakeScript, Json } from "everturn";
import type { Server } from "node:http";

import { createServer } from "node:http";

import { anthropic, chat, engine, fake, gemini, generate, openai, stream, streamGenerate } from "everturn";
import { memoryStorage, runtime } from "everturn/runtime";
import { afterAll, beforeAll, describe, expect, test } from "vitest";

import { readAll } from "./readings.ts";
import { calls, plain, playing, says } from "./runs.ts";

const seed = { reason: "unsupported", path: "seed", message: "seed is not sent: the API has no seed" } as const;
const stop = { reason: "unsupported", path: "stopSequences", message: "stopSequences is not sent: none" } as const;
const warned = (...script: FakeScript): FakeScript => [{ type: "warning", warning: seed }, ...script];

describe("warnings of a provider", () => {
  let server: Server;
  let origin = "";
  const replies: { readonly [path: string]: Json } = {
    "/messages": {
      type: "message",
      role: "assistant",
      content: [{ type: "text", text: "Hi." }],
      stop_reason: "end_turn",
    },
    "/responses": {
      status: "completed",
      output: [{ type: "message", role: "assistant", content: [{ type: "output_text", text: "Hi." }] }],
    },
    "/models/m:streamGenerateContent": {
      candidates: [{ content: { parts: [{ text: "Hi." }] }, finishReason: "STOP" }],
    },
  };

  beforeAll(async () => {
    server = createServer((incoming, answer) => {
      incoming.resume();
      const path = (incoming.url ?? "").replace(/\?.*$/, "");
      answer.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(replies[path] ?? null));
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const address = server.address();
    if (address === null || typeof address === "string") throw new Error("no port");
    origin = `http://127.0.0.1:${address.port}`;
  });
  afterAll(() => new Promise((resolve) => server.close(resolve)));

  const paths = (warnings: readonly { readonly path: string }[]) => warnings.map(({ path }) => path);

  test("are in the reply: json_object, seed and temperature beside thinking on Anthropic", async () => {
    const adapter = anthropic({ apiKey: "k", baseURL: origin });
    const reply = await generate(engine({ adapter, model: "m" }), "Hi!", {
      seed: 1,
      temperature: 0,
      reasoning: { effort: "low", budgetTokens: null, summary: null },
      responseFormat: { type: "json_object" },
    });
    expect(reply.outputText).toBe("Hi.");
    expect(paths(reply.warnings)).toEqual(["temperature", "seed", "responseFormat"]);
  });

  test("are in the reply: stop sequences on Responses", async () => {
    const adapter = openai({ apiKey: "k", baseURL: origin });
    const reply = await generate(engine({ adapter, model: "m" }), "Hi!", { stopSequences: ["x"] });
    expect(paths(reply.warnings)).toEqual(["stopSequences"]);
  });

  test("are in the stream, directly after message_started: the prompt cache and serial calls on Gemini", async () => {
    const adapter = gemini({ apiKey: "k", baseURL: origin });
    const options = { promptCache: { key: null, retention: "short" }, parallelToolCalls: false } as const;
    const events = streamGenerate(engine({ adapter, model: "m", tools: [plain("look")] }), "Hi!", options);
    const types: string[] = [];
    for await (const event of events) types.push(event.type === "warning" ? event.warning.path : event.type);
    expect(types.slice(0, 3)).toEqual(["message_started", "promptCache", "parallelToolCalls"]);
  });

  test("are absent if everything was sent", async () => {
    const adapter = anthropic({ apiKey: "k", baseURL: origin });
    expect((await generate(engine({ adapter, model: "m" }), "Hi!", { temperature: 0 })).warnings).toEqual([]);
  });
});

describe("warnings of a run", () => {
  test("are in the reply of every step and of the result", async () => {
    const { engine } = playing([warned(...calls("look")), warned(...says("Done."))], [plain("look", () => "seen")]);
    const { steps, finalResponse } = await chat(engine, "Go");
    expect(steps.map(({ response }) => response.warnings)).toEqual([[seed], [seed]]);
    expect(finalResponse?.warnings).toEqual([seed]);
  });

  test("of a failed attempt are withdrawn with it, and do not prevent a retry", async () => {
    const failed: FakeScript = [
      { type: "warning", warning: stop },
      { type: "error", reason: "rate_limited", retryable: true },
    ];
    const adapter = fake({ scripts: [failed, warned(...says("Done."))] });
    const retried = engine({ adapter, model: "fake:m", retry: { maxAttempts: 2, baseDelayMs: 0 } });
    const seen: string[] = [];
    const run = stream(retried, "Go");
    for await (const event of run) {
      if (event.type === "warning") seen.push(event.warning.path);
      if (event.type === "step_reset") seen.push(event.type);
      if (event.type === "chat_completed") expect(event.result.finalResponse?.warnings).toEqual([seed]);
    }
    expect(seen).toEqual(["stopSequences", "step_reset", "seed"]);
  });
});

describe("warnings of a durable turn", () => {
  function durable(scripts: readonly FakeScript[]) {
    const host = memoryStorage();
    const engines = {
      default: engine({ adapter: fake({ scripts }), model: "fake:m", tools: [plain("look", () => "seen")] }),
    };
    return { sessions: runtime({ host, engines }), reader: runtime({ host, engines, drive: false }) };
  }

  test("are stored events after the reply, once for each model call", async () => {
    const { sessions, reader } = durable([warned(...calls("look")), warned(...says("Done."))]);
    const turn = await sessions.start("Go", { id: "s" });
    const live = await readAll(turn.events);
    const end = await turn.result;
    expect(end.finalResponse?.warnings).toEqual([seed]);
    const stored = (events: typeof live) =>
      events.filter(({ sequence }) => sequence !== null).map(({ event }) => event.type);
    expect(live.filter(({ event }) => event.type === "warning").every(({ sequence }) => sequence !== null)).toBe(true);
    expect(stored(live)).toEqual([
      "turn_started",
      "message_completed",
      "warning",
      "tool_execution_completed",
      "tool_result_encoded",
      "step_completed",
      "message_completed",
      "warning",
      "step_completed",
      "chat_completed",
    ]);
    const later = await readAll(reader.events("s", { turnId: turn.turnId ?? "" }));
    expect(stored(later)).toEqual(stored(live));
  });

  test("are stored also if the model call fails", async () => {
    const { sessions } = durable([warned({ type: "error", reason: "invalid_request", retryable: false })]);
    const turn = await sessions.start("Go", { id: "s" });
    const events = await readAll(turn.events);
    expect(events.flatMap(({ event }) => (event.type === "warning" ? [event.warning] : []))).toEqual([seed]);
  });
});
