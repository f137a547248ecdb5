import type { FakeImagesStep } from "../adapters/fake-images.ts";
import type { ImageContent, ImageOperation } from "../model/internal.ts";
import type { Clock } from "everturn";
import type { ImageAdapter, TelemetryEvent, ImageResponse } from "everturn/advanced";

import {
  engine,
  MisuseError,
  subscribe,
  EngineError,
  ImageAdapterError,
  imageFromBase64,
  modelRef,
  ValidationError,
} from "everturn";
import { imageRequest, imageResponse } from "everturn/advanced";
import { describe, expect, test } from "vitest";

import { fakeImages } from "../adapters/fake-images.ts";
import { systemClock } from "../engine/internal.ts";
import { editImage, generateImage, imageVariations } from "./images.ts";

const cat = imageFromBase64("Y2F0", "image/png");
const hat = imageFromBase64("aGF0", "image/png");
const stray = JSON.parse('{ "stream": true }');
const catDrawn: FakeImagesStep = { type: "images", images: [cat] };

/** A clock that does not wait and records the requested delays. */
function handClock(): Clock & { readonly slept: readonly number[] } {
  const slept: number[] = [];
  return { slept, now: () => 0, random: () => 0, sleep: async (ms) => void slept.push(ms) };
}

function scripted(...script: readonly FakeImagesStep[]) {
  const imageAdapter = fakeImages({ script });
  const clock = handClock();
  return { imageAdapter, clock, painter: engine({ imageAdapter, clock, model: "fake:paint" }) };
}

/** An adapter that calls a function of the test. */
function adapterOf(generate: ImageAdapter["generate"]): ImageAdapter {
  return { provider: "mine", operations: ["generate", "edit", "variation"], generate };
}

async function recordTelemetry(work: () => Promise<unknown>): Promise<readonly TelemetryEvent[]> {
  const telemetry: TelemetryEvent[] = [];
  const leave = subscribe((event) => void telemetry.push(event));
  await work().catch(() => {});
  leave();
  return telemetry;
}

/** A model with these capabilities. */
function knownModel(imagesEnabled: boolean | null, supportedImageOperations: readonly ImageOperation[] | null) {
  const unknown = { tools: null, jsonNative: null, parallelTools: null, reasoning: null, vision: null, files: null };
  return modelRef({ id: "m", capabilities: { ...unknown, imagesEnabled, supportedImageOperations } });
}

describe("[allm 118] the three verbs", () => {
  test("a prompt asks for one image", async () => {
    const { imageAdapter, painter } = scripted(catDrawn);
    const response = await generateImage(painter, "a cat");
    expect(response).toMatchObject({ images: [cat], model: "fake:paint", usage: { images: 1 } });
    expect(imageAdapter.calls.map(({ request }) => request)).toEqual([imageRequest("a cat", { model: "fake:paint" })]);
  });

  test("a request is sent as it is", async () => {
    const { imageAdapter, painter } = scripted(catDrawn);
    const request = imageRequest("a hat", { operation: "edit", inputImages: [cat], model: "other", n: 2 });
    await generateImage(painter, request);
    expect(imageAdapter.calls[0]?.request).toEqual(request);
  });

  test("an edit takes an image, a prompt and a mask", async () => {
    const { imageAdapter, painter } = scripted(catDrawn);
    await editImage(painter, cat, "add a hat", { mask: hat });
    expect(imageAdapter.calls[0]?.request).toMatchObject({
      operation: "edit",
      prompt: "add a hat",
      inputImages: [cat],
      mask: hat,
    });
  });

  test("two images to edit are two inputs without a mask", async () => {
    const { imageAdapter, painter } = scripted(catDrawn);
    await editImage(painter, [cat, hat], "put it on");
    expect(imageAdapter.calls[0]?.request).toMatchObject({ inputImages: [cat, hat], mask: null });
  });

  test("variations take an image and no prompt", async () => {
    const { imageAdapter, painter } = scripted(catDrawn);
    await imageVariations(painter, cat, { n: 3 });
    expect(imageAdapter.calls[0]?.request).toMatchObject({
      operation: "variation",
      prompt: null,
      inputImages: [cat],
      n: 3,
    });
  });
});

