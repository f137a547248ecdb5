// Routes on turns: those that start one, those that send input to a running one, and those that read events.
//
// Routes that start a turn answer in the form that the client asks for (turn-answer.ts) and honour `Idempotency-Key`. Events are
// read with a cursor: `Last-Event-ID` or `?after=`.
//
// Invariants
//   1. Routes that start a turn acquire the turn slot first. `steer` starts one when no turn is running, so it does so too.
//   2. `cancel` takes no turn or stream slot, and has request slots of its own: it must work when all others are taken.
//   3. `POST /complete` is the only open route with an effect; its token authorises one pending call.

import type { WhenBusy } from "../../../core/engine/internal.ts";
import type { Json, JsonObject, UserMessage } from "../../../core/model/internal.ts";
import type { DecisionInput } from "../../../core/session/internal.ts";
import type { EventOptions, MessageOptions, SteerInput, TokenAnswer, TurnHandle } from "../../../durable/internal.ts";
import type { ContentPolicy } from "../content-policy.ts";
import type { BodySchema } from "../openapi/body-schema.ts";
import type { RouteCall, Parameter, Route } from "./route.ts";
import type { TurnOptions } from "./turn-options.ts";

import { busyPolicies } from "../../../core/engine/internal.ts";
import { user } from "../../../core/model/internal.ts";
import { json as anyJson } from "../../../core/model/parse/reading.ts";
import { contextOf, engineOfNew } from "../auth.ts";
import { checkToolContent } from "../content-policy.ts";
import { HttpError } from "../failure.ts";
import { checkQuery, queryParameter, boundedText, trueOrFalse } from "../input.ts";
import {
  arraySchema,
  booleanSchema,
  enumSchema,
  jsonObjectSchema,
  objectSchema,
  optionalField,
  requiredField,
  stringOr,
  stringSchema,
  userMessage,
  withDescription,
} from "../openapi/body-schema.ts";
import { schemaRef, jsonAnswer, turnAnswers } from "../openapi/schemas.ts";
import { bodyRoute, inPageSlot, json, releaseOnError, route, streamResponse } from "./route.ts";
import { checkEngine, checkId, noSession } from "./session-routes.ts";
import {
  cancelAnswers,
  cancelResponse,
  driveTurn,
  eventFrame,
  isTurnOpen,
  turnSource,
  waitInStreamSlot,
  preferredWaitMs,
} from "./turn-answer.ts";

/** Bodies of routes that start a turn. */
type WithOptions = { readonly options?: TurnOptions };

type StartBody = {
  readonly input: string | readonly UserMessage[];
  readonly id?: string;
  readonly metadata?: JsonObject;
} & WithOptions;
type MessageBody = {
  readonly text?: string;
  readonly message?: UserMessage;
  readonly whenBusy?: WhenBusy;
} & WithOptions;
type ContinueBody = { readonly message?: UserMessage } & WithOptions;
type CancelBody = { readonly turnId?: string; readonly reason?: string };
type SteerBody = { readonly input: string | UserMessage; readonly transient?: boolean; readonly id?: string };
type ToolResultsBody = {
  readonly results: readonly ToolResultBody[];
  readonly continue?: boolean;
} & WithOptions;
type ToolResultBody = { readonly toolCallId: string; readonly content: Json };

/** The busy policy of `reply` and `send`. */
const whenBusy = optionalField(
  withDescription(
    "What to do with the message while a turn is open. `steer`: add it to the turn at its next checkpoint. `queue`: start the next turn with it. `interrupt`: cancel the turn and start the next one with it. `reject`: answer 409. Default: the policy of the engine of the open turn, otherwise `reject` for reply and `steer` for send.",
    enumSchema(busyPolicies),
  ),
);

/** Any JSON value. */
const jsonSchema: BodySchema<Json> = { shape: anyJson, schema: {} };

/** The name recorded with a decision is that of the key. Earlier clients sent one, which is accepted and has no effect. */
const ignoredName = optionalField(
  withDescription("Has no effect: the name of the API key is recorded with the decision.", stringSchema),
);

