// The door of the wire: one pure codec an API, and what they share.

export type {
  Codec,
  Decoder,
  EncodedRequest,
  ErrorAnswer,
  Frame,
  LeftOut,
  Quirks,
  WireApi,
  WireContext,
} from "./codec.ts";
export type { FrameReader } from "./sse.ts";

export { noQuirks } from "./codec.ts";
export { frameReader, FrameTooLong, maxFrameLength } from "./sse.ts";
export { anthropicMessages } from "./anthropic/codec.ts";
export { geminiGenerateContent } from "./gemini/codec.ts";
export { openaiChat } from "./openai-chat/codec.ts";
export { openaiResponses } from "./openai-responses/codec.ts";
export { PartialJson } from "./partial-json.ts";
