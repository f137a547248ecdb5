import type { ImageAdapterErrorReason, ImageContent } from "../model/internal.ts";
import type { ImageAdapter, AdapterCall, ImageRequest } from "everturn/advanced";

import {
  editImage,
  engine,
  generateImage,
  ImageAdapterError,
  imageFromBase64,
  imageFromFile,
  imageFromUrl,
  isEverturnError,
} from "everturn";
import { imageRequest } from "everturn/advanced";
import { imageAdapterSuite } from "everturn/testing";
import { describe, expect, test } from "vitest";

import { systemClock } from "../engine/internal.ts";
import { image } from "../model/internal.ts";
import { geminiImages } from "./gemini-images.ts";
import { openaiImages } from "./openai-images.ts";

const key = "sk-test-2d1f0c9a";
const png = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==";
const dot = imageFromBase64(png, "image/png");

type Sent = { readonly url: string; readonly init: RequestInit };
type Answer = {
  readonly status?: number;
  readonly headers?: { readonly [name: string]: string };
  readonly body: unknown;
};

/** A `fetch` that records its requests and returns the given responses in order. */
function server(...answers: readonly Answer[]) {
  const sent: Sent[] = [];
  const fetch = async (url: string, init: RequestInit): Promise<Response> => {
    sent.push({ url, init });
    const { status = 200, headers = {}, body } = answers[Math.min(sent.length, answers.length) - 1] ?? { body: {} };
    const text = typeof body === "string" ? body : JSON.stringify(body);
    return new Response(text, { status, headers: { "content-type": "application/json", ...headers } });
  };
  return { sent, fetch };
}

function call(fields: Partial<AdapterCall> = {}): AdapterCall {
  const { signal } = new AbortController();
  return {
    signal,
    requestId: "r1",
    options: {},
    apiKey: null,
    rawChunks: false,
    attempt: 1,
    clock: systemClock,
    ...fields,
  };
}

const drawn = { created: 1, data: [{ b64_json: png }] };
const painted = { candidates: [{ content: { parts: [{ inlineData: { mimeType: "image/png", data: png } }] } }] };

/** The JSON body of a request. */
function json(sent: readonly Sent[]): unknown {
  const body = sent[0]?.init.body;
  return typeof body === "string" ? JSON.parse(body) : body;
}

async function openaiBody(request: ImageRequest): Promise<unknown> {
  const { sent, fetch } = server({ body: drawn });
  await openaiImages({ apiKey: key, fetch }).generate(request, call());
  return json(sent);
}

async function geminiBody(request: ImageRequest): Promise<unknown> {
  const { sent, fetch } = server({ body: painted });
  await geminiImages({ apiKey: key, fetch }).generate(request, call());
  return json(sent);
}

/** The fields of a form: texts, and for files the type, the name and the number of bytes. */
function fieldsOf(sent: readonly Sent[]): readonly unknown[] {
  const body = sent[0]?.init.body;
  if (!(body instanceof FormData)) throw new Error("no form was sent");
  return [...body.entries()].map(([name, value]) =>
    typeof value === "string" ? [name, value] : [name, value.type, value.name, value.size],
  );
}

async function rejectedFailure(work: Promise<unknown>) {
  const thrown: unknown = await work.then(
    () => null,
    (error: unknown) => error,
  );
  if (!(thrown instanceof ImageAdapterError)) throw new Error("no ImageAdapterError was thrown", { cause: thrown });
  return thrown.failure;
}

const cat = (fields: Partial<ImageRequest> = {}) => imageRequest("a cat", { model: "gpt-image-1", ...fields });
const banana = (fields: Partial<ImageRequest> = {}) =>
  imageRequest("a cat", { model: "gemini-2.5-flash-image", ...fields });
const hat = (images: readonly ImageContent[], fields: Partial<ImageRequest> = {}) =>
  cat({ operation: "edit", inputImages: images, ...fields });

