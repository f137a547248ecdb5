// Entry point `everturn/middleware`: ready-made middleware for `engine({ middleware })`, and what is needed to write
// one.

export type { Middleware, ModelCall, NextModel, NextTool, ToolInvocation } from "../../core/engine/internal.ts";
export type { CallSettings, SettingsByModel } from "./default-settings.ts";
export type {
  GuardrailOptions,
  GuardVerdict,
  ReplyGuard,
  RequestGuard,
  ToolCallGuard,
  ToolOutcomeGuard,
} from "./guardrails.ts";
export type { Logger, LoggingOptions } from "./logging.ts";
export type { PiiKind } from "./pii-patterns.ts";
export type { RateLimitOptions } from "./rate-limit.ts";
export type { RedactPiiOptions } from "./redact-pii.ts";
export type { ReplyStore, ResponseCacheOptions } from "./response-cache.ts";

export { defaultSettings } from "./default-settings.ts";
export { guardrails } from "./guardrails.ts";
export { logging } from "./logging.ts";
export { rateLimit } from "./rate-limit.ts";
export { redactPii } from "./redact-pii.ts";
export { readReply, replyEvents } from "./reply-events.ts";
export { responseCache } from "./response-cache.ts";
