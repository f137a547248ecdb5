// The adapter of Gemini's image models: `generateContent` with the response modalities TEXT and IMAGE.

import type { ImageAdapter } from "../engine/internal.ts";
import type {
  ImageContent,
  ImageOperation,
  ImageRequest,
  ImageResponse,
  ImageSize,
  JsonObject,
} from "../model/internal.ts";
import type { ProviderOptions } from "./http-adapter.ts";
import type { ImageAnswer, ImageCall } from "./image-http.ts";

import { image, ImageAdapterError, imageResponse, imageUsage } from "../model/internal.ts";
import {
  countAt,
  flagAt,
  geminiGenerateContentLoader,
  mergeFields,
  objectAt,
  objectsAt,
  omitNullish,
  textAt,
} from "../wire/internal.ts";
import { checkProviderOptions } from "./adapter-rules.ts";
import { geminiServer } from "./base-url.ts";
import {
  checkOperation,
  imageAdapter,
  mimeTypeOf,
  modelOf,
  refuseUrls,
  requestError,
  requiredMimeType,
  unreadableImage,
} from "./image-http.ts";
import { jsonServer } from "./json-request.ts";

const { provider } = geminiServer;
const operations: readonly ImageOperation[] = ["generate", "edit"];

/**
 * Images of Google, by the Gemini API. The default API key is the environment variable `GEMINI_API_KEY` or
 * `GOOGLE_API_KEY`. `options` of a request are merged into the body last: `{ generationConfig: { imageConfig: {
 * imageSize: "2K" } } }`.
 */
export function geminiImages(options: ProviderOptions = {}): ImageAdapter {
  checkProviderOptions("geminiImages", options, {});
  return imageAdapter(jsonServer(geminiServer, geminiGenerateContentLoader, options), operations, encode, decode);
}

/** Encodes a request. Throws `ImageAdapterError` for what the models do not support. */
function encode(request: ImageRequest): ImageCall {
  const model = modelOf(request, provider);
  checkOperation(provider, model, request, operations);
  const { prompt, n, size, inputImages, mask, options } = request;
  refuseUrls(request, provider, model);
  if (mask !== null)
    throw requestError("unsupported_feature", provider, `${model} takes no mask; describe the edit in the prompt`);
  const ratio = aspectRatio(size);
  const value = {
    contents: [{ role: "user", parts: [...inputImages.map(partOf), { text: prompt ?? "" }] }],
    generationConfig: omitNullish({
      responseModalities: ["TEXT", "IMAGE"],
      imageConfig: ratio === null ? null : { aspectRatio: ratio },
      // Models that return one image a call refuse the field with an error of their own.
      candidateCount: n > 1 ? n : null,
    }),
  };
  return {
    model,
    path: `/${modelPath(model)}:generateContent`,
    body: { type: "json", value: mergeFields(value, options) },
  };
}

/** The path of the model: `models/<name>`, or the name itself if it contains a collection (`tunedModels/...`). */
function modelPath(model: string): string {
  const name = model.includes("/") ? model : `models/${model}`;
  return name.split("/").map(encodeURIComponent).join("/");
}

/** An input image as a part: inline data or a file URI. */
function partOf(image: ImageContent): JsonObject {
  const { source, mimeType } = image;
  switch (source.type) {
    case "base64":
      return { inlineData: { mimeType: requiredMimeType(image, provider), data: source.data } };
    case "url": {
      const [, type, data] = /^data:([^;,]+);base64,(.*)$/s.exec(source.url) ?? [];
      if (type !== undefined && data !== undefined) return { inlineData: { mimeType: mimeType ?? type, data } };
      // The API fetches the URL.
      return { fileData: omitNullish({ mimeType, fileUri: source.url }) };
    }
    case "provider_file":
      if (source.provider === provider) return { fileData: omitNullish({ mimeType, fileUri: source.id }) };
      throw unreadableImage(source, provider);
    case "file":
      throw unreadableImage(source, provider);
  }
}

/** Aspect ratios that the API accepts. */
const ratios = [
  ["1:1", 1],
  ["16:9", 16 / 9],
  ["9:16", 9 / 16],
  ["4:3", 4 / 3],
  ["3:4", 3 / 4],
] as const;

/**
 * The accepted aspect ratio within 5 % of the size. Throws `invalid_request` if there is none. `null`: the size is not
 * set.
 */
function aspectRatio(size: ImageSize | string | null): string | null {
  if (size === null || size === "auto") return null;
  const requestedRatio = typeof size === "string" ? ratioOf(size) : size.width / size.height;
  const match = ratios.find(([, ratio]) => requestedRatio !== null && Math.abs(requestedRatio / ratio - 1) <= 0.05);
  if (match !== undefined) return match[0];
  const sizeText = typeof size === "string" ? `"${size}"` : `${size.width}x${size.height}`;
  const names = ratios.map(([name]) => name).join(", ");
  throw requestError("invalid_request", provider, `the size ${sizeText} matches none of the aspect ratios ${names}`);
}

/** Parses `1024x768` or `4:3`. */
function ratioOf(text: string): number | null {
  const [, width, height] = /^(\d{1,6})[x:](\d{1,6})$/.exec(text) ?? [];
  const ratio = Number(width) / Number(height);
  return Number.isFinite(ratio) && ratio > 0 ? ratio : null;
}

/** Decodes the response: images from `inlineData` parts, and the text as metadata. */
function decode({ body, raw, requestId }: ImageAnswer, request: ImageRequest, model: string): ImageResponse {
  const { prompt, n, size, quality } = request;
  const candidates = objectsAt(body, "candidates");
  // Images of thought parts are drafts and no results.
  const parts = candidates
    .flatMap((candidate) => objectsAt(objectAt(candidate, "content"), "parts"))
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
  if (images.length === 0) throw withheldError(candidates, feedback, text, raw, requestId);
  const reportedUsage = objectAt(body, "usageMetadata");
  return imageResponse({
    id: textAt(body, "responseId"),
    model: textAt(body, "modelVersion") ?? model,
    // A model may return more images than requested. Usage counts all of them.
    images: images.slice(0, n),
    usage: imageUsage({
      images: images.length,
      size,
      quality,
      inputTokens: sum(countAt(reportedUsage, "promptTokenCount"), countAt(reportedUsage, "toolUsePromptTokenCount")),
      outputTokens: sum(countAt(reportedUsage, "candidatesTokenCount"), countAt(reportedUsage, "thoughtsTokenCount")),
    }),
    raw,
    metadata: omitNullish({
      providerRequestId: requestId,
      text: text === "" ? null : text,
      usageDetails: reportedUsage,
    }),
  });
}

/** The error for a response without images, with the API's reason. */
function withheldError(
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
    message: `${provider} returned no image: ${why}`,
    requestId,
    code: blockReason ?? finishReason,
    raw: JSON.stringify(raw),
    metadata: omitNullish({ blockReason, finishReason, text: text === "" ? null : text }),
  });
}

/** Adds two counts. A missing one counts as absent. */
function sum(left: number | null, right: number | null): number | null {
  return left === null || right === null ? (left ?? right) : left + right;
}