describe("[allm 119] openaiImages sends", () => {
  test("a JSON request with the key in a header", async () => {
    const { sent, fetch } = server({ body: drawn });
    const adapter = openaiImages({
      apiKey: key,
      fetch,
      organization: "org_1",
      project: "proj_1",
      headers: { "x-team": "art" },
    });
    await adapter.generate(
      cat({ n: 2, size: { width: 1536, height: 1024 }, quality: "hd", background: "transparent", style: "vivid" }),
      call(),
    );
    expect(sent).toHaveLength(1);
    expect(sent[0]).toMatchObject({
      url: "https://api.openai.com/v1/images/generations",
      init: {
        method: "POST",
        headers: {
          authorization: `Bearer ${key}`,
          "content-type": "application/json",
          "openai-organization": "org_1",
          "openai-project": "proj_1",
          "x-team": "art",
        },
      },
    });
    // GPT image models have neither `style` nor `response_format`.
    expect(json(sent)).toEqual({
      model: "gpt-image-1",
      prompt: "a cat",
      n: 2,
      size: "1536x1024",
      quality: "high",
      background: "transparent",
    });
  });

  test("the responseFormat to models that have it", async () => {
    const request = { model: "dall-e-3", style: "vivid", background: "opaque" } as const;
    expect(await openaiBody(cat(request))).toEqual({
      model: "dall-e-3",
      prompt: "a cat",
      n: 1,
      style: "vivid",
      response_format: "b64_json",
    });
    expect(await openaiBody(cat({ ...request, responseFormat: "url" }))).toMatchObject({ response_format: "url" });
  });

  test("options last, and never a stream", async () => {
    const options = { output_format: "webp", output_compression: 50, quality: null, stream: true, partial_images: 2 };
    expect(await openaiBody(cat({ quality: "low", options }))).toEqual({
      model: "gpt-image-1",
      prompt: "a cat",
      n: 1,
      output_format: "webp",
      output_compression: 50,
    });
  });

  test("an edit as a form with the content type of fetch", async () => {
    const { sent, fetch } = server({ body: drawn });
    const adapter = openaiImages({ apiKey: key, fetch, headers: { "Content-Type": "application/json" } });
    const options = { input_fidelity: "high", output_compression: 80 };
    await adapter.generate(hat([dot], { mask: dot, size: "auto", options }), call());
    expect(sent[0]?.url).toBe("https://api.openai.com/v1/images/edits");
    expect(Object.keys(sent[0]?.init.headers ?? {}).map((name) => name.toLowerCase())).not.toContain("content-type");
    expect(sent[0]?.init.headers).toMatchObject({ authorization: `Bearer ${key}` });
    expect(fieldsOf(sent)).toEqual([
      ["model", "gpt-image-1"],
      ["prompt", "a cat"],
      ["n", "1"],
      ["size", "auto"],
      ["input_fidelity", "high"],
      ["output_compression", "80"],
      ["image", "image/png", "image-1.png", 70],
      ["mask", "image/png", "mask.png", 70],
    ]);
  });

  test("an edit of two images with detected MIME types", async () => {
    const { sent, fetch } = server({ body: drawn });
    const bare = image({ source: { type: "base64", data: png } });
    const photo = imageFromBase64("/9j/4AAQ", "image/jpeg");
    await openaiImages({ apiKey: key, fetch }).generate(hat([bare, photo]), call());
    expect(fieldsOf(sent).slice(3)).toEqual([
      ["image[]", "image/png", "image-1.png", 70],
      ["image[]", "image/jpeg", "image-2.jpeg", 6],
    ]);
  });

  test("an edit as JSON if an image is a reference, and fetches nothing itself", async () => {
    const { sent, fetch } = server({ body: drawn });
    const uploaded = image({ source: { type: "provider_file", provider: "openai", id: "file_1" } });
    const request = hat([imageFromUrl("https://example.com/a.png"), uploaded], { mask: dot });
    await openaiImages({ apiKey: key, fetch }).generate(request, call());
    expect(sent).toHaveLength(1);
    expect(json(sent)).toEqual({
      model: "gpt-image-1",
      prompt: "a cat",
      n: 1,
      images: [{ image_url: "https://example.com/a.png" }, { file_id: "file_1" }],
      mask: { image_url: `data:image/png;base64,${png}` },
    });
  });

  test("to the given baseURL", async () => {
    const { sent, fetch } = server({ body: drawn });
    await openaiImages({ apiKey: key, fetch, baseURL: "https://images.example/v1/" }).generate(cat(), call());
    expect(sent[0]?.url).toBe("https://images.example/v1/images/generations");
    expect(() => openaiImages({ baseURL: "images.example" })).toThrow(/baseURL/);
  });
});