/** The body of `POST /sessions/{id}/decisions`. `arguments` belongs to `approve`, `reason` to `deny`. */
type DecisionBody = {
  readonly toolCallId: string;
  readonly digest: string;
  readonly type: "approve" | "deny";
  readonly arguments?: JsonObject;
  readonly reason?: string;
  readonly by?: string;
  readonly continue?: boolean;
} & WithOptions;

/**
 * The decision of a body. `by` is the name of the caller. A field of the other kind of decision is rejected: ignoring it would drop a reason or
 * changed arguments without an error.
 */
function decisionOf(
  { type, digest, arguments: args, reason }: Omit<DecisionBody, "toolCallId" | "digest"> & { readonly digest?: string },
  by: string | undefined,
): DecisionInput {
  const shared = { ...(digest === undefined ? {} : { digest }), ...(by === undefined ? {} : { by }) };
  if (type === "approve") {
    if (reason !== undefined) throw misplaced("reason", "deny");
    return { type, ...shared, ...(args === undefined ? {} : { arguments: args }) };
  }
  if (args !== undefined) throw misplaced("arguments", "approve");
  return { type, ...shared, ...(reason === undefined ? {} : { reason }) };
}

/** The error for a field that the type of decision does not have. */
function misplaced(name: string, decisionType: string): HttpError {
  return new HttpError("invalid_body", `${name} is only valid with type "${decisionType}"`, {
    details: { path: [name] },
  });
}

const eventParameters: readonly Parameter[] = [
  {
    name: "after",
    description: "The cursor to resume after. `Last-Event-ID` takes precedence.",
    schema: { type: "string" },
  },
  {
    name: "follow",
    description: "`false`: return the stored events and end the stream.",
    schema: { type: "boolean", default: true },
  },
];

const eventStream = {
  description: "A stream of events.",
  content: { "text/event-stream": schemaRef("Event") },
};

/**
 * Which events to read. A browser's `EventSource` reconnects to the URL it was created with and sends the newest id as
 * `Last-Event-ID`, so that header takes precedence over `after` in the URL.
 */
function eventOptions({ url, request, server: { limits } }: RouteCall): EventOptions {
  checkQuery(url.searchParams, ["after", "follow"]);
  // A cursor contains an offset for each open part of a reply, so it is longer than an id.
  const cursor = boundedText(32 * limits.idLength);
  const lastEventId = request.headers.get("last-event-id") ?? "";
  const query = lastEventId === "" ? url.searchParams : new URLSearchParams({ after: lastEventId });
  const after = queryParameter(query, "after", cursor);
  const follow = queryParameter(url.searchParams, "follow", trueOrFalse);
  return { ...(after === undefined ? {} : { after }), ...(follow === undefined ? {} : { follow }) };
}

