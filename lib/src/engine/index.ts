// The door of the engine layer: what a run works with.

export type { AgentToolDefinition } from "./tool/agent-tool.ts";
export type { Adapter, AdapterCall, ImageAdapter } from "./model-call/adapter.ts";
export type { Catalog } from "./model-call/catalog.ts";
export type { Clock } from "../clock/clock.ts";
export type { EngineRegistry } from "./describe.ts";
export type { Directive } from "./tool/directive.ts";
export type { CodeSettings, Engine, EngineFields, EngineProtocol, Fallback, Overrides } from "./engine.ts";
export type { CellLimits, CellResult, CellRun, CodeExecutor } from "./tool/executor.ts";
export type {
  BeforeTool,
  Budgets,
  CheckpointAsked,
  Delivered,
  Hooks,
  OnToolError,
  OnToolErrorAnswer,
  PrepareStep,
  Sources,
  StepChanges,
  ToolExecutor,
  ToolResultEncoder,
} from "./options.ts";
export type {
  ChatOptions,
  ChatSettings,
  Configuration,
  EngineOptions,
  GenerateOptions,
  GenerateSettings,
  OutputOption,
  RequestOptions,
  StepOptions,
  StepSettings,
} from "./run-options.ts";
export type { KeyRequest, KeySource } from "./model-call/keys.ts";
export type { RetryPolicy, RetrySetting } from "./model-call/retry.ts";
export type { AnySchema, Checked, JsonSchema, StandardIssue, StandardResult, StandardSchema } from "./tool/schema.ts";
export type { Listener, OpenSpan, Span, SpanName, TelemetryEvent } from "./telemetry.ts";
export type { FetchLike, HttpAnswer, HttpCall, Timeouts, TransportLimits } from "./model-call/transport.ts";
export type { PreparedCall, RunChild, Tool, ToolContext, ToolDefinition, ToolRetryPolicy } from "./tool/tool.ts";

export { agentTool } from "./tool/agent-tool.ts";
export { missingCapabilities } from "./model-call/capability.ts";
export { catalogDate, catalogSources } from "./model-call/catalog-data.ts";
export { catalog, knownModel } from "./model-call/catalog.ts";
export { systemClock } from "../clock/clock.ts";
export { configuration, configure } from "./configure.ts";
export { describeEngine, restoreEngine } from "./describe.ts";
export { askUser, fail, failTurn, finish, halt, handoff, isDirective, isReservedReason } from "./tool/directive.ts";
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
export { defaultCellLimits } from "./tool/executor.ts";
export { failureWithoutKey, findKey, parseDotenv, variable, withoutKey } from "./model-call/keys.ts";
export { defaultOf, pick } from "./options.ts";
export { priceOf, withCosts } from "./model-call/pricing.ts";
export { defaultRetryPolicy, delayBefore, isRetryable, retryPolicy } from "./model-call/retry.ts";
export { checkValue, isStandardSchema, toJsonSchema } from "./tool/schema.ts";
export { startSpan, subscribe, tell } from "./telemetry.ts";
export { specOf, tool } from "./tool/tool.ts";
export {
  defaultLimits,
  defaultTimeouts,
  post,
  requestIdOf,
  retryAfter,
  TransportFailure,
} from "./model-call/transport.ts";
export { PartialJson } from "../wire/internal.ts";
