// A reference to a model: its id and, from a catalog, its capabilities, limits and prices. A model without a catalog entry is a plain
// string, which is sent to the provider unchanged.

import type { JsonObject } from "../parse/json.ts";
import type { Shape } from "../parse/shape.ts";
import type { ImageOperation } from "./image-operation.ts";

import { emptyObject } from "../parse/json.ts";
import {
  array,
  boolean,
  construct,
  count,
  either,
  fallback,
  nullable,
  number,
  object,
  oneOf,
  settings,
  string,
} from "../parse/shape.ts";
import { imageOperations } from "./image-operation.ts";

/** A model with what is known about it: provider, id, capabilities, limits, prices. `null` means unknown. */
export type ModelRef = {
  /** The name of the provider; `null`: not stated. */
  readonly provider: string | null;
  /** The provider's name of the model. */
  readonly id: string | null;
  /** What the model supports; `null`: unknown, nothing is refused. */
  readonly capabilities: ModelCapabilities | null;
  /** Sizes of the context and of the output in tokens; `null`: unknown. */
  readonly limits: ModelLimits | null;
  /** Prices in US dollars per million tokens; `null`: unknown, so costs are not computed. */
  readonly pricing: ModelPricing | null;
  /** Data of the caller. The library stores it and does not interpret it. */
  readonly metadata: JsonObject;
};

/** What a model can do. `null` means unknown; an unknown capability never makes a request invalid. */
export type ModelCapabilities = {
  readonly tools: boolean | null;
  readonly jsonNative: boolean | null;
  readonly parallelTools: boolean | null;
  readonly reasoning: boolean | null;
  readonly vision: boolean | null;
  readonly files: boolean | null;
  readonly imagesEnabled: boolean | null;
  readonly supportedImageOperations: readonly ImageOperation[] | null;
};

/** The size of the context window and of a reply, in tokens. `null` means unknown. */
export type ModelLimits = { readonly context: number | null; readonly output: number | null };

/** Prices in US dollars per million tokens. `null` means unknown. */
export type ModelPricing = {
  readonly input: number | null;
  readonly output: number | null;
  readonly cacheRead: number | null;
  readonly cacheWrite: number | null;
};

/** A model: an id that is sent to the provider verbatim, or a {@link ModelRef}. */
export type ModelName = string | ModelRef;

export const modelRefShape: Shape<ModelRef> = object<ModelRef>({
  provider: fallback(nullable(string), null),
  id: fallback(nullable(string), null),
  capabilities: fallback(
    nullable(
      object<ModelCapabilities>({
        tools: fallback(nullable(boolean), null),
        jsonNative: fallback(nullable(boolean), null),
        parallelTools: fallback(nullable(boolean), null),
        reasoning: fallback(nullable(boolean), null),
        vision: fallback(nullable(boolean), null),
        files: fallback(nullable(boolean), null),
        imagesEnabled: fallback(nullable(boolean), null),
        supportedImageOperations: fallback(nullable(array(oneOf(imageOperations))), null),
      }),
    ),
    null,
  ),
  limits: fallback(
    nullable(
      object<ModelLimits>({ context: fallback(nullable(count), null), output: fallback(nullable(count), null) }),
    ),
    null,
  ),
  pricing: fallback(
    nullable(
      object<ModelPricing>({
        input: fallback(nullable(number), null),
        output: fallback(nullable(number), null),
        cacheRead: fallback(nullable(number), null),
        cacheWrite: fallback(nullable(number), null),
      }),
    ),
    null,
  ),
  metadata: fallback(settings, emptyObject),
});

export const modelNameShape: Shape<ModelName> = either((input) => typeof input === "string", string, modelRefShape);

/**
 * Builds a model reference; fields that are left out are `null`. Throws `MisuseError` for an unknown field or a
 * wrong type.
 */
export function modelRef(fields: Partial<ModelRef>): ModelRef {
  return construct("modelRef", modelRefShape, fields);
}
