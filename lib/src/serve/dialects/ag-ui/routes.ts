// The route of AG-UI: `HttpAgent` of @ag-ui/client posts the input of a run and reads its events. The protocol is in
// the other files of this folder, which know no HTTP.

import type { JsonObject } from "../../../core/model/internal.ts";
import type { ContentPolicy, Route, RouteCall, SseSource } from "../../http/internal.ts";
import type { AgUiEvent } from "./events.ts";
import type { AgUiStream } from "./run.ts";

import {
  bodyRoute,
  checkEngineOf,
  contextOf,
  engineOfNew,
  failureOf,
  frame,
  redactedJson,
  releaseOnError,
  turnHeaders,
} from "../../http/internal.ts";
import { defaultUiLimits } from "../ai-sdk-chat/request.ts";
import { foreignBody } from "../shared/foreign-body.ts";
import { readAgUiInput } from "./input.ts";
import { runAgUi } from "./run.ts";

export const agUiRoutes = (policy: ContentPolicy): readonly Route[] => [
  bodyRoute<JsonObject>({
    method: "POST",
    path: "/ag-ui",
    operationId: "runAgUi",
    summary:
      "Runs an agent by the AG-UI protocol: accepts the newest user message, answers to interrupts or results of the client's tools, and streams the turn. The thread is the session.",
    body: foreignBody,
    answers: {
      200: { description: "Events of AG-UI, version 1.0.", content: { "text/event-stream": { type: "object" } } },
    },
    handle: (call, body) => postRun(call, body, policy),
  }),
];

/**
 * Acquires a turn permit and a stream permit before it passes the input to the session, and a page permit, because it
 * reads messages of the session.
 */
async function postRun(call: RouteCall, body: JsonObject, policy: ContentPolicy): Promise<Response> {
  const { server, caller, sessions } = call;
  const input = readAgUiInput(body, defaultUiLimits, policy);
  await call.pagePermit();
  const view = caller.engines === undefined ? null : await sessions.get(input.threadId, { messages: 0 });
  if (view !== null) checkEngineOf(caller, view.engine);
  const engine = caller.engines === undefined || view !== null ? undefined : engineOfNew(caller, undefined);
  const releaseTurn = server.acquireTurn(caller);
  return releaseOnError(releaseTurn, async () => {
    const permit = server.acquireStream(call);
    const context = contextOf(caller);
    const stream = await releaseOnError(permit.release, () =>
      runAgUi(sessions, input, {
        options: { turnContext: context },
        start: { context, ...(engine === undefined ? {} : { engine }) },
        by: caller.name ?? null,
      }),
    );
    stream.turn.result.then(releaseTurn, releaseTurn);
    return permit.respond(sourceOf(stream), turnHeaders(call, stream.turn));
  });
}

const eventFrame = (event: AgUiEvent) => frame(redactedJson(event, "event"));

const eventFrames = (events: readonly AgUiEvent[]) => events.map(eventFrame).join("");

function sourceOf({ events, turn }: AgUiStream): SseSource<readonly AgUiEvent[]> {
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
