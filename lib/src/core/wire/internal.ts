// Names that sibling folders of lib/src use besides the public ones. This is not an entry point of the package: nothing
// listed here is covered by the rules for public names, and any of it can change in any release.

export * from "./advanced.ts";

export { classify } from "./classify.ts";
export type { BackgroundResponses, EncodedRequest, Omission, ResumableDecoder, WireApi } from "./codec.ts";
export type { CodecLoader } from "./codec-loaders.ts";
export {
  anthropicMessagesLoader,
  geminiGenerateContentLoader,
  openaiChatLoader,
  openaiResponsesLoader,
} from "./codec-loaders.ts";
export { damagedFrame, isDamagedFrame } from "./damaged-frame.ts";
export { asObject, countAt, flagAt, listAt, numberAt, objectAt, objectsAt, omitNullish, textAt } from "./fields.ts";
export { detectImageType } from "./image-type.ts";
export { restoreEvents } from "./added-nulls.ts";
export { nothingToSend, sendableHistory } from "./history.ts";
export { withProviderTools } from "./listed-tools.ts";
export { choiceWithoutTools, inMessage, isForced, unsupported, warningsOf } from "./omission.ts";
export { mergeFields } from "./provider-options.ts";
export { PartialJson } from "./partial-json.ts";
export { clientCallName, datedToolName } from "./provider-tools.ts";
export { bodyText } from "./sent-history.ts";
export { rawChunk, ReplyBuilder } from "./reply-builder.ts";
export { requestError } from "./request-error.ts";
export { FrameTooLong } from "./sse.ts";
