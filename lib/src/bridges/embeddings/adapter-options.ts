// Checks the options that all adapters of this folder have, for callers without a compiler.

import { MisuseError } from "../../core/model/internal.ts";

/** Throws `MisuseError` (`invalid_argument`) for a missing model, a price that is negative or no number, or a wrong number of texts. */
export function checkAdapterOptions(
  adapter: string,
  { model, price, maxTexts }: { readonly model: string; readonly price?: number; readonly maxTexts?: number },
): void {
  const wrong = (name: string, what: string): MisuseError =>
    new MisuseError("invalid_argument", `${adapter}: ${name} must be ${what}`, { path: [name] });
  if (typeof model !== "string" || model === "") throw wrong("model", "the name of a model");
  if (price !== undefined && !(Number.isFinite(price) && price >= 0)) throw wrong("price", "a number of 0 or more");
  if (maxTexts !== undefined && !(Number.isSafeInteger(maxTexts) && maxTexts > 0)) {
    throw wrong("maxTexts", "a whole number of at least 1");
  }
}

/** The list price of a model; `null`: it has none. A name such as `constructor` is not found in the prototype. */
export function listPrice(prices: { readonly [model: string]: number }, model: string): number | null {
  return Object.hasOwn(prices, model) ? (prices[model] ?? null) : null;
}
