// What sibling folders of `lib/src` import: everything public, and names that are not part of the package's API.

export * from "./index.ts";
export type { VerbOptionsWith } from "./verbs/durable-options.ts";

export { verbOptionTable } from "./verbs/durable-options.ts";
