// Builds the pinned configuration of a new run from its engine, request and options.

import type { Adapter, AnySchema, ChatOptions, Engine, Tool } from "../../engine/internal.ts";
import type {
  CallerContext,
  JsonSchemaFormat,
  ModelRequest,
  ProviderTool,
  Thread,
  ToolSpec,
} from "../../model/internal.ts";
import type { Pinned } from "./pinned.ts";
import type { ResolvedOptions } from "./plan-options.ts";
import type { PlanDetails } from "./plan.ts";

import {
  clientTools,
  contextLimits,
  hostedTools,
  isOwnProtocol,
  resolveModel,
  specOf,
  toJsonSchema,
} from "../../engine/internal.ts";
import { contextRevision, kernelRevision, withoutForcedChoice } from "../../kernel/internal.ts";
import { invalidArgument, request as modelRequest, ValidationError } from "../../model/internal.ts";
import { defaultCancelGraceMs, noLimit, pinnedProtocol } from "./pinned.ts";
import { requestParams } from "./plan-options.ts";

/** What the configuration follows from, besides the engine. */
type PinSources<Context extends CallerContext> = Pick<
  PlanDetails,
  "verb" | "request" | "messages" | "turnCauses" | "revision"
> & {
  /** The options of the call alone: for settings of requests, those of the request come before those of the engine. */
  readonly callOptions: ChatOptions<Context>;
  readonly options: ResolvedOptions<Context>;
  readonly adapter: Adapter;
  readonly tools: readonly Tool<Context>[];
  readonly thread: Thread;
};

/** Builds the pinned configuration of a new run. */
export function pin<Context extends CallerContext>(engine: Engine<Context>, sources: PinSources<Context>): Pinned {
  const { verb, request, callOptions, options, adapter, tools, revision = kernelRevision } = sources;
  const { params, body } = requestParams(engine, request, callOptions);
  const format = options.responseFormat ?? request?.responseFormat ?? outputFormat(options.output);
  const model = resolveModel(engine, { model: callOptions.model ?? request?.model ?? null });
  const listedTools = callOptions.providerTools ?? providerToolsOf(request) ?? engine.options.providerTools ?? [];
  const ownSpecs = request === undefined || request.tools.length === 0 ? tools.map(specOf) : request.tools;
  const specs = [...ownSpecs, ...listedSpecs(ownSpecs, listedTools)];
  const probe = modelRequest([], { ...params, model, tools: specs, responseFormat: format });
  const wantsFinalize = options.structuredFinalize ?? adapter.needsFinalize?.(probe) ?? false;
  const finalize = verb === "chat" && wantsFinalize ? finalizeOf(format, options.structuredFinalizeNudge) : null;
  const stopAfter = verb === "chat" ? null : verb === "step" ? "step" : "reply";
  const environment = {
    instructions: options.instructions ?? "",
    model,
    tools: specs,
    providerTools: hostedTools(listedTools),
    params: {
      ...params,
      ...(format === null || finalize !== null ? {} : { responseFormat: { ...format } }),
      ...(Object.keys(body).length === 0 ? {} : { options: body }),
    },
  };
  const context = revision < contextRevision ? null : contextLimits(engine, adapter, model);
  const { mode, onUnknownTool, onEmptyReply, onToolError, maxConcurrency, maxToolCalls } = options;
  if (isOwnProtocol(engine.protocol)) checkOwnOptions(engine.protocol.name, { mode, onUnknownTool, onEmptyReply });
  return {
    // `generate` is one call: its settings are those of the caller.
    environment: verb !== "generate" && isAnswered(sources) ? withoutForcedChoice(environment) : environment,
    policy: {
      syncEnvironment: options.prepareStep !== undefined && verb === "chat",
      startCheckpoint: options.hooks?.beforeTurn !== undefined && verb !== "generate",
      maxTurns: verb === "chat" ? options.maxTurns : null,
      maxContextTokens: model !== null && typeof model === "object" ? (model.limits?.context ?? null) : null,
      ...(context === null ? {} : { context }),
      turnLimitFinalMessage: options.turnLimitMessage ?? null,
      structuredFinalize: finalize,
    },
    protocol: pinnedProtocol(engine.protocol, { mode, onUnknownTool, onEmptyReply }, stopAfter),
    projector: engine.projector === null ? null : { name: engine.projector.name, version: engine.projector.version },
    limits: {
      budgets: options.budgets ?? {},
      toolTimeout: Number.isFinite(options.toolTimeout) ? options.toolTimeout : null,
      cancelGraceMs: options.cancelGraceMs ?? defaultCancelGraceMs,
      maxConcurrency: maxConcurrency === undefined ? null : Math.min(maxConcurrency, noLimit),
      maxToolCalls: maxToolCalls === undefined ? null : Math.min(maxToolCalls, noLimit),
      maxToolResultLength: options.maxToolResultLength,
      onToolError: typeof onToolError === "function" ? null : (onToolError ?? "continue"),
    },
  };
}