/** The routes on turns. `allowed` is the schema of the options that bodies may contain, `policy` says which files and URLs they may contain. */
export function turnRoutes(allowed: BodySchema<TurnOptions>, policy: ContentPolicy): readonly Route[] {
  const options = optionalField(allowed);
  const message = userMessage(policy);
  const messageBody = objectSchema<MessageBody>({
    text: optionalField(withDescription("The text of the message. This or `message` is required.", stringSchema)),
    message: optionalField(
      withDescription("A user message with parts: text, images and files. In place of `text`.", message),
    ),
    whenBusy,
    options,
  });
  return [
    bodyRoute<StartBody>({
      method: "POST",
      path: "/sessions",
      operationId: "startSession",
      keyed: true,
      summary: "Starts a session and its first turn.",
      body: objectSchema<StartBody>({
        input: requiredField(
          withDescription("The text of a user message, or user messages.", stringOr(arraySchema(message))),
        ),
        id: optionalField(withDescription("The id of the session. Default: a random id.", stringSchema)),
        metadata: optionalField(jsonObjectSchema),
        options,
      }),
      answers: turnAnswers,
      handle: (call, { input, id, metadata, options: turnOptions }) => {
        checkId(id, call.server.limits.idLength);
        const engine = engineOfNew(call.caller, turnOptions?.engine);
        const { turnContext: context, ...startOptions } = verbOptions(call, turnOptions);
        const sessionFields = {
          context,
          ...(id === undefined ? {} : { id }),
          ...(metadata === undefined ? {} : { metadata }),
          ...(engine === undefined ? {} : { engine }),
        };
        return driveTurn(call, () => call.sessions.start(input, { ...startOptions, ...sessionFields }));
      },
    }),
    bodyRoute<MessageBody>({
      method: "POST",
      path: "/sessions/{id}/reply",
      operationId: "reply",
      keyed: true,
      summary:
        "Adds a user message and runs a turn. If the session asked a question, the message is the answer. While a turn is open, `whenBusy` decides; by default the answer is 409.",
      body: messageBody,
      answers: turnAnswers,
      handle: (call, body) => {
        const input = messageOf(body);
        return driveInSession(call, body.options, () =>
          call.sessions.reply(call.param("id"), input, messageOptions(call, body)),
        );
      },
    }),
    bodyRoute<MessageBody>({
      method: "POST",
      path: "/sessions/{id}/send",
      operationId: "send",
      keyed: true,
      summary: "Sends a user message like `reply`, but steers an open turn by default.",
      body: messageBody,
      answers: turnAnswers,
      handle: (call, body) => {
        const input = messageOf(body);
        return driveInSession(call, body.options, () =>
          call.sessions.send(call.param("id"), input, messageOptions(call, body)),
        );
      },
    }),
    bodyRoute<ContinueBody>({
      method: "POST",
      path: "/sessions/{id}/continue",
      operationId: "continueSession",
      keyed: true,
      summary: "Runs the next turn, with a message or without one.",
      body: objectSchema<ContinueBody>({ message: optionalField(message), options }),
      answers: turnAnswers,
      handle: (call, { message: newMessage, options: turnOptions }) =>
        driveInSession(call, turnOptions, () =>
          call.sessions.continue(call.param("id"), newMessage ?? null, verbOptions(call, turnOptions)),
        ),
    }),
    bodyRoute<WithOptions>({
      method: "POST",
      path: "/sessions/{id}/step",
      operationId: "step",
      keyed: true,
      summary: "Runs a turn of one step: a model reply and its tool calls.",
      body: objectSchema<WithOptions>({ options }),
      answers: turnAnswers,
      handle: (call, { options: turnOptions }) =>
        driveInSession(call, turnOptions, () => call.sessions.step(call.param("id"), verbOptions(call, turnOptions))),
    }),
    bodyRoute<ToolResultsBody>({
      method: "POST",
      path: "/sessions/{id}/tool-results",
      operationId: "submitToolResults",
      keyed: true,
      summary:
        "Records the results of pending calls. With `continue: true` the result of the last pending call starts a turn; otherwise `POST /sessions/{id}/continue` does.",
      body: objectSchema<ToolResultsBody>({
        results: requiredField(
          arraySchema(
            objectSchema<ToolResultBody>({
              toolCallId: requiredField(stringSchema),
              content: requiredField(jsonSchema),
            }),
          ),
        ),
        continue: optionalField(
          withDescription("`true`: start a turn once no call is pending. Default: false.", booleanSchema),
        ),
        options,
      }),
      answers: turnAnswers,
      handle: (call, { results, continue: startTurn = false, options: turnOptions }) => {
        for (const [index, { content }] of results.entries())
          checkToolContent(content, policy, ["results", index, "content"]);
        const resultPairs = results.map(({ toolCallId, content }) => [toolCallId, content] as const);
        const allOptions = { ...verbOptions(call, turnOptions), continue: startTurn };
        return driveInSession(call, turnOptions, () =>
          call.sessions.submitToolResults(call.param("id"), resultPairs, allOptions),
        );
      },
    }),
    bodyRoute<DecisionBody>({
      method: "POST",
      path: "/sessions/{id}/decisions",
      operationId: "decide",
      keyed: true,
      summary:
        "Approves or denies a pending call. The decision on the last pending call starts a turn, unless `continue` is false.",
      body: objectSchema<DecisionBody>({
        toolCallId: requiredField(stringSchema),
        digest: requiredField(
          withDescription(
            "`digest` of the pending call that was shown to the person who decides. If the call has changed meanwhile, the response is 409 `call_changed` and nothing changes.",
            stringSchema,
          ),
        ),
        type: requiredField(enumSchema(["approve", "deny"])),
        arguments: optionalField(
          withDescription("Arguments that replace those that were shown. Only with `approve`.", jsonObjectSchema),
        ),
        reason: optionalField(
          withDescription("The reason of a denial; the model reads it. Only with `deny`.", stringSchema),
        ),
        by: ignoredName,
        continue: optionalField(booleanSchema),
        options,
      }),
      answers: turnAnswers,
      handle: (call, { toolCallId, continue: startTurn = true, options: turnOptions, ...fields }) => {
        const decision = decisionOf(fields, call.caller.name);
        const allOptions = { ...verbOptions(call, turnOptions), continue: startTurn };
        return driveInSession(call, turnOptions, () =>
          call.sessions.decide(call.param("id"), toolCallId, decision, allOptions),
        );
      },
    }),
    bodyRoute<CancelBody>({
      method: "POST",
      path: "/sessions/{id}/cancel",
      operationId: "cancel",
      pool: "cancel",
      summary: "Cancels the open turn.",
      body: objectSchema<CancelBody>({ turnId: optionalField(stringSchema), reason: optionalField(stringSchema) }),
      answers: cancelAnswers,
      handle: async (call, body) => cancelResponse(call, call.sessions.cancel(call.param("id"), body)),
    }),
    bodyRoute<SteerBody>({
      method: "POST",
      path: "/sessions/{id}/steer",
      operationId: "steer",
      summary: "Adds input to the open turn at its next checkpoint, or to the next turn if there is none.",
      body: objectSchema<SteerBody>({
        input: requiredField(stringOr(message)),
        transient: optionalField(
          withDescription("`true`: the turn reads the input, and the history does not keep it.", booleanSchema),
        ),
        id: optionalField(
          withDescription(
            "The id of the input. Input of the same id is accepted once. Default: the `Idempotency-Key`.",
            stringSchema,
          ),
        ),
      }),
      answers: {
        202: jsonAnswer("The id of the input and of the turn that is expected to accept it.", schemaRef("SteerAnswer")),
      },
      keyed: true,
      handle: async (call, { input, transient = false, id = call.key ?? undefined }) => {
        const { sessions, param, server, caller } = call;
        checkId(id, server.limits.idLength);
        await checkEngine(call, undefined);
        const steerInput: SteerInput = typeof input === "string" && !transient ? input : steerInputOf(input, transient);
        // If no turn is running, the input starts one.
        const releaseTurn = server.acquireTurn(caller);
        const inputOptions = { turnContext: contextOf(caller), ...(id === undefined ? {} : { id }) };
        const accepted = await releaseOnError(releaseTurn, () =>
          inPageSlot(call, () => sessions.steer(param("id"), steerInput, inputOptions)),
        );
        sessions.attach(param("id"), accepted.turnId).result.then(releaseTurn, releaseTurn);
        return json(accepted, 202);
      },
    }),
    route({
      method: "DELETE",
      path: "/sessions/{id}/inputs/{inputId}",
      operationId: "withdraw",
      summary:
        "Withdraws steered input or a queued message that no turn has accepted yet. The id of a message is its `Idempotency-Key`.",
      answers: {
        200: jsonAnswer("Whether the input was withdrawn.", schemaRef("WithdrawAnswer")),
        404: jsonAnswer("There is no input of that id.", schemaRef("WithdrawAnswer")),
      },
      handle: async ({ sessions, param, pageSlot }) => {
        await pageSlot();
        const result = await sessions.withdraw(param("id"), param("inputId"));
        return json({ result }, result === "not_found" ? 404 : 200);
      },
    }),
    route({
      method: "GET",
      path: "/sessions/{id}/events",
      operationId: "watchSession",
      summary: "Streams the events of a session, from the first one or after a cursor.",
      query: eventParameters,
      answers: { 200: eventStream },
      handle: async (call) => {
        const id = call.param("id");
        const readOptions = eventOptions(call);
        await call.pageSlot();
        if ((await call.sessions.get(id, { messages: 0 })) === null) throw noSession(id);
        return streamResponse(call, { events: call.sessions.events(id, readOptions), render: eventFrame });
      },
    }),
    route({
      method: "GET",
      path: "/sessions/{id}/turns/{turnId}",
      operationId: "getTurn",
      summary: "Returns the result of a turn; 202 while it is open. `Prefer: wait=10` waits up to 10 seconds for it.",
      answers: turnAnswers,
      handle: async (call) => {
        const [sessionId, turnId] = [call.param("id"), call.param("turnId")];
        const waitMs = preferredWaitMs(call);
        const isOpen = await inPageSlot(call, () => isTurnOpen(call, { sessionId, turnId }));
        // The slot is acquired after the wait: an open turn may take minutes.
        if (!isOpen) await call.pageSlot();
        const { result } = call.sessions.attach(sessionId, turnId);
        const end = isOpen ? await waitInStreamSlot(call, result, waitMs) : await result;
        if (end === null) return json({ sessionId, turnId }, 202);
        await call.pageSlot();
        return json(end);
      },
    }),
    route({
      method: "GET",
      path: "/sessions/{id}/turns/{turnId}/events",
      operationId: "watchTurn",
      summary:
        "Streams the events of one turn until it ends, then its result. 204 if the turn has ended and there are no events after the cursor.",
      query: eventParameters,
      answers: {
        200: eventStream,
        204: {
          description: "The turn has ended and all its events were read. `EventSource` does not reconnect after a 204.",
        },
      },
      handle: (call) => watchTurn(call),
    }),
    route({
      method: "POST",
      path: "/sessions/{id}/calls/{toolCallId}/token",
      operationId: "makeToken",
      summary: "Returns a token that completes this pending call once, while it waits with its current arguments.",
      answers: { 201: jsonAnswer("The token.", schemaRef("TokenAnswer")) },
      handle: async (call) => {
        // The token answers the call without authentication, so a caller that may not decide about the call gets none.
        await checkEngine(call, undefined);
        await call.pageSlot();
        return json({ token: await call.sessions.token(call.param("id"), call.param("toolCallId")) }, 201);
      },
    }),
    bodyRoute<CompletionBody>({
      method: "POST",
      path: "/complete",
      operationId: "complete",
      summary: "Completes the pending call of a token. The token is the only authentication.",
      access: "open",
      body: objectSchema<CompletionBody>({
        token: requiredField(stringSchema),
        type: requiredField(enumSchema(["result", "answer", "approve", "deny"])),
        value: optionalField(jsonSchema),
        text: optionalField(stringSchema),
        reason: optionalField(stringSchema),
        by: ignoredName,
      }),
      answers: {
        200: jsonAnswer("The call is completed.", schemaRef("CompletionAnswer")),
        404: jsonAnswer("There is no such token.", schemaRef("CompletionAnswer")),
        409: jsonAnswer(
          "The call was completed before, or no longer waits with the same arguments.",
          schemaRef("CompletionAnswer"),
        ),
      },
      handle: async ({ sessions }, { token, ...answer }) => {
        checkToolContent(answer.value ?? null, policy, ["value"]);
        const completion = await sessions.complete(token, tokenAnswer(answer));
        return json(
          { result: completion.type },
          completion.type === "unknown" ? 404 : completion.type === "completed" ? 200 : 409,
        );
      },
    }),
  ];
}

