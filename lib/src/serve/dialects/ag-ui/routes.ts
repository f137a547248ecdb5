// The route of AG-UI: `HttpAgent` of @ag-ui/client posts the input of a run and reads its events. The protocol is in
// the other files of this folder, which know no HTTP.

import type { JsonObject } from "../../../core/model/internal.ts";
import type { ContentPolicy, Route, RouteCall, SseSource, StreamedTurn } from "../../http/internal.ts";
import type { AgUiEvent } from "./events.ts";
import type { AgUiStream } from "./run.ts";

import {
  bodyRoute,
  contextOf,
  engineOfNew,
  failureOf,
  frame,
  redactedJson,
  streamed,
  turnHeaders,
} from "../../http/internal.ts";
import { defaultUiLimits } from "../ai-sdk-chat/request.ts";
import { foreignBody } from "../shared/foreign-body.ts";
import { readAgUiInput } from "./input.ts";
import { runAgUi } from "./run.ts";

export const agUiRoutes = (policy: ContentPolicy): readonly Route[] => [
  bodyRoute({
    method: "POST",
    path: "/ag-ui",
    operationId: "runAgUi",
    scope: "answer",
    summary:
      "Runs an agent by the AG-UI protocol: accepts the newest user message, answers to interrupts or results of the client's tools, and streams the turn. The thread is the session.",
    body: foreignBody,
    uses: "turn",
    answers: {
      200: { description: "Events of AG-UI, version 1.0.", content: { "text/event-stream": { type: "object" } } },
    },
    handle: (call, body) => postRun(call, body, policy),
  }),
];

/** Reads the input. Returns the function that starts the turn. */
async function postRun(call: RouteCall, body: JsonObject, policy: ContentPolicy): Promise<() => Promise<StreamedTurn>> {
  const { caller, sessions } = call;
  const input = readAgUiInput(body, defaultUiLimits, policy);
  const engine = engineOfNew(caller, undefined);
  const context = contextOf(caller);
  const start = { context, ...(engine === undefined ? {} : { engine }) };
  return async () => {
    const stream = await runAgUi(sessions, input, {
      options: { turnContext: context },
      start,
      by: caller.name ?? null,
    });
    return { turn: stream.turn, stream: streamed(sseSource(stream), turnHeaders(call, stream.turn)) };
  };
}

const eventFrame = (event: AgUiEvent) => frame(redactedJson(event, "event"));

const eventFrames = (events: readonly AgUiEvent[]) => events.map(eventFrame).join("");

function sseSource({ events, turn }: AgUiStream): SseSource<readonly AgUiEvent[]> {
  return {
    events,
    failWith: turn.result,
    render: eventFrames,
    renderFailure: (error) => {
      const { reason, message } = failureOf(error).failure;
      return eventFrame({ type: "RUN_ERROR", message, code: reason });
    },
    // The client would take a stream that ends without an error for a lost one.
    shutdownFrame: eventFrame({
      type: "RUN_ERROR",
      message: "this process is shutting down; the turn goes on, run the agent again to read it",
      code: "shutting_down",
    }),
  };
}
