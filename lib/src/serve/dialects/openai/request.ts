// Interprets a posted chat completion as a request of the library, or rejects it with the invalid place.
//
// Rules
//   1. What cannot be honoured is rejected, unless the answer would not differ without it (`ignoredFields`) or it
//      states the default behaviour (`unsupportedFields`).
//   2. This file does not know the engine; options.ts applies its limits.
//   3. System and developer messages would act as those of the operator, so they are rejected unless the operator
//      allows callers to write instructions.
//   4. Tools of the request are executed by the client. `tool_choice: "none"` removes them and leaves the engine's
//      tools.

import type { Tool } from "../../../core/engine/internal.ts";
import type { Message, ResponseFormat, Result, ToolChoice } from "../../../core/model/internal.ts";
import type { ContentPolicy } from "../../http/internal.ts";
import type { PostedBody, PostedFormat, PostedTool, UnsupportedField } from "./body.ts";
import type { OpenaiErrorResponse } from "./error.ts";

import { toolSpec } from "../../../core/model/internal.ts";
import { failed, isPlainObject, keysOf, ok, read } from "../../../core/model/parse/reading.ts";
import { defaultContentPolicy, urlProblem } from "../../http/internal.ts";
import { bodyShape } from "./body.ts";
import { openaiError, errorOfIssues } from "./error.ts";
import { messageOf } from "./message.ts";

/** A request in terms of the library. */
export type OpenaiRequest = {
  /** The name of an engine. */
  readonly model: string;
  readonly messages: readonly Message[];
  /** The tools of the client. */
  readonly tools: readonly Tool[];
  /** `null`: the setting of the engine. */
  readonly toolChoice: ToolChoice | null;
  readonly responseFormat: ResponseFormat | null;
  readonly stream: boolean;
  readonly includeUsage: boolean;
  readonly params: OpenaiParams;
};

/** Settings of the model calls; `null`: the setting of the engine. */
export type OpenaiParams = {
  readonly temperature: number | null;
  readonly topP: number | null;
  readonly maxTokens: number | null;
  readonly stopSequences: readonly string[];
  readonly seed: number | null;
  readonly parallelToolCalls: boolean | null;
  readonly reasoningEffort: string | null;
};

/**
 * Reads a posted body. `allowsInstructions`: messages may have the roles `system` and `developer`. Never throws on
 * JSON.
 */
export function readOpenaiRequest(
  body: unknown,
  policy: ContentPolicy = defaultContentPolicy,
  allowsInstructions = false,
): Result<OpenaiRequest, OpenaiErrorResponse> {
  const parsed = read(bodyShape, body);
  if (!("value" in parsed)) return failed(errorOfIssues(parsed.issues));
  const posted = parsed.value;
  const rejection =
    unsupportedFieldError(posted) ??
    toolsError(posted) ??
    messagesError(posted, policy) ??
    (allowsInstructions ? null : instructionsError(posted));
  if (rejection !== null) return failed(rejection);
  const { tool_choice: choice, stream, stream_options: streamOptions } = posted;
  return ok({
    model: posted.model,
    messages: posted.messages.map(messageOf),
    tools: choice === "none" ? [] : (posted.tools ?? []).map(toolOf),
    toolChoice: toolChoiceOf(choice),
    responseFormat: toResponseFormat(posted.response_format),
    stream: stream ?? false,
    includeUsage: streamOptions?.include_usage ?? false,
    params: {
      temperature: posted.temperature,
      topP: posted.top_p,
      maxTokens: posted.max_completion_tokens ?? posted.max_tokens,
      stopSequences: typeof posted.stop === "string" ? [posted.stop] : (posted.stop ?? []),
      seed: posted.seed,
      parallelToolCalls: posted.parallel_tool_calls,
      reasoningEffort: posted.reasoning_effort,
    },
  });
}

type Unsupported = {
  /** Whether a value states the default behaviour. */
  readonly isDefault: (value: unknown) => boolean;
  readonly why: string;
};

const isOneOf =
  (...values: readonly unknown[]) =>
  (value: unknown) =>
    values.includes(value);
const never = () => false;

