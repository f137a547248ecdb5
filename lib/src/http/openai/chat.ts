// `POST /v1/chat/completions` over engines, and `GET /v1/models`: what OpenAI's clients say and expect, with no transport around it.
//
// Rules:
//   1. Stateless: the conversation is what was posted, and nothing of it is kept. A model is an engine, by its name.
//   2. The engine's instructions come first, system and developer messages of the client after them, in their places.
//   3. The engine's own tools run here, inside the completion, and are not shown; so what they did is not in the next request, unless the answer
//      says it. The client's tools are the client's to run: a call of one ends the completion. Where one reply calls both, the engine's run
//      first, and the next request does not know what they gave.
//   4. What an engine's tool waits for (consent, an answer, a person) cannot be given here: that ends with an error that says so.
//   5. What goes wrong before anything was shown is an answer with a status; after that it is an `error` frame, and the stream ends without `[DONE]`.
//      So is a new attempt at a step of which something was shown: this API cannot take it back.
//   6. When the signal is aborted, or the frames are left, so is the run.

import type { Engine } from "../../engine/internal.ts";
import type { JsonObject } from "../../model/internal.ts";
import type { Plan } from "../../run/internal.ts";
import type { OpenaiRefusal } from "./error.ts";
import type { Telling } from "./reply.ts";
import type { OpenaiRequest } from "./request.ts";

import { newRequestId, planRun, streamPlan } from "../../run/internal.ts";
import { noRetry, refusal, refusalOfThrown } from "./error.ts";
import { optionsOf } from "./options.ts";
import { ChunkTeller, completionOf, endingOf, renderChunk, renderedEnd, renderError } from "./reply.ts";
import { readOpenaiRequest } from "./request.ts";

/** Engines by the names they have as models. */
export type OpenaiEngines = { readonly [name: string]: Engine };

type OpenaiAnswer = OpenaiReply | { readonly type: "stream"; readonly frames: AsyncIterable<string> };

type OpenaiReply = {
  readonly type: "reply";
  readonly status: number;
  readonly headers: { readonly [name: string]: string };
  readonly body: JsonObject;
};

type OpenaiChatOptions = {
  /** Aborted when whoever asked has gone. */
  readonly signal?: AbortSignal;
  /** Told what lies behind an answer with a status of 500 or more. */
  readonly onError?: (error: unknown) => void;
};

/** Answers a posted chat completion. Never rejects. */
export async function openaiChat(
  engines: OpenaiEngines,
  body: unknown,
  options: OpenaiChatOptions = {},
): Promise<OpenaiAnswer> {
  const { signal, onError } = options;
  const refuse = (refused: OpenaiRefusal): OpenaiReply => {
    if (refused.status >= 500) onError?.(refused.cause);
    return replyOf(refused);
  };
  const read = readOpenaiRequest(body);
  if (!read.ok) return refuse(read.failure);
  const request = read.value;
  const engine = engineOf(engines, request.model);
  if (engine === null) return refuse(unknownModel(engines, request.model));
  const allowed = optionsOf(engine, request);
  if (!allowed.ok) return refuse(allowed.failure);
  const leaving = new AbortController();
  const onAbort = () => leaving.abort(signal?.reason);
  if (signal?.aborted === true) onAbort();
  signal?.addEventListener("abort", onAbort, { once: true });
  const over = () => signal?.removeEventListener("abort", onAbort);
  try {
    const plan = planRun(engine, request.messages, { ...allowed.value, signal: leaving.signal }, { verb: "chat" });
    const telling = tellingOf(plan, request);
    if (!request.stream) {
      const result = await streamPlan(plan).result;
      const ending = endingOf(result, telling);
      over();
      if (ending.type === "refused") return refuse(ending.refusal);
      return { type: "reply", status: 200, headers: {}, body: completionOf(result, ending.finishReason, telling) };
    }
    const told = tell(plan, telling);
    const first = await told.next();
    if (first.done !== true && first.value.type === "refused") {
      await told.return();
      over();
      return refuse(first.value.refusal);
    }
    return { type: "stream", frames: framesOf(first, told, { leaving, over, onError }) };
  } catch (error) {
    over();
    return refuse(refusalOfThrown(error, false));
  }
}

/** All models, as `GET /v1/models` lists them. */
export function openaiModels(engines: OpenaiEngines): JsonObject {
  return { object: "list", data: Object.keys(engines).map(modelOf) };
}

