// Entry point `everturn/react`: a transport for `useChat` of the AI SDK, and for conversations without it a hook and
// the form of an approval.

export type { UiData, UiMetadata, UiTools } from "../contract/internal.ts";
export type { ChatTransportOptions, UiChatTransport } from "../client/internal.ts";
export { chatTransport } from "../client/internal.ts";
export { ApprovalForm } from "./approval-form.ts";
export type { UsedConversation } from "./use-conversation.ts";
export { useConversation } from "./use-conversation.ts";
