// Makes the images it was told to make. It is strict: a call nobody scripted is an error, and what was left over can be asked for.

import type { AdapterCall, ImageAdapter } from "../engine/internal.ts";
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

import { ImageAdapterError, imageOperations, imageResponse, imageUsage, MisuseError } from "../model/internal.ts";

/** What a scripted image model does at a call. */
export type FakeImagesStep =
  | { readonly type: "images"; readonly images: readonly ImageContent[]; readonly usage?: Partial<ImageUsage> }
  | ({ readonly type: "error"; readonly reason: ImageAdapterErrorReason } & Omit<
      FailureDetails<ImageAdapterFailure>,
      "provider"
    >)
  /** `rate_limited` until the call that is the nth to come here, from 1; that one gets what stands behind it. */
  | { readonly type: "retry_until_call"; readonly n: number };

export type FakeImagesOptions = {
  readonly script?: readonly FakeImagesStep[];
  /** What it can do; everything, unless said. */
  readonly operations?: readonly ImageOperation[];
  readonly provider?: string;
};

type FakeImagesCall = { readonly request: ImageRequest; readonly call: AdapterCall };

/** A scripted image adapter that records its calls. */
export type FakeImagesAdapter = ImageAdapter & {
  /** What it was asked, in order. */
  readonly calls: readonly FakeImagesCall[];
  /** Steps of the script that have not been used. */
  readonly remaining: number;
  /** Throws when a step was not used: a test that scripted more than happened says so. */
  readonly assertUsedUp: () => void;
};

/** An image adapter that plays a script. A call without a scripted step throws `ImageAdapterError`. */
export function fakeImages(options: FakeImagesOptions = {}): FakeImagesAdapter {
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
      throw new Error(`the fake has ${script.length - next} of ${script.length} steps left that nothing asked for`);
    },
    generate: async (request, call) => {
      calls.push({ request, call });
      call.signal.throwIfAborted();
      return play(request);
    },
  };
}

function checkedScript(script: readonly FakeImagesStep[]): readonly FakeImagesStep[] {
  const given: unknown = script;
  if (!Array.isArray(given) || !given.every(isStep)) {
    throw new MisuseError("invalid_argument", "fakeImages: a script is a list of steps");
  }
  for (const [index, step] of script.entries()) {
    if (step.type !== "retry_until_call" || (Number.isSafeInteger(step.n) && step.n > 0)) continue;
    throw new MisuseError("invalid_argument", `fakeImages: step ${index}: n must be a whole number above 0`, {
      path: ["script", index, "n"],
    });
  }
  return script;
}

function isStep(step: unknown): boolean {
  return (
    typeof step === "object" &&
    step !== null &&
    "type" in step &&
    typeof step.type === "string" &&
    Object.hasOwn(stepTypes, step.type)
  );
}

const stepTypes: { readonly [T in FakeImagesStep["type"]]: true } = {
  images: true,
  error: true,
  retry_until_call: true,
};
