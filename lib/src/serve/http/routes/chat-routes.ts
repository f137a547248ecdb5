// Routes for clients of other libraries: the AI SDK's chat (`useChat`) over sessions, and OpenAI's chat completions over engines.
//
// The protocols themselves are in ui/ and openai/, which know no HTTP. This file adds slots of the concurrency limits, streams,
// and the ending of a stream by failure or shutdown in the form that each client understands. Both clients take a stream that
// ends without an error for a complete one, so a shutdown is an error frame here and not a comment.

import type { Engine } from "../../../core/engine/internal.ts";
import type { JsonObject, Usage } from "../../../core/model/internal.ts";
import type { Caller } from "../auth.ts";
import type { ContentPolicy } from "../content-policy.ts";
import type { OpenaiEngines } from "../openai/chat.ts";
import type { SseSource } from "../sse.ts";
import type { UiStream } from "../ui/chat.ts";
import type { UiChunk } from "../ui/chunks.ts";
import type { UiSdk } from "../ui/translator.ts";
import type { Parameter, ResponseDescription, RouteCall, Route } from "./route.ts";

import { renderPath } from "../../../core/model/internal.ts";
import { checkEngineOf, contextOf, engineOfNew } from "../auth.ts";
import { errorResponse, failureOf, redactedJson } from "../failure.ts";
import { checkQuery, queryParameter, wholeNumber } from "../input.ts";
import { openaiChat, openaiModel, openaiModels } from "../openai/chat.ts";
import { openaiError } from "../openai/error.ts";
import { renderError } from "../openai/reply.ts";
import { objectSchema, optionalField, stringSchema } from "../openapi/body-schema.ts";
import { jsonAnswer } from "../openapi/schemas.ts";
import { frame } from "../sse.ts";
import { loadUiChat, postUiChat, resumeUiChat, stopUiChat } from "../ui/chat.ts";
import { foreignBody } from "./foreign-body.ts";
import { bodyRoute, json, releaseOnError, route } from "./route.ts";
import { noSession } from "./session-routes.ts";
import { cancelAnswers, cancelResponse, turnHeaders } from "./turn-answer.ts";

const uiStream: ResponseDescription = {
  description: "A UI message stream of the AI SDK, version 1.",
  content: { "text/event-stream": { type: "object" } },
};

/** The AI SDK's client reads the protocol version from this header. */
const protocolHeader = { "x-vercel-ai-ui-message-stream": "v1" };

/** The headers of a stream: the protocol version, and the ids of session and turn. */
const uiHeaders = (call: RouteCall, { turn }: UiStream) => ({ ...turnHeaders(call, turn), ...protocolHeader });

type StopBody = { readonly turnId?: string };

/** The major version of the client's SDK: 6 if the request says so, otherwise 7. */
function sdkOf({ request }: RouteCall): UiSdk {
  return /^6(?:\.|$)/.test(request.headers.get("ai-sdk-version") ?? "") ? 6 : 7;
}

const beforeParameter: Parameter = {
  name: "before",
  description: "The cursor `previous` of a later page. Default: the newest messages.",
  schema: { type: "integer", minimum: 0 },
};

const doneFrame = frame("[DONE]");

const uiFrame = (chunk: UiChunk) => frame(redactedJson(chunk, "event"));

const uiFrames = (chunks: readonly UiChunk[]) => chunks.map(uiFrame).join("");

/** The client would take a stream that ends without an error for a complete one. */
const uiShutdownFrame = uiFrame({
  type: "error",
  errorText: "shutting_down: this process is shutting down; resume the chat",
});

const renderFailure = (error: unknown) => uiFrame({ type: "error", errorText: errorText(error) }) + doneFrame;

function uiSource({ chunks, turn }: UiStream): SseSource<readonly UiChunk[]> {
  return {
    events: chunks,
    failWith: turn.result,
    render: uiFrames,
    renderFailure,
    shutdownFrame: uiShutdownFrame,
    finalFrames: async () => doneFrame,
  };
}

function errorText(error: unknown): string {
  const { reason, message } = failureOf(error).failure;
  return `${reason}: ${message}`;
}

