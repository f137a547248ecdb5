// Routes for clients of OpenAI's chat completions, over engines.
//
// The protocol itself is in the other files of this folder, which know no HTTP. This file declares the
// routes, and the ending of a stream by failure or shutdown in the form that the client understands. The client takes a
// stream that ends without an error for a complete one, so a shutdown is an error frame here and not a comment.

import type { Engine } from "../../../core/engine/internal.ts";
import type { JsonObject, Usage } from "../../../core/model/internal.ts";
import type { Caller, DialectSettings, ResponseDescription, Route, RouteCall } from "../../http/internal.ts";
import type { OpenaiEngines } from "./chat.ts";
import type { OpenaiError } from "./error.ts";

import { renderPath } from "../../../core/model/internal.ts";
import {
  bodyRoute,
  contextOf,
  errorResponse,
  failureOf,
  json,
  jsonAnswer,
  route,
  streamed,
} from "../../http/internal.ts";
import { foreignBody } from "../shared/foreign-body.ts";
import { openaiChat, openaiModel, openaiModels } from "./chat.ts";
import { openaiError } from "./error.ts";
import { renderError } from "./reply.ts";

const render = (text: string) => text;

/** A client would take a stream that ends without an error for a complete one. */
const openaiShutdownFrame = renderError(
  openaiError(503, "this process is shutting down; send the request again", { code: "shutting_down" }).error,
);

/** The response for an error of a route of this dialect, in OpenAI's error format. */
export function completionErrorResponse(error: unknown): Response {
  const { status, headers } = errorResponse(error);
  return new Response(JSON.stringify({ error: errorOf(error, status) }), { status, headers });
}

const renderFailure = (error: unknown): string => renderError(errorOf(error, errorResponse(error).status));

function errorOf(error: unknown, status: number): OpenaiError {
  const { reason, message, path: invalidPath } = failureOf(error).failure;
  const param = invalidPath === undefined || invalidPath.length === 0 ? null : renderPath(invalidPath);
  return openaiError(status, message, { code: reason, param }).error;
}

/** The engines that the caller may use. */
function enginesOf(all: OpenaiEngines, { engines }: Caller): OpenaiEngines {
  return engines === undefined
    ? all
    : Object.fromEntries(Object.entries(all).filter(([name]) => engines.includes(name)));
}

/**
 * Runs a completion with the engines, the context and the tenant of the caller, within the limits of the runtime, and
 * books its usage in the ledger of the tenant. `release` gives the slots of the limits back.
 */
function runCompletion(
  { caller, sessions, request, validity: { ended } }: RouteCall,
  engines: OpenaiEngines,
  options: DialectSettings,
) {
  let release: (() => Promise<void>) | null = null;
  const onUsage = (usage: Usage, model: string | null) => void sessions.book(usage, { model }).catch(options.onError);
  const settings = {
    ...options,
    signal: ended === null ? request.signal : AbortSignal.any([request.signal, ended]),
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
export function openaiRoutes(engines: OpenaiEngines, options: DialectSettings): readonly Route[] {
  const error: ResponseDescription = jsonAnswer("An error in OpenAI's format.", {
    type: "object",
    required: ["error"],
  });
  return [
    bodyRoute({
      method: "POST",
      path: "/v1/chat/completions",
      operationId: "createChatCompletion",
      scope: "write",
      summary: "Creates a chat completion in OpenAI's format. Stateless: only its usage is stored.",
      body: foreignBody,
      uses: "run",
      answers: {
        200: {
          description: "A completion, or a stream of chunks.",
          content: { "application/json": { type: "object" }, "text/event-stream": { type: "object" } },
        },
        default: error,
      },
      handle: (call, body) => {
        const run = runCompletion(call, engines, options);
        const start = async () => {
          const answer = await run.answer(body);
          if (answer.type === "reply") {
            await run.release();
            // The run was aborted.
            call.validity.ended?.throwIfAborted();
            return json(answer.body, answer.status, answer.headers);
          }
          const onClose = () => void run.release();
          return streamed({
            events: answer.frames,
            render,
            renderFailure,
            shutdownFrame: openaiShutdownFrame,
            onClose,
          });
        };
        return { streams: body["stream"] === true, start };
      },
    }),
    route({
      method: "GET",
      path: "/v1/models",
      uses: "nothing",
      operationId: "listModels",
      scope: "read",
      summary: "Lists the models in OpenAI's format.",
      answers: { 200: jsonAnswer("A list.", { type: "object", required: ["object", "data"] }) },
      handle: async ({ caller }) => json(openaiModels(enginesOf(engines, caller))),
    }),
    route({
      method: "GET",
      path: "/v1/models/{model}",
      uses: "nothing",
      operationId: "getModel",
      scope: "read",
      summary: "Returns one model in OpenAI's format.",
      answers: { 200: jsonAnswer("A model.", { type: "object", required: ["id"] }), default: error },
      handle: async ({ caller, param }) => {
        const { body, status } = openaiModel(enginesOf(engines, caller), param("model"));
        return json(body, status);
      },
    }),
  ];
}