describe("[allm 118] the checks, in their order", () => {
  const nothingRight = imageRequest("", { operation: "edit", n: 0, model: knownModel(false, null) });
  const generator = fakeImages({ operations: ["generate"] });

  test("an engine without an image adapter is reported first", async () => {
    const call = generateImage(engine(), nothingRight);
    await expect(call).rejects.toThrow(EngineError);
    await expect(call).rejects.toMatchObject({ reason: "no_image_adapter" });
  });

  test("capabilities of the model are checked before the operations of the adapter", async () => {
    const call = generateImage(engine({ imageAdapter: generator }), nothingRight);
    await expect(call).rejects.toMatchObject({ reason: "unsupported_capability" });
  });

  test("operations of the adapter are checked before the request", async () => {
    const call = generateImage(engine({ imageAdapter: generator }), { ...nothingRight, model: null });
    await expect(call).rejects.toThrow(ImageAdapterError);
    await expect(call).rejects.toMatchObject({
      reason: "unsupported_operation",
      failure: { provider: "fake", metadata: { operation: "edit" } },
    });
    expect(generator.calls).toEqual([]);
  });

  test("an invalid request is not sent", async () => {
    const { imageAdapter, painter } = scripted(catDrawn);
    const call = generateImage(painter, { ...nothingRight, model: null });
    await expect(call).rejects.toThrow(ValidationError);
    await expect(call).rejects.toMatchObject({
      reason: "invalid_image_request",
      failure: { issues: [{ path: ["n"] }, { path: ["prompt"] }, { path: ["inputImages"] }] },
    });
    expect(imageAdapter.calls).toEqual([]);
  });

  test.each([
    ["no prompt", (painter: ReturnType<typeof engine>) => generateImage(painter, "")],
    ["nothing at all", (painter: ReturnType<typeof engine>) => generateImage(painter, JSON.parse("null"))],
    ["three images to edit", (painter: ReturnType<typeof engine>) => editImage(painter, [cat, hat, cat], "mix")],
    ["no image to edit", (painter: ReturnType<typeof engine>) => editImage(painter, [], "mix")],
    ["a text for an image", (painter: ReturnType<typeof engine>) => imageVariations(painter, JSON.parse('"cat.png"'))],
  ])("%s is an invalid request", async (_, call) => {
    await expect(call(scripted(catDrawn).painter)).rejects.toMatchObject({ reason: "invalid_image_request" });
  });
});

describe("capabilities of the model are checked before the call", () => {
  test("a model that does not generate images is rejected", async () => {
    const { imageAdapter, painter } = scripted(catDrawn);
    const call = generateImage(painter, "a cat", { model: knownModel(false, null) });
    await expect(call).rejects.toThrow(ValidationError);
    await expect(call).rejects.toMatchObject({
      reason: "unsupported_capability",
      failure: { issues: [{ path: ["model", "capabilities", "imagesEnabled"], code: "images_disabled" }] },
    });
    expect(imageAdapter.calls).toEqual([]);
  });

  test("an unsupported operation is rejected with the supported ones", async () => {
    const call = imageVariations(scripted(catDrawn).painter, cat, { model: knownModel(true, ["generate", "edit"]) });
    await expect(call).rejects.toMatchObject({
      reason: "unsupported_capability",
      failure: {
        issues: [
          {
            path: ["operation"],
            code: "unsupported_image_operation",
            message: "m does not support the operation variation; it supports generate, edit",
          },
        ],
      },
    });
  });

  test("every missing capability is listed", async () => {
    const call = generateImage(scripted(catDrawn).painter, "a cat", { model: knownModel(false, []) });
    await expect(call).rejects.toMatchObject({
      failure: { issues: [{ path: ["model", "capabilities", "imagesEnabled"] }, { path: ["operation"] }] },
    });
  });

  test.each([
    ["a name", "m"],
    ["a reference without capabilities", modelRef({ id: "m" })],
    ["capabilities that are not known", knownModel(null, null)],
    ["capabilities that fit", knownModel(true, ["generate"])],
  ])("%s rejects nothing", async (_, model) => {
    const response = await generateImage(scripted(catDrawn).painter, "a cat", { model });
    expect(response).toMatchObject({ images: [cat], model: "m" });
  });

  test("the model of the engine is checked too", async () => {
    const { painter } = scripted(catDrawn);
    const call = generateImage({ ...painter, model: knownModel(false, null) }, "a cat");
    await expect(call).rejects.toMatchObject({ reason: "unsupported_capability" });
  });
});

