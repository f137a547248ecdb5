// Image calls: generate, edit, variations. All checks come before the first request, and retries happen here: an
// adapter makes one attempt.

import type { AdapterCall, AdapterOptions, Engine, ImageAdapter, RetrySetting, Rules } from "../engine/internal.ts";
import type {
  CallerContext,
  EverturnError,
  ImageContent,
  ImageRequest,
  ImageResponse,
  Issue,
  ModelName,
} from "../model/internal.ts";

import {
  anything,
  checkOptions,
  mergeAdapterOptions,
  namesOf,
  retryPolicy,
  startSpan,
  withRetries,
} from "../engine/internal.ts";
import {
  EngineError,
  ImageAdapterError,
  imageRequest,
  isEverturnError,
  orThrow,
  validateImageRequest,
  ValidationError,
} from "../model/internal.ts";
import { modelId } from "./perform/routes.ts";
import { newRequestId } from "./request-id.ts";

/** Options of an image call. They override the fields of a given request; `options` are merged. */
export type ImageOptions = Partial<Omit<ImageRequest, "operation" | "prompt" | "inputImages" | "model">> & {
  /** Default: the model of the request, then that of the engine. */
  readonly model?: ModelName;
  /** Default: a random id. */
  readonly requestId?: string;
  /** Default: the retry policy of the engine. */
  readonly retry?: RetrySetting;
  /** The key for this call only. It is never stored or logged. */
  readonly apiKey?: string;
  /** Settings of the adapter: headers. Merged over those of the engine. */
  readonly adapterOptions?: AdapterOptions;
  readonly signal?: AbortSignal;
};

const callRules: Rules<Omit<ImageOptions, keyof ImageRequest>> = {
  requestId: anything,
  retry: anything,
  apiKey: anything,
  adapterOptions: anything,
  signal: anything,
};

/**
 * Generates images from a prompt, or runs an image request. Throws `ImageAdapterError` if the call fails,
 * `EngineError` without an image adapter.
 */
export async function generateImage<Context extends CallerContext>(
  engine: Engine<Context>,
  input: string | ImageRequest,
  options: ImageOptions = {},
): Promise<ImageResponse> {
  const fields = typeof input === "string" ? { prompt: input } : input;
  return callImages("generateImage", engine, { ...emptyRequest, ...fields }, options);
}

/**
 * Edits one or more images as the prompt describes. The option `mask` marks the region that may change. Throws
 * `ImageAdapterError` if the call fails.
 */
export async function editImage<Context extends CallerContext>(
  engine: Engine<Context>,
  images: ImageContent | readonly ImageContent[],
  prompt: string,
  options: ImageOptions = {},
): Promise<ImageResponse> {
  const inputImages = isList(images) ? images : [images];
  return callImages("editImage", engine, { ...emptyRequest, operation: "edit", prompt, inputImages }, options);
}

/** Generates variations of an image. Throws `ImageAdapterError` if the call fails. */
export async function imageVariations<Context extends CallerContext>(
  engine: Engine<Context>,
  image: ImageContent,
  options: ImageOptions = {},
): Promise<ImageResponse> {
  return callImages(
    "imageVariations",
    engine,
    { ...emptyRequest, operation: "variation", inputImages: [image] },
    options,
  );
}

const emptyRequest: ImageRequest = imageRequest(null);
const { operation: _operation, prompt: _prompt, inputImages: _inputImages, ...requestOptions } = emptyRequest;
const optionRules = { ...namesOf(requestOptions), ...callRules };

/** The part of an engine that image calls use. */
type ImageEngine = Pick<Engine, "imageAdapter" | "model" | "adapterOptions" | "retry" | "clock">;

