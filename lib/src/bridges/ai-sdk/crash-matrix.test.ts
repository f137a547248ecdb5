// The crash matrix over a model of the AI SDK: every scenario, with the scripted model of its engines behind `doStream`
// of a language model of specification v3. `npm test` kills at a sample of the crash points,
// `EVERTURN_CRASH_POINTS=all` at all of them.

import type { Say } from "../../../test/loopback-providers.ts";
import type { Adapter, Engine } from "everturn";
import type { ModelEvent } from "everturn/advanced";
import type { AiSdkCallOptions, AiSdkLanguageModel } from "everturn/ai-sdk";
import type { CrashReport, CrashScenario } from "everturn/testing";

import { createAnthropic } from "@ai-sdk/anthropic";
import { engine, tool } from "everturn";
import { request, toolSpec } from "everturn/advanced";
import { aiSdkAdapter } from "everturn/ai-sdk";
import { memoryStorage } from "everturn/runtime";
import { crashMatrix, crashScenarios } from "everturn/testing";
import { afterAll, expect, test } from "vitest";

import { wireFormats } from "../../../test/loopback-providers.ts";
import { systemClock } from "../../core/engine/internal.ts";
import { objectOf, textField } from "./fields.ts";
import { readPrompt } from "./prompt.ts";

/** A part of the model's stream. */
type Part = { readonly type: string; readonly [field: string]: unknown };

/** The statuses with which a server reports the failures of the scripts. */
const statuses: { readonly [reason: string]: number } = {
  rate_limited: 429,
  provider_unavailable: 503,
  invalid_request: 400,
  authentication_failed: 401,
  timeout: 408,
};

/** The scripted adapter as a model of the AI SDK. The number of the attempt comes as a header. */
function scriptedModel(adapter: Adapter, modelId: string): AiSdkLanguageModel {
  return {
    specificationVersion: "v3",
    provider: "scripted",
    modelId,
    doStream: async (options) => ({ stream: partsOf(eventsOf(adapter, modelId, options)) }),
  };
}

function eventsOf(adapter: Adapter, model: string, options: AiSdkCallOptions) {
  const schema = objectOf(options.responseFormat)?.["schema"];
  const asked = request(readPrompt(options.prompt), {
    model,
    tools: (options.tools ?? []).map((tool) =>
      toolSpec({ name: textField(tool, "name") ?? "", description: "", schema: { type: "object" } }),
    ),
    responseFormat:
      schema === undefined
        ? null
        : { type: "json_schema", name: "answer", schema: objectOf(schema) ?? {}, strict: true },
  });
  return adapter.stream(asked, {
    signal: options.abortSignal ?? new AbortController().signal,
    requestId: "scripted",
    options: {},
    apiKey: null,
    rawChunks: false,
    attempt: Number(options.headers?.["x-attempt"]),
    clock: systemClock,
  });
}

function partsOf(events: AsyncIterable<readonly ModelEvent[]>): ReadableStream<Part> {
  const reading = parts(events);
  return new ReadableStream({
    pull: async (controller) => {
      const { done, value } = await reading.next();
      if (done === true) controller.close();
      else controller.enqueue(value);
    },
    cancel: async () => void (await reading.return(undefined)),
  });
}

async function* parts(batches: AsyncIterable<readonly ModelEvent[]>): AsyncGenerator<Part, undefined> {
  let usage = {};
  yield { type: "stream-start" };
  for await (const events of batches) {
    for (const event of events) {
      if (event.type === "usage")
        usage = { inputTokens: { total: event.usage.inputTokens }, outputTokens: { total: event.usage.outputTokens } };
      yield* partOf(event, usage);
    }
  }
}

function* partOf(event: ModelEvent, usage: object): Generator<Part> {
  switch (event.type) {
    case "text_delta":
      return yield { type: "text-delta", id: "0", delta: event.delta };
    case "reasoning_delta":
      return yield { type: "reasoning-delta", id: "0", delta: event.delta };
    case "tool_call_completed": {
      const { id: toolCallId, name: toolName, rawArguments: input } = event;
      return yield { type: "tool-call", toolCallId, toolName, input };
    }
    case "message_completed": {
      const unified = event.finishReason === "tool_calls" ? "tool-calls" : event.finishReason;
      return yield { type: "finish", finishReason: { unified, raw: event.finishReason }, usage };
    }
    case "error":
      return yield { type: "error", error: { statusCode: statuses[event.error.reason], message: event.error.message } };
    default:
  }
}

