// What other people's clients ask for: the chat of the AI SDK (`useChat`) over sessions, and OpenAI's chat completions over engines.

import type { JsonObject } from "../../model/internal.ts";
import type { OpenaiEngines } from "../openai/chat.ts";
import type { Described } from "../openapi/described.ts";
import type { SseSource } from "../sse.ts";
import type { UiStream } from "../ui/chat.ts";
import type { UiChunk } from "../ui/chunks.ts";
import type { Answer, Call, Route } from "./route.ts";

import { renderPath } from "../../model/internal.ts";
import { jsonObject } from "../../model/parse/reading.ts";
import { failed, failureOf } from "../failure.ts";
import { openaiChat, openaiModel, openaiModels } from "../openai/chat.ts";
import { refusal } from "../openai/error.ts";
import { renderError } from "../openai/reply.ts";
import { jsonAnswer } from "../openapi/schemas.ts";
import { frame } from "../sse.ts";
import { loadUiChat, postUiChat, resumeUiChat } from "../ui/chat.ts";
import { bodyRoute, json, orLeave, route } from "./route.ts";
import { noSession } from "./session-routes.ts";

/** A body in somebody else's words: they read it themselves. */
const foreign: Described<JsonObject> = { shape: jsonObject, schema: { type: "object" } };

const uiStream: Answer = {
  description: "A UI message stream of the AI SDK, version 1.",
  content: { "text/event-stream": { type: "object" } },
};

const uiHeaders = { "x-vercel-ai-ui-message-stream": "v1" };

const done = frame("[DONE]");

const uiFrame = (chunk: UiChunk) => frame(JSON.stringify(chunk));

/** The client takes a stream that ends for one that is whole, unless it is told. */
const uiStopped = uiFrame({
  type: "error",
  errorText: "shutting_down: this process is about to stop; resume the chat",
});

function uiSource({ chunks, turn }: UiStream): SseSource<UiChunk> {
  const failed = (error: unknown) => uiFrame({ type: "error", errorText: errorText(error) }) + done;
  return { events: chunks, of: turn.result, render: uiFrame, failed, goodbye: uiStopped, last: async () => done };
}

function errorText(error: unknown): string {
  const { reason, message } = failureOf(error).failure;
  return `${reason}: ${message}`;
}

/** The chat of the AI SDK: the chat's id is the session's. */
export const uiRoutes: readonly Route[] = [
  bodyRoute<JsonObject>({
    method: "POST",
    path: "/ui/chat",
    operationId: "postUiChat",
    summary:
      "Takes the newest message of a posted chat, or what was decided on calls that wait, and streams what comes of it.",
    body: foreign,
    answers: { 200: uiStream },
    handle: (call, body) => beginUiChat(call, body),
  }),
  route({
    method: "GET",
    path: "/ui/chat/{id}/stream",
    operationId: "resumeUiChat",
    summary: "The turn that runs, from the beginning of its message. 204 when none does.",
    answers: { 200: uiStream, 204: { description: "Nothing runs." } },
    handle: async (call) => {
      const stream = await resumeUiChat(call.sessions, call.param("id"));
      if (stream === null) return new Response(null, { status: 204 });
      return call.door.enterStream(call).answer(uiSource(stream), uiHeaders);
    },
  }),
  route({
    method: "GET",
    path: "/ui/chat/{id}",
    operationId: "loadUiChat",
    summary: "The conversation as messages of the AI SDK, to begin with.",
    answers: { 200: jsonAnswer("The chat.", { type: "object", required: ["id", "messages", "status", "version"] }) },
    handle: async ({ sessions, param }) => {
      const chat = await loadUiChat(sessions, param("id"));
      if (chat === null) throw noSession(param("id"));
      return json(chat);
    },
  }),
];

async function beginUiChat(call: Call, body: JsonObject): Promise<Response> {
  const { door, caller, sessions } = call;
  const { context, name = null } = caller;
  const leaveTurn = door.enterTurn(caller);
  return orLeave(leaveTurn, async () => {
    const place = door.enterStream(call);
    const start = context === undefined ? {} : { context };
    const stream = await orLeave(place.leave, () => postUiChat(sessions, body, { start, by: name }));
    stream.turn.result.then(leaveTurn, leaveTurn);
    return place.answer(uiSource(stream), uiHeaders);
  });
}

const render = (text: string) => text;

/** A stream that simply ended would look whole. */
const stopped = renderError(refusal(503, "this process is about to stop; ask again", { code: "shutting_down" }).error);

/** What the door refuses, in the words that clients of these paths read. */
export function failedInWordsOf(path: string, error: unknown): Response {
  const answer = failed(error);
  if (!path.startsWith("/v1/")) return answer;
  const { reason, message, path: place } = failureOf(error).failure;
  const param = place === undefined || place.length === 0 ? null : renderPath(place);
  const body = { error: refusal(answer.status, message, { code: reason, param }).error };
  return new Response(JSON.stringify(body), { status: answer.status, headers: answer.headers });
}

/** Chat completions over engines, by the names clients ask for as models. */
export function openaiRoutes(engines: OpenaiEngines, onError: (error: unknown) => void): readonly Route[] {
  const error: Answer = jsonAnswer("An error in OpenAI's words.", { type: "object", required: ["error"] });
  return [
    bodyRoute<JsonObject>({
      method: "POST",
      path: "/v1/chat/completions",
      operationId: "createChatCompletion",
      summary: "A chat completion in OpenAI's words. Stateless: nothing of it is kept.",
      body: foreign,
      answers: {
        200: {
          description: "A completion, or its chunks.",
          content: { "application/json": { type: "object" }, "text/event-stream": { type: "object" } },
        },
        default: error,
      },
      handle: async (call, body) => {
        const leaveTurn = call.door.enterTurn(call.caller);
        return orLeave(leaveTurn, async () => {
          const place = body["stream"] === true ? call.door.enterStream(call) : null;
          const answer = await orLeave(
            () => place?.leave(),
            () => openaiChat(engines, body, { signal: call.request.signal, onError }),
          );
          if (answer.type === "stream") {
            const { frames } = answer;
            const source = { events: frames, render, goodbye: stopped, closed: leaveTurn };
            return (place ?? call.door.enterStream(call)).answer(source);
          }
          place?.leave();
          leaveTurn();
          return json(answer.body, answer.status, answer.headers);
        });
      },
    }),
    route({
      method: "GET",
      path: "/v1/models",
      operationId: "listModels",
      summary: "The models there are, in OpenAI's words.",
      answers: { 200: jsonAnswer("A list.", { type: "object", required: ["object", "data"] }) },
      handle: async () => json(openaiModels(engines)),
    }),
    route({
      method: "GET",
      path: "/v1/models/{model}",
      operationId: "getModel",
      summary: "One of them.",
      answers: { 200: jsonAnswer("A model.", { type: "object", required: ["id"] }), default: error },
      handle: async ({ param }) => {
        const { body, status } = openaiModel(engines, param("model"));
        return json(body, status);
      },
    }),
  ];
}
