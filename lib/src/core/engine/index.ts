// The public names of this folder: the engine value, tools, options and the contracts of adapters and executors. `everturn` exports what most
// programs need, `everturn/advanced` the rest.

export type { Adapter, AdapterCall, AdapterOptions, ImageAdapter } from "./model-call/adapter.ts";
export type { Clock } from "../clock/clock.ts";
export type { Catalog } from "./model-call/catalog.ts";
export type { EngineRegistry } from "./describe.ts";
export type { Directive } from "./tool/directive.ts";
export type { CompactPolicy, ContextPolicy, PrunePolicy } from "./context-policy.ts";
export type { Engine, Overrides } from "./engine.ts";
export type { CodeExecutor } from "./tool/executor.ts";
export type { Middleware, ModelCall, NextModel, NextTool, ToolInvocation } from "./middleware.ts";
export type { Budgets } from "../model/internal.ts";
export type { OnToolError, OnToolErrorAnswer, ToolExecutor, ToolResultEncoder, WhenBusy } from "./options.ts";
export type { ChatOptions, Configuration, GenerateOptions, StepOptions } from "./run-options.ts";
export type { OwnProtocol } from "./protocol.ts";
export type { RetryPolicy, RetrySetting } from "./model-call/retry.ts";
export type { JsonSchema, StandardSchema } from "./tool/schema.ts";
export type { TelemetryEvent } from "./telemetry.ts";
export type { ProviderToolDefinition, ProviderToolInput } from "./tool/provider-tool.ts";
export type { Tool, ToolContext, ToolDefinition, ToolRetryPolicy } from "./tool/tool.ts";

export { agentTool } from "./tool/agent-tool.ts";
export { compactTool } from "./tool/compact-tool.ts";
export { catalog } from "./model-call/catalog.ts";
export { configure } from "./configure.ts";
export { describeEngine, restoreEngine } from "./describe.ts";
export { askAndResume, askUser, fail, failTurn, finish, halt, handoff } from "./tool/directive.ts";
export {
  engine,
  mergeOpts,
  putContext,
  putParam,
  putTool,
  putTools,
  resolveModel,
  resolveParams,
  resolveTools,
  withModel,
} from "./engine.ts";
export { subscribe } from "./telemetry.ts";
export { providerTool } from "./tool/provider-tool.ts";
export { tool } from "./tool/tool.ts";
