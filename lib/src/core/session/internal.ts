// Names that sibling folders of lib/src use besides the public ones. This is not an entry point of the package: nothing
// listed here is covered by the rules for public names, and any of it can change in any release.

export * from "./index.ts";
export * from "./advanced.ts";

export {
  addUserMessage,
  callChanged,
  checkApprovable,
  checkNotBlank,
  decideWith,
  decisionsOf,
  failToolCall,
  parseDecision,
  recordDecision,
  recordedAnswer,
  submitToolResults,
} from "./answers.ts";
export type { Verb } from "./preconditions.ts";
export { checkStatus, isOpen } from "./preconditions.ts";
export { recover } from "./verbs.ts";
