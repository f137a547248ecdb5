// Models by their names: what is known about them, for whoever did not say it.

import type { ModelCapabilities, ModelLimits, ModelName, ModelPricing, ModelRef } from "../../model/internal.ts";
import type { CatalogEntry } from "./catalog-data.ts";

import { emptyObject } from "../../model/parse/reading.ts";
import { catalogModels } from "./catalog-data.ts";

/** Limits, prices and capabilities of models, by name. */
export type Catalog = {
  /** The entry of a model, under its own id. A provider the model itself names goes before the one given. */
  readonly find: (model: ModelName, provider?: string | null) => ModelRef | null;
  readonly models: readonly ModelRef[];
};

type Entry = { readonly ref: ModelRef; readonly names: readonly string[] };

const builtIn: readonly Entry[] = catalogModels.map((entry) => ({
  ref: refOf(entry),
  names: [entry.id, ...entry.aliases],
}));

/**
 * Returns the built-in catalog of models (limits, prices, capabilities) with these entries added. An entry
 * replaces the built-in one of the same model entirely.
 */
export function catalog(extra: readonly ModelRef[] = []): Catalog {
  const added = extra.map((ref): Entry => ({ ref, names: ref.id === null ? [] : [ref.id] }));
  const entries = [...added, ...builtIn.filter(({ ref }) => !extra.some((other) => replaces(other, ref)))];
  return {
    find: (model, provider = null) => {
      for (const name of readingsOf(model, provider)) {
        const found = findIn(entries, name);
        if (found !== null) return found;
      }
      return null;
    },
    models: entries.map(({ ref }) => ref),
  };
}

/** The model with what the catalog knows where it says nothing itself. Its id stays: a dated one is asked for as it is. */
export function knownModel(model: ModelName | null, provider: string | null, catalog: Catalog): ModelName | null {
  if (model === null) return null;
  for (const name of readingsOf(model, provider)) {
    const known = catalog.find(name);
    if (known !== null) return filled(typeof model === "string" ? said(name, model) : model, known);
  }
  return model;
}

function refOf(entry: CatalogEntry): ModelRef {
  return {
    provider: entry.provider,
    id: entry.id,
    capabilities: {
      tools: entry.tools,
      jsonNative: entry.json,
      parallelTools: entry.parallel,
      reasoning: entry.reasoning,
      vision: entry.vision,
      files: entry.files,
      imagesEnabled: null,
      supportedImageOperations: null,
    },
    limits: { context: entry.context, output: entry.output },
    pricing: {
      input: entry.input,
      output: entry.outputPrice,
      cacheRead: entry.cached,
      cacheWrite: entry.cacheWrite,
    },
    metadata: emptyObject,
  };
}

function replaces(extra: ModelRef, known: ModelRef): boolean {
  return extra.id === known.id && (extra.provider === null || extra.provider === known.provider);
}

/** What a name may mean: text as an id, and as a provider with an id. */
function readingsOf(model: ModelName, provider: string | null): readonly ModelRef[] {
  if (typeof model !== "string") return [named(model.provider ?? provider, model.id)];
  const colon = model.indexOf(":");
  const whole = named(provider, model);
  return colon === -1 ? [whole] : [whole, named(model.slice(0, colon), model.slice(colon + 1))];
}

function named(provider: string | null, id: string | null): ModelRef {
  return { provider, id, capabilities: null, limits: null, pricing: null, metadata: emptyObject };
}

/** What text says of a model by itself: the provider it was looked up with is not part of that. */
function said(name: ModelRef, text: string): ModelRef {
  return name.id === text ? named(null, text) : name;
}

function findIn(entries: readonly Entry[], { provider, id }: ModelRef): ModelRef | null {
  if (id === null) return null;
  const near = entries.filter(({ ref }) => ref.provider === null || provider === null || ref.provider === provider);
  return near.find(({ names }) => names.includes(id))?.ref ?? dated(near, id);
}

// 20250929, 2025-09-29, 09-2025, 0613, 1106, 001.
const date = /^-(?:20\d\d-?\d\d-?\d\d|\d\d-20\d\d|0\d\d\d?|1[0-2]\d\d)$/;

/** The entry with the longest name that only a date follows in this id. */
function dated(entries: readonly Entry[], id: string): ModelRef | null {
  let found: { readonly ref: ModelRef; readonly length: number } | null = null;
  for (const { ref, names } of entries) {
    for (const name of names) {
      if (!id.startsWith(name) || !date.test(id.slice(name.length))) continue;
      if (found === null || name.length > found.length) found = { ref, length: name.length };
    }
  }
  return found?.ref ?? null;
}

function filled(own: ModelRef, known: ModelRef): ModelRef {
  return {
    ...own,
    provider: own.provider ?? known.provider,
    capabilities: filledCapabilities(own.capabilities, known.capabilities),
    limits: filledLimits(own.limits, known.limits),
    pricing: filledPricing(own.pricing, known.pricing),
  };
}

function filledCapabilities(own: ModelCapabilities | null, known: ModelCapabilities | null): ModelCapabilities | null {
  if (own === null || known === null) return own ?? known;
  return {
    tools: own.tools ?? known.tools,
    jsonNative: own.jsonNative ?? known.jsonNative,
    parallelTools: own.parallelTools ?? known.parallelTools,
    reasoning: own.reasoning ?? known.reasoning,
    vision: own.vision ?? known.vision,
    files: own.files ?? known.files,
    imagesEnabled: own.imagesEnabled ?? known.imagesEnabled,
    supportedImageOperations: own.supportedImageOperations ?? known.supportedImageOperations,
  };
}

function filledLimits(own: ModelLimits | null, known: ModelLimits | null): ModelLimits | null {
  if (own === null || known === null) return own ?? known;
  return { context: own.context ?? known.context, output: own.output ?? known.output };
}

function filledPricing(own: ModelPricing | null, known: ModelPricing | null): ModelPricing | null {
  if (own === null || known === null) return own ?? known;
  return {
    input: own.input ?? known.input,
    output: own.output ?? known.output,
    cacheRead: own.cacheRead ?? known.cacheRead,
    cacheWrite: own.cacheWrite ?? known.cacheWrite,
  };
}