describe("[allm 119] openaiImages reads", () => {
  test("image data, MIME type, size, revised prompt and usage", async () => {
    const usage = {
      input_tokens: 12,
      output_tokens: 272,
      total_tokens: 284,
      input_tokens_details: { text_tokens: 12 },
    };
    const body = {
      created: 1_700_000_000,
      data: [{ b64_json: png, revised_prompt: "a tabby cat" }],
      output_format: "webp",
      size: "1024x1536",
      quality: "medium",
      usage,
    };
    const { fetch } = server({ body, headers: { "x-request-id": "req_7" } });
    const response = await openaiImages({ apiKey: key, fetch }).generate(cat({ size: "auto" }), call());
    expect(response.images).toEqual([
      {
        source: { type: "base64", data: png },
        mimeType: "image/webp",
        width: 1024,
        height: 1536,
        prompt: "a cat",
        revisedPrompt: "a tabby cat",
        metadata: {},
      },
    ]);
    expect(response).toMatchObject({
      model: "gpt-image-1",
      requestId: null,
      usage: { images: 1, size: "1024x1536", quality: "medium", inputTokens: 12, outputTokens: 272, totalCost: null },
      metadata: { providerRequestId: "req_7", created: 1_700_000_000, usageDetails: usage },
    });
    // The image data is stored once, in `images`.
    expect(JSON.stringify(response.raw)).not.toContain(png);
    expect(response.raw).toMatchObject({ data: [{ revised_prompt: "a tabby cat" }] });
  });

  test("URLs without a MIME type", async () => {
    const { fetch } = server({
      body: { data: [{ url: "https://example.com/1.png" }, { url: "https://example.com/2.png" }] },
    });
    const request = cat({ model: "dall-e-2", responseFormat: "url", n: 2, size: { width: 512, height: 512 } });
    const { images, usage } = await openaiImages({ apiKey: key, fetch }).generate(request, call());
    expect(images.map(({ source, mimeType, width }) => ({ source, mimeType, width }))).toEqual([
      { source: { type: "url", url: "https://example.com/1.png" }, mimeType: null, width: 512 },
      { source: { type: "url", url: "https://example.com/2.png" }, mimeType: null, width: 512 },
    ]);
    expect(usage).toMatchObject({ images: 2, size: "512x512", inputTokens: null });
  });

  test("image data that contains the key by chance, unchanged", async () => {
    const apiKey = png.slice(4, 14);
    const { fetch } = server({ body: { data: [{ b64_json: png, revised_prompt: `say ${apiKey}` }] } });
    const { images } = await openaiImages({ apiKey, fetch }).generate(cat(), call());
    expect(images[0]).toMatchObject({ source: { data: png }, revisedPrompt: "say [key]" });
  });
});

describe("[allm 119] openaiImages refuses before anything is sent", () => {
  const links = [imageFromUrl("https://example.com/a.png")];
  const foreign = [image({ source: { type: "provider_file", provider: "gemini", id: "f" } })];
  test.each<[string, ImageRequest, ImageAdapterErrorReason]>([
    ["an edit by a model that cannot", hat([dot], { model: "dall-e-3" }), "unsupported_operation"],
    [
      "variations",
      imageRequest(null, { operation: "variation", model: "dall-e-2", inputImages: [dot] }),
      "unsupported_operation",
    ],
    ["links from a model that gives bytes", cat({ responseFormat: "url" }), "unsupported_feature"],
    ["a link as input of a model that takes bytes", hat(links, { model: "dall-e-2" }), "unsupported_feature"],
    [
      "a link as mask of a model that takes bytes",
      hat([dot], { model: "x", mask: links[0] ?? null }),
      "unsupported_feature",
    ],
    ["a file on disk", hat([imageFromFile("a.png")]), "unsupported_feature"],
    ["a file of another provider", hat(foreign), "unsupported_feature"],
    ["what is not base64", hat([imageFromBase64("no!", "image/png")]), "invalid_request"],
    ["data without a type", hat([image({ source: { type: "base64", data: "AAAA" } })]), "invalid_request"],
    ["a mask for nothing", cat({ mask: dot }), "invalid_request"],
  ])("%s", async (_, request, reason) => {
    const { sent, fetch } = server({ body: drawn });
    let requestCount = 0;
    const apiKey = () => {
      requestCount += 1;
      return key;
    };
    const failure = await rejectedFailure(openaiImages({ apiKey, fetch }).generate(request, call()));
    expect(failure).toMatchObject({ reason, provider: "openai", retryable: false });
    if (reason === "unsupported_operation") expect(failure.metadata).toMatchObject({ operation: request.operation });
    expect([sent.length, requestCount]).toEqual([0, 0]);
  });

  test("a request without a model or a key", async () => {
    const { sent, fetch } = server({ body: drawn });
    const adapter = openaiImages({ apiKey: () => null, fetch });
    await expect(adapter.generate(cat({ model: null }), call())).rejects.toMatchObject({ reason: "missing_model" });
    const saved = process.env["OPENAI_API_KEY"];
    delete process.env["OPENAI_API_KEY"];
    try {
      await expect(adapter.generate(cat(), call())).rejects.toMatchObject({ reason: "missing_key" });
    } finally {
      if (saved !== undefined) process.env["OPENAI_API_KEY"] = saved;
    }
    expect(sent).toEqual([]);
  });
});

