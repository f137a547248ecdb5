// What every adapter for images has to keep. Operations it does not list are refused by the library, before anything is asked of it.

import type { ImageAdapter } from "../engine/internal.ts";
import type { ImageAdapterErrorReason, ImageOperation, ImageRequest, ImageResponse } from "../model/internal.ts";
import type { ConformanceCase } from "./conformance.ts";

import { systemClock } from "../clock/clock.ts";
import { engine } from "../engine/internal.ts";
import { imageFromBase64, imageOperations, imageRequest, isEverturnError, parse } from "../model/internal.ts";
import { generateImage } from "../run/internal.ts";
import { broken, holds, patienceMs, same, thrownBy, within, written } from "./conformance.ts";

/** What the provider of the image adapter under test does with its one request. */
export type ImageAdapterScenario =
  /** Makes as many. */
  | { readonly type: "images"; readonly count: number }
  /** Answers that it will not. */
  | {
      readonly type: "failure";
      readonly reason: ImageAdapterErrorReason;
      readonly status: number | null;
      readonly retryAfterMs: number | null;
      readonly requestId: string | null;
    };

/** An image adapter and, optionally, the requests its provider received. */
export type ImageAdapterUnderTest = ImageAdapter & {
  /** The requests that were made. */
  readonly calls?: readonly unknown[];
};

type Make = (scenario: ImageAdapterScenario) => ImageAdapterUnderTest;

const rules = {
  operations: "an adapter says what it can do, in the words of the library, each once",
  refused: "an operation that is not listed is refused before anything is asked of the provider",
  failed: "what a provider answers is thrown as an image_adapter_error with what it said",
  data: "a response is data, and a request is not changed",
  images: "an operation that is listed gives images",
  usage: "what a call cost counts its images",
  count: "whoever asks for n images gets at least one and no more than n",
  secret: "a key is never shown",
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
  return [
    {
      name: "what it can do is said in the words of the library, each once",
      run: async () => {
        const { operations } = make({ type: "images", count: 1 });
        const legal = operations.every((one) => imageOperations.includes(one));
        const once = new Set(operations).size === operations.length;
        holds(
          legal && once && operations.length > 0,
          rules.operations,
          `some of ${written(imageOperations)}`,
          operations,
        );
      },
    },
    {
      name: "what it cannot do is refused before anything is asked",
      run: async () => {
        for (const operation of imageOperations) await refused(make, operation);
      },
    },
    {
      name: "a failure says its reason, its status, how long to wait and the provider's id of the request",
      run: async () => {
        const said = { reason: "rate_limited", status: 429, retryAfterMs: 2000, requestId: "req_conformance" } as const;
        const thrown = await thrownBy(() => ask(make({ type: "failure", ...said }), firstRequest(make)));
        const error = thrown?.error;
        if (!isEverturnError(error)) throw broken(rules.failed, "an Everturn error", error);
        const { failure } = error;
        holds(failure.type === "image_adapter_error", rules.failed, "an image_adapter_error", failure);
        const { reason, status, retryAfterMs, requestId } = failure;
        same({ reason, status, retryAfterMs, requestId }, said, rules.failed, "the failure");
      },
    },
    {
      name: "a response is data and survives JSON, and the request is left as it was",
      run: async () => {
        const request = firstRequest(make);
        const before = written(request);
        const response = await ask(make({ type: "images", count: 1 }), request);
        same(written(request), before, rules.data, "the request");
        const read = parse("image_response", JSON.parse(JSON.stringify(response)));
        if (!read.ok) throw broken(rules.data, "an image response", read.failure.message);
        same(read.value, response, rules.data, "the response after a round trip");
      },
    },
    ...imageOperations.map((operation) => operationCase(make, operation)),
    {
      name: "usage counts at least one image",
      run: async () => {
        const { usage } = await ask(make({ type: "images", count: 1 }), firstRequest(make));
        holds(usage.images >= 1, rules.usage, "usage.images of 1 or more", usage.images);
      },
    },
    {
      name: "four images asked for are one to four images",
      run: async () => {
        const request = { ...firstRequest(make), n: 4 };
        const { images } = await ask(make({ type: "images", count: 4 }), request);
        holds(images.length >= 1 && images.length <= 4, rules.count, "1 to 4 images", `${images.length} images`);
      },
    },
    {
      name: "the key of a call is shown in no response and no error",
      run: async () => {
        const response = await ask(make({ type: "images", count: 1 }), firstRequest(make));
        const refusal = { reason: "authentication_failed", status: 401, retryAfterMs: null, requestId: null } as const;
        const thrown = await thrownBy(() => ask(make({ type: "failure", ...refusal }), firstRequest(make)));
        const failure = isEverturnError(thrown?.error) ? thrown.error.failure : thrown?.error;
        const found = [response, failure].find((one) => written(one).includes(apiKey));
        holds(found === undefined, rules.secret, "no key in it", found);
      },
    },
  ];
}

function operationCase(make: Make, operation: ImageOperation): ConformanceCase {
  return {
    name: `${operation} gives images, or is not listed`,
    run: async () => {
      const adapter = make({ type: "images", count: 1 });
      if (!adapter.operations.includes(operation)) return;
      const { images } = await ask(adapter, requests[operation]);
      same(images.length, 1, rules.images, "the number of images");
    },
  };
}

async function refused(make: Make, operation: ImageOperation): Promise<void> {
  const adapter = make({ type: "images", count: 1 });
  if (adapter.operations.includes(operation)) return;
  const thrown = await thrownBy(() => generateImage(engine({ imageAdapter: adapter }), requests[operation]));
  const error = thrown?.error;
  if (!isEverturnError(error)) throw broken(rules.refused, `${operation} to be refused`, error);
  const { reason, metadata } = error.failure;
  const wanted = { reason: "unsupported_operation", operation };
  same({ reason, operation: metadata["operation"] }, wanted, rules.refused, "the failure");
  const made = adapter.calls?.length ?? 0;
  holds(made === 0, rules.refused, "no request", `${made} requests`);
}

/** A request for the first thing the adapter can do. */
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
  return within(patienceMs, adapter.generate(request, call), rules.images, "an answer");
}