describe("[allm 118] retries", () => {
  test("a retryable failure is tried three times in all", async () => {
    const rateLimited: FakeImagesStep = { type: "error", reason: "rate_limited" };
    const { imageAdapter, clock, painter } = scripted(rateLimited, rateLimited, rateLimited, catDrawn);
    const call = generateImage(painter, "a cat");
    await expect(call).rejects.toThrow(ImageAdapterError);
    await expect(call).rejects.toMatchObject({ reason: "rate_limited", failure: { provider: "fake" } });
    expect(imageAdapter.calls.map(({ call }) => call.attempt)).toEqual([1, 2, 3]);
    expect(clock.slept).toEqual([500, 1000]);
    expect(imageAdapter.remaining).toBe(1);
  });

  test.each(["rate_limited", "provider_unavailable", "timeout", "network_error"] as const)(
    "%s is retried",
    async (reason) => {
      const { imageAdapter, painter } = scripted({ type: "error", reason }, catDrawn);
      expect((await generateImage(painter, "a cat")).images).toEqual([cat]);
      imageAdapter.assertUsedUp();
    },
  );

  test.each(["invalid_request", "content_filter", "authentication_failed", "unknown"] as const)(
    "%s is not retried",
    async (reason) => {
      const { imageAdapter, painter } = scripted({ type: "error", reason }, catDrawn);
      await expect(generateImage(painter, "a cat")).rejects.toMatchObject({ reason });
      expect(imageAdapter.calls.length).toBe(1);
    },
  );

  test("the delay is the one that the provider asked for", async () => {
    const { clock, painter } = scripted({ type: "error", reason: "rate_limited", retryAfterMs: 7000 }, catDrawn);
    await generateImage(painter, "a cat");
    expect(clock.slept).toEqual([7000]);
  });

  test("the retry policy of the call overrides that of the engine", async () => {
    const { imageAdapter, painter } = scripted({ type: "retry_until_call", n: 5 }, catDrawn);
    await expect(generateImage(painter, "a cat", { retry: false })).rejects.toMatchObject({ reason: "rate_limited" });
    expect(imageAdapter.calls.length).toBe(1);
    await generateImage({ ...painter, retry: false }, "a cat", { retry: { maxAttempts: 4 } });
    expect(imageAdapter.calls.length).toBe(5);
  });

  test.each([
    ["throws", () => Promise.reject(new Error("out of paint"))],
    [
      "throws at once",
      () => {
        throw new Error("out of paint");
      },
    ],
  ])("an adapter that %s an error of another type fails once with reason unknown", async (_, generate) => {
    let calls = 0;
    const imageAdapter = adapterOf(() => {
      calls += 1;
      return generate();
    });
    const call = generateImage(engine({ imageAdapter, clock: handClock() }), "a cat");
    await expect(call).rejects.toThrow(ImageAdapterError);
    await expect(call).rejects.toMatchObject({
      reason: "unknown",
      failure: { provider: "mine", message: "out of paint", cause: { name: "Error", message: "out of paint" } },
    });
    expect(calls).toBe(1);
  });
});

describe("options", () => {
  test("the model of the call overrides the request's, and that the engine's", async () => {
    const { imageAdapter, painter } = scripted(catDrawn, catDrawn, catDrawn);
    const request = imageRequest("a cat", { model: "of the request" });
    await generateImage(painter, request, { model: "of the call" });
    await generateImage(painter, request);
    await generateImage(painter, imageRequest("a cat"));
    const models = imageAdapter.calls.map(({ request }) => request.model);
    expect(models).toEqual(["of the call", "of the request", "fake:paint"]);
  });

  test("options of the call override the request; provider options are merged", async () => {
    const { imageAdapter, painter } = scripted(catDrawn);
    const fields = { size: "auto", quality: "low", n: 2, options: { seed: 1, user: "a" }, metadata: { old: true } };
    const said = {
      quality: "high",
      style: "vivid",
      background: "opaque",
      responseFormat: "url",
      metadata: { now: true },
    } as const;
    await generateImage(painter, imageRequest("a cat", fields), { ...said, options: { user: "b" } });
    expect(imageAdapter.calls[0]?.request).toEqual({
      ...imageRequest("a cat", { ...fields, ...said, options: { seed: 1, user: "b" } }),
      model: "fake:paint",
    });
  });

  test("key, request id and adapter options go to the adapter and not into the request", async () => {
    const { imageAdapter, painter } = scripted(catDrawn);
    const options = { apiKey: "k", requestId: "r1", adapterOptions: { endpoint: "b" } };
    await generateImage({ ...painter, adapterOptions: { endpoint: "a", org: "o" } }, "a cat", options);
    const [made] = imageAdapter.calls;
    expect(made?.call).toMatchObject({
      apiKey: "k",
      requestId: "r1",
      options: { endpoint: "b", org: "o" },
      rawChunks: false,
      attempt: 1,
    });
    expect(made?.request).toEqual(imageRequest("a cat", { model: "fake:paint" }));
  });

  test.each(["stream", "prompt", "operation", "inputImages", "toString"])("%s is not an option", async (name) => {
    const { imageAdapter, painter } = scripted(catDrawn);
    const options = { [name]: true };
    const calls = [
      () => generateImage(painter, "a cat", options),
      () => editImage(painter, cat, "add a hat", options),
      () => imageVariations(painter, cat, options),
    ];
    for (const call of calls) {
      const made = call();
      await expect(made).rejects.toThrow(MisuseError);
      await expect(made).rejects.toMatchObject({ reason: "unknown_field", path: [name] });
    }
    expect(imageAdapter.calls).toEqual([]);
  });

  test("misuse is reported before all other checks", async () => {
    await expect(generateImage(engine(), "a cat", stray)).rejects.toThrow(MisuseError);
    const retry = JSON.parse('{ "times": 3 }');
    await expect(generateImage(engine(), "a cat", { retry })).rejects.toMatchObject({ reason: "unknown_field" });
  });
});

