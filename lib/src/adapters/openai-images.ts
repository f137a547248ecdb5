// The images API of OpenAI, and of servers that speak it. Variations are not offered: DALL·E 2 alone made them, and it is gone.

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
import type { ImageAnswer, ImageBody, ImageCall, ImageServer } from "./image-http.ts";

import { image, ImageAdapterError, imageResponse, imageToBinary, imageUsage } from "../model/internal.ts";
import { countAt, numberAt, objectAt, objectsAt, omitNullish, textAt, openaiResponses } from "../wire/internal.ts";
import { checkedBase } from "./base-url.ts";
import { askForImages, checkOperation, mimeTypeOf, modelOf, refusal } from "./image-http.ts";

export type OpenAIImagesOptions = ProviderOptions & {
  readonly organization?: string;
  readonly project?: string;
};

const provider = "openai";
const operations: readonly ImageOperation[] = ["generate", "edit"];

/**
 * Images of OpenAI. The default API key is the environment variable `OPENAI_API_KEY`. `options` of a request are
 * merged into the body last.
 */
export function openaiImages({ organization, project, ...options }: OpenAIImagesOptions = {}): ImageAdapter {
  const headers = {
    ...(organization === undefined ? {} : { "openai-organization": organization }),
    ...(project === undefined ? {} : { "openai-project": project }),
    ...options.headers,
  };
  const server: ImageServer = {
    provider,
    baseURL: checkedBase(provider, options.baseURL ?? "https://api.openai.com/v1"),
    auth: "bearer",
    variables: ["OPENAI_API_KEY"],
    options: { ...options, headers },
    decodeError: openaiResponses.decodeError,
  };
  return { provider, operations, generate: (request, call) => generate(server, request, call) };
}

async function generate(server: ImageServer, request: ImageRequest, call: AdapterCall): Promise<ImageResponse> {
  const encoded = encode(request);
  return decode(await askForImages(server, encoded, call), request, encoded.model);
}

/** What is known about a model by its name. Names nobody knows are those of other servers. */
type Family = {
  readonly operations: readonly ImageOperation[];
  /** Of the GPT image models: they give bytes alone, have a background, and take images by reference. */
  readonly isGpt: boolean;
};

function familyOf(model: string): Family {
  const isGpt = /(?:^|\/)(?:chat)?gpt-image/.test(model);
  return { operations: /(?:^|\/)dall-e-3/.test(model) ? ["generate"] : operations, isGpt };
}

function encode(request: ImageRequest): ImageCall {
  const model = modelOf(request, provider);
  const family = familyOf(model);
  checkOperation(provider, model, request, family.operations);
  if (family.isGpt && request.responseFormat === "url") {
    throw refusal("unsupported_feature", provider, `${model} gives bytes, no links`);
  }
  const fields = fieldsOf(request, model, family);
  return request.operation === "generate"
    ? { model, path: "/images/generations", body: { type: "json", value: fields } }
    : { model, path: "/images/edits", body: editBody(request, model, fields, family) };
}

function fieldsOf(request: ImageRequest, model: string, { isGpt }: Family): JsonObject {
  const { prompt, n, size, quality, background, style, responseFormat, options } = request;
  const own = isGpt
    ? { quality: quality === null ? null : (gptQualities.get(quality) ?? quality), background }
    : { quality, style, response_format: responseFormat === "url" ? "url" : "b64_json" };
  // One whole answer is read here, whatever is asked for.
  const { stream: _, partial_images: __, ...theirs } = options;
  return omitNullish({ model, prompt, n, size: sizeText(size), ...own, ...theirs });
}

/** Words of the library that these models have others for. */
const gptQualities: ReadonlyMap<string, string> = new Map([
  ["standard", "medium"],
  ["hd", "high"],
]);

function sizeText(size: ImageSize | string | null): string | null {
  return size === null || typeof size === "string" ? size : `${size.width}x${size.height}`;
}

/** A form with the bytes; JSON when an image is somewhere else, which the API fetches itself. */
function editBody(request: ImageRequest, model: string, fields: JsonObject, { isGpt }: Family): ImageBody {
  const { inputImages, mask } = request;
  const all = mask === null ? inputImages : [...inputImages, mask];
  const isElsewhere = all.some(({ source }) => source.type !== "base64");
  if (!isElsewhere) return { type: "form", form: formOf(request, fields) };
  const images = inputImages.map(referenceTo);
  const masked = mask === null ? {} : { mask: referenceTo(mask) };
  if (!isGpt) {
    throw refusal(
      "unsupported_feature",
      provider,
      `${model} takes the bytes of an image, no link and no uploaded file`,
    );
  }
  return { type: "json", value: { ...fields, images, ...masked } };
}

function referenceTo(image: ImageContent): JsonObject {
  const { source } = image;
  switch (source.type) {
    case "base64":
      return { image_url: `data:${neededType(image)};base64,${source.data}` };
    case "url":
      return { image_url: source.url };
    case "provider_file":
      if (source.provider === provider) return { file_id: source.id };
      throw refusal("unsupported_feature", provider, `the image was uploaded to ${source.provider}`);
    case "file":
      throw refusal("unsupported_feature", provider, "the image is a file on disk: read it first");
  }
}

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
  const type = neededType(image);
  const bytes = imageToBinary(image);
  if (!bytes.ok) throw refusal("invalid_request", provider, `the data of ${title} is not base64`);
  form.append(name, new Blob([new Uint8Array(bytes.value)], { type }), `${title}.${type.split("/")[1] ?? "png"}`);
}

function neededType(image: ImageContent): string {
  const type = mimeTypeOf(image);
  if (type === null)
    throw refusal("invalid_request", provider, "an image has no MIME type, and its data does not say one");
  return type;
}

function decode({ body, raw, requestId }: ImageAnswer, request: ImageRequest, model: string): ImageResponse {
  const { prompt, size, quality, options } = request;
  if (!Array.isArray(body["data"])) throw malformed("a reply without images", raw, requestId);
  if (body["data"].length === 0) {
    const message = `${provider} gave no image: it was held back`;
    throw new ImageAdapterError("content_filter", { provider, message, requestId, raw: JSON.stringify(raw) });
  }
  const madeSize = textAt(body, "size") ?? sizeText(size);
  const format = textAt(body, "output_format") ?? textAt(options, "output_format");
  const images = objectsAt(body, "data").flatMap((one): readonly ImageContent[] => {
    const source = sourceOf(one);
    if (source === null) return [];
    const found = mimeTypeOf({ source, mimeType: format === null ? null : `image/${format}` });
    const mimeType = source.type === "base64" ? (found ?? "image/png") : null;
    return [image({ source, mimeType, ...pixels(madeSize), prompt, revisedPrompt: textAt(one, "revised_prompt") })];
  });
  if (images.length === 0) throw malformed("images without data", raw, requestId);
  const spent = objectAt(body, "usage");
  return imageResponse({
    model,
    images,
    usage: imageUsage({
      images: images.length,
      size: madeSize,
      quality: textAt(body, "quality") ?? quality,
      inputTokens: countAt(spent, "input_tokens"),
      outputTokens: countAt(spent, "output_tokens"),
    }),
    raw,
    metadata: omitNullish({ providerRequestId: requestId, created: numberAt(body, "created"), usageDetails: spent }),
  });
}

function sourceOf(one: JsonObject): ImageContent["source"] | null {
  const data = textAt(one, "b64_json");
  if (data !== null) return { type: "base64", data };
  const url = textAt(one, "url");
  return url === null ? null : { type: "url", url };
}

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
