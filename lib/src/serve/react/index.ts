// Entry point `everturn/react`: a transport for `useChat` of the AI SDK, and a hook for conversations without it.

export type { UiData, UiMetadata, UiTools } from "../contract/internal.ts";
export type { ChatTransportOptions, UiChatTransport } from "../client/internal.ts";
export { chatTransport } from "../client/internal.ts";
export type { UsedConversation } from "./use-conversation.ts";
export { useConversation } from "./use-conversation.ts";
