// The adapter of OpenAI's images API (`/images/generations`, `/images/edits`), and of servers that implement it. The
// operation `variation` is not supported: only DALL·E 2 had it, and the model was removed.

import type { ImageAdapter } from "../engine/internal.ts";
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
import type { ImageAnswer, ImageCall } from "./image-http.ts";
import type { JsonCallBody } from "./json-request.ts";

import { aString } from "../engine/internal.ts";
import { image, ImageAdapterError, imageResponse, imageToBinary, imageUsage } from "../model/internal.ts";
import {
  countAt,
  numberAt,
  objectAt,
  objectsAt,
  omitNullish,
  openaiResponsesLoader,
  textAt,
} from "../wire/internal.ts";
import { checkProviderOptions } from "./adapter-rules.ts";
import { openaiServer, organizationHeaders } from "./base-url.ts";
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

/** Options of {@link openaiImages}. */
export type OpenAIImagesOptions = ProviderOptions & {
  /** Sent as the header `openai-organization`. */
  readonly organization?: string;
  /** Sent as the header `openai-project`. */
  readonly project?: string;
};

const { provider } = openaiServer;
const operations: readonly ImageOperation[] = ["generate", "edit"];

/**
 * Images of OpenAI. The default API key is the environment variable `OPENAI_API_KEY`. `options` of a request are
 * merged into the body last.
 */
export function openaiImages(options: OpenAIImagesOptions = {}): ImageAdapter {
  checkProviderOptions("openaiImages", options, { organization: aString, project: aString });
  const { organization: _organization, project: _project, ...providerOptions } = options;
  const headers = { ...organizationHeaders(options), ...providerOptions.headers };
  const server = jsonServer(openaiServer, openaiResponsesLoader, { ...providerOptions, headers });
  return imageAdapter(server, operations, encode, decode);
}

/** What the name of a model determines. Unknown names belong to other servers and get the common fields. */
type Family = {
  readonly operations: readonly ImageOperation[];
  /** A GPT image model: it returns only base64, takes `background`, and accepts input images by reference. */
  readonly isGpt: boolean;
};

/** The family of a model name, with or without a prefix such as `openai/`. */
function familyOf(model: string): Family {
  const isGpt = /(?:^|\/)(?:chat)?gpt-image/.test(model);
  return { operations: /(?:^|\/)dall-e-3/.test(model) ? ["generate"] : operations, isGpt };
}

/** Encodes a request. Throws `ImageAdapterError` for what the model does not support. */
function encode(request: ImageRequest): ImageCall {
  const model = modelOf(request, provider);
  const family = familyOf(model);
  checkOperation(provider, model, request, family.operations);
  if (family.isGpt) refuseUrls(request, provider, model);
  const fields = sharedFields(request, model, family);
  return request.operation === "generate"
    ? { model, path: "/images/generations", body: { type: "json", value: fields } }
    : { model, path: "/images/edits", body: editBody(request, model, fields, family) };
}

/** The fields that generation and edit share. `options` are merged last. */
function sharedFields(request: ImageRequest, model: string, { isGpt }: Family): JsonObject {
  const { prompt, n, size, quality, background, style, responseFormat, options } = request;
  const familyFields = isGpt
    ? { quality: quality === null ? null : (gptQualities.get(quality) ?? quality), background }
    : { quality, style, response_format: responseFormat === "url" ? "url" : "b64_json" };
  // `stream` and `partial_images` are removed: this adapter reads one complete response.
  const { stream: _, partial_images: __, ...optionFields } = options;
  return omitNullish({ model, prompt, n, size: sizeText(size), ...familyFields, ...optionFields });
}

/** Quality values of the library and their names in the GPT image models. */
const gptQualities: ReadonlyMap<string, string> = new Map([
  ["standard", "medium"],
  ["hd", "high"],
]);

function sizeText(size: ImageSize | string | null): string | null {
  return size === null || typeof size === "string" ? size : `${size.width}x${size.height}`;
}

/**
 * The body of an edit: a form if all images are base64; JSON with references if one is a URL or an uploaded file, which
 * the API fetches.
 */
function editBody(request: ImageRequest, model: string, fields: JsonObject, { isGpt }: Family): JsonCallBody {
  const { inputImages, mask } = request;
  const sources = mask === null ? inputImages : [...inputImages, mask];
  const hasReference = sources.some(({ source }) => source.type !== "base64");
  if (!hasReference) return { type: "form", form: formOf(request, fields) };
  const images = inputImages.map(referenceTo);
  const maskField = mask === null ? {} : { mask: referenceTo(mask) };
  if (!isGpt) {
    throw requestError(
      "unsupported_feature",
      provider,
      `${model} accepts image data only; send base64 instead of a URL or an uploaded file`,
    );
  }
  return { type: "json", value: { ...fields, images, ...maskField } };
}

