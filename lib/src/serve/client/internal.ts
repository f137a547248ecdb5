// Names of this folder that sibling folders of lib/src import. Not an entry point of the package: any release may
// change this list.

export type { ChatTransportOptions, UiChatTransport } from "./chat-transport.ts";
export { chatTransport } from "./chat-transport.ts";
export type { Conversation, ConversationOptions, ConversationSnapshot } from "./conversation.ts";
export { conversation } from "./conversation.ts";
export type { ClientDecision, EverturnClient } from "./types.ts";
