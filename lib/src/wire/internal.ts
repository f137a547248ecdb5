// Names that sibling folders of lib/src use besides the public ones. This is not an entry point of the package: nothing listed here is covered by
// the rules for public names, and any of it can change in any release.

export * from "./index.ts";

export type { BackgroundResponses, EncodedRequest, ResumableDecoder, WireApi } from "./codec.ts";
export type { CodecLoader } from "./codec-loaders.ts";
export {
  anthropicMessagesLoader,
  geminiGenerateContentLoader,
  openaiChatLoader,
  openaiResponsesLoader,
} from "./codec-loaders.ts";
export { damagedFrame, isDamagedFrame } from "./damaged-frame.ts";
export { asObject, countAt, flagAt, listAt, numberAt, objectAt, objectsAt, omitNullish, textAt } from "./fields.ts";
export { restoreEvents } from "./added-nulls.ts";
export { warningsOf } from "./omission.ts";
export { mergeFields } from "./provider-options.ts";
export { PartialJson } from "./partial-json.ts";
export { clientCallName } from "./provider-tools.ts";
export { FrameTooLong } from "./sse.ts";
