// The pinned configuration of a turn: all of its configuration that is data. It is stored with the turn and does not
// change until the turn ends, so a deploy changes the next turn and never an open one. Functions and adapters are not
// data; they come from the engine of the process that drives the turn.

import type { ChatOptions, EngineProtocol, OnToolError, OptionsWith } from "../../engine/internal.ts";
import type {
  ChatProtocolOptions,
  ContextLimits,
  ContextProjector,
  RequestConfig,
  TurnPolicy,
} from "../../kernel/internal.ts";
import type { Json, Result, ToolMode, ValidationFailure } from "../../model/internal.ts";
import type { Infer, InferUnion } from "../../model/parse/reading.ts";

import { isOwnProtocol } from "../../engine/internal.ts";
import { contextLimitsShape, turnConfig } from "../../kernel/internal.ts";
import { validationFailure } from "../../model/internal.ts";
import {
  boolean,
  budgetsShape,
  count,
  environmentShape,
  failed,
  fallback,
  json,
  nullable,
  number,
  object,
  ok,
  oneOf,
  optional,
  read,
  required,
  string,
  structuredFormatShape,
  variant,
} from "../../model/parse/reading.ts";

/** The default of `cancelGraceMs`, in milliseconds, as in lash. */
export const defaultCancelGraceMs = 50;

const nameFields = { name: required(string), version: required(count) };

/** The name and version by which the engine of a process finds a protocol or a projector. */
export type PinnedName = Infer<typeof nameFields>;

const stopAfter = fallback(nullable(oneOf(["step", "reply"])), null);
const onEmptyReply = oneOf(["complete", "error"]);

/** Fields of the pinned protocols, by the type of the protocol. */
const protocolCases = {
  chat: {
    mode: fallback(oneOf<ToolMode>(["auto", "manual"]), "auto"),
    onUnknownTool: fallback(oneOf(["error", "answer"]), "error"),
    stopAfter,
    onEmptyReply: fallback(onEmptyReply, "complete"),
  },
  code: {
    language: required(string),
    requireFinish: fallback(boolean, false),
    stopAfter,
    onEmptyReply: fallback(onEmptyReply, "error"),
  },
  /** A protocol of one's own: the functions are found by name and version. */
  own: { ...nameFields, termination: fallback(json, null), stopAfter },
};

/** The protocol and its options. */
export type PinnedProtocol = InferUnion<"type", typeof protocolCases>;

/** The stored form of each option with `pinned: "limits"`. JSON has no infinity: `null` is no limit. */
const limitFields = {
  budgets: fallback(budgetsShape, {}),
  toolTimeout: fallback(nullable(number), null),
  cancelGraceMs: fallback(number, defaultCancelGraceMs),
  /** `null`: the default. Without a limit: `noLimit`. */
  maxConcurrency: fallback(nullable(number), null),
  /** `null`: the default. Without a limit: `noLimit`. */
  maxToolCalls: fallback(nullable(number), null),
  maxToolResultLength: required(number),
  /** `null`: a function of the engine decides. */
  onToolError: fallback(nullable(oneOf(["continue", "halt"])), null),
} satisfies { readonly [Name in OptionsWith<{ readonly pinned: "limits" }>]: unknown };

type PinnedLimits = Infer<typeof limitFields>;

/**
 * The policy of the machine, without the parts that belong to the protocol. Context limits are absent if there are
 * none: the configuration is stored as it is, and releases before format 5 refuse the field.
 */
type PinnedPolicy = Omit<TurnPolicy, "autonomous" | "stopAfter" | "termination" | "context"> & {
  readonly context?: ContextLimits;
};