/** The body of `POST /complete`. `value` belongs to `result`, `text` to `answer`, `reason` to `deny`. */
type CompletionBody = {
  readonly token: string;
  readonly type: "result" | "answer" | "approve" | "deny";
  readonly value?: Json;
  readonly text?: string;
  readonly reason?: string;
  readonly by?: string;
};

/** The answer of a body with a token. A missing value is `null`, a missing text is empty. */
function tokenAnswer({
  type,
  value: result,
  text: answerText,
  ...decision
}: Omit<CompletionBody, "token">): TokenAnswer {
  switch (type) {
    case "result":
      return { type, value: result ?? null };
    case "answer":
      return { type, text: answerText ?? "" };
    case "approve":
    case "deny":
      // The token identifies a call and no caller, so no name is recorded.
      return decisionOf({ type, ...decision }, undefined);
  }
}

/**
 * Streams an open turn until it ends, or the remaining stored events of one that has ended. For an ended turn the first event is
 * read before the response, to answer 204 if there is none.
 */
async function watchTurn(call: RouteCall): Promise<Response> {
  const { sessions, param } = call;
  const [id, turnId] = [param("id"), param("turnId")];
  const readOptions = { ...eventOptions(call), turnId };
  const turn = sessions.attach(id, turnId);
  // The rows of the session and of the turn have the text of the answer.
  await call.pageSlot();
  if (await isTurnOpen(call, { sessionId: id, turnId })) {
    const events = sessions.events(id, readOptions);
    const source =
      readOptions.follow === false ? { events, render: eventFrame } : turnSource(call, turn, { events, isOpen: true });
    return streamResponse(call, source);
  }
  const slot = call.server.acquireStream(call);
  return releaseOnError(slot.release, async () => {
    const remaining = sessions.events(id, { ...readOptions, follow: false })[Symbol.asyncIterator]();
    const first = await remaining.next();
    if (first.done === true) {
      slot.release();
      // `EventSource` reconnects after the end of a stream, but not after a 204 (WHATWG HTML, section 9.2.3).
      return new Response(null, { status: 204 });
    }
    // The iterator has started, so it is returned also when the client disconnects before reading.
    const onClose = () => void remaining.return?.().catch(() => undefined);
    const events = prepend(first.value, remaining);
    return slot.respond({ ...turnSource(call, turn, { events, isOpen: false }), onClose });
  });
}

