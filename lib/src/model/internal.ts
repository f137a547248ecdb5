// What sibling folders of `lib/src` import: everything public, and names that are not part of the package's API.

export * from "./index.ts";
export { canonicalJson } from "./parse/canonical-json.ts";
export { isJsonArray, parseJson } from "./parse/json.ts";
export { isStorableJson, withFiniteNumbers } from "./parse/storable-json.ts";