/** An input image as a reference in JSON: a URL, a `data:` URL or a file id. */
function referenceTo(image: ImageContent): JsonObject {
  const { source } = image;
  switch (source.type) {
    case "base64":
      return { image_url: `data:${requiredMimeType(image, provider)};base64,${source.data}` };
    case "url":
      return { image_url: source.url };
    case "provider_file":
      if (source.provider === provider) return { file_id: source.id };
      throw unreadableImage(source, provider);
    case "file":
      throw unreadableImage(source, provider);
  }
}

/** The form of an edit. Several images use the field name `image[]`. */
function formOf({ inputImages, mask }: ImageRequest, fields: JsonObject): FormData {
  const form = new FormData();
  for (const [name, value] of Object.entries(fields)) form.append(name, fieldText(value));
  const name = inputImages.length === 1 ? "image" : "image[]";
  for (const [index, image] of inputImages.entries()) addImage(form, name, `image-${index + 1}`, image);
  if (mask !== null) addImage(form, "mask", "mask", mask);
  return form;
}

function fieldText(value: Json): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}

function addImage(form: FormData, name: string, title: string, image: ImageContent): void {
  const type = requiredMimeType(image, provider);
  const bytes = imageToBinary(image);
  if (!bytes.ok) throw requestError("invalid_request", provider, `the data of ${title} is not valid base64`);
  form.append(name, new Blob([new Uint8Array(bytes.value)], { type }), `${title}.${type.split("/")[1] ?? "png"}`);
}

/** Decodes the response. An empty list means that the images were filtered. */
function decode({ body, raw, requestId }: ImageAnswer, request: ImageRequest, model: string): ImageResponse {
  const { prompt, size, quality, options } = request;
  if (!Array.isArray(body["data"])) throw malformed("a response without a list of images", raw, requestId);
  if (body["data"].length === 0) {
    const message = `${provider} returned no image: the list is empty, as for filtered content`;
    throw new ImageAdapterError("content_filter", { provider, message, requestId, raw: JSON.stringify(raw) });
  }
  const resultSize = textAt(body, "size") ?? sizeText(size);
  const format = textAt(body, "output_format") ?? textAt(options, "output_format");
  const images = objectsAt(body, "data").flatMap((entry): readonly ImageContent[] => {
    const source = imageSource(entry);
    if (source === null) return [];
    const detectedType = mimeTypeOf({ source, mimeType: format === null ? null : `image/${format}` });
    const mimeType = source.type === "base64" ? (detectedType ?? "image/png") : null;
    return [image({ source, mimeType, ...pixels(resultSize), prompt, revisedPrompt: textAt(entry, "revised_prompt") })];
  });
  if (images.length === 0) throw malformed("images without data", raw, requestId);
  const reportedUsage = objectAt(body, "usage");
  return imageResponse({
    model,
    images,
    usage: imageUsage({
      images: images.length,
      size: resultSize,
      quality: textAt(body, "quality") ?? quality,
      inputTokens: countAt(reportedUsage, "input_tokens"),
      outputTokens: countAt(reportedUsage, "output_tokens"),
    }),
    raw,
    metadata: omitNullish({
      providerRequestId: requestId,
      created: numberAt(body, "created"),
      usageDetails: reportedUsage,
    }),
  });
}

function imageSource(entry: JsonObject): ImageContent["source"] | null {
  const data = textAt(entry, "b64_json");
  if (data !== null) return { type: "base64", data };
  const url = textAt(entry, "url");
  return url === null ? null : { type: "url", url };
}

/** Width and height of a size such as `1024x1024`; `null` for other sizes. */
function pixels(size: string | null): Pick<ImageContent, "width" | "height"> {
  const [, width, height] = /^(\d{1,6})x(\d{1,6})$/.exec(size ?? "") ?? [];
  return width === undefined || height === undefined
    ? { width: null, height: null }
    : { width: Number(width), height: Number(height) };
}

function malformed(what: string, raw: JsonObject, requestId: string | null): ImageAdapterError {
  const message = `${provider} sent ${what}`;
  return new ImageAdapterError("malformed_response", { provider, message, requestId, raw: JSON.stringify(raw) });
}
