// `POST /v1/chat/completions` over engines, and `GET /v1/models`: OpenAI's protocol without a transport. routes.ts
// serves it over HTTP.
//
// Order of operations: read the body (request.ts), find the engine, apply the engine's limits (options.ts), run, encode
// the run as one completion or as chunks (reply.ts). A stream reads its first item before it answers, so that an early
// failure gets a status.
//
// Rules
//   1. Stateless: the conversation is the posted one, and is not stored. A model name is the name of an engine. The
//      usage of the run is reported to `onUsage`, which books it in the ledger of the tenant. A run takes slots of the
//      runtime's limits (`admit`).
//   2. The engine's instructions come first. System and developer messages of the client need
//      `allow: ["instructions"]`, and follow in their places.
//   3. The engine's tools run inside of the completion and are not shown, so the next request does not contain their
//      results unless the answer does. The client's tools are executed by the client: a call of one ends the
//      completion. If one reply calls both, the engine's tools run first, and their results are lost for the next
//      request. A posted call of an engine's tool is therefore forged, with or without a result, and the request is
//      rejected (options.ts).
//   4. A pending call of an engine's tool (approval, question, manual result) cannot be answered here; it is an error.
//   5. A failure before the first chunk is a response with a status. After that it is an `error` frame, and the stream
//      ends without `[DONE]`. A reset of a step that was already shown is such a failure: this API cannot withdraw
//      chunks.
//   6. Aborting the signal or leaving the frames aborts the run.

import type { Engine } from "../../../core/engine/internal.ts";
import type { JsonObject, Usage } from "../../../core/model/internal.ts";
import type { Plan } from "../../../core/run/internal.ts";
import type { ContentPolicy } from "../../http/internal.ts";
import type { OpenaiErrorResponse } from "./error.ts";
import type { EncodingSettings } from "./reply.ts";
import type { OpenaiRequest } from "./request.ts";

import { newRequestId, planRun, streamPlan } from "../../../core/run/internal.ts";
import { noRetry, openaiError, errorOfThrown } from "./error.ts";
import { optionsOf } from "./options.ts";
import { ChunkEncoder, completionOf, endingOf, renderChunk, renderedEnd, renderError } from "./reply.ts";
import { readOpenaiRequest } from "./request.ts";

/** Engines by model name. */
export type OpenaiEngines = { readonly [name: string]: Engine };

type OpenaiAnswer = OpenaiReply | { readonly type: "stream"; readonly frames: AsyncIterable<string> };

type OpenaiReply = {
  readonly type: "reply";
  readonly status: number;
  readonly headers: { readonly [name: string]: string };
  readonly body: JsonObject;
};

type OpenaiChatOptions = {
  /** Aborted when the client disconnects. */
  readonly signal?: AbortSignal;
  /** Which files and URLs the messages may contain. */
  readonly policy?: ContentPolicy;
  /** Whether messages may have the roles `system` and `developer`. Default: false. */
  readonly allowsInstructions?: boolean;
  /** The tenant of the caller, for middleware and executors. Default: none. */
  readonly tenant?: string;
  /**
   * Called before the run of a valid request, which the limits of the runtime may reject. Default: there are no limits.
   */
  readonly admit?: (engine: Engine, model: string) => Promise<void>;
  /** The context that tool handlers receive. Default: `{}`. */
  readonly context?: JsonObject;
  /** Called once with the usage of a run when it has ended, also if it failed or the client left it. */
  readonly onUsage?: (usage: Usage, model: string | null) => void;
  /** Called with the cause of every response with a status of 500 or more. */
  readonly onError?: (error: unknown) => void;
};

/** Runs a posted chat completion. Never rejects: every failure is a response or an `error` frame. */
export async function openaiChat(
  engines: OpenaiEngines,
  body: unknown,
  options: OpenaiChatOptions = {},
): Promise<OpenaiAnswer> {
  const { signal, onError, onUsage, context = {}, tenant = null, allowsInstructions = false } = options;
  const reject = (errorResponse: OpenaiErrorResponse): OpenaiReply => {
    if (errorResponse.status >= 500) onError?.(errorResponse.cause);
    return replyOf(errorResponse);
  };
  const parsed = readOpenaiRequest(body, options.policy, allowsInstructions);
  if (!parsed.ok) return reject(parsed.failure);
  const request = parsed.value;
  const engine = engineOf(engines, request.model);
  if (engine === null) return reject(unknownModel(request.model));
  const runOptions = optionsOf(engine, request);
  if (!runOptions.ok) return reject(runOptions.failure);
  const leaving = new AbortController();
  const runSignal = signal === undefined ? leaving.signal : AbortSignal.any([signal, leaving.signal]);
  try {
    const plan = planRun(
      engine,
      request.messages,
      { ...runOptions.value, context, signal: runSignal },
      { verb: "chat" },
    );
    await options.admit?.(engine, request.model);
    const settings = encodingSettings(plan, request);
    if (!request.stream) {
      const result = await streamPlan(plan, tenant).result;
      onUsage?.(result.usage, result.finalResponse?.model ?? null);
      const ending = endingOf(result, settings);
      if (ending.type === "failed") return reject(ending.errorResponse);
      return { type: "reply", status: 200, headers: {}, body: completionOf(result, ending.finishReason, settings) };
    }
    const items = encodeRun(plan, settings, { tenant, onUsage });
    const first = await items.next();
    if (first.done !== true && first.value.type === "failed") {
      await items.return();
      return reject(first.value.errorResponse);
    }
    return { type: "stream", frames: streamFrames(first, items, leaving, onError) };
  } catch (error) {
    return reject(errorOfThrown(error, false));
  }
}