/** One model, as `GET /v1/models/{name}` shows it. */
export function openaiModel(engines: OpenaiEngines, name: string): OpenaiReply {
  if (engineOf(engines, name) === null) return replyOf(unknownModel(engines, name));
  return { type: "reply", status: 200, headers: {}, body: modelOf(name) };
}

function modelOf(id: string): JsonObject {
  // Engines have no birthday.
  return { id, object: "model", created: 0, owned_by: "everturn" };
}

function engineOf(engines: OpenaiEngines, name: string): Engine | null {
  return Object.hasOwn(engines, name) ? (engines[name] ?? null) : null;
}

function unknownModel(engines: OpenaiEngines, name: string): OpenaiRefusal {
  const known = Object.keys(engines);
  const some = known.slice(0, 20).join(", ") + (known.length > 20 ? ", …" : "");
  const message = `there is no model ${JSON.stringify(name.slice(0, 100))}; there are ${some}`;
  return refusal(404, message, { param: "model", code: "model_not_found" });
}

function replyOf({ status, headers, error }: OpenaiRefusal): OpenaiReply {
  return { type: "reply", status, headers, body: { error: { ...error } } };
}

function tellingOf({ engine, config, output, onCheckpoint }: Plan, request: OpenaiRequest): Telling {
  const { model, tools, responseFormat, includeUsage } = request;
  const isJson = responseFormat !== null || output !== null || engine.options.responseFormat !== undefined;
  const severalReplies = engine.tools.length > 0 || onCheckpoint !== null || (output !== null && output.repair > 0);
  return {
    id: `chatcmpl-${newRequestId()}`,
    created: Math.floor(engine.clock.now() / 1000),
    model,
    clientTools: new Set(tools.map(({ name }) => name)),
    holds: engine.protocol.type === "code" || config.structuredFinalize !== null || (isJson && severalReplies),
    includeUsage,
  };
}

type Told =
  | { readonly type: "chunk"; readonly chunk: JsonObject }
  | { readonly type: "refused"; readonly refusal: OpenaiRefusal };

/** What a run comes to, chunk by chunk; a refusal is the last word. */
async function* tell(plan: Plan, telling: Telling): AsyncGenerator<Told, void, void> {
  const teller = new ChunkTeller(telling);
  let toolsRan = false;
  try {
    for await (const event of streamPlan(plan)) {
      toolsRan ||= event.type === "tool_execution_started";
      const chunks = teller.hear(event);
      if (chunks === null) {
        const message =
          "the model failed in the middle of its answer and another attempt was about to begin; what was streamed is void, send the request again";
        yield { type: "refused", refusal: refusal(502, message, { code: "step_reset", headers: noRetry }) };
        return;
      }
      for (const chunk of chunks) yield { type: "chunk", chunk };
      if (event.type !== "chat_completed") continue;
      const ending = endingOf(event.result, telling);
      if (ending.type === "refused") yield ending;
      else for (const chunk of teller.end(event.result, ending.finishReason)) yield { type: "chunk", chunk };
    }
  } catch (error) {
    yield { type: "refused", refusal: refusalOfThrown(error, toolsRan) };
  }
}

/** Frames as they are sent. Leaving them ends the run, also one that says nothing at the moment. */
function framesOf(
  first: IteratorResult<Told, void>,
  told: AsyncGenerator<Told, void, void>,
  {
    leaving,
    over,
    onError,
  }: { readonly leaving: AbortController; readonly over: () => void; readonly onError: OpenaiChatOptions["onError"] },
): AsyncIterable<string> {
  let begun: IteratorResult<Told, void> | null = first;
  let isOver = false;
  const finish = async (): Promise<void> => {
    isOver = true;
    over();
    await told.return();
  };
  const next = async (): Promise<IteratorResult<string, undefined>> => {
    if (isOver) return { done: true, value: undefined };
    const heard = begun ?? (await told.next());
    begun = null;
    if (heard.done === true) {
      await finish();
      return { done: false, value: renderedEnd };
    }
    if (heard.value.type === "chunk") return { done: false, value: renderChunk(heard.value.chunk) };
    const { status, error, cause } = heard.value.refusal;
    if (status >= 500) onError?.(cause);
    await finish();
    return { done: false, value: renderError(error) };
  };
  const leave = async (): Promise<IteratorResult<string, undefined>> => {
    leaving.abort(new DOMException("the stream was left", "AbortError"));
    await finish();
    return { done: true, value: undefined };
  };
  return { [Symbol.asyncIterator]: () => ({ next, return: leave }) };
}