describe("[allm 119] geminiImages sends", () => {
  test("a request for text and images with the key in a header", async () => {
    const { sent, fetch } = server({ body: painted });
    await geminiImages({ apiKey: key, fetch }).generate(banana(), call());
    expect(sent).toHaveLength(1);
    expect(sent[0]).toMatchObject({
      url: "https://generativelanguage.googleapis.com/v1beta/models/gemini-2.5-flash-image:generateContent",
      init: { method: "POST", headers: { "x-goog-api-key": key, "content-type": "application/json" } },
    });
    expect(sent[0]?.url).not.toContain(key);
    expect(json(sent)).toEqual({
      contents: [{ role: "user", parts: [{ text: "a cat" }] }],
      generationConfig: { responseModalities: ["TEXT", "IMAGE"] },
    });
  });

  test("an edit with the images before the prompt", async () => {
    const uploaded = image({
      source: { type: "provider_file", provider: "gemini", id: "files/7" },
      mimeType: "image/png",
    });
    const data = imageFromUrl(`data:image/webp;base64,UklGRg==`);
    const inputImages = [dot, imageFromUrl("https://example.com/a.jpg", "image/jpeg"), uploaded, data];
    expect(await geminiBody(banana({ operation: "edit", inputImages }))).toMatchObject({
      contents: [
        {
          parts: [
            { inlineData: { mimeType: "image/png", data: png } },
            { fileData: { mimeType: "image/jpeg", fileUri: "https://example.com/a.jpg" } },
            { fileData: { mimeType: "image/png", fileUri: "files/7" } },
            { inlineData: { mimeType: "image/webp", data: "UklGRg==" } },
            { text: "a cat" },
          ],
        },
      ],
    });
  });

  test.each<[ImageRequest["size"], string | null]>([
    [null, null],
    ["auto", null],
    [{ width: 1024, height: 1024 }, "1:1"],
    [{ width: 1024, height: 980 }, "1:1"],
    [{ width: 1792, height: 1024 }, "16:9"],
    ["1080x1920", "9:16"],
    ["1024x768", "4:3"],
    ["3:4", "3:4"],
  ])("the size %j as the aspect ratio %s", async (size, aspectRatio) => {
    expect(await geminiBody(banana({ size }))).toHaveProperty("generationConfig", {
      responseModalities: ["TEXT", "IMAGE"],
      ...(aspectRatio === null ? {} : { imageConfig: { aspectRatio } }),
    });
  });

  test("options merged into the body, and several candidates", async () => {
    const options = { generationConfig: { imageConfig: { imageSize: "2K" }, temperature: 0 }, safetySettings: [] };
    expect(await geminiBody(banana({ size: "1:1", n: 3, options }))).toMatchObject({
      generationConfig: {
        responseModalities: ["TEXT", "IMAGE"],
        imageConfig: { aspectRatio: "1:1", imageSize: "2K" },
        candidateCount: 3,
        temperature: 0,
      },
      safetySettings: [],
    });
  });
});

