// Images of Gemini models: `generateContent`, asked to answer in images too.

import type { AdapterCall, ImageAdapter } from "../engine/internal.ts";
import type {
  ImageContent,
  ImageOperation,
  ImageRequest,
  ImageResponse,
  ImageSize,
  Json,
  JsonObject,
} from "../model/internal.ts";
import type { ProviderOptions } from "./http-adapter.ts";
import type { ImageAnswer, ImageCall, ImageServer } from "./image-http.ts";

import { image, ImageAdapterError, imageResponse, imageUsage } from "../model/internal.ts";
import {
  asObject,
  countAt,
  flagAt,
  objectAt,
  objectsAt,
  omitNullish,
  textAt,
  geminiGenerateContent,
} from "../wire/internal.ts";
import { checkedBase } from "./base-url.ts";
import { askForImages, checkOperation, mimeTypeOf, modelOf, refusal } from "./image-http.ts";

const provider = "gemini";
const operations: readonly ImageOperation[] = ["generate", "edit"];

/**
 * Images of Google, by the Gemini API. The default API key is the environment variable `GEMINI_API_KEY` or
 * `GOOGLE_API_KEY`. `options` of a request are merged into the body last: `{ generationConfig: { imageConfig: {
 * imageSize: "2K" } } }`.
 */
export function geminiImages(options: ProviderOptions = {}): ImageAdapter {
  const server: ImageServer = {
    provider,
    baseURL: checkedBase(provider, options.baseURL ?? "https://generativelanguage.googleapis.com/v1beta"),
    auth: "x-goog-api-key",
    variables: ["GEMINI_API_KEY", "GOOGLE_API_KEY"],
    options,
    decodeError: geminiGenerateContent.decodeError,
  };
  return { provider, operations, generate: (request, call) => generate(server, request, call) };
}

async function generate(server: ImageServer, request: ImageRequest, call: AdapterCall): Promise<ImageResponse> {
  const encoded = encode(request);
  return decode(await askForImages(server, encoded, call), request, encoded.model);
}

function encode(request: ImageRequest): ImageCall {
  const model = modelOf(request, provider);
  checkOperation(provider, model, request, operations);
  const { prompt, n, size, inputImages, mask, responseFormat, options } = request;
  if (responseFormat === "url") throw refusal("unsupported_feature", provider, `${model} gives bytes, no links`);
  if (mask !== null)
    throw refusal("unsupported_feature", provider, `${model} takes no mask: say in words what to edit`);
  const ratio = aspectRatio(size);
  const value = {
    contents: [{ role: "user", parts: [...inputImages.map(partOf), { text: prompt ?? "" }] }],
    generationConfig: omitNullish({
      responseModalities: ["TEXT", "IMAGE"],
      imageConfig: ratio === null ? null : { aspectRatio: ratio },
      // A model that gives one image a call says so itself.
      candidateCount: n > 1 ? n : null,
    }),
  };
  return { model, path: `/${modelPath(model)}:generateContent`, body: { type: "json", value: joined(value, options) } };
}

/** Models are named without their collection, or with one. */
function modelPath(model: string): string {
  const name = model.includes("/") ? model : `models/${model}`;
  return name.split("/").map(encodeURIComponent).join("/");
}

/** Options win; objects that are on both sides are joined key by key. */
function joined(ours: JsonObject, theirs: JsonObject): JsonObject {
  const entries = Object.entries(theirs).map(([key, value]): [string, Json] => {
    const [left, right] = [objectAt(ours, key), asObject(value)];
    return [key, left === null || right === null ? value : joined(left, right)];
  });
  return { ...ours, ...Object.fromEntries(entries) };
}

function partOf(image: ImageContent): JsonObject {
  const { source, mimeType } = image;
  switch (source.type) {
    case "base64": {
      const type = mimeTypeOf(image);
      if (type !== null) return { inlineData: { mimeType: type, data: source.data } };
      throw refusal("invalid_request", provider, "an image has no MIME type, and its data does not say one");
    }
    case "url": {
      const [, type, data] = /^data:([^;,]+);base64,(.*)$/s.exec(source.url) ?? [];
      if (type !== undefined && data !== undefined) return { inlineData: { mimeType: mimeType ?? type, data } };
      // Fetched by the API.
      return { fileData: omitNullish({ mimeType, fileUri: source.url }) };
    }
    case "provider_file":
      if (source.provider === provider) return { fileData: omitNullish({ mimeType, fileUri: source.id }) };
      throw refusal("unsupported_feature", provider, `the image was uploaded to ${source.provider}`);
    case "file":
      throw refusal("unsupported_feature", provider, "the image is a file on disk: read it first");
  }
}