/**
 * The options of the built-in protocols have no effect on a protocol of one's own. Throws `MisuseError` if one is set:
 * a caller would rely on it.
 */
function checkOwnOptions(protocol: string, options: { readonly [name: string]: unknown }): void {
  const name = Object.keys(options).find((option) => options[option] !== undefined);
  if (name === undefined) return;
  const instead = `a protocol that wraps the chat protocol sets it: chatProtocol({ ${name} })`;
  const message = `${name} is an option of the built-in protocols, which the protocol ${JSON.stringify(protocol)} does not read; ${instead}`;
  throw invalidArgument(message, [name]);
}

/**
 * Has the model replied since the last user message? Then the turn continues after a wait, and a forced tool choice has
 * had its effect. The answer to a question of a tool is part of the wait.
 */
function isAnswered<Context extends CallerContext>({
  thread,
  messages = [],
  turnCauses = [],
}: PinSources<Context>): boolean {
  if (turnCauses.length > 0) return false;
  const all = [...thread.messages, ...messages];
  const last = all.findLastIndex(({ role }) => role === "user" || role === "event" || role === "assistant");
  if (all[last]?.role === "assistant") return true;
  const before = all[last - 1];
  return before?.role === "assistant" && before.metadata["askUser"] === true;
}

/** The specifications of provider tools that were listed without a handler and whose calls reach the program. */
function listedSpecs(specs: readonly ToolSpec[], listedTools: readonly ProviderTool[]): readonly ToolSpec[] {
  const listed = clientTools(listedTools).map(specOf);
  const repeated = listed.find(({ name }) => specs.some((spec) => spec.name === name));
  if (repeated === undefined) return listed;
  throw invalidArgument(
    `the tool "${repeated.name}" is in tools and in providerTools; build one tool: providerTool({ provider, name, options, handler })`,
    ["providerTools"],
  );
}

/** The provider tools of a request; `null` if it has none, so that those of the engine apply. */
function providerToolsOf(request: ModelRequest | undefined): ModelRequest["providerTools"] | null {
  return request === undefined || request.providerTools.length === 0 ? null : request.providerTools;
}

function outputFormat(output: AnySchema | undefined): JsonSchemaFormat | null {
  if (output === undefined) return null;
  return { type: "json_schema", name: "output", schema: toJsonSchema(output, "output"), strict: true };
}

function finalizeOf(format: ModelRequest["responseFormat"], nudge: string): Pinned["policy"]["structuredFinalize"] {
  if (format === null || format.type === "text") {
    const message = "structuredFinalize needs output, or a responseFormat of type json_schema or json_object";
    const issues = [{ path: ["structuredFinalize"], code: "requires_json_schema" as const, message }];
    throw new ValidationError("invalid_request", { issues });
  }
  return { format, nudge };
}