describe("[allm 119] geminiImages reads", () => {
  test("images and text, without the images of thought parts", async () => {
    const inlineData = { mimeType: "image/png", data: png };
    const usageMetadata = { promptTokenCount: 8, candidatesTokenCount: 1290, thoughtsTokenCount: 10 };
    const body = {
      candidates: [
        { content: { parts: [{ thought: true, inlineData }, { text: "Here: " }, { inlineData }] } },
        { content: { parts: [{ inlineData: { data: "/9j/4AAQ" } }] } },
      ],
      usageMetadata,
      modelVersion: "gemini-2.5-flash-image-001",
      responseId: "resp_1",
    };
    const { fetch } = server({ body });
    const response = await geminiImages({ apiKey: key, fetch }).generate(banana({ n: 2 }), call());
    expect(response).toMatchObject({
      id: "resp_1",
      model: "gemini-2.5-flash-image-001",
      images: [
        { source: { type: "base64", data: png }, mimeType: "image/png", prompt: "a cat" },
        { source: { type: "base64", data: "/9j/4AAQ" }, mimeType: "image/jpeg" },
      ],
      usage: { images: 2, inputTokens: 8, outputTokens: 1300 },
      metadata: { text: "Here: ", usageDetails: usageMetadata },
    });
    expect(JSON.stringify(response.raw)).not.toContain(png);
  });
});

describe("[allm 119] geminiImages refuses before anything is sent", () => {
  test.each<[string, ImageRequest, ImageAdapterErrorReason]>([
    [
      "variations",
      imageRequest(null, { operation: "variation", model: "g", inputImages: [dot] }),
      "unsupported_operation",
    ],
    ["links", banana({ responseFormat: "url" }), "unsupported_feature"],
    ["a mask", banana({ operation: "edit", inputImages: [dot], mask: dot }), "unsupported_feature"],
    ["a file on disk", banana({ operation: "edit", inputImages: [imageFromFile("a.png")] }), "unsupported_feature"],
    ["a shape it has not", banana({ size: { width: 1024, height: 512 } }), "invalid_request"],
    ["a shape that is 6 % off", banana({ size: { width: 1060, height: 1000 } }), "invalid_request"],
    ["a size that is a word", banana({ size: "large" }), "invalid_request"],
    ["a size without height", banana({ size: "10x0" }), "invalid_request"],
  ])("%s", async (_, request, reason) => {
    const { sent, fetch } = server({ body: painted });
    const failure = await rejectedFailure(geminiImages({ apiKey: key, fetch }).generate(request, call()));
    expect(failure).toMatchObject({ reason, provider: "gemini" });
    if (reason === "unsupported_operation") expect(failure.metadata).toMatchObject({ operation: "variation" });
    expect(sent).toEqual([]);
  });
});

const both: readonly [string, (options: Parameters<typeof geminiImages>[0]) => ImageAdapter, ImageRequest, unknown][] =
  [
    ["openai", openaiImages, cat(), drawn],
    ["gemini", geminiImages, banana(), painted],
  ];