describe("the request id of a response", () => {
  const answering = (response: ImageResponse) =>
    engine({ imageAdapter: adapterOf(() => Promise.resolve(response)), clock: handClock() });

  test("is the id of the call if the provider reports none", async () => {
    const response = await generateImage(answering(imageResponse()), "a cat", { requestId: "mine" });
    expect(response.requestId).toBe("mine");
    expect((await generateImage(answering(imageResponse()), "a cat")).requestId).toMatch(/^[\w-]{22}$/);
  });

  test("is the id of the provider if it reports one", async () => {
    const response = await generateImage(answering(imageResponse({ requestId: "theirs" })), "a cat", {
      requestId: "mine",
    });
    expect(response.requestId).toBe("theirs");
  });
});

describe("a signal", () => {
  const enough = new Error("enough");

  test("that is aborted already prevents the call", async () => {
    const { imageAdapter, painter } = scripted(catDrawn);
    const call = generateImage(painter, "a cat", { signal: AbortSignal.abort(enough) });
    await expect(call).rejects.toBe(enough);
    expect(imageAdapter.calls).toEqual([]);
  });

  test("ends a call whose adapter ignores it", async () => {
    const controller = new AbortController();
    const imageAdapter = adapterOf(() => {
      queueMicrotask(() => controller.abort(enough));
      return new Promise(() => {});
    });
    const call = generateImage(engine({ imageAdapter }), "a cat", { signal: controller.signal });
    await expect(call).rejects.toBe(enough);
  });

  test("reaches the adapter, and the resulting error is not retried", async () => {
    const controller = new AbortController();
    let calls = 0;
    const imageAdapter = adapterOf(async (_, { signal }) => {
      calls += 1;
      controller.abort(enough);
      expect(signal.aborted).toBe(true);
      throw new ImageAdapterError("network_error");
    });
    const call = generateImage(engine({ imageAdapter, clock: handClock() }), "a cat", { signal: controller.signal });
    await expect(call).rejects.toBe(enough);
    expect(calls).toBe(1);
  });

  test("ends the delay between two attempts", async () => {
    const controller = new AbortController();
    const { imageAdapter, painter } = scripted({ type: "retry_until_call", n: 3 }, catDrawn);
    const leave = subscribe(({ type }) => void (type === "retry" && controller.abort(enough)));
    const retry = { baseDelayMs: 3_600_000, maxDelayMs: 3_600_000 };
    const options = { retry, signal: controller.signal };
    const call = generateImage({ ...painter, clock: systemClock }, "a cat", options);
    await expect(call).rejects.toBe(enough);
    leave();
    expect(imageAdapter.calls.length).toBe(1);
  });
});

