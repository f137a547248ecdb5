// Entry point `everturn/react`: a transport for `useChat` of the AI SDK, and a hook for conversations without it.

export type { ChatTransportOptions, UiChatTransport } from "./chat-transport.ts";
export { chatTransport } from "./chat-transport.ts";
export type { UsedConversation } from "./use-conversation.ts";
export { useConversation } from "./use-conversation.ts";
