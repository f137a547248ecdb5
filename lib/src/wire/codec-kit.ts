// What a translation to or from a model API outside of this folder builds on: `ai-sdk` uses it. Separate from internal.ts, because every program loads that
// file, and the code listed here belongs to the codecs, which are loaded by the first model call.

export type { Omission } from "./codec.ts";
export { noQuirks } from "./codec.ts";
export { classify } from "./classify.ts";
export { nothingToSend, sendableHistory } from "./history.ts";
export { inMessage, isForced, choiceWithoutTools, unsupported, warningsOf } from "./omission.ts";
export { mergeFields } from "./provider-options.ts";
export { withProviderTools } from "./listed-tools.ts";
export { clientCallName, datedToolName } from "./provider-tools.ts";
export { rawChunk, ReplyBuilder } from "./reply-builder.ts";
export { requestError } from "./request-error.ts";
