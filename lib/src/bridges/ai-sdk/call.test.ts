// Tests of one call through `aiSdkAdapter` with models in memory: which model is called, cancelling, timeouts, fencing,
// concurrent calls.

import type { Adapter } from "everturn";
import type { AdapterCall, ModelEvent } from "everturn/advanced";
import type { AiSdkCallOptions, AiSdkLanguageModel } from "everturn/ai-sdk";

import { chat, engine, providers, user } from "everturn";
import { request } from "everturn/advanced";
import { aiSdkAdapter } from "everturn/ai-sdk";
import { handClock } from "everturn/testing";
import { describe, expect, test } from "vitest";

import { systemClock } from "../../core/engine/internal.ts";

type Part = { readonly type: string; readonly [field: string]: unknown };

const finish: Part = { type: "finish", finishReason: { unified: "stop", raw: "end" }, usage: {} };
const text = (delta: string): Part => ({ type: "text-delta", id: "0", delta });

/** A model that sends these parts, then stays open or ends. Records its calls. */
function scripted(parts: readonly Part[], { modelId = "m", hangs = false } = {}) {
  const calls: AiSdkCallOptions[] = [];
  let cancelled = 0;
  const model: AiSdkLanguageModel = {
    specificationVersion: "v3",
    provider: "demo.chat",
    modelId,
    doStream: async (options) => {
      calls.push(options);
      const stream = new ReadableStream<Part>({
        start: (controller) => {
          for (const part of parts) controller.enqueue(part);
          if (!hangs) controller.close();
        },
        cancel: () => void (cancelled += 1),
      });
      return { stream };
    },
  };
  return { model, calls, cancelled: () => cancelled };
}

function streamOf(adapter: Adapter, call: Partial<AdapterCall> = {}, model: string | null = "m") {
  const rest = { requestId: "r", options: {}, apiKey: null, rawChunks: false, attempt: 1, clock: systemClock };
  const signal = new AbortController().signal;
  return adapter.stream(request([user("Hi.")], { model }), { signal, ...rest, ...call })[Symbol.asyncIterator]();
}

async function eventsOf(adapter: Adapter, call: Partial<AdapterCall> = {}): Promise<readonly ModelEvent[]> {
  const reading = streamOf(adapter, call);
  const events: ModelEvent[] = [];
  for (let next = await reading.next(); next.done !== true; next = await reading.next()) events.push(...next.value);
  return events;
}

describe("the model of a call", () => {
  test("is the only one of the adapter, or the one that the engine names", async () => {
    const { model, calls } = scripted([text("Hi."), finish]);
    expect((await chat(engine({ adapter: aiSdkAdapter(model) }), "Hi.")).finalResponse?.outputText).toBe("Hi.");
    await chat(engine({ adapter: aiSdkAdapter(model), model: "demo.chat:m" }), "Hi.");
    const names: string[] = [];
    const provider = {
      languageModel: (modelId: string) => {
        names.push(modelId);
        return model;
      },
    };
    const adapter = providers({ demo: aiSdkAdapter(provider) });
    await chat(engine({ adapter, model: "demo:llama3:70b" }), "Hi.");
    expect(names).toEqual(["llama3:70b"]);
    expect(calls).toHaveLength(3);
  });

  test("is refused at the call if another one is named, or none", async () => {
    const { model } = scripted([]);
    await expect(chat(engine({ adapter: aiSdkAdapter(model), model: "other" }), "Hi.")).rejects.toThrow(
      /the adapter calls the model m only, and the engine names other/,
    );
    await expect(chat(engine({ adapter: aiSdkAdapter({ languageModel: () => model }) }), "Hi.")).rejects.toThrow(
      /no model is set for ai-sdk/,
    );
  });

  test("gets the key of the call only from a function", async () => {
    const { model } = scripted([text("Hi."), finish]);
    const keys: (string | null)[] = [];
    const adapter = aiSdkAdapter((_, { apiKey }) => {
      keys.push(apiKey);
      return model;
    });
    await chat(engine({ adapter, model: "m" }), "Hi.", { apiKey: "sk-customer" });
    expect(keys).toEqual(["sk-customer"]);
    await expect(eventsOf(aiSdkAdapter(model), { apiKey: "sk-customer" })).rejects.toThrow(
      /pass a function to aiSdkAdapter/,
    );
  });

  test("of an unknown specification, and unknown options, are refused", () => {
    const model = { ...scripted([]).model, specificationVersion: "v9" };
    expect(() => aiSdkAdapter(model)).toThrow(/has the specification v9; v2, v3 and v4 are supported/);
    expect(() => aiSdkAdapter(scripted([]).model, { timeoutMs: 0 })).toThrow(/timeoutMs must be/);
  });
});

