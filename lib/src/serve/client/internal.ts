// Names of this folder that sibling folders of lib/src import. Not an entry point of the package: any release may
// change this list.

export { Backoff } from "./backoff.ts";
export type { Conversation, ConversationOptions, ConversationSnapshot } from "./conversation.ts";
export { conversation } from "./conversation.ts";
export { ClientError } from "./errors.ts";
export { readFrames } from "./event-reader.ts";
export type { FrameStream } from "./frames.ts";
export { pathOf, query, senderOf } from "./requests.ts";
export type { ApiRequest, ReadAnswer, Sender } from "./sender.ts";
export { readNothing, send } from "./sender.ts";
export type { ClientOptions, EverturnClient } from "./types.ts";
