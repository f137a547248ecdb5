// The conformance suite of image adapters. The library itself rejects operations that an adapter does not list.

import type { ImageAdapter } from "../core/engine/internal.ts";
import type { ImageAdapterErrorReason, ImageOperation, ImageRequest, ImageResponse } from "../core/model/internal.ts";
import type { ConformanceCase } from "./conformance.ts";

import { systemClock } from "../core/clock/clock.ts";
import { engine } from "../core/engine/internal.ts";
import { imageFromBase64, imageOperations, imageRequest, isEverturnError, parse } from "../core/model/internal.ts";
import { generateImage } from "../core/run/internal.ts";
import { broken, casesOf, holds, patienceMs, same, thrownBy, within, written } from "./conformance.ts";

/** What the provider of the image adapter under test does with its one request. */
export type ImageAdapterScenario =
  /** Returns this number of images. */
  | { readonly type: "images"; readonly count: number }
  /** Answers with an error. */
  | {
      readonly type: "failure";
      readonly reason: ImageAdapterErrorReason;
      readonly status: number | null;
      readonly retryAfterMs: number | null;
      readonly requestId: string | null;
    };

/** An image adapter and, optionally, the requests its provider received. */
export type ImageAdapterUnderTest = ImageAdapter & {
  /** The requests that the provider received. */
  readonly calls?: readonly unknown[];
};

type Make = (scenario: ImageAdapterScenario) => ImageAdapterUnderTest;

const rules = {
  operations: "operations lists operations of the library, each once",
  rejected: "an operation that is not listed is rejected before a request is sent",
  failed: "an error response of the provider is thrown as an image_adapter_error with its details",
  data: "a response is JSON, and the request is not changed",
  images: "an operation that is listed returns images",
  usage: "the usage of a call counts its images",
  count: "a request for n images returns 1 to n images",
  secret: "the API key appears in no event, response or error",
};

const apiKey = "sk-conformance-4f9a2c7e1b";
const dot = imageFromBase64(
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==",
  "image/png",
);

const requests: { readonly [Operation in ImageOperation]: ImageRequest } = {
  generate: imageRequest("a cat", { model: "conformance", metadata: { trace: "t1" } }),
  edit: imageRequest("add a hat", { operation: "edit", model: "conformance", inputImages: [dot] }),
  variation: imageRequest(null, { operation: "variation", model: "conformance", inputImages: [dot] }),
};

/**
 * The conformance cases of an image adapter. `make` must return a fresh adapter for each scenario; a case calls it
 * once or more.
 */
export function imageAdapterSuite(make: Make): readonly ConformanceCase[] {
  return casesOf({
    "operations lists operations of the library, each once": async () => {
      const { operations } = make({ type: "images", count: 1 });
      const valid = operations.every((operation) => imageOperations.includes(operation));
      const distinct = new Set(operations).size === operations.length;
      holds(
        valid && distinct && operations.length > 0,
        rules.operations,
        `some of ${written(imageOperations)}`,
        operations,
      );
    },
    "an operation that is not listed is rejected before a request is sent": async () => {
      for (const operation of imageOperations) await checkRejected(make, operation);
    },
    "a failure has its reason, status, retry delay and request id": async () => {
      const details = {
        reason: "rate_limited",
        status: 429,
        retryAfterMs: 2000,
        requestId: "req_conformance",
      } as const;
      const thrown = await thrownBy(() => ask(make({ type: "failure", ...details }), firstRequest(make)));
      const error = thrown?.error;
      if (!isEverturnError(error)) throw broken(rules.failed, "an Everturn error", error);
      const { failure } = error;
      holds(failure.type === "image_adapter_error", rules.failed, "an image_adapter_error", failure);
      const { reason, status, retryAfterMs, requestId } = failure;
      same({ reason, status, retryAfterMs, requestId }, details, rules.failed, "the failure");
    },
    "a response survives a JSON round trip, and the request is unchanged": async () => {
      const request = firstRequest(make);
      const before = written(request);
      const response = await ask(make({ type: "images", count: 1 }), request);
      same(written(request), before, rules.data, "the request");
      const read = parse("image_response", JSON.parse(JSON.stringify(response)));
      if (!read.ok) throw broken(rules.data, "an image response", read.failure.message);
      same(read.value, response, rules.data, "the response after a round trip");
    },
    ...Object.fromEntries(
      imageOperations.map((operation) => [
        `${operation} returns images, or is not listed`,
        () => checkImages(make, operation),
      ]),
    ),
    "usage counts at least one image": async () => {
      const { usage } = await ask(make({ type: "images", count: 1 }), firstRequest(make));
      holds(usage.images >= 1, rules.usage, "usage.images of 1 or more", usage.images);
    },
    "a request for four images returns one to four": async () => {
      const request = { ...firstRequest(make), n: 4 };
      const { images } = await ask(make({ type: "images", count: 4 }), request);
      holds(images.length >= 1 && images.length <= 4, rules.count, "1 to 4 images", `${images.length} images`);
    },
    "the API key of a call is in no response and no error": async () => {
      const response = await ask(make({ type: "images", count: 1 }), firstRequest(make));
      const details = { reason: "authentication_failed", status: 401, retryAfterMs: null, requestId: null } as const;
      const thrown = await thrownBy(() => ask(make({ type: "failure", ...details }), firstRequest(make)));
      const failure = isEverturnError(thrown?.error) ? thrown.error.failure : thrown?.error;
      const leak = [response, failure].find((output) => written(output).includes(apiKey));
      holds(leak === undefined, rules.secret, "no API key", leak);
    },
  });
}

async function checkImages(make: Make, operation: ImageOperation): Promise<void> {
  const adapter = make({ type: "images", count: 1 });
  if (!adapter.operations.includes(operation)) return;
  const { images } = await ask(adapter, requests[operation]);
  same(images.length, 1, rules.images, "the number of images");
}

async function checkRejected(make: Make, operation: ImageOperation): Promise<void> {
  const adapter = make({ type: "images", count: 1 });
  if (adapter.operations.includes(operation)) return;
  const thrown = await thrownBy(() => generateImage(engine({ imageAdapter: adapter }), requests[operation]));
  const error = thrown?.error;
  if (!isEverturnError(error)) throw broken(rules.rejected, `${operation} to be rejected`, error);
  const { reason, metadata } = error.failure;
  const expected = { reason: "unsupported_operation", operation };
  same({ reason, operation: metadata["operation"] }, expected, rules.rejected, "the failure");
  const requestCount = adapter.calls?.length ?? 0;
  holds(requestCount === 0, rules.rejected, "no request", `${requestCount} requests`);
}

/** A request for the first operation that the adapter lists. */
function firstRequest(make: Make): ImageRequest {
  const [operation = "generate"] = make({ type: "images", count: 1 }).operations;
  return requests[operation];
}

async function ask(adapter: ImageAdapter, request: ImageRequest): Promise<ImageResponse> {
  const { signal } = new AbortController();
  const call = {
    signal,
    requestId: "conformance",
    options: {},
    apiKey,
    rawChunks: false,
    attempt: 1,
    clock: systemClock,
  };
  return within(patienceMs, adapter.generate(request, call), rules.images, "a response");
}