describe.each(both)("[allm 119] failures of %s", (provider, make, request, fine) => {
  test.each<[number, ImageAdapterErrorReason, boolean]>([
    [302, "unknown", false],
    [400, "invalid_request", false],
    [401, "authentication_failed", false],
    [403, "authentication_failed", false],
    [404, "invalid_request", false],
    [408, "timeout", true],
    [413, "invalid_request", false],
    [418, "unknown", false],
    [429, "rate_limited", true],
    [500, "provider_unavailable", true],
    [503, "provider_unavailable", true],
    [504, "timeout", true],
  ])("status %d is %s", async (status, reason, retryable) => {
    const headers = { "x-request-id": "req_9", "retry-after": "2" };
    const body = { error: { message: `no, ${key}`, code: null, status: "NO" } };
    const { sent, fetch } = server({ status, headers, body });
    const failure = await rejectedFailure(make({ apiKey: key, fetch }).generate(request, call()));
    expect(failure).toMatchObject({ reason, status, retryable, provider, requestId: "req_9", retryAfterMs: 2000 });
    expect(failure.message).toBe(`${provider}: no, [key]`);
    // One request: the adapter does not retry, the engine does.
    expect(sent).toHaveLength(1);
  });

  test("a body that is no JSON is kept without the key", async () => {
    const { fetch } = server({ status: 502, body: `<html>${key}</html>` }, { body: `<html>${key}</html>` });
    const adapter = make({ apiKey: ` ${key}\n`, fetch });
    const bad = { reason: "provider_unavailable", raw: "<html>[key]</html>" };
    expect(await rejectedFailure(adapter.generate(request, call()))).toMatchObject(bad);
    const odd = { reason: "malformed_response", raw: "<html>[key]</html>" };
    expect(await rejectedFailure(adapter.generate(request, call()))).toMatchObject(odd);
  });

  test("a stream is malformed", async () => {
    const { fetch } = server({ body: "data: {}\n\n", headers: { "content-type": "text/event-stream" } });
    const failure = await rejectedFailure(make({ apiKey: key, fetch }).generate(request, call()));
    expect(failure).toMatchObject({ reason: "malformed_response" });
  });

  test("a body above the limit is refused", async () => {
    const { fetch } = server({ body: fine });
    const failure = await rejectedFailure(make({ apiKey: key, fetch, limits: { body: 20 } }).generate(request, call()));
    expect(failure).toMatchObject({ reason: "malformed_response" });
    expect(failure.message).toContain("20 bytes");
  });

  test("an error of fetch does not show the key", async () => {
    const cause = new Error(`header ${key} is wrong`);
    const fetch = () => Promise.reject(new TypeError(`Bearer ${key} failed`, { cause }));
    const failure = await rejectedFailure(make({ apiKey: key, fetch }).generate(request, call()));
    expect(failure).toMatchObject({ reason: "network_error", retryable: true });
    expect(failure.message).toContain("[key]");
    expect(JSON.stringify(failure)).not.toContain(key);
  });

  test("a request without a response times out, whatever fetch does", async () => {
    const fetch = () => new Promise<Response>(() => undefined);
    for (const timeouts of [{ connect: 20 }, { total: 20 }]) {
      const failure = await rejectedFailure(make({ apiKey: key, fetch, timeouts }).generate(request, call()));
      expect(failure).toMatchObject({ reason: "timeout", provider, retryable: true });
      expect(failure.message).toContain("20 ms");
    }
  });

  test("an abort closes the request and is thrown", async () => {
    const controller = new AbortController();
    const reason = new Error("enough");
    let seen: unknown = null;
    const fetch = (_: string, { signal }: RequestInit) =>
      new Promise<Response>(() => signal?.addEventListener("abort", () => (seen = signal.reason)));
    const work = make({ apiKey: key, fetch }).generate(request, call({ signal: controller.signal }));
    setTimeout(() => controller.abort(reason), 5);
    await expect(work).rejects.toBe(reason);
    expect(seen).toBe(reason);
    const { sent, fetch: never } = server({ body: fine });
    const late = make({ apiKey: key, fetch: never }).generate(request, call({ signal: controller.signal }));
    await expect(late).rejects.toBe(reason);
    expect(sent).toEqual([]);
  });

  test("the key of the call overrides that of the adapter", async () => {
    const { sent, fetch } = server({ body: fine });
    await make({ apiKey: key, fetch }).generate(request, call({ apiKey: "sk-of-the-call" }));
    expect(JSON.stringify(sent[0]?.init.headers)).toContain("sk-of-the-call");
    expect(JSON.stringify(sent[0]?.init.headers)).not.toContain(key);
  });
});