/** The AI SDK's chat. The chat id is the session id. */
export const uiRoutes = (policy: ContentPolicy): readonly Route[] => [
  bodyRoute<JsonObject>({
    method: "POST",
    path: "/ui/chat",
    operationId: "postUiChat",
    summary:
      "Accepts the newest user message of a posted chat, or its answers to pending calls, and streams the turn. A message that is regenerated or edited continues the chat in a fork of the session.",
    body: foreignBody,
    answers: { 200: uiStream },
    handle: (call, body) => postChat(call, body, policy),
  }),
  route({
    method: "GET",
    path: "/ui/chat/{id}/stream",
    operationId: "resumeUiChat",
    summary: "Streams the open turn from the start of its message. 204 if no turn is open.",
    answers: { 200: uiStream, 204: { description: "No turn is running." } },
    handle: async (call) => {
      await call.pageSlot();
      const stream = await resumeUiChat(call.sessions, call.param("id"), { sdk: sdkOf(call) });
      if (stream === null) return new Response(null, { status: 204 });
      return call.server.acquireStream(call).respond(uiSource(stream), uiHeaders(call, stream));
    },
  }),
  bodyRoute<StopBody>({
    method: "POST",
    path: "/ui/chat/{id}/stop",
    operationId: "stopUiChat",
    pool: "cancel",
    summary: "Cancels the open turn of the chat. The client's `stop()` alone only closes its connection.",
    body: objectSchema<StopBody>({ turnId: optionalField(stringSchema) }),
    answers: cancelAnswers,
    handle: (call, { turnId }) => cancelResponse(call, stopUiChat(call.sessions, call.param("id"), turnId)),
  }),
  route({
    method: "GET",
    path: "/ui/chat/{id}",
    operationId: "loadUiChat",
    summary:
      "Returns the newest messages of the conversation as messages of the AI SDK. `previous` is the cursor `before` of the messages before them; null if there are none.",
    query: [beforeParameter],
    answers: {
      200: jsonAnswer("The chat.", { type: "object", required: ["id", "messages", "previous", "status", "version"] }),
    },
    handle: async ({ sessions, param, url, server, pageSlot }) => {
      checkQuery(url.searchParams, ["before"]);
      const before = queryParameter(url.searchParams, "before", wholeNumber);
      const { pageLength } = server.limits;
      const page = { maxLength: pageLength, ...(before === undefined ? {} : { before: `${before}` }) };
      await pageSlot();
      const chat = await loadUiChat(sessions, param("id"), page);
      if (chat === null) throw noSession(param("id"));
      return json(chat);
    },
  }),
];

/** Acquires a turn slot and a stream slot before it passes the post to the session, and a page slot, because it reads messages of the chat. */
async function postChat(call: RouteCall, body: JsonObject, policy: ContentPolicy): Promise<Response> {
  const { server, caller, sessions } = call;
  const { name = null } = caller;
  await call.pageSlot();
  const engine = await engineOfChat(call, body);
  const releaseTurn = server.acquireTurn(caller);
  return releaseOnError(releaseTurn, async () => {
    const slot = server.acquireStream(call);
    const { copiedLengthPerHour } = server.limits;
    const options = { turnContext: contextOf(caller) };
    const start = { context: contextOf(caller), ...(engine === undefined ? {} : { engine }) };
    const stream = await releaseOnError(slot.release, () =>
      postUiChat(sessions, body, { options, start, by: name, sdk: sdkOf(call), policy, copiedLengthPerHour }),
    );
    stream.turn.result.then(releaseTurn, releaseTurn);
    return slot.respond(uiSource(stream), uiHeaders(call, stream));
  });
}

/** The engine of a new chat; `undefined`: the default. Rejects with 403 if the caller may not use that of an existing chat. */
async function engineOfChat({ sessions, caller, server }: RouteCall, { id }: JsonObject): Promise<string | undefined> {
  if (caller.engines === undefined) return undefined;
  const isId = typeof id === "string" && id !== "" && id.length <= server.limits.idLength;
  // Branches of a chat have the engine of its first session.
  const view = isId ? await sessions.get(id, { messages: 0 }) : null;
  if (view !== null) checkEngineOf(caller, view.engine);
  return view === null ? engineOfNew(caller, undefined) : undefined;
}

const render = (text: string) => text;

/** A client would take a stream that ends without an error for a complete one. */
const openaiShutdownFrame = renderError(
  openaiError(503, "this process is shutting down; send the request again", { code: "shutting_down" }).error,
);

