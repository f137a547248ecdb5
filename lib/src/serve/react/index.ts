// Entry point `everturn/react`: a transport for `useChat` of the AI SDK, for conversations without it a hook and the form
// of an approval, and the timeline of a turn. The studio is made of the same components.

export type { UiData, UiMetadata, UiTools } from "../contract/internal.ts";
export type { ChatTransportOptions, UiChatTransport } from "../client/internal.ts";
export { chatTransport } from "../client/internal.ts";
export { ApprovalForm } from "./approval.tsx";
export { costText, countText, durationText, usageTexts, visibleName } from "./texts.ts";
export type { OpenEffect } from "./timeline/layout.ts";
export { openEffects } from "./timeline/open-effects.ts";
export { movePlayhead, summarizeTimeline, Timeline } from "./timeline/timeline.tsx";
export type { UsedConversation } from "./use-conversation.ts";
export { useConversation } from "./use-conversation.ts";