describe("[allm 119] filtered images", () => {
  test("openai: maps an empty list, a filter status, images without data and a missing list", async () => {
    const blocked = { error: { message: "No.", type: "image_generation_user_error", code: "moderation_blocked" } };
    const { fetch } = server(
      { body: { created: 1, data: [] }, headers: { "x-request-id": "req_1" } },
      { status: 400, body: blocked },
      { body: { data: [{}] } },
      { body: {} },
    );
    const adapter = openaiImages({ apiKey: key, fetch });
    const next = () => rejectedFailure(adapter.generate(cat(), call()));
    expect(await next()).toMatchObject({ reason: "content_filter", retryable: false, requestId: "req_1" });
    expect(await next()).toMatchObject({ reason: "content_filter", retryable: false, status: 400 });
    expect(await next()).toMatchObject({ reason: "malformed_response" });
    expect(await next()).toMatchObject({ reason: "malformed_response" });
  });

  test("gemini: maps a blocked prompt, a stopped image and a text-only reply", async () => {
    const { fetch } = server(
      { body: { promptFeedback: { blockReason: "PROHIBITED_CONTENT" } } },
      { body: { candidates: [{ finishReason: "IMAGE_SAFETY", finishMessage: "Unsafe." }] } },
      { body: { candidates: [{ content: { parts: [{ text: "I'd rather not." }] }, finishReason: "STOP" }] } },
      { body: { candidates: [] } },
    );
    const adapter = geminiImages({ apiKey: key, fetch });
    const next = () => rejectedFailure(adapter.generate(banana(), call()));
    const filtered = { reason: "content_filter", retryable: false };
    expect(await next()).toMatchObject({ ...filtered, code: "PROHIBITED_CONTENT" });
    expect(await next()).toMatchObject({ ...filtered, message: "gemini returned no image: Unsafe." });
    expect(await next()).toMatchObject({ ...filtered, metadata: { finishReason: "STOP", text: "I'd rather not." } });
    expect(await next()).toMatchObject(filtered);
  });

  test("gemini: a 400 for an invalid key is authentication_failed", async () => {
    const details = [{ "@type": "type.googleapis.com/google.rpc.ErrorInfo", reason: "API_KEY_INVALID" }];
    const { fetch } = server({ status: 400, body: { error: { code: 400, message: "API key not valid.", details } } });
    const failure = await rejectedFailure(geminiImages({ apiKey: key, fetch }).generate(banana(), call()));
    expect(failure).toMatchObject({ reason: "authentication_failed", status: 400 });
  });
});

describe("[allm 119] generateImage and editImage", () => {
  test("wait for a rate limit and send the request again", async () => {
    const { sent, fetch } = server({ status: 429, headers: { "retry-after-ms": "1" }, body: {} }, { body: drawn });
    const artist = engine({ imageAdapter: openaiImages({ apiKey: key, fetch }), model: "gpt-image-1" });
    const { images } = await generateImage(artist, "a cat");
    expect([images.length, sent.length]).toEqual([1, 2]);
  });

  test("send an edit with a mask", async () => {
    const { sent, fetch } = server({ body: drawn });
    const artist = engine({ imageAdapter: openaiImages({ apiKey: key, fetch }), model: "gpt-image-1" });
    const { requestId } = await editImage(artist, dot, "add a hat", { mask: dot, requestId: "mine" });
    expect(requestId).toBe("mine");
    expect(fieldsOf(sent).slice(3)).toEqual([
      ["image", "image/png", "image-1.png", 70],
      ["mask", "image/png", "mask.png", 70],
    ]);
  });
});

describe("[allm 119] conformance", () => {
  const suite = (make: (typeof both)[number][1], some: (count: number) => unknown) =>
    imageAdapterSuite((scenario) => {
      if (scenario.type === "images") {
        const { sent, fetch } = server({ body: some(scenario.count) });
        return { ...make({ fetch }), calls: sent };
      }
      const { status, requestId, retryAfterMs } = scenario;
      const headers = {
        ...(requestId === null ? {} : { "x-request-id": requestId }),
        ...(retryAfterMs === null ? {} : { "retry-after-ms": String(retryAfterMs) }),
      };
      const { sent, fetch } = server({ status: status ?? 500, headers, body: { error: { message: "no" } } });
      return { ...make({ fetch }), calls: sent };
    }).map(({ name, run }) => [name, run] as const);

  const openaiSome = (count: number) => ({ data: Array.from({ length: count }, () => ({ b64_json: png })) });
  const geminiSome = (count: number) => ({
    candidates: Array.from({ length: count }, () => painted.candidates[0]),
  });
  test.each(suite(openaiImages, openaiSome))("openaiImages: %s", (_, run) => run());
  test.each(suite(geminiImages, geminiSome))("geminiImages: %s", (_, run) => run());

  test("errors are errors of Everturn", async () => {
    const { fetch } = server({ status: 401, body: {} });
    const thrown: unknown = await openaiImages({ apiKey: key, fetch })
      .generate(cat(), call())
      .catch((error: unknown) => error);
    expect(isEverturnError(thrown)).toBe(true);
  });
});