/** All models, as `GET /v1/models` lists them. */
export function openaiModels(engines: OpenaiEngines): JsonObject {
  return { object: "list", data: Object.keys(engines).map(modelOf) };
}

/** One model, as `GET /v1/models/{name}` shows it. */
export function openaiModel(engines: OpenaiEngines, name: string): OpenaiReply {
  if (engineOf(engines, name) === null) return replyOf(unknownModel(name));
  return { type: "reply", status: 200, headers: {}, body: modelOf(name) };
}

function modelOf(id: string): JsonObject {
  // Engines have no creation time; the field is required by the API.
  return { id, object: "model", created: 0, owned_by: "everturn" };
}

/** `hasOwn` keeps names such as `constructor` and `__proto__` from finding properties of the prototype. */
function engineOf(engines: OpenaiEngines, name: string): Engine | null {
  return Object.hasOwn(engines, name) ? (engines[name] ?? null) : null;
}

function unknownModel(name: string): OpenaiErrorResponse {
  const message = `unknown model ${JSON.stringify(name.slice(0, 100))}; GET /v1/models lists the models of this key`;
  return openaiError(404, message, { param: "model", code: "model_not_found" });
}

function replyOf({ status, headers, error }: OpenaiErrorResponse): OpenaiReply {
  return { type: "reply", status, headers, body: { error: { ...error } } };
}

/**
 * How a run is encoded. Text is held back until the end if only the final answer may be shown: code that an engine
 * writes, replies of a protocol of one's own, a structured finalize pass, and JSON answers of runs that may have
 * several replies.
 */
function encodingSettings({ engine, config, output, options }: Plan, request: OpenaiRequest): EncodingSettings {
  const { model, tools, responseFormat, includeUsage } = request;
  const isJson = responseFormat !== null || output !== null || engine.options.responseFormat !== undefined;
  const severalReplies =
    engine.tools.length > 0 || options.onCheckpoint !== undefined || (output !== null && output.repair > 0);
  return {
    id: `chatcmpl-${newRequestId()}`,
    created: Math.floor(engine.clock.now() / 1000),
    model,
    clientTools: new Set(tools.map(({ name }) => name)),
    holdsBackText: engine.protocol.type !== "chat" || config.structuredFinalize !== null || (isJson && severalReplies),
    includeUsage,
  };
}

type EncodedItem =
  | { readonly type: "chunk"; readonly chunk: JsonObject }
  | { readonly type: "failed"; readonly errorResponse: OpenaiErrorResponse };

/** The run as chunks. A failed item is the last one. */
async function* encodeRun(
  plan: Plan,
  settings: EncodingSettings,
  { tenant, onUsage }: { readonly tenant: string | null; readonly onUsage: OpenaiChatOptions["onUsage"] },
): AsyncGenerator<EncodedItem, void, void> {
  const encoder = new ChunkEncoder(settings);
  const events = streamPlan(plan, tenant);
  let toolsRan = false;
  try {
    for await (const event of events) {
      toolsRan ||= event.type === "tool_execution_started";
      const chunks = encoder.encode(event);
      if (chunks === null) {
        const message =
          "the model call failed during its answer and would be retried; the streamed chunks are void, send the request again";
        yield { type: "failed", errorResponse: openaiError(502, message, { code: "step_reset", headers: noRetry }) };
        return;
      }
      for (const chunk of chunks) yield { type: "chunk", chunk };
      if (event.type !== "chat_completed") continue;
      const ending = endingOf(event.result, settings);
      if (ending.type === "failed") yield ending;
      else for (const chunk of encoder.end(event.result, ending.finishReason)) yield { type: "chunk", chunk };
    }
  } catch (error) {
    yield { type: "failed", errorResponse: errorOfThrown(error, toolsRan) };
  } finally {
    // The run has ended here: completely, by its failure, or because the iteration was left.
    const report = onUsage ?? (() => undefined);
    await events.result.then(
      ({ usage, finalResponse }) => report(usage, finalResponse?.model ?? null),
      () => undefined,
    );
  }
}

/**
 * The SSE frames of a stream, beginning with an item that was read before. Leaving the iteration aborts the run with
 * `leaving`, also while it waits for the model.
 */
function streamFrames(
  first: IteratorResult<EncodedItem, void>,
  items: AsyncGenerator<EncodedItem, void, void>,
  leaving: AbortController,
  onError: OpenaiChatOptions["onError"],
): AsyncIterable<string> {
  let firstItem: IteratorResult<EncodedItem, void> | null = first;
  let isFinished = false;
  const finish = async (): Promise<void> => {
    isFinished = true;
    await items.return();
  };
  const next = async (): Promise<IteratorResult<string, undefined>> => {
    if (isFinished) return { done: true, value: undefined };
    const item = firstItem ?? (await items.next());
    firstItem = null;
    if (item.done === true) {
      await finish();
      return { done: false, value: renderedEnd };
    }
    if (item.value.type === "chunk") return { done: false, value: renderChunk(item.value.chunk) };
    const { status, error, cause } = item.value.errorResponse;
    if (status >= 500) onError?.(cause);
    await finish();
    return { done: false, value: renderError(error) };
  };
  const leaveStream = async (): Promise<IteratorResult<string, undefined>> => {
    leaving.abort(new DOMException("the client left the stream", "AbortError"));
    await finish();
    return { done: true, value: undefined };
  };
  return { [Symbol.asyncIterator]: () => ({ next, return: leaveStream }) };
}