/** The error response for a path: paths under `/v1/` get OpenAI's error format, all others the format of this API. */
export function errorResponseFor(path: string, error: unknown): Response {
  const response = errorResponse(error);
  if (!path.startsWith("/v1/")) return response;
  const { reason, message, path: invalidPath } = failureOf(error).failure;
  const param = invalidPath === undefined || invalidPath.length === 0 ? null : renderPath(invalidPath);
  const body = { error: openaiError(response.status, message, { code: reason, param }).error };
  return new Response(JSON.stringify(body), { status: response.status, headers: response.headers });
}

/** The engines that the caller may use. */
function enginesOf(all: OpenaiEngines, { engines }: Caller): OpenaiEngines {
  return engines === undefined
    ? all
    : Object.fromEntries(Object.entries(all).filter(([name]) => engines.includes(name)));
}

/** What callers may post, and where internal errors go. */
type CompletionOptions = {
  readonly policy: ContentPolicy;
  /** Whether messages may have the roles `system` and `developer`. */
  readonly allowsInstructions: boolean;
  readonly onError: (error: unknown) => void;
};

/**
 * Runs a completion with the engines, the context and the tenant of the caller, within the limits of the runtime, and books its usage in the ledger of the tenant. `release` gives the slots of the
 * limits back.
 */
function runCompletion({ caller, sessions, request }: RouteCall, engines: OpenaiEngines, options: CompletionOptions) {
  let release: (() => Promise<void>) | null = null;
  const onUsage = (usage: Usage, model: string | null) => void sessions.book(usage, { model }).catch(options.onError);
  const settings = {
    ...options,
    signal: request.signal,
    context: contextOf(caller),
    tenant: caller.tenant ?? "",
    onUsage,
    admit: async (engine: Engine, model: string) => {
      release = await sessions.admit(engine, model);
    },
  };
  return {
    answer: (body: JsonObject) => openaiChat(enginesOf(engines, caller), body, settings),
    release: async () => release?.().catch(options.onError),
  };
}

/** Chat completions over engines. The keys of `engines` are the model names that clients use. */
export function openaiRoutes(engines: OpenaiEngines, options: CompletionOptions): readonly Route[] {
  const error: ResponseDescription = jsonAnswer("An error in OpenAI's format.", {
    type: "object",
    required: ["error"],
  });
  return [
    bodyRoute<JsonObject>({
      method: "POST",
      path: "/v1/chat/completions",
      operationId: "createChatCompletion",
      summary: "Creates a chat completion in OpenAI's format. Stateless: only its usage is stored.",
      body: foreignBody,
      answers: {
        200: {
          description: "A completion, or a stream of chunks.",
          content: { "application/json": { type: "object" }, "text/event-stream": { type: "object" } },
        },
        default: error,
      },
      handle: async (call, body) => {
        const releaseTurn = call.server.acquireTurn(call.caller);
        return releaseOnError(releaseTurn, async () => {
          const slot = body["stream"] === true ? call.server.acquireStream(call) : null;
          const run = runCompletion(call, engines, options);
          const answer = await releaseOnError(
            () => slot?.release(),
            () => run.answer(body),
          );
          if (answer.type === "stream") {
            const { frames } = answer;
            const onClose = () => {
              releaseTurn();
              void run.release();
            };
            const source = { events: frames, render, shutdownFrame: openaiShutdownFrame, onClose };
            return (slot ?? call.server.acquireStream(call)).respond(source);
          }
          slot?.release();
          releaseTurn();
          await run.release();
          return json(answer.body, answer.status, answer.headers);
        });
      },
    }),
    route({
      method: "GET",
      path: "/v1/models",
      operationId: "listModels",
      summary: "Lists the models in OpenAI's format.",
      answers: { 200: jsonAnswer("A list.", { type: "object", required: ["object", "data"] }) },
      handle: async ({ caller }) => json(openaiModels(enginesOf(engines, caller))),
    }),
    route({
      method: "GET",
      path: "/v1/models/{model}",
      operationId: "getModel",
      summary: "Returns one model in OpenAI's format.",
      answers: { 200: jsonAnswer("A model.", { type: "object", required: ["id"] }), default: error },
      handle: async ({ caller, param }) => {
        const { body, status } = openaiModel(enginesOf(engines, caller), param("model"));
        return json(body, status);
      },
    }),
  ];
}
