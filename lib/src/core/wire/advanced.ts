// The names of this folder that `everturn/advanced` exports: one pure codec per provider API, and the parser of server-
// sent events.

export type { Codec, Frame, Quirks, WireContext } from "./codec.ts";
export type { FrameReader } from "./sse.ts";

export { noQuirks } from "./codec.ts";
export { frameReader } from "./sse.ts";
export { anthropicMessages } from "./anthropic/codec.ts";
export { geminiGenerateContent } from "./gemini/codec.ts";
export { openaiChat } from "./openai-chat/codec.ts";
export { openaiResponses } from "./openai-responses/codec.ts";
