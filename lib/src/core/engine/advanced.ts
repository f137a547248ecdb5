// The names of this folder that `everturn/advanced` exports: the engine value, tools, options and the contracts of
// adapters and executors.

export type { AdapterCall, AdapterOptions, ImageAdapter } from "./model-call/adapter.ts";
export type { Catalog } from "./model-call/catalog.ts";
export type { EngineRegistry } from "./describe.ts";
export type { Directive } from "./tool/directive.ts";
export type { CompactPolicy, PrunePolicy, SummaryBudget, Tokenizer } from "./context-policy.ts";
export type { Overrides } from "./engine.ts";
export type { CodeExecutor } from "./tool/executor.ts";
export type { Middleware, ModelCall, NextModel, NextTool, ToolInvocation } from "./middleware.ts";
export type { OnToolError, OnToolErrorAnswer, ToolExecutor, ToolResultEncoder } from "./options.ts";
export type { Configuration } from "./run-options.ts";
export type { OwnProtocol } from "./protocol.ts";
export type { RetrySetting } from "./model-call/retry.ts";
export type { JsonSchema, StandardSchema } from "./tool/schema.ts";
export type { TelemetryEvent } from "./telemetry.ts";
export type { ProviderToolDefinition, ProviderToolInput } from "./tool/provider-tool.ts";
export type { ToolDefinition, ToolRetryPolicy } from "./tool/tool.ts";

export { describeEngine, restoreEngine } from "./describe.ts";
export {
  mergeOpts,
  putContext,
  putParam,
  putTool,
  putTools,
  resolveModel,
  resolveParams,
  resolveTools,
} from "./engine.ts";
