// What sibling folders of `lib/src` import: everything public, and names that are not part of the package's API.

export * from "./index.ts";
export type { DurableRefusal, OptionsWith, RequestField, RunOptionName } from "./run-options.ts";

export { checkedNumber, checkedRange } from "./options.ts";
export { isRunOption, numericOptions, requestFields, runOptionNames, runOptionTable } from "./run-options.ts";