const ratios = [
  ["1:1", 1],
  ["16:9", 16 / 9],
  ["9:16", 9 / 16],
  ["4:3", 4 / 3],
  ["3:4", 3 / 4],
] as const;

/** The shape of a size, where the models have one that is as good as it: within 5 %. */
function aspectRatio(size: ImageSize | string | null): string | null {
  if (size === null || size === "auto") return null;
  const asked = typeof size === "string" ? ratioOf(size) : size.width / size.height;
  const found = ratios.find(([, ratio]) => asked !== null && Math.abs(asked / ratio - 1) <= 0.05);
  if (found !== undefined) return found[0];
  const words = typeof size === "string" ? `"${size}"` : `${size.width}x${size.height}`;
  const names = ratios.map(([name]) => name).join(", ");
  throw refusal("invalid_request", provider, `the size ${words} has none of the shapes ${names}`);
}

/** `1024x768`, or `4:3`. */
function ratioOf(text: string): number | null {
  const [, width, height] = /^(\d{1,6})[x:](\d{1,6})$/.exec(text) ?? [];
  const ratio = Number(width) / Number(height);
  return Number.isFinite(ratio) && ratio > 0 ? ratio : null;
}

function decode({ body, raw, requestId }: ImageAnswer, request: ImageRequest, model: string): ImageResponse {
  const { prompt, n, size, quality } = request;
  const candidates = objectsAt(body, "candidates");
  // What a model draws while it thinks is no answer.
  const parts = candidates
    .flatMap((one) => objectsAt(objectAt(one, "content"), "parts"))
    .filter((part) => flagAt(part, "thought") !== true);
  const images = parts.flatMap((part): readonly ImageContent[] => {
    const inline = objectAt(part, "inlineData");
    const data = textAt(inline, "data");
    if (data === null) return [];
    const source = { type: "base64", data } as const;
    const mimeType = mimeTypeOf({ source, mimeType: textAt(inline, "mimeType") });
    return [image({ source, mimeType, prompt })];
  });
  const text = parts.map((part) => textAt(part, "text") ?? "").join("");
  const feedback = objectAt(body, "promptFeedback");
  if (images.length === 0) throw withheld(candidates, feedback, text, raw, requestId);
  const spent = objectAt(body, "usageMetadata");
  return imageResponse({
    id: textAt(body, "responseId"),
    model: textAt(body, "modelVersion") ?? model,
    // A model may draw more than it was asked for.
    images: images.slice(0, n),
    usage: imageUsage({
      images: images.length,
      size,
      quality,
      inputTokens: sum(countAt(spent, "promptTokenCount"), countAt(spent, "toolUsePromptTokenCount")),
      outputTokens: sum(countAt(spent, "candidatesTokenCount"), countAt(spent, "thoughtsTokenCount")),
    }),
    raw,
    metadata: omitNullish({ providerRequestId: requestId, text: text === "" ? null : text, usageDetails: spent }),
  });
}

/** Why there is no image, in the words of the API. */
function withheld(
  candidates: readonly JsonObject[],
  feedback: JsonObject | null,
  text: string,
  raw: JsonObject,
  requestId: string | null,
): ImageAdapterError {
  const [candidate = null] = candidates;
  const blockReason = textAt(feedback, "blockReason");
  const finishReason = textAt(candidate, "finishReason");
  const why = textAt(candidate, "finishMessage") ?? blockReason ?? finishReason ?? "the provider gave no reason";
  return new ImageAdapterError("content_filter", {
    provider,
    message: `${provider} gave no image: ${why}`,
    requestId,
    code: blockReason ?? finishReason,
    raw: JSON.stringify(raw),
    metadata: omitNullish({ blockReason, finishReason, text: text === "" ? null : text }),
  });
}

function sum(left: number | null, right: number | null): number | null {
  return left === null || right === null ? (left ?? right) : left + right;
}
