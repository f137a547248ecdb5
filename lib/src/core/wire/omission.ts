// Constructors of omissions, and the warnings that they give.

import type { Message, ModelRequest, Warning } from "../model/internal.ts";
import type { Omission } from "./codec.ts";

/**
 * A setting or a part that the API, the server or the model has no field for. `why` completes the sentence "<path> is
 * not sent: <why>".
 */
export function unsupported(path: string, why: string): Omission {
  return { path, reason: "unsupported", message: `${path} is not sent: ${why}` };
}

/** A forced tool in a request without tools. */
export const choiceWithoutTools: Omission = unsupported("toolChoice", "the request has no tools that can be chosen");

/** Why a JSON Schema is not sent to a server with the quirk `jsonSchema: false`. */
export const noSchemaOutput = "the server has no output by JSON Schema; JSON without a schema is requested";

/** A tool that another provider runs. */
export function foreignTool(index: number, provider: string): Omission {
  return unsupported(`providerTools[${index}]`, `it is a tool of the provider ${provider}`);
}

/** Does the request force a tool call? */
export function isForced({ toolChoice }: Pick<ModelRequest, "toolChoice">): boolean {
  return toolChoice === "required" || (typeof toolChoice === "object" && toolChoice !== null);
}

/** The name of the author of a message, for APIs without a field for it. The path is relative to the message. */
export function authorName({ name }: Pick<Message, "name">): readonly Omission[] {
  return name === null ? [] : [unsupported(".name", "the API has no field for the author of a message")];
}

/**
 * The fields of `ModelRequest` by the names that the APIs give them. A field of a body that is not listed is the
 * library's own.
 */
const requestFields: ReadonlyMap<string, string> = new Map([
  ["context_management", "compactAt"],
  ["max_completion_tokens", "maxTokens"],
  ["max_output_tokens", "maxTokens"],
  ["max_tokens", "maxTokens"],
  ["maxOutputTokens", "maxTokens"],
  ["output_config", "responseFormat"],
  ["parallel_tool_calls", "parallelToolCalls"],
  ["prompt_cache_key", "promptCache.key"],
  ["prompt_cache_retention", "promptCache.retention"],
  ["reasoning", "reasoning"],
  ["reasoning_effort", "reasoning.effort"],
  ["response_format", "responseFormat"],
  ["responseJsonSchema", "responseFormat.schema"],
  ["responseMimeType", "responseFormat"],
  ["random_seed", "seed"],
  ["seed", "seed"],
  ["stop", "stopSequences"],
  ["stop_sequences", "stopSequences"],
  ["stopSequences", "stopSequences"],
  ["systemInstruction", "messages"],
  ["temperature", "temperature"],
  ["text", "responseFormat"],
  ["thinking", "reasoning"],
  ["thinkingConfig", "reasoning"],
  ["tool_choice", "toolChoice"],
  ["toolConfig", "toolChoice"],
  ["tools", "tools"],
  ["top_p", "topP"],
  ["topP", "topP"],
]);

/** A field of the body that `quirks.without` removes. It is a warning if the caller set it. */
export function removedField(field: string): Omission {
  const path = requestFields.get(field);
  if (path === undefined) return { path: field, reason: "unsupported" };
  return unsupported(path, `the server does not accept the field ${field}`);
}

/**
 * The omission of a message as an omission of the request. Its path, and the start of its sentence, are relative to the
 * message.
 */
export function inMessage(messagePath: string, omission: Omission): Omission {
  const { path, reason, message } = omission;
  return {
    path: `${messagePath}${path}`,
    reason,
    ...(message === undefined ? {} : { message: `${messagePath}${message}` }),
  };
}

/** The warnings for the caller: the omissions with a sentence. */
export function warningsOf(omissions: readonly Omission[]): readonly Warning[] {
  return omissions.flatMap(({ path, reason, message }) =>
    message === undefined || reason === "foreign_replay" ? [] : [{ reason, path, message }],
  );
}
