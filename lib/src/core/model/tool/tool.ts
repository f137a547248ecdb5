// Tool specifications and tool calls as data. Handlers are not here: `engine/` pairs a specification with a function.

import type { ToolCallProviderOptions, ToolProviderOptions } from "../message/provider-options.ts";
import type { ProviderReplay } from "../message/provider-replay.ts";
import type { JsonObject } from "../parse/json.ts";
import type { Shape } from "../parse/shape.ts";

import { toolCallOptions, toolOptions } from "../message/provider-options.ts";
import { providerReplayShape } from "../message/provider-replay.ts";
import { emptyObject } from "../parse/json.ts";
import {
  boolean,
  construct,
  fallback,
  jsonObject,
  nullable,
  object,
  oneOf,
  optional,
  required,
  settings,
  string,
} from "../parse/shape.ts";

/** A tool as data: its description for the model, and how a run treats its calls. */
export type ToolSpec = {
  /** 1 to 64 letters, digits, underscores and hyphens. */
  readonly name: string;
  /** Tells the model what the tool does and when to use it. */
  readonly description: string;
  /** JSON Schema of the arguments. */
  readonly schema: JsonObject;
  /** JSON Schema of the result, for providers and prompts that can use it. */
  readonly outputSchema: JsonObject | null;
  /** The run does not execute this tool: it ends, and the caller supplies the result. */
  readonly manual: boolean;
  /** Calls may need an approval before they run. */
  readonly needsApproval: boolean;
  /** What recovery does with a call that has started and has no recorded result (H4). */
  readonly replay: ReplayPolicy;
  /**
   * The provider's own tool that this tool runs the calls of, such as OpenAI's `shell`. It is sent instead of name, description and schema.
   * Absent for an ordinary function tool.
   */
  readonly providerTool?: ProviderTool;
  /** Data of the caller. The library stores it and does not interpret it. */
  readonly metadata: JsonObject;
  /** Fields of a provider's API for this tool, by provider. Sent to that provider only; absent if there are none. */
  readonly providerOptions?: ToolProviderOptions;
};

/**
 * What recovery after a crash does with a tool call that has started and has no recorded result. `safe`: the tool runs again with the same
 * idempotency key (at-least-once). `never`: the tool does not run again (at-most-once), and the call is answered with the failure
 * `outcome_unknown`. `ask`: the call waits for a person to decide. The default is `never`.
 */
export type ReplayPolicy = (typeof replayPolicies)[number];
export const replayPolicies = ["safe", "never", "ask"] as const;

/** A tool that a provider defines: one that it runs itself, such as a web search, or one whose calls the program runs, such as a shell. */
export type ProviderTool = {
  /** The provider that defines the tool. Requests to other providers do not contain it. */
  readonly provider: string;
  /** The provider's name for the tool: the field `type` of its definition. */
  readonly name: string;
  /** Further fields of the definition, sent as they are. */
  readonly options: JsonObject;
};

/** A tool call made by the model. */
export type ToolCall = {
  /** The provider's id. Unique within its reply only: some providers count from zero in each reply. */
  readonly id: string;
  /** The name of the tool. */
  readonly name: string;
  /** The parsed arguments; `null` if the model's text is not a JSON object. The call then fails and the tool does not run. */
  readonly arguments: JsonObject | null;
  /** The arguments as the model wrote them; `null` if the provider sends an object. */
  readonly rawArguments: string | null;
  /** Data that the provider requires back with the call; `null` if there is none. */
  readonly provider: ProviderReplay | null;
  /** Data of the caller. The library stores it and does not interpret it. */
  readonly metadata: JsonObject;
  /** Fields of a provider's API for this call, by provider. Sent to that provider only; absent if there are none. */
  readonly providerOptions?: ToolCallProviderOptions;
};

/**
 * Which tools the model may call. `auto`: it decides; `required`: it must call one; an object names the one it
 * must call.
 */
export type ToolChoice = "auto" | "none" | "required" | { readonly type: "tool"; readonly name: string };

/** Names that no tool may have, because a {@link ToolChoice} uses them as keywords. */
export const reservedToolNames = ["auto", "none", "required"] as const;

export const providerToolShape: Shape<ProviderTool> = object<ProviderTool>({
  provider: required(string),
  name: required(string),
  options: fallback(settings, emptyObject),
});

export const toolShape: Shape<ToolSpec> = object<ToolSpec>({
  name: required(string),
  description: required(string),
  schema: required(jsonObject),
  outputSchema: fallback(nullable(jsonObject), null),
  manual: fallback(boolean, false),
  needsApproval: fallback(boolean, false),
  replay: fallback(oneOf(replayPolicies), "never"),
  providerTool: optional(providerToolShape),
  metadata: fallback(settings, emptyObject),
  providerOptions: toolOptions,
});

/** The fields of a {@link ToolCall}, for shapes that add to them. */
export const toolCallFields = {
  id: required(string),
  name: required(string),
  arguments: required(nullable(jsonObject)),
  rawArguments: fallback(nullable(string), null),
  provider: fallback(nullable(providerReplayShape), null),
  metadata: fallback(settings, emptyObject),
  providerOptions: toolCallOptions,
};

export const toolCallShape: Shape<ToolCall> = object<ToolCall>(toolCallFields);

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
