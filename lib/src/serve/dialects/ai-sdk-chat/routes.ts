// Routes for the AI SDK's chat (`useChat`) over sessions.
//
// The protocol itself is in the other files of this folder, which know no HTTP. This file declares the
// routes, and the ending of a stream by failure or shutdown in the form that the client understands. The client takes a
// stream that ends without an error for a complete one, so a shutdown is an error frame here and not a comment.

import type { JsonObject } from "../../../core/model/internal.ts";
import type {
  ContentPolicy,
  Parameter,
  ResponseDescription,
  Route,
  RouteCall,
  SseSource,
  StreamedTurn,
} from "../../http/internal.ts";
import type { UiStream } from "./chat.ts";
import type { UiChunk } from "./chunks.ts";
import type { UiSdk } from "./translator.ts";

import {
  bodyRoute,
  cancelAnswers,
  checkQuery,
  contextOf,
  engineOfNew,
  failureOf,
  flagQuery,
  frame,
  json,
  jsonAnswer,
  objectSchema,
  optionalField,
  queryParameter,
  redactedJson,
  route,
  streamed,
  stringSchema,
  turnHeaders,
  wholeNumber,
} from "../../http/internal.ts";
import { foreignBody } from "../shared/foreign-body.ts";
import { loadUiChat, postUiChat, resumeUiChat, stopUiChat } from "./chat.ts";
import { followUiChat } from "./follow.ts";

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

const turnParameter: Parameter = {
  name: "turn",
  description: "The turn that a client was reading when it lost its connection.",
  schema: { type: "string" },
};

const waitFlag = flagQuery(
  "`true`: if no turn is open, the stream waits for the next one, whoever starts it. With `session` and `Last-Event-ID`: for the turn after that event.",
  { default: false },
);
const waitParameter: Parameter = { name: "wait", description: waitFlag.description, schema: waitFlag.schema };

const sessionParameter: Parameter = {
  name: "session",
  description:
    "With `wait`: the session of the event of `Last-Event-ID`, which is the header `Everturn-Session` of its response.",
  schema: { type: "string" },
};

const doneFrame = frame("[DONE]");

const uiFrame = (chunk: UiChunk) => frame(redactedJson(chunk, "event"));

/** The frames of a batch. The last one has its cursor: a client that has only a part of the batch reads it again. */
function uiFrames(chunks: readonly UiChunk[], cursor: string | null): string {
  const last = chunks.length - 1;
  const idOf = (index: number) => (index < last || cursor === null ? {} : { id: cursor });
  return chunks.map((chunk, index) => frame(redactedJson(chunk, "event"), idOf(index))).join("");
}

/** The client would take a stream that ends without an error for a complete one. */
const uiShutdownFrame = uiFrame({
  type: "error",
  errorText: "shutting_down: this process is shutting down; resume the chat",
});

const renderFailure = (error: unknown) => uiFrame({ type: "error", errorText: errorText(error) }) + doneFrame;

function uiSource({ chunks, turn, cursor }: UiStream): SseSource<readonly UiChunk[]> {
  return {
    events: chunks,
    failWith: turn.result,
    render: (batch) => uiFrames(batch, cursor()),
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
  bodyRoute({
    method: "POST",
    path: "/ui/chat",
    operationId: "postUiChat",
    scope: "answer",
    summary:
      "Accepts the newest user message of a posted chat, or its answers to pending calls, and streams the turn. A message that is regenerated or edited continues the chat in a fork of the session.",
    body: foreignBody,
    uses: "turn",
    answers: { 200: uiStream },
    handle: (call, body) => postChat(call, body, policy),
  }),
  route({
    method: "GET",
    path: "/ui/chat/{id}/stream",
    operationId: "resumeUiChat",
    scope: "read",
    summary:
      "Streams the open turn from the start of its message. 204 if no turn is open. With `turn` and `Last-Event-ID`: the rest of that turn after the last frame that the client has. With `wait`: the next turn.",
    query: [turnParameter, waitParameter, sessionParameter],
    uses: "stream",
    answers: { 200: uiStream, 204: { description: "No turn is running; with `wait`: there is no such chat." } },
    handle: async (call) => {
      checkQuery(call.url.searchParams, ["turn", "wait", "session"]);
      const { sessions, param, url, request } = call;
      const turnId = url.searchParams.get("turn");
      const sessionId = url.searchParams.get("session");
      const after = request.headers.get("last-event-id");
      const waits = queryParameter(url.searchParams, "wait", waitFlag) === true;
      const sdk = sdkOf(call);
      const stream = waits
        ? await followUiChat(sessions, param("id"), {
            sdk,
            known: sessionId === null || after === null ? null : { sessionId, after },
          })
        : await resumeUiChat(sessions, param("id"), { sdk, position: turnId === null ? null : { turnId, after } });
      return stream === null ? null : streamed(uiSource(stream), uiHeaders(call, stream));
    },
  }),
  bodyRoute({
    method: "POST",
    path: "/ui/chat/{id}/stop",
    operationId: "stopUiChat",
    scope: "write",
    uses: "cancel",
    summary: "Cancels the open turn of the chat. The client's `stop()` alone only closes its connection.",
    body: objectSchema<StopBody>({ turnId: optionalField(stringSchema) }),
    answers: cancelAnswers,
    handle: (call, { turnId }) => stopUiChat(call.sessions, call.param("id"), turnId),
  }),
  route({
    method: "GET",
    path: "/ui/chat/{id}",
    operationId: "loadUiChat",
    scope: "read",
    summary:
      "Returns the newest messages of the conversation as messages of the AI SDK. `previous` is the cursor `before` of the messages before them; null if there are none. A chat that has no session yet has no messages.",
    query: [beforeParameter],
    answers: {
      200: jsonAnswer("The chat.", { type: "object", required: ["id", "messages", "previous", "status", "version"] }),
    },
    handle: async ({ sessions, param, url, limits }) => {
      checkQuery(url.searchParams, ["before"]);
      const before = queryParameter(url.searchParams, "before", wholeNumber);
      const { pageLength } = limits;
      const page = { maxLength: pageLength, ...(before === undefined ? {} : { before: `${before}` }) };
      return json(await loadUiChat(sessions, param("id"), page));
    },
  }),
];

/** Returns the function that passes the post to the session. */
async function postChat(
  call: RouteCall,
  body: JsonObject,
  policy: ContentPolicy,
): Promise<() => Promise<StreamedTurn>> {
  const { limits, caller, sessions } = call;
  const { name = null } = caller;
  // For a new chat; an existing one has its own.
  const engine = engineOfNew(caller, undefined);
  const { copiedLengthPerHour } = limits;
  const options = { turnContext: contextOf(caller) };
  const start = { context: contextOf(caller), ...(engine === undefined ? {} : { engine }) };
  return async () => {
    const posted = { options, start, by: name, sdk: sdkOf(call), policy, copiedLengthPerHour };
    const stream = await postUiChat(sessions, body, posted);
    return { turn: stream.turn, stream: streamed(uiSource(stream), uiHeaders(call, stream)) };
  };
}