async function callImages(
  verb: string,
  engine: ImageEngine,
  baseRequest: ImageRequest,
  options: ImageOptions,
): Promise<ImageResponse> {
  checkOptions(verb, options, optionRules);
  const retry = retryPolicy(options.retry ?? engine.retry);
  const request = withOptions(baseRequest, options, engine.model);
  const { operation, n } = request;
  const requestId = options.requestId ?? newRequestId();
  const call: Omit<AdapterCall, "attempt"> = {
    signal: options.signal ?? new AbortController().signal,
    requestId,
    options: mergeAdapterOptions(engine.adapterOptions, options.adapterOptions),
    apiKey: options.apiKey ?? null,
    rawChunks: false,
    clock: engine.clock,
  };
  const metadata = { operation, n, provider: engine.imageAdapter?.provider ?? null, model: modelId(request.model) };
  const span = startSpan("image", requestId, metadata, null, engine.clock.now);
  try {
    const adapter = checkedAdapter(engine.imageAdapter, request);
    adapter.checkOptions?.(call.options);
    const response = await span.within(() =>
      withRetries(retry, adapter.provider, call, (attempt) => attemptImages(adapter, request, { ...call, attempt })),
    );
    span.stop({ imageCount: response.images.length });
    return { ...response, requestId: response.requestId ?? requestId };
  } catch (error) {
    span.fail(error);
    throw error;
  }
}

function withOptions(request: ImageRequest, options: ImageOptions, model: ModelName | null): ImageRequest {
  return {
    ...request,
    model: options.model ?? request.model ?? model,
    n: options.n ?? request.n,
    size: options.size ?? request.size,
    quality: options.quality ?? request.quality,
    style: options.style ?? request.style,
    background: options.background ?? request.background,
    responseFormat: options.responseFormat ?? request.responseFormat,
    mask: options.mask ?? request.mask,
    options: { ...request.options, ...options.options },
    metadata: options.metadata ?? request.metadata,
  };
}

/**
 * Checks, in this order: an adapter, the capabilities of the model, the operations of the adapter, the request. Returns
 * the adapter.
 */
function checkedAdapter(adapter: ImageAdapter | null, request: ImageRequest): ImageAdapter {
  if (adapter === null) {
    throw new EngineError("no_image_adapter", {
      message: "the engine has no image adapter; pass one: engine({ imageAdapter: … })",
    });
  }
  const issues = capabilityIssues(request);
  if (issues.length > 0) throw new ValidationError("unsupported_capability", { issues });
  const { provider, operations } = adapter;
  const { operation } = request;
  if (!operations.includes(operation)) {
    const message = `${provider} does not support the operation ${operation}; it supports ${operations.join(", ")}`;
    throw new ImageAdapterError("unsupported_operation", { provider, message, metadata: { operation } });
  }
  orThrow(validateImageRequest(request));
  return adapter;
}

/** Issues for operations that the model is known not to support. Unknown capabilities are allowed. */
function capabilityIssues({ model, operation }: ImageRequest): readonly Issue[] {
  if (model === null || typeof model === "string" || model.capabilities === null) return [];
  const { imagesEnabled, supportedImageOperations } = model.capabilities;
  const name = model.id ?? "the model";
  const issues: Issue[] = [];
  if (imagesEnabled === false) {
    const path = ["model", "capabilities", "imagesEnabled"];
    issues.push({ path, code: "images_disabled", message: `${name} does not generate images` });
  }
  if (supportedImageOperations !== null && !supportedImageOperations.includes(operation)) {
    const message = `${name} does not support the operation ${operation}; it supports ${supportedImageOperations.join(", ")}`;
    issues.push({ path: ["operation"], code: "unsupported_image_operation", message });
  }
  return issues;
}

/** Calls the adapter with retries (exponential backoff with jitter) within the retry policy. */
async function attemptImages(adapter: ImageAdapter, request: ImageRequest, call: AdapterCall): Promise<ImageResponse> {
  try {
    return await unlessAborted(call.signal, async () => adapter.generate(request, call));
  } catch (thrown) {
    call.signal.throwIfAborted();
    throw imageError(adapter.provider, thrown);
  }
}

/**
 * The result of the work. Rejects with the reason of the signal as soon as it is aborted, even if the work ignores the
 * signal.
 */
function unlessAborted<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    signal.throwIfAborted();
    const stop = () => reject(signal.reason);
    const settled = () => signal.removeEventListener("abort", stop);
    signal.addEventListener("abort", stop, { once: true });
    work().then(resolve, reject).finally(settled);
  });
}

function imageError(provider: string, thrown: unknown): EverturnError {
  if (isEverturnError(thrown)) return thrown;
  const message = thrown instanceof Error ? thrown.message : "the adapter threw";
  return new ImageAdapterError("unknown", { provider, message, cause: thrown });
}

function isList(images: ImageContent | readonly ImageContent[]): images is readonly ImageContent[] {
  return Array.isArray(images);
}