/** Every unsupported field with the values that are accepted because they state the default behaviour. */
const unsupported: { readonly [Name in UnsupportedField]: Unsupported } = {
  audio: { isDefault: never, why: "answers are text" },
  frequency_penalty: { isDefault: isOneOf(0), why: "penalties are not supported" },
  function_call: { isDefault: never, why: "use tool_choice" },
  functions: { isDefault: never, why: "use tools" },
  logit_bias: {
    isDefault: (value) => isPlainObject(value) && Object.keys(value).length === 0,
    why: "it is not supported",
  },
  logprobs: { isDefault: isOneOf(false), why: "probabilities of tokens are not reported" },
  modalities: { isDefault: (value) => Array.isArray(value) && value.every(isOneOf("text")), why: "answers are text" },
  moderation: { isDefault: never, why: "it is not supported" },
  n: { isDefault: isOneOf(1), why: "a completion has 1 choice" },
  presence_penalty: { isDefault: isOneOf(0), why: "penalties are not supported" },
  service_tier: { isDefault: isOneOf("auto", "default"), why: "there is one tier" },
  store: { isDefault: isOneOf(false), why: "completions are not stored; use the sessions of this server" },
  top_logprobs: { isDefault: isOneOf(0), why: "probabilities of tokens are not reported" },
  verbosity: { isDefault: isOneOf("medium"), why: "it is not supported; state it in a message" },
  web_search_options: { isDefault: never, why: "the operator of the server chooses its tools" },
};

/** The error for the first unsupported field that has another value than its default. */
function unsupportedFieldError(posted: PostedBody): OpenaiErrorResponse | null {
  const param = keysOf(unsupported).find((name) => posted[name] !== null && !unsupported[name].isDefault(posted[name]));
  if (param === undefined) return null;
  const { isDefault, why } = unsupported[param];
  const code = isDefault === never ? "unsupported_parameter" : "unsupported_value";
  return openaiError(400, `${param}: ${why}`, { param, code });
}

/** Checks that tool names are unique and that `tool_choice` names one of them. */
function toolsError({ tools, tool_choice: choice }: PostedBody): OpenaiErrorResponse | null {
  const names = (tools ?? []).map(({ function: { name } }) => name);
  const repeated = names.findIndex((name, index) => names.indexOf(name) !== index);
  if (repeated !== -1) {
    const param = `tools[${repeated}].function.name`;
    return openaiError(400, `${param}: two tools are named ${names[repeated]}`, { param, code: "duplicate_name" });
  }
  if (choice === null || choice === "auto" || choice === "none") return null;
  const param = "tool_choice";
  if (names.length === 0)
    return openaiError(400, `${param}: there are no tools to choose from`, { param, code: "empty" });
  if (choice === "required" || names.includes(choice.function.name)) return null;
  return openaiError(400, `${param}: no tool of this request has that name`, { param, code: "unknown" });
}

function messagesError({ messages }: PostedBody, policy: ContentPolicy): OpenaiErrorResponse | null {
  for (const [index, message] of messages.entries()) {
    if (message.role !== "user" || typeof message.content === "string") continue;
    for (const [at, part] of message.content.entries()) {
      const problem = part.type === "image_url" ? urlProblem(part.image_url.url, policy) : null;
      const param = `messages[${index}].content[${at}].image_url.url`;
      if (problem !== null) return openaiError(400, `${param}: must ${problem}`, { param, code: "invalid_image" });
    }
  }
  if (messages.length > 0) return null;
  return openaiError(400, "messages: at least one message is needed", { param: "messages", code: "empty" });
}

/** The error for the first system or developer message. */
function instructionsError({ messages }: PostedBody): OpenaiErrorResponse | null {
  const index = messages.findIndex(({ role }) => role === "system" || role === "developer");
  if (index === -1) return null;
  const param = `messages[${index}].role`;
  const message = `${param}: ${messages[index]?.role ?? ""} messages are not allowed: send the text as a user message, or let the operator of the server set allow: ["instructions"]`;
  return openaiError(400, message, { param, code: "not_allowed" });
}

/** `auto` is the default of the engine; with `none` there are no tools of the client to choose from. */
function toolChoiceOf(choice: PostedBody["tool_choice"]): ToolChoice | null {
  if (choice === null || choice === "auto" || choice === "none") return null;
  return choice === "required" ? "required" : { type: "tool", name: choice.function.name };
}

/** The response format. OpenAI has the description beside the schema; the library has it inside. */
function toResponseFormat(format: PostedFormat | null): ResponseFormat | null {
  if (format === null || format.type === "text") return null;
  if (format.type === "json_object") return format;
  const { name, description, schema, strict } = format.json_schema;
  const descriptionField = description === null ? {} : { description };
  return { type: "json_schema", name, schema: { ...descriptionField, ...schema }, strict: strict ?? false };
}

/**
 * A tool without a handler. Its schema is passed to the model and never compiled or executed here, because it comes
 * from an untrusted client.
 */
function toolOf({ function: { name, description, parameters, strict } }: PostedTool): Tool {
  const spec = toolSpec({
    name,
    description: description ?? "",
    schema: parameters ?? { type: "object", properties: {} },
    manual: true,
    metadata: strict === null ? {} : { strict },
  });
  return {
    ...spec,
    hasHandler: false,
    timeoutMs: null,
    concurrency: "parallel",
    retry: { type: "never" },
    prepare: () => Promise.resolve({ ok: false, issues: [] }),
    toModel: null,
  };
}
