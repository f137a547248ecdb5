// Entry point `everturn/client`: a client for `everturn/http`, a reader of its inspection routes, conversations, and a
// transport for the chat of the AI SDK. Runs wherever `fetch` exists.

export type { ClientErrorReason } from "./errors.ts";
export type { Inspector } from "./inspector.ts";
export type { ClientOptions, ClientTurn, ClientDecision, EverturnClient } from "./types.ts";
export type { Overview, SessionSummary, SessionView, TurnTimeline, TurnSnapshot } from "../../core/model/internal.ts";
export type { UiData, UiMetadata, UiTools, ScenarioView, ServerView, TurnOptions } from "../contract/internal.ts";

export type { ChatTransportOptions, UiChatTransport } from "./chat-transport.ts";
export { chatTransport } from "./chat-transport.ts";
export { createClient } from "./client.ts";
export type { Conversation, ConversationSnapshot } from "./conversation.ts";
export { conversation } from "./conversation.ts";
export { ClientError } from "./errors.ts";
export { createInspector } from "./inspector.ts";
export { readTimeline } from "./read-timeline.ts";
export { approvalText, callPath, messageText, TurnView, visibleText } from "../../core/model/internal.ts";