function overAiSdk(adapter: Adapter): Adapter {
  const bridged = aiSdkAdapter((modelId) => scriptedModel(adapter, modelId), { provider: adapter.provider });
  const withAttempt = { ...bridged, checkOptions: () => undefined };
  return {
    ...withAttempt,
    stream: (asked, call) =>
      bridged.stream(asked, { ...call, options: { headers: { "x-attempt": `${call.attempt}` } } }),
  };
}

function bridgedEngine(scripted: Engine): Engine {
  return {
    ...scripted,
    adapter: scripted.adapter === null ? null : overAiSdk(scripted.adapter),
    fallback: scripted.fallback.map((fallback) =>
      typeof fallback === "object" && "adapter" in fallback
        ? { ...fallback, adapter: overAiSdk(fallback.adapter) }
        : fallback,
    ),
  };
}

function bridged(scenario: CrashScenario): CrashScenario {
  return {
    ...scenario,
    engines: (process) =>
      Object.fromEntries(
        Object.entries(scenario.engines(process)).map(([name, scripted]) => [name, bridgedEngine(scripted)]),
      ),
  };
}

/**
 * A turn of three steps with the package of Anthropic. Its provider answers by the content of the request, and refuses
 * one without the signatures of earlier replies.
 */
const withPackage: CrashScenario = {
  name: "the package of Anthropic, with signatures",
  session: "s",
  engines: () => {
    const answers: readonly (readonly Say[])[] = [
      [
        { type: "reasoning", text: "First.", seal: "seal-0" },
        { type: "call", id: "call_0", name: "look", pieces: ['{"step":0}'] },
      ],
      [
        { type: "reasoning", text: "Second.", seal: "seal-1" },
        { type: "call", id: "call_1", name: "pay", pieces: ['{"step":1}'] },
      ],
      [{ type: "text", pieces: ["Done", "."] }],
    ];
    const provider = createAnthropic({
      apiKey: "key",
      fetch: async (_, init) => {
        const body = String(init?.body);
        const step = body.split('"role":"assistant"').length - 1;
        const missing = answers
          .slice(0, step)
          .findIndex((_says, index) => !body.includes(`"signature":"seal-${index}"`));
        if (missing !== -1) return new Response('{"error":{"message":"a signature is missing"}}', { status: 400 });
        const text = wireFormats.anthropic.write(answers[step] ?? [], { inputTokens: 20, outputTokens: 10 });
        return new Response(text, { headers: { "content-type": "text/event-stream" } });
      },
    });
    const tools = (["safe", "never"] as const).map((replay) =>
      tool({
        name: replay === "safe" ? "look" : "pay",
        description: replay,
        schema: { type: "object" },
        replay,
        handler: ({ step }) => `done ${String(step)}`,
      }),
    );
    return { default: engine({ adapter: aiSdkAdapter(provider), model: "claude-sonnet-4-5", tools }) };
  },
  script: async ({ runtime, untilIdle }) => {
    const end = await untilIdle(runtime.start("Begin.", { id: "s", key: "start" }));
    expect(end.outcome.type).toBe("assistant_message");
  },
};

const everyPoint = process.env["EVERTURN_CRASH_POINTS"] === "all";
const open = async () => ({ host: memoryStorage(), reopen: null, close: async () => undefined });

const reports: CrashReport[] = [];
afterAll(() => {
  const sum = (what: "points" | "kills" | "returns") => reports.reduce((before, report) => before + report[what], 0);
  console.log(
    `crash matrix over the AI SDK: ${sum("points")} points, ${sum("kills")} killed, ${sum("returns")} away and back`,
  );
});

const scenarios = [withPackage, ...crashScenarios.map(bridged)];

test.each(scenarios.map((scenario) => ({ name: scenario.name, scenario })))(
  "$name",
  { timeout: everyPoint ? 600_000 : 60_000 },
  async ({ name, scenario }) => {
    const sample = everyPoint ? { every: 1, away: 5 } : { every: name === "a turn of many steps" ? 199 : 43 };
    const report = await crashMatrix(scenario, { open, ...sample });
    reports.push(report);
    expect(
      report.broken.map(({ killedAt, what }) => [
        ...killedAt.map(({ number, kind, what: at }) => `${number} ${kind} ${at}`),
        what,
      ]),
    ).toEqual([]);
    expect(report.kills).toBeGreaterThan(0);
  },
);
