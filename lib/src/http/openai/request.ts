// What is asked for by a posted chat completion, in our words; or why it is refused, with the place.
//
// Rules:
//   1. What cannot be honoured is refused, unless the answer would be the same without it (`ignoredFields`) or it only says what is the case
//      anyway (`unsupportedFields`).
//   2. Nothing here knows the engine: what it allows is for openai-options.ts.
//   3. Tools are the client's to run. `tool_choice: "none"` takes them away, and leaves the engine its own.

import type { Tool } from "../../engine/internal.ts";
import type { Message, ResponseFormat, Result, ToolChoice } from "../../model/internal.ts";
import type { PostedBody, PostedFormat, PostedTool } from "./body.ts";
import type { OpenaiRefusal } from "./error.ts";

import { toolSpec } from "../../model/internal.ts";
import { failed, isPlainObject, ok, read } from "../../model/parse/reading.ts";
import { bodyShape, unsupportedFields } from "./body.ts";
import { refusal, refusalOfIssues } from "./error.ts";
import { messageOf } from "./message.ts";

export type OpenaiRequest = {
  /** The name of an engine. */
  readonly model: string;
  readonly messages: readonly Message[];
  /** Those of the client. */
  readonly tools: readonly Tool[];
  /** `null`: as the engine has it. */
  readonly toolChoice: ToolChoice | null;
  readonly responseFormat: ResponseFormat | null;
  readonly stream: boolean;
  readonly includeUsage: boolean;
  readonly params: OpenaiParams;
};

/** Settings of the model calls; `null`: as the engine has it. */
export type OpenaiParams = {
  readonly temperature: number | null;
  readonly topP: number | null;
  readonly maxTokens: number | null;
  readonly stopSequences: readonly string[];
  readonly seed: number | null;
  readonly parallelToolCalls: boolean | null;
  readonly reasoningEffort: string | null;
};

/** Reads a posted body. Never throws on JSON. */
export function readOpenaiRequest(body: unknown): Result<OpenaiRequest, OpenaiRefusal> {
  const found = read(bodyShape, body);
  if (!("value" in found)) return failed(refusalOfIssues(found.issues));
  const posted = found.value;
  const refused = unsupportedIn(posted) ?? toolsRefusal(posted) ?? messagesRefusal(posted);
  if (refused !== null) return failed(refused);
  const { tool_choice: choice, stream, stream_options: streamed } = posted;
  return ok({
    model: posted.model,
    messages: posted.messages.map(messageOf),
    tools: choice === "none" ? [] : (posted.tools ?? []).map(toolOf),
    toolChoice: toolChoiceOf(choice),
    responseFormat: formatOf(posted.response_format),
    stream: stream ?? false,
    includeUsage: streamed?.include_usage ?? false,
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
  /** Does it say what is the case anyway? */
  readonly fits: (value: unknown) => boolean;
  readonly why: string;
};

const is =
  (...values: readonly unknown[]) =>
  (value: unknown) =>
    values.includes(value);
const never = () => false;

const unsupported: { readonly [Name in (typeof unsupportedFields)[number]]: Unsupported } = {
  audio: { fits: never, why: "answers are text" },
  frequency_penalty: { fits: is(0), why: "penalties are not supported" },
  function_call: { fits: never, why: "use tool_choice" },
  functions: { fits: never, why: "use tools" },
  logit_bias: { fits: (value) => isPlainObject(value) && Object.keys(value).length === 0, why: "it is not supported" },
  logprobs: { fits: is(false), why: "probabilities of tokens are not reported" },
  modalities: { fits: (value) => Array.isArray(value) && value.every(is("text")), why: "answers are text" },
  moderation: { fits: never, why: "it is not supported" },
  n: { fits: is(1), why: "a completion has 1 choice" },
  presence_penalty: { fits: is(0), why: "penalties are not supported" },
  service_tier: { fits: is("auto", "default"), why: "there is one tier" },
  store: { fits: is(false), why: "completions are not stored; use the sessions of this server" },
  top_logprobs: { fits: is(0), why: "probabilities of tokens are not reported" },
  verbosity: { fits: is("medium"), why: "it is not supported; say it in a message" },
  web_search_options: { fits: never, why: "the server's own tools are chosen by whoever runs it" },
};

function unsupportedIn(posted: PostedBody): OpenaiRefusal | null {
  const param = unsupportedFields.find((name) => posted[name] !== null && !unsupported[name].fits(posted[name]));
  if (param === undefined) return null;
  const { fits, why } = unsupported[param];
  const code = fits === never ? "unsupported_parameter" : "unsupported_value";
  return refusal(400, `${param}: ${why}`, { param, code });
}

function toolsRefusal({ tools, tool_choice: choice }: PostedBody): OpenaiRefusal | null {
  const names = (tools ?? []).map(({ function: { name } }) => name);
  const repeated = names.findIndex((name, index) => names.indexOf(name) !== index);
  if (repeated !== -1) {
    const param = `tools[${repeated}].function.name`;
    return refusal(400, `${param}: two tools are called ${names[repeated]}`, { param, code: "duplicate_name" });
  }
  if (choice === null || choice === "auto" || choice === "none") return null;
  const param = "tool_choice";
  if (names.length === 0) return refusal(400, `${param}: there are no tools to choose from`, { param, code: "empty" });
  if (choice === "required" || names.includes(choice.function.name)) return null;
  return refusal(400, `${param}: no tool of this request has that name`, { param, code: "unknown" });
}

function messagesRefusal({ messages }: PostedBody): OpenaiRefusal | null {
  if (messages.length > 0) return null;
  return refusal(400, "messages: at least one message is needed", { param: "messages", code: "empty" });
}

/** `auto` is what the engine would do anyway; with `none` there are no tools of the client's to choose. */
function toolChoiceOf(choice: PostedBody["tool_choice"]): ToolChoice | null {
  if (choice === null || choice === "auto" || choice === "none") return null;
  return choice === "required" ? "required" : { type: "tool", name: choice.function.name };
}

function formatOf(format: PostedFormat | null): ResponseFormat | null {
  if (format === null || format.type === "text") return null;
  if (format.type === "json_object") return format;
  const { name, description, schema, strict } = format.json_schema;
  const said = description === null ? {} : { description };
  return { type: "json_schema", name, schema: { ...said, ...schema }, strict: strict ?? false };
}

/** A tool nobody here can run: its schema is the model's to read, and is never executed by us, since it comes from outside. */
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
    retry: { type: "never" },
    prepare: () => Promise.resolve({ ok: false, issues: [] }),
    toModel: null,
  };
}
