// The closed lists of strings in stored values. Removing a member makes stored data unreadable, so lib/test/museum
// compares every list exported here with the lists of the newest stored version. Not public: internal.ts re-exports the
// lists to sibling folders.

export { finishReasons } from "./call/finish-reason.ts";
export { imageOperations } from "./call/image-operation.ts";
export { imageBackgrounds, imageFormats, imageStyles } from "./call/image-request.ts";
export { cacheBreakpoints, cacheRetentions } from "./call/request.ts";
export { warningReasons } from "./call/warning.ts";
export {
  adapterErrorReasons,
  engineErrorReasons,
  imageAdapterErrorReasons,
  runtimeErrorReasons,
  sessionErrorReasons,
  streamErrorReasons,
  toolErrorReasons,
  toolFailureSources,
  validationErrorReasons,
} from "./failure/failure.ts";
export { providerFailureKinds, toolFailureClasses } from "./failure/failure-reasons.ts";
export { issueCodes } from "./failure/issue.ts";
export { misuseReasons } from "./failure/misuse.ts";
export { roles, toolMessageStatuses } from "./message/message.ts";
export { imageDetails, textKinds, textPhases } from "./message/part.ts";
export { storedTypes } from "./parse/parse.ts";
export { sessionStatuses } from "./session/session-status.ts";
export { answerForms, pendingReasons } from "./tool/pending.ts";
export { replayPolicies, reservedToolNames } from "./tool/tool.ts";
export { eventTypes } from "./turn/event.ts";
export { checkpointKinds, compactionStatuses, stepResetReasons, toolModes } from "./turn/event.ts";
export { budgets, knownHaltedReasons } from "./turn/outcome.ts";