describe("telemetry of an image call", () => {
  test("is a span around all attempts with the retries inside, under one request id", async () => {
    const { painter } = scripted({ type: "retry_until_call", n: 2 }, { type: "images", images: [cat, hat] });
    const telemetry = await recordTelemetry(() => generateImage(painter, "a cat", { n: 2, requestId: "r1" }));
    const metadata = { operation: "generate", n: 2, provider: "fake", model: "fake:paint" };
    const span = { name: "image", parent: null, requestId: "r1", metadata };
    expect(telemetry).toEqual([
      { type: "start", ...span, id: expect.any(Number) },
      { type: "retry", requestId: "r1", provider: "fake", attempt: 1, delayMs: 500, reason: "rate_limited" },
      { type: "stop", ...span, id: expect.any(Number), durationMs: 0, result: { imageCount: 2 } },
    ]);
  });

  test("uses the generated request id in the span, at the adapter and in the response", async () => {
    const { imageAdapter, painter } = scripted(catDrawn);
    const ids: (string | null)[] = [];
    const telemetry = await recordTelemetry(async () => ids.push((await generateImage(painter, "a cat")).requestId));
    ids.push(...telemetry.map(({ requestId }) => requestId), imageAdapter.calls[0]?.call.requestId ?? null);
    expect(ids.length).toBe(4);
    expect(new Set(ids).size).toBe(1);
  });

  test("ends the span as a failure when a check fails", async () => {
    const telemetry = await recordTelemetry(() => imageVariations(engine(), cat, { requestId: "r1" }));
    expect(telemetry).toMatchObject([
      { type: "start", name: "image", metadata: { operation: "variation", n: 1 } },
      { type: "exception", name: "image", error: expect.stringContaining("no image adapter") },
    ]);
  });

  test("reports the last failure once, without a retry after it", async () => {
    const { painter } = scripted({ type: "retry_until_call", n: 9 });
    const telemetry = await recordTelemetry(() => generateImage(painter, "a cat"));
    expect(telemetry.map(({ type }) => type)).toEqual(["start", "retry", "retry", "exception"]);
  });

  test("has no span for misuse", async () => {
    expect(await recordTelemetry(() => generateImage(engine(), "a cat", stray))).toEqual([]);
  });
});

describe("[allm 120] the scripted image model", () => {
  const once = { retry: false } as const;

  test("returns its images in order, with their usage", async () => {
    const images: readonly ImageContent[] = [cat, hat];
    const { imageAdapter, painter } = scripted(catDrawn, { type: "images", images, usage: { totalCost: 0.04 } });
    expect(imageAdapter.remaining).toBe(2);
    expect((await generateImage(painter, "a cat")).usage).toMatchObject({ images: 1, totalCost: null });
    expect(() => imageAdapter.assertUsedUp()).toThrow("1 of 2 steps");
    const second = await generateImage(painter, "both");
    expect(second).toMatchObject({ images, usage: { images: 2, totalCost: 0.04 } });
    expect(imageAdapter.remaining).toBe(0);
    imageAdapter.assertUsedUp();
  });

  test("fails as its script says", async () => {
    const details = { message: "too busy", status: 503, retryAfterMs: 10, code: "busy", retryable: false };
    const { painter } = scripted({ type: "error", reason: "provider_unavailable", ...details });
    await expect(generateImage(painter, "a cat")).rejects.toMatchObject({
      failure: { type: "image_adapter_error", reason: "provider_unavailable", provider: "fake", ...details },
    });
  });

  test("is rate limited until the nth call, which gets the next entry of the script", async () => {
    const { imageAdapter, painter } = scripted(
      { type: "retry_until_call", n: 3 },
      catDrawn,
      { type: "retry_until_call", n: 2 },
      { type: "images", images: [hat] },
    );
    await expect(generateImage(painter, "a cat", once)).rejects.toMatchObject({ reason: "rate_limited" });
    await expect(generateImage(painter, "a cat", once)).rejects.toMatchObject({ reason: "rate_limited" });
    expect(imageAdapter.remaining).toBe(4);
    expect((await generateImage(painter, "a cat", once)).images).toEqual([cat]);
    await expect(generateImage(painter, "a hat", once)).rejects.toMatchObject({ reason: "rate_limited" });
    expect((await generateImage(painter, "a hat", once)).images).toEqual([hat]);
    imageAdapter.assertUsedUp();
  });

  test("throws when its script is used up", async () => {
    const { imageAdapter, painter } = scripted(catDrawn);
    await generateImage(painter, "a cat");
    await expect(generateImage(painter, "a cat")).rejects.toMatchObject({
      reason: "unknown",
      failure: { metadata: { cause: "no_scripted_image" }, retryable: false },
    });
    expect(imageAdapter.calls.map(({ request }) => [request.operation, request.prompt])).toEqual([
      ["generate", "a cat"],
      ["generate", "a cat"],
    ]);
    await expect(generateImage(engine({ imageAdapter: fakeImages() }), "a cat")).rejects.toThrow("no scripted image");
  });

  test("supports all operations by default", () => {
    expect(fakeImages().operations).toEqual(["generate", "edit", "variation"]);
    expect(fakeImages({ operations: ["edit"], provider: "x" })).toMatchObject({ operations: ["edit"], provider: "x" });
  });

  test.each(["{}", "[1]", '[{ "type": "text" }]', '[{ "type": "toString" }]', '[{ "type": "retry_until_call" }]'])(
    "%s is not a valid script",
    (script) => {
      expect(() => fakeImages({ script: JSON.parse(script) })).toThrow(MisuseError);
    },
  );
});
