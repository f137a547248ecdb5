// The options that all adapters of this folder have.

import { aName, numberIn } from "../../core/engine/internal.ts";

/** The rules of the model and of its price. */
export const modelRules = {
  model: { ...aName, must: "the name of a model", required: true },
  price: numberIn({ least: 0, whole: false }),
} as const;

/** The list price of a model; `null`: it has none. A name such as `constructor` is not found in the prototype. */
export function listPrice(prices: { readonly [model: string]: number }, model: string): number | null {
  return Object.hasOwn(prices, model) ? (prices[model] ?? null) : null;
}
