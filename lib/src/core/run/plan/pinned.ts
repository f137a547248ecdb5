// The pinned configuration of a turn: all of its configuration that is data. It is stored with the turn and does not
// change until the turn ends, so a deploy changes the next turn and never an open one. Functions and adapters are not
// data; they come from the engine of the process that drives the turn.

import type { Budgets, ChatOptions, EngineProtocol, OnToolError, OptionsWith } from "../../engine/internal.ts";
import type {
  ChatProtocolOptions,
  CodeProtocolOptions,
  ContextProjector,
  RequestConfig,
  TurnPolicy,
} from "../../kernel/internal.ts";
import type { Environment, Json, StructuredFormat, ValidationFailure } from "../../model/internal.ts";
import type { Result } from "../../model/internal.ts";
import type { Shape } from "../../model/parse/reading.ts";

import { isOwnProtocol } from "../../engine/internal.ts";
import { turnConfig } from "../../kernel/internal.ts";
import { validationFailure } from "../../model/internal.ts";
import {
  boolean,
  count,
  emptyObject,
  environmentShape,
  failed,
  fallback,
  json,
  jsonObject,
  nullable,
  number,
  object,
  ok,
  oneOf,
  optional,
  read,
  required,
  string,
  variant,
} from "../../model/parse/reading.ts";

/** The pinned configuration. Stored; see `readPinned`. */
export type Pinned = {
  /** Instructions, model, tools and settings that the turn starts with. */
  readonly environment: Environment;
  readonly policy: PinnedPolicy;
  readonly protocol: PinnedProtocol;
  /** The projector of the engine; `null`: that of the library. */
  readonly projector: PinnedName | null;
  readonly limits: PinnedLimits;
};

/** The stored form of each option with `pinned: "limits"`. JSON has no infinity: `null` is no limit. */
type LimitForms = {
  readonly budgets: Budgets;
  readonly toolTimeout: number | null;
  readonly cancelGraceMs: number;
  /** `null`: the default. Without a limit: `noLimit`. */
  readonly maxConcurrency: number | null;
  /** `null`: the default. Without a limit: `noLimit`. */
  readonly maxToolCalls: number | null;
  readonly maxToolResultLength: number;
  /** `null`: a function of the engine decides. */
  readonly onToolError: "continue" | "halt" | null;
};

/** The pinned limits. The table of run options names the fields. */
type PinnedLimits = { readonly [Name in OptionsWith<{ readonly pinned: "limits" }>]: LimitForms[Name] };

/** The options with `pinned: "protocol"`; `undefined`: no source sets the option. */
type ProtocolSettings = {
  readonly [Name in OptionsWith<{ readonly pinned: "protocol" }>]: ChatOptions[Name] | undefined;
};

/** The policy of the machine, without the parts that belong to the protocol. */
type PinnedPolicy = Omit<TurnPolicy, "autonomous" | "stopAfter" | "termination">;

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

/** The protocol and its options. */
export type PinnedProtocol =
  | ({ readonly type: "chat" } & ChatProtocolOptions)
  | ({ readonly type: "code" } & Omit<CodeProtocolOptions, "aliases">)
  | OwnPinned;

/** A protocol of one's own: the functions are found by name and version. */
type OwnPinned = PinnedName & {
  readonly type: "own";
  readonly termination: Json;
  readonly stopAfter: ChatProtocolOptions["stopAfter"];
};

/** The name and version by which the engine of a process finds a protocol or a projector. */
export type PinnedName = { readonly name: string; readonly version: number };

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
/** The default of `cancelGraceMs`, in milliseconds, as in lash. */
export const defaultCancelGraceMs = 50;

const stopAfter = fallback(nullable(oneOf(["step", "reply"] as const)), null);
const onEmptyReply = oneOf(["complete", "error"] as const);

const nameFields = { name: required(string), version: required(count) };

const protocolShape: Shape<PinnedProtocol> = variant<PinnedProtocol, "type">("type", {
  chat: object<Extract<PinnedProtocol, { type: "chat" }>>({
    type: required(oneOf(["chat"])),
    mode: fallback(oneOf(["auto", "manual"] as const), "auto"),
    onUnknownTool: fallback(oneOf(["error", "answer"] as const), "error"),
    stopAfter,
    onEmptyReply: fallback(onEmptyReply, "complete"),
  }),
  code: object<Extract<PinnedProtocol, { type: "code" }>>({
    type: required(oneOf(["code"])),
    language: required(string),
    requireFinish: fallback(boolean, false),
    stopAfter,
    onEmptyReply: fallback(onEmptyReply, "error"),
  }),
  own: object<OwnPinned>({
    type: required(oneOf(["own"])),
    ...nameFields,
    termination: fallback(json, null),
    stopAfter,
  }),
});

const formatShape: Shape<StructuredFormat> = variant<StructuredFormat, "type">("type", {
  json_object: object<Extract<StructuredFormat, { type: "json_object" }>>({ type: required(oneOf(["json_object"])) }),
  json_schema: object<Extract<StructuredFormat, { type: "json_schema" }>>({
    type: required(oneOf(["json_schema"])),
    name: required(string),
    schema: fallback(jsonObject, emptyObject),
    strict: fallback(boolean, true),
  }),
});

const pinnedShape: Shape<Pinned> = object<Pinned>({
  environment: required(environmentShape),
  policy: required(
    object<PinnedPolicy>({
      syncEnvironment: fallback(boolean, false),
      startCheckpoint: fallback(boolean, false),
      maxTurns: fallback(nullable(number), null),
      maxContextTokens: fallback(nullable(number), null),
      turnLimitFinalMessage: fallback(nullable(string), null),
      structuredFinalize: fallback(
        nullable(
          object<NonNullable<PinnedPolicy["structuredFinalize"]>>({
            format: required(formatShape),
            nudge: required(string),
          }),
        ),
        null,
      ),
    }),
  ),
  protocol: required(protocolShape),
  projector: fallback(nullable(object<PinnedName>(nameFields)), null),
  limits: required(
    object<PinnedLimits>({
      budgets: fallback(
        object<Budgets>({
          steps: optional(number),
          tokens: optional(number),
          cost: optional(number),
          timeMs: optional(number),
          noProgress: optional(number),
        }),
        {},
      ),
      toolTimeout: fallback(nullable(number), null),
      cancelGraceMs: fallback(number, defaultCancelGraceMs),
      maxConcurrency: fallback(nullable(number), null),
      maxToolCalls: fallback(nullable(number), null),
      maxToolResultLength: required(number),
      onToolError: fallback(nullable(oneOf(["continue", "halt"] as const)), null),
    }),
  ),
});

/** Reads a stored pinned configuration. Fields that older releases did not write get their defaults (S1). */
export function readPinned(stored: Json): Result<Pinned, ValidationFailure> {
  const result = read(pinnedShape, stored);
  if ("value" in result) return ok(result.value);
  return failed(validationFailure("invalid_data", { issues: result.issues, metadata: { type: "pinned" } }));
}
