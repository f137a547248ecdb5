// The names of this folder that `everturn` exports: the engine value, tools, options and the contracts of adapters and
// executors.

export type { Adapter } from "./model-call/adapter.ts";
export type { Clock } from "../clock/clock.ts";
export type { ContextPolicy } from "./context-policy.ts";
export type { Engine, EngineFields } from "./engine.ts";
export type { Budgets } from "../model/internal.ts";
export type { WhenBusy } from "./options.ts";
export type { ChatOptions, GenerateOptions, StepOptions } from "./run-options.ts";
export type { RetryPolicy } from "./model-call/retry.ts";
export type { Tool, ToolContext } from "./tool/tool.ts";

export { agentTool } from "./tool/agent-tool.ts";
export { compactTool } from "./tool/compact-tool.ts";
export { catalog } from "./model-call/catalog.ts";
export { configure } from "./configure.ts";
export { askAndResume, askUser, fail, failTurn, finish, halt, handoff } from "./tool/directive.ts";
export { withModel } from "./engine.ts";
export { subscribe } from "./telemetry.ts";
export { providerTool } from "./tool/provider-tool.ts";
export { tool } from "./tool/tool.ts";