const pinnedFields = {
  /** Instructions, model, tools and settings that the turn starts with. */
  environment: required(environmentShape),
  policy: required(
    object<PinnedPolicy>({
      syncEnvironment: fallback(boolean, false),
      startCheckpoint: fallback(boolean, false),
      maxTurns: fallback(nullable(number), null),
      maxContextTokens: fallback(nullable(number), null),
      context: optional(contextLimitsShape),
      turnLimitFinalMessage: fallback(nullable(string), null),
      structuredFinalize: fallback(
        nullable(object({ format: required(structuredFormatShape), nudge: required(string) })),
        null,
      ),
    }),
  ),
  protocol: required(variant("type", protocolCases)),
  /** The projector of the engine; `null`: that of the library. */
  projector: fallback(nullable(object(nameFields)), null),
  limits: required(object(limitFields)),
};

/** The pinned configuration. Stored; see `readPinned`. */
export type Pinned = Infer<typeof pinnedFields>;

const pinnedShape = object(pinnedFields);

/** The options with `pinned: "protocol"`; `undefined`: no source sets the option. */
type ProtocolSettings = {
  readonly [Name in OptionsWith<{ readonly pinned: "protocol" }>]: ChatOptions[Name] | undefined;
};

/** The limits of a run. */
export type Limits = { readonly [Name in keyof PinnedLimits]: Exclude<ChatOptions[Name], undefined> };

/** The pinned limits, with the defaults of this release. `onToolError`: the function of the engine, if one decides. */
export function limitsOf({ limits }: Pinned, onToolError: OnToolError = "continue"): Limits {
  return {
    ...limits,
    toolTimeout: limits.toolTimeout ?? Number.POSITIVE_INFINITY,
    maxConcurrency: limits.maxConcurrency ?? defaultMaxConcurrency,
    maxToolCalls: limits.maxToolCalls ?? defaultMaxToolCalls,
    onToolError: limits.onToolError ?? onToolError,
  };
}

/** The kernel configuration of a turn with this pinned configuration, without its protocol, which `run.ts` adds. */
export function configOf(
  { environment, policy, protocol }: Pinned,
  projector: ContextProjector | null,
  sessionId: string,
): RequestConfig {
  const { instructions, model, tools, providerTools, params } = environment;
  return turnConfig({
    ...policy,
    ...(projector === null ? {} : { projector }),
    termination: protocol.type === "own" ? protocol.termination : null,
    stopAfter: protocol.stopAfter,
    sessionId,
    model,
    systemPrompt: instructions ?? "",
    toolSpecs: tools,
    providerTools,
    generation: params,
  });
}

/** The protocol of the engine, with the options of a run and their defaults. */
export function pinnedProtocol(
  protocol: EngineProtocol,
  { mode = "auto", onUnknownTool = "error", onEmptyReply }: ProtocolSettings,
  stopAfter: ChatProtocolOptions["stopAfter"],
): PinnedProtocol {
  if (isOwnProtocol(protocol)) {
    const { name, version, termination } = protocol;
    return { type: "own", name, version, termination, stopAfter };
  }
  if (protocol.type === "chat") {
    return { type: "chat", mode, onUnknownTool, stopAfter, onEmptyReply: onEmptyReply ?? "complete" };
  }
  return {
    type: "code",
    language: protocol.executor.language,
    requireFinish: protocol.requireFinish ?? protocol.finish !== undefined,
    stopAfter,
    onEmptyReply: onEmptyReply ?? "error",
  };
}

/**
 * The defaults of `maxConcurrency` and `maxToolCalls`. They are not pinned: earlier releases had no limits, and a
 * replay of their turns is compared with the configuration of today.
 */
const defaultMaxConcurrency = 16;
const defaultMaxToolCalls = 1000;
/** The stored form of `Infinity` for options whose `null` is the default. */
export const noLimit = Number.MAX_SAFE_INTEGER;
/** Reads a stored pinned configuration. Fields that older releases did not write get their defaults (S1). */
export function readPinned(stored: Json): Result<Pinned, ValidationFailure> {
  const result = read(pinnedShape, stored);
  if ("value" in result) return ok(result.value);
  return failed(validationFailure("invalid_data", { issues: result.issues, metadata: { type: "pinned" } }));
}
