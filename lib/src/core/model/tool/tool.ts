// Tool specifications and tool calls as data. Handlers are not here: `engine/` pairs a specification with a function.

import type { Infer, InferOptional, Shape, WordOf } from "../parse/shape.ts";

import { toolCallOptions, toolOptions } from "../message/provider-options.ts";
import { providerReplayShape } from "../message/provider-replay.ts";
import { emptyObject } from "../parse/json.ts";
import {
  boolean,
  construct,
  either,
  fallback,
  jsonObject,
  literal,
  nullable,
  object,
  oneOf,
  optional,
  required,
  settings,
  string,
} from "../parse/shape.ts";

/**
 * What recovery after a crash does with a tool call that has started and has no recorded result. `safe`: the tool runs
 * again with the same idempotency key (at-least-once). `never`: the tool does not run again (at-most-once), and the
 * call is answered with the failure `outcome_unknown`. `ask`: the call waits for a person to decide. The default is
 * `never`.
 */
export type ReplayPolicy = WordOf<typeof replayPolicies>;
export const replayPolicies = ["safe", "never", "ask"] as const;

/** Names that no tool may have, because a {@link ToolChoice} uses them as keywords. */
export const reservedToolNames = ["auto", "none", "required"] as const;

const namedToolFields = { type: literal("tool"), name: required(string) };

/**
 * Which tools the model may call. `auto`: it decides; `required`: it must call one; an object names the one it
 * must call.
 */
export type ToolChoice = (typeof reservedToolNames)[number] | Infer<typeof namedToolFields>;

export const toolChoiceShape: Shape<ToolChoice> = either(
  (input) => typeof input === "string",
  oneOf(reservedToolNames),
  object(namedToolFields),
);

const providerToolFields = {
  /** The provider that defines the tool. Requests to other providers do not contain it. */
  provider: required(string),
  /** The provider's name for the tool: the field `type` of its definition. */
  name: required(string),
  /** Further fields of the definition, sent as they are. */
  options: fallback(settings, emptyObject),
};

/**
 * A tool that a provider defines: one that it runs itself, such as a web search, or one whose calls the program runs,
 * such as a shell.
 */
export type ProviderTool = Infer<typeof providerToolFields>;

export const providerToolShape: Shape<ProviderTool> = object(providerToolFields);

const toolFields = {
  /** 1 to 64 letters, digits, underscores and hyphens. */
  name: required(string),
  /** Tells the model what the tool does and when to use it. */
  description: required(string),
  /** JSON Schema of the arguments. */
  schema: required(jsonObject),
  /** JSON Schema of the result, for providers and prompts that can use it. */
  outputSchema: fallback(nullable(jsonObject), null),
  /** The run does not execute this tool: it ends, and the caller supplies the result. */
  manual: fallback(boolean, false),
  /** Calls may need an approval before they run. */
  needsApproval: fallback(boolean, false),
  /** What recovery does with a call that has started and has no recorded result (H4). */
  replay: fallback(oneOf<ReplayPolicy>(replayPolicies), "never"),
  /**
   * The provider's own tool that this tool runs the calls of, such as OpenAI's `shell`. It is sent instead of name,
   * description and schema. Absent for an ordinary function tool.
   */
  providerTool: optional(providerToolShape),
  /** Data of the caller. The library stores it and does not interpret it. */
  metadata: fallback(settings, emptyObject),
  /** Fields of a provider's API for this tool, by provider. Sent to that provider only; absent if there are none. */
  providerOptions: toolOptions,
};

/** A tool as data: its description for the model, and how a run treats its calls. */
export type ToolSpec = InferOptional<typeof toolFields>;

export const toolShape: Shape<ToolSpec> = object(toolFields);

/** The fields of a {@link ToolCall}, for shapes that add to them. */
export const toolCallFields = {
  /** The provider's id. Unique within its reply only: some providers count from zero in each reply. */
  id: required(string),
  /** The name of the tool. */
  name: required(string),
  /**
   * The parsed arguments; `null` if the model's text is not a JSON object. The call then fails and the tool does not
   * run.
   */
  arguments: required(nullable(jsonObject)),
  /** The arguments as the model wrote them; `null` if the provider sends an object. */
  rawArguments: fallback(nullable(string), null),
  /** Data that the provider requires back with the call; `null` if there is none. */
  provider: fallback(nullable(providerReplayShape), null),
  /** Data of the caller. The library stores it and does not interpret it. */
  metadata: fallback(settings, emptyObject),
  /** Fields of a provider's API for this call, by provider. Sent to that provider only; absent if there are none. */
  providerOptions: toolCallOptions,
};

/** A tool call made by the model. */
export type ToolCall = InferOptional<typeof toolCallFields>;

export const toolCallShape: Shape<ToolCall> = object(toolCallFields);

type ToolSpecInput = Pick<ToolSpec, "name" | "description" | "schema"> & Partial<ToolSpec>;
/** The loose form of a tool call: fields with a default are optional. */
export type ToolCallInput = Pick<ToolCall, "id" | "name" | "arguments"> & Partial<ToolCall>;

/**
 * Builds a tool specification and fills in defaults. `tool()` builds a tool with a handler. Throws `MisuseError`
 * for an unknown field or a wrong type.
 */
export function toolSpec(fields: ToolSpecInput): ToolSpec {
  return construct("toolSpec", toolShape, fields);
}

/** Builds a tool call and fills in defaults. Throws `MisuseError` for an unknown field or a wrong type. */
export function toolCall(fields: ToolCallInput): ToolCall {
  return construct("toolCall", toolCallShape, fields);
}

/** The text of the arguments of a call: as the model wrote it, otherwise as JSON. */
export function argumentsText({ rawArguments, arguments: args }: Pick<ToolCall, "rawArguments" | "arguments">): string {
  return rawArguments ?? JSON.stringify(args ?? {});
}