describe("a call", () => {
  test("passes headers, raw chunks and the signal on", async () => {
    const { model, calls } = scripted([{ type: "raw", rawValue: { n: 1 } }, text("Hi."), finish]);
    const events = await eventsOf(aiSdkAdapter(model), { rawChunks: true, options: { headers: { "x-trace": "1" } } });
    expect(calls[0]).toMatchObject({ headers: { "x-trace": "1" }, includeRawChunks: true });
    expect(events).toContainEqual({ type: "raw_chunk", chunk: { n: 1 } });
  });

  test("is not made by a process that has lost the lease", async () => {
    const { model, calls } = scripted([text("Hi."), finish]);
    const beforeRequest = () => Promise.reject(new Error("the lease is lost"));
    await expect(eventsOf(aiSdkAdapter(model), { beforeRequest })).rejects.toThrow("the lease is lost");
    expect(calls).toEqual([]);
  });

  test("ends at once when it is aborted, also if the model ignores the signal", async () => {
    const deaf = scripted([]).model;
    const stop = new AbortController();
    const never = { ...deaf, doStream: () => new Promise<never>(() => undefined) };
    const waiting = streamOf(aiSdkAdapter(never), { signal: stop.signal }).next();
    stop.abort(new Error("stopped"));
    await expect(waiting).rejects.toThrow("stopped");

    const hanging = scripted([text("Hel")], { hangs: true });
    const other = new AbortController();
    const reading = streamOf(aiSdkAdapter(hanging.model), { signal: other.signal });
    await reading.next();
    const next = reading.next();
    other.abort(new Error("stopped"));
    await expect(next).rejects.toThrow("stopped");
    expect(hanging.cancelled()).toBe(1);
    expect(hanging.calls[0]?.abortSignal?.aborted).toBe(true);
  });

  test("that its reader leaves closes the stream once; one that has ended is not cancelled", async () => {
    const hanging = scripted([text("Hel")], { hangs: true });
    const reading = streamOf(aiSdkAdapter(hanging.model));
    await reading.next();
    await reading.return?.();
    await reading.return?.();
    expect(hanging.cancelled()).toBe(1);
    const ended = scripted([text("Hi."), finish]);
    await eventsOf(aiSdkAdapter(ended.model));
    expect(ended.cancelled()).toBe(0);
  });

  test("fails with timeout after the longest silence, before and inside of the stream", async () => {
    const clock = handClock();
    const never = { ...scripted([]).model, doStream: () => new Promise<never>(() => undefined) };
    const silent = eventsOf(aiSdkAdapter(never, { timeoutMs: 1000 }), { clock });
    await clock.advance(1000);
    expect((await silent).at(-1)).toMatchObject({ type: "error", error: { type: "adapter_error", reason: "timeout" } });

    const hanging = scripted([text("Hel")], { hangs: true });
    const cut = eventsOf(aiSdkAdapter(hanging.model, { timeoutMs: 1000 }), { clock });
    await clock.advance(1000);
    expect((await cut).at(-1)).toMatchObject({ type: "error", error: { type: "stream_error", reason: "timeout" } });
  });

  test("does not time out while its reader takes long between two parts", async () => {
    const clock = handClock();
    const model: AiSdkLanguageModel = {
      ...scripted([]).model,
      doStream: async ({ abortSignal }) => {
        const start = (controller: ReadableStreamDefaultController<Part>) => {
          for (const part of [text("Hel"), text("lo"), finish]) controller.enqueue(part);
          abortSignal?.addEventListener("abort", () => controller.error(abortSignal.reason));
        };
        return { stream: new ReadableStream<Part>({ start }) };
      },
    };
    const reading = streamOf(aiSdkAdapter(model, { timeoutMs: 1000 }), { clock });
    await reading.next();
    await clock.advance(60_000);
    const events: ModelEvent[] = [];
    for (let next = await reading.next(); next.done !== true; next = await reading.next()) events.push(...next.value);
    expect(events.at(-1)?.type).toBe("message_completed");
  });

  test("is made without the URLs that a model cannot name", async () => {
    const model = { ...scripted([text("Hi."), finish]).model, supportedUrls: Promise.reject(new Error("no list")) };
    expect((await eventsOf(aiSdkAdapter(model))).at(-1)?.type).toBe("message_completed");
  });

  test("that the model throws in is an error event, with the reason of the error", async () => {
    const throwing = (thrown: unknown): AiSdkLanguageModel => ({
      ...scripted([]).model,
      doStream: async () => {
        throw thrown;
      },
    });
    const events = await eventsOf(aiSdkAdapter(throwing(new TypeError("x is not a function"))));
    expect(events.map(({ type }) => type)).toEqual(["message_started", "error"]);
    expect(events[1]).toMatchObject({ error: { reason: "unknown", cause: { name: "TypeError" } } });
    const missing = Object.assign(new Error("set a key"), { name: "AI_LoadAPIKeyError" });
    await expect(eventsOf(aiSdkAdapter(throwing(missing)))).rejects.toMatchObject({ reason: "missing_key" });
  });

  test("does not disturb others of the same adapter", async () => {
    const model: AiSdkLanguageModel = {
      ...scripted([]).model,
      doStream: async ({ prompt }) => {
        const question = JSON.stringify(prompt);
        const pieces = Array.from({ length: 20 }, (_, n) => text(`${n}`));
        return { stream: ReadableStream.from([...pieces, text(question), finish]) };
      },
    };
    const assistant = engine({ adapter: aiSdkAdapter(model) });
    const answers = await Promise.all(Array.from({ length: 50 }, (_, n) => chat(assistant, `question ${n};`)));
    const wrong = answers.filter(
      ({ finalResponse }, n) => finalResponse?.outputText?.includes(`question ${n};`) !== true,
    );
    expect(wrong).toEqual([]);
  });
});
