// A reference to a model: its id and, from a catalog, its capabilities, limits and prices. A model without a catalog
// entry is a plain string, which is sent to the provider unchanged.

import type { Infer, Shape } from "../parse/shape.ts";
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

const capabilityFields = {
  tools: fallback(nullable(boolean), null),
  jsonNative: fallback(nullable(boolean), null),
  parallelTools: fallback(nullable(boolean), null),
  reasoning: fallback(nullable(boolean), null),
  vision: fallback(nullable(boolean), null),
  files: fallback(nullable(boolean), null),
  imagesEnabled: fallback(nullable(boolean), null),
  supportedImageOperations: fallback(nullable(array(oneOf<ImageOperation>(imageOperations))), null),
};

/** What a model can do. `null` means unknown; an unknown capability never makes a request invalid. */
export type ModelCapabilities = Infer<typeof capabilityFields>;

const capabilitiesShape: Shape<ModelCapabilities> = object(capabilityFields);

const limitFields = { context: fallback(nullable(count), null), output: fallback(nullable(count), null) };

/** The size of the context window and of a reply, in tokens. `null` means unknown. */
export type ModelLimits = Infer<typeof limitFields>;

const limitsShape: Shape<ModelLimits> = object(limitFields);

const pricingFields = {
  input: fallback(nullable(number), null),
  output: fallback(nullable(number), null),
  cacheRead: fallback(nullable(number), null),
  cacheWrite: fallback(nullable(number), null),
};

/** Prices in US dollars per million tokens. `null` means unknown. */
export type ModelPricing = Infer<typeof pricingFields>;

const pricingShape: Shape<ModelPricing> = object(pricingFields);

const modelRefFields = {
  /** The name of the provider; `null`: not stated. */
  provider: fallback(nullable(string), null),
  /** The provider's name of the model. */
  id: fallback(nullable(string), null),
  /** What the model supports; `null`: unknown, nothing is refused. */
  capabilities: fallback(nullable(capabilitiesShape), null),
  /** Sizes of the context and of the output in tokens; `null`: unknown. */
  limits: fallback(nullable(limitsShape), null),
  /** Prices in US dollars per million tokens; `null`: unknown, so costs are not computed. */
  pricing: fallback(nullable(pricingShape), null),
  /** Data of the caller. The library stores it and does not interpret it. */
  metadata: fallback(settings, emptyObject),
};

/** A model with what is known about it: provider, id, capabilities, limits, prices. `null` means unknown. */
export type ModelRef = Infer<typeof modelRefFields>;

export const modelRefShape: Shape<ModelRef> = object(modelRefFields);

/** A model: an id that is sent to the provider verbatim, or a {@link ModelRef}. */
export type ModelName = string | ModelRef;

export const modelNameShape: Shape<ModelName> = either((input) => typeof input === "string", string, modelRefShape);

/**
 * Builds a model reference; fields that are left out are `null`. Throws `MisuseError` for an unknown field or a
 * wrong type.
 */
export function modelRef(fields: Partial<ModelRef>): ModelRef {
  return construct("modelRef", modelRefShape, fields);
}
