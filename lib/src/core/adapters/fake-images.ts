// The scripted image adapter for tests. It plays one step a call and records the calls. It is strict: a call without a
// step throws, and `assertUsedUp` reports steps that were never used.

import type { AdapterCall, ImageAdapter, Rules } from "../engine/internal.ts";
import type {
  FailureDetails,
  ImageAdapterErrorReason,
  ImageAdapterFailure,
  ImageContent,
  ImageOperation,
  ImageRequest,
  ImageResponse,
  ImageUsage,
} from "../model/internal.ts";

import { anything, checkOptions } from "../engine/internal.ts";
import { ImageAdapterError, imageOperations, imageResponse, imageUsage, invalidArgument } from "../model/internal.ts";
import { isStepOf } from "./fake.ts";

/** One step of a script for {@link fakeImages}: images or an error for one call, or failures before the next step. */
export type FakeImagesStep =
  | { readonly type: "images"; readonly images: readonly ImageContent[]; readonly usage?: Partial<ImageUsage> }
  | ({ readonly type: "error"; readonly reason: ImageAdapterErrorReason } & Omit<
      FailureDetails<ImageAdapterFailure>,
      "provider"
    >)
  /**
   * Calls fail with `rate_limited` until the n-th call that reaches this step, counted from 1. That call plays the next
   * step.
   */
  | { readonly type: "retry_until_call"; readonly n: number };

/** Options of {@link fakeImages}. */
export type FakeImagesOptions = {
  /** The steps, in order. Default: none. */
  readonly script?: readonly FakeImagesStep[];
  /** The operations of the adapter. Default: all. */
  readonly operations?: readonly ImageOperation[];
  /** The name of the provider. Default: `fake`. */
  readonly provider?: string;
};

type FakeImagesCall = { readonly request: ImageRequest; readonly call: AdapterCall };

/** A scripted image adapter that records its calls. */
export type FakeImagesAdapter = ImageAdapter & {
  /** The requests of all calls, in order. */
  readonly calls: readonly FakeImagesCall[];
  /** The number of steps that have not been used. */
  readonly remaining: number;
  /** Throws if a step was not used. */
  readonly assertUsedUp: () => void;
};

/** An image adapter that plays a script. A call without a scripted step throws `ImageAdapterError`. */
export function fakeImages(options: FakeImagesOptions = {}): FakeImagesAdapter {
  const rules: Rules<FakeImagesOptions> = { script: anything, operations: anything, provider: anything };
  checkOptions("fakeImages", options, rules);
  const { provider = "fake", operations = imageOperations } = options;
  const script = checkedScript(options.script ?? []);
  const calls: FakeImagesCall[] = [];
  let next = 0;
  let visits = 0;

  function play(request: ImageRequest): ImageResponse {
    for (;;) {
      const step = script[next];
      switch (step?.type) {
        case undefined: {
          const message = `no scripted image: this is call ${calls.length}, and all ${script.length} steps have been used`;
          throw new ImageAdapterError("unknown", { provider, message, metadata: { cause: "no_scripted_image" } });
        }
        case "retry_until_call":
          visits += 1;
          if (visits < step.n) throw new ImageAdapterError("rate_limited", { provider });
          visits = 0;
          next += 1;
          break;
        case "error": {
          next += 1;
          const { type: _, reason, ...details } = step;
          throw new ImageAdapterError(reason, { provider, ...details });
        }
        case "images": {
          next += 1;
          const { images, usage } = step;
          const { model } = request;
          return imageResponse({
            model: typeof model === "string" ? model : (model?.id ?? null),
            images,
            usage: imageUsage({ images: images.length, ...usage }),
          });
        }
      }
    }
  }

  return {
    provider,
    operations,
    get calls() {
      return calls;
    },
    get remaining() {
      return script.length - next;
    },
    assertUsedUp: () => {
      if (next === script.length) return;
      throw new Error(`${script.length - next} of ${script.length} steps of the fake image adapter were not used`);
    },
    generate: async (request, call) => {
      calls.push({ request, call });
      call.signal.throwIfAborted();
      return play(request);
    },
  };
}

function checkedScript(script: readonly FakeImagesStep[]): readonly FakeImagesStep[] {
  const unchecked: unknown = script;
  if (!Array.isArray(unchecked) || !unchecked.every((step) => isStepOf(stepTypes, step))) {
    throw invalidArgument("fakeImages: script must be a list of steps");
  }
  for (const [index, step] of script.entries()) {
    if (step.type !== "retry_until_call" || (Number.isSafeInteger(step.n) && step.n > 0)) continue;
    throw invalidArgument(`fakeImages: step ${index}: n must be an integer above 0`, ["script", index, "n"]);
  }
  return script;
}

const stepTypes: { readonly [T in FakeImagesStep["type"]]: true } = {
  images: true,
  error: true,
  retry_until_call: true,
};
