// Names that sibling folders of lib/src use besides the public ones. This is not an entry point of the package: nothing
// listed here is covered by the rules for public names, and any of it can change in any release.

export * from "./index.ts";
export * from "./advanced.ts";

export type { Fallback, NeededContext, TypedEngine } from "./engine.ts";
export type { CellSettings, EngineProtocol } from "./protocol.ts";
export { cellSettingsOf, isOwnProtocol, projectorNamed, protocolNamed } from "./protocol.ts";
export { contextLimits } from "./context-policy.ts";
export { checkTools, engine } from "./engine.ts";
export type { ModelStream, WrappedCall } from "./middleware.ts";
export { configuration } from "./configure.ts";
export type { CheckpointDirective, Hooks } from "./options.ts";
export { busyPolicies, isBusyPolicy } from "./options.ts";
export type { Rule, Rules } from "./option-rules.ts";
export {
  aFunction,
  aName,
  anObject,
  anything,
  aString,
  atLeastOne,
  checkOptions,
  checkRule,
  finiteAmount,
  listOfFunctions,
  namesOf,
  numberIn,
  objectOf,
  oneOf,
  positive,
} from "./option-rules.ts";
export type {
  ChatSettings,
  DurableRefusal,
  EngineOptions,
  GenerateSettings,
  OptionKind,
  OptionRow,
  OptionsWith,
  RequestField,
  RequestOptions,
  RunOptionName,
  StepSettings,
} from "./run-options.ts";
export { isRunOption, numericOptions, requestFields, runOptionNames, runOptionTable } from "./run-options.ts";
export type { RedactionPlace, Secrets } from "./redaction.ts";
export { failureWithoutKey, hasRedaction, redacted, withoutKey } from "./redaction.ts";
export type { ContinuedTurn, ObservedSpan, SpanEnd, SpanInput, SpanObserver, SpanStart } from "./span-observer.ts";
export type { OpenSpan, SpanName } from "./telemetry.ts";
export { emitTelemetry, observeSpans, startSpan, traceOfTurn } from "./telemetry.ts";

// model-call
export { mergeAdapterOptions } from "./model-call/adapter.ts";
export { missingCapabilities } from "./model-call/capability.ts";
export { placeInCall, isMisplacedParam } from "./option-place.ts";
export { withCatalogData } from "./model-call/catalog.ts";
export type { KeySource } from "./model-call/keys.ts";
export { environmentVariable } from "./model-call/environment-variable.ts";
export { findKey, readKey, parseDotenv } from "./model-call/keys.ts";
export { priceOf, withCosts } from "./model-call/pricing.ts";
export { delayBefore, isRetryable, retryPolicy, withRetries } from "./model-call/retry.ts";
export type { Timeouts, TransportLimits } from "./model-call/call-limits.ts";
export { defaultLimits, defaultTimeouts } from "./model-call/call-limits.ts";
export type { FetchLike, HttpClient, ResponseHeaders } from "./model-call/http-client.ts";
export { fetchClient, httpClient } from "./model-call/http-client.ts";
export type { HttpAnswer } from "./model-call/transport.ts";
export { TransportFailure, sendRequest, requestIdOf, retryAfter } from "./model-call/transport.ts";

// The system clock and the parser of partial JSON, for layers that may import the engine and not the folders they come
// from.
export { nextTask, systemClock } from "../clock/clock.ts";
export { PartialJson } from "../wire/internal.ts";

// tool
export { isDirective } from "./tool/directive.ts";
export type { CellLimits, CellResult, CellRun } from "./tool/executor.ts";
export { defaultCellLimits } from "./tool/executor.ts";
export type { AnySchema, Checked, OutputSchema } from "./tool/schema.ts";
export { checkStandard, checkValue, isStandardSchema, toJsonSchema } from "./tool/schema.ts";
export { clientTools, hostedTools } from "./tool/provider-tool.ts";
export type { CheckableTool, PreparedCall, RunChild } from "./tool/tool.ts";
export { specOf } from "./tool/tool.ts";