/** Yields `first` and then the remaining values of an iterator. */
async function* prepend<T>(first: T, remaining: AsyncIterator<T>): AsyncGenerator<T> {
  yield first;
  for (let next = await remaining.next(); next.done !== true; next = await remaining.next()) yield next.value;
}

/** Steer input in its long form, which can be transient. */
function steerInputOf(input: string | UserMessage, transient: boolean): SteerInput {
  const message = typeof input === "string" ? user(input) : input;
  return { type: transient ? "transient" : "message", message };
}

/** The message of `reply` and `send`. Rejects a body with neither a text nor a message, or with both. */
function messageOf({ text, message }: MessageBody): string | UserMessage {
  const given = message ?? text;
  if (given !== undefined && (text === undefined || message === undefined)) return given;
  const name = given === undefined ? "text" : "message";
  const problem = given === undefined ? "text or message is required" : "message cannot be combined with text";
  throw new HttpError("invalid_body", problem, { details: { path: [name] } });
}

/** The options of `reply` and `send`. */
function messageOptions(call: RouteCall, { whenBusy: policy, options }: MessageBody): MessageOptions {
  return { ...verbOptions(call, options), ...(policy === undefined ? {} : { whenBusy: policy }) };
}

/** The options of a runtime verb: those of the body, the context of the caller, and the idempotency key of the request. */
function verbOptions(
  { key, caller }: RouteCall,
  options: TurnOptions = {},
): TurnOptions & { readonly key?: string; readonly turnContext: JsonObject } {
  return { ...options, turnContext: contextOf(caller), ...(key === null ? {} : { key }) };
}

/** Starts a turn of an existing session, if the caller may use its engine. */
async function driveInSession(
  call: RouteCall,
  options: TurnOptions | undefined,
  start: () => Promise<TurnHandle>,
): Promise<Response> {
  await checkEngine(call, options?.engine);
  return driveTurn(call, start);
}
