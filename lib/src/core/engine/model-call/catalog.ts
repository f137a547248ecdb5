// The model catalog: finds limits, prices and capabilities of a model by its name, and adds them to model references
// that lack them.
//
// Names match exactly, by alias, or with a date or version suffix (`gpt-5.4-2026-03-05` is `gpt-5.4`). Prefixes never
// match otherwise: a wrong price is worse than none, because budgets rely on it. Lookup is linear in the number of
// entries.

import type { ModelCapabilities, ModelLimits, ModelName, ModelPricing, ModelRef } from "../../model/internal.ts";
import type { CatalogEntry } from "./catalog-data.ts";

import { emptyObject } from "../../model/parse/reading.ts";
import { catalogModels } from "./catalog-data.ts";

/** Limits, prices and capabilities of models, by name. */
export type Catalog = {
  /**
   * Returns the entry of a model, with the id of the entry; `null`: unknown. `provider` restricts the search, unless
   * the model itself names a provider (`openai:gpt-5.5`, or a reference with a `provider`).
   */
  readonly find: (model: ModelName, provider?: string | null) => ModelRef | null;
  /** All entries, added ones first. */
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
  return extra.length === 0 ? builtInCatalog : catalogWith(extra);
}

/** The catalog without added entries: one value, so that an engine that has it can be recognised and described. */
export const builtInCatalog: Catalog = catalogWith([]);

function catalogWith(extra: readonly ModelRef[]): Catalog {
  const added = extra.map((ref): Entry => ({ ref, names: ref.id === null ? [] : [ref.id] }));
  const entries = [...added, ...builtIn.filter(({ ref }) => !extra.some((other) => replaces(other, ref)))];
  return {
    find: (model, provider = null) => {
      for (const candidate of candidatesOf(model, provider)) {
        const entry = findIn(entries, candidate);
        if (entry !== null) return entry;
      }
      return null;
    },
    models: entries.map(({ ref }) => ref),
  };
}

/**
 * Adds the data of the catalog to a model: fields that the reference sets are kept, fields that are `null` are filled
 * in. The id stays, so a dated model or an alias is requested under the given name. Returns the model unchanged if the
 * catalog does not know it.
 */
export function withCatalogData<Model extends ModelName | null>(
  model: Model,
  provider: string | null,
  catalog: Catalog | null,
): Model | ModelRef {
  if (model === null || catalog === null) return model;
  for (const candidate of candidatesOf(model, provider)) {
    const entry = catalog.find(candidate);
    if (entry !== null) return merge(typeof model === "string" ? refOfText(candidate, model) : model, entry);
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

function replaces(extra: ModelRef, builtInRef: ModelRef): boolean {
  return extra.id === builtInRef.id && (extra.provider === null || extra.provider === builtInRef.provider);
}

/**
 * The references that a name may mean, in order. Text with a colon is first an id (`llama:8b`) and then a provider with
 * an id (`openai:gpt-5.5`).
 */
function candidatesOf(model: ModelName, provider: string | null): readonly ModelRef[] {
  if (typeof model !== "string") {
    const named = model.provider ?? provider;
    return namesOf(named).map((name) => bareRef(name, model.id));
  }
  const colon = model.indexOf(":");
  const asId = bareRef(provider, model);
  if (colon === -1) return [asId];
  return [asId, ...namesOf(model.slice(0, colon)).map((name) => bareRef(name, model.slice(colon + 1)))];
}

/** A provider by its given name, and by its name in the catalog: letter case is ignored, and `google` is `gemini`. */
function namesOf(provider: string | null): readonly (string | null)[] {
  const lowerCase = provider?.toLowerCase() ?? null;
  const name = lowerCase === "google" ? "gemini" : lowerCase;
  return name === provider ? [provider] : [provider, name];
}

function bareRef(provider: string | null, id: string | null): ModelRef {
  return { provider, id, capabilities: null, limits: null, pricing: null, metadata: emptyObject };
}

/**
 * The reference for a model given as text. A candidate that took the text as an id carries the provider of the search,
 * which the text does not name. The provider of any other candidate is kept as it was given, because `providers` finds
 * the adapter by it.
 */
function refOfText({ id }: ModelRef, text: string): ModelRef {
  return id === text || id === null ? bareRef(null, text) : bareRef(text.slice(0, -id.length - 1), id);
}

function findIn(entries: readonly Entry[], { provider, id }: ModelRef): ModelRef | null {
  if (id === null) return null;
  const eligible = entries.filter(({ ref }) => ref.provider === null || provider === null || ref.provider === provider);
  return eligible.find(({ names }) => names.includes(id))?.ref ?? findDated(eligible, id);
}

// Date and version suffixes that providers append: 20250929, 2025-09-29, 09-2025, 0613, 1106, 001.
const dateSuffix = /^-(?:20\d\d-?\d\d-?\d\d|\d\d-20\d\d|0\d\d\d?|1[0-2]\d\d)$/;

/**
 * Returns the entry whose name, followed by a date suffix, is this id. The longest name wins: `gpt-5.5-pro-2026-04-23`
 * is not `gpt-5.5`.
 */
function findDated(entries: readonly Entry[], id: string): ModelRef | null {
  let longest: { readonly ref: ModelRef; readonly length: number } | null = null;
  for (const { ref, names } of entries) {
    for (const name of names) {
      if (!id.startsWith(name) || !dateSuffix.test(id.slice(name.length))) continue;
      if (longest === null || name.length > longest.length) longest = { ref, length: name.length };
    }
  }
  return longest?.ref ?? null;
}

/** Merges a catalog entry into a reference. Fields of the reference win; only `null` is filled in. */
function merge(reference: ModelRef, entry: ModelRef): ModelRef {
  return {
    ...reference,
    provider: reference.provider ?? entry.provider,
    capabilities: filled(reference.capabilities, entry.capabilities),
    limits: filled(reference.limits, entry.limits),
    pricing: filled(reference.pricing, entry.pricing),
  };
}

/** The fields of the reference, with those of the entry in place of `null`. */
function filled<Fields extends ModelCapabilities | ModelLimits | ModelPricing>(
  reference: Fields | null,
  entry: Fields | null,
): Fields | null {
  if (reference === null || entry === null) return reference ?? entry;
  const known = Object.entries(reference).filter(([, value]) => (value ?? null) !== null);
  return { ...entry, ...Object.fromEntries(known) };
}
