// Turns over HTTP: what begins one, what is said to one, and watching.

import type { Json, JsonObject, UserMessage } from "../../model/internal.ts";
import type { EventOptions, SteerInput, TokenAnswer } from "../../runtime/internal.ts";
import type { DecisionInput } from "../../session/internal.ts";
import type { Described } from "../openapi/described.ts";
import type { Call, Parameter, Route } from "./route.ts";
import type { TurnOptions } from "./turn-options.ts";

import { user } from "../../model/internal.ts";
import { json as anyJson } from "../../model/parse/reading.ts";
import { HttpError } from "../failure.ts";
import { checkQuery, queryOf, shortText, yesOrNo } from "../input.ts";
import {
  about,
  data,
  fieldsOf,
  flag,
  many,
  maybe,
  needed,
  text,
  textOr,
  userMessage,
  wordOf,
} from "../openapi/described.ts";
import { described, jsonAnswer, turnAnswers } from "../openapi/schemas.ts";
import { bodyRoute, json, jsonHeaders, orLeave, route, streamed } from "./route.ts";
import { checkId, noSession } from "./session-routes.ts";
import { drive, eventFrame, turnSource, waited, waitFor, within } from "./turn-answer.ts";

type Optioned = { readonly options?: TurnOptions };

type StartBody = {
  readonly input: string | readonly UserMessage[];
  readonly id?: string;
  readonly metadata?: JsonObject;
} & Optioned;
type SayBody = { readonly text: string } & Optioned;
type ContinueBody = { readonly message?: UserMessage } & Optioned;
type CancelBody = { readonly turnId?: string; readonly reason?: string };
type SteerBody = { readonly input: string | UserMessage; readonly transient?: boolean; readonly id?: string };
type ResultsBody = {
  readonly results: readonly ResultBody[];
  readonly continue?: boolean;
} & Optioned;
type ResultBody = { readonly toolCallId: string; readonly content: Json };

const value: Described<Json> = { shape: anyJson, schema: {} };

type DecisionBody = {
  readonly toolCallId: string;
  readonly type: "approve" | "deny";
  readonly arguments?: JsonObject;
  readonly reason?: string;
  readonly by?: string;
  readonly continue?: boolean;
} & Optioned;

/** What was decided. What does not belong to it is refused, not dropped. */
function decisionOf({ type, arguments: args, reason, by }: Omit<DecisionBody, "toolCallId">): DecisionInput {
  const who = by === undefined ? {} : { by };
  if (type === "approve") {
    if (reason !== undefined) throw misplaced("reason", "a refusal");
    return { type, ...who, ...(args === undefined ? {} : { arguments: args }) };
  }
  if (args !== undefined) throw misplaced("arguments", "a consent");
  return { type, ...who, ...(reason === undefined ? {} : { reason }) };
}

function misplaced(name: string, where: string): HttpError {
  return new HttpError("invalid_body", `${name} belongs to ${where}`, { details: { path: [name] } });
}

const eventParameters: readonly Parameter[] = [
  { name: "after", description: "A cursor to go on behind; `Last-Event-ID` is the same.", schema: { type: "string" } },
  {
    name: "follow",
    description: "`false`: what there is by now, and no more.",
    schema: { type: "boolean", default: true },
  },
];

const eventStream = {
  description: "What happens, as it happens.",
  content: { "text/event-stream": described("Event") },
};

/** What is to be read. `Last-Event-ID` is what a browser sends when it comes back: it knows better than the address. */
function eventOptions({ url, request, door: { limits } }: Call): EventOptions {
  checkQuery(url.searchParams, ["after", "follow"]);
  // A cursor says how far each part of a reply was read, and a reply may have many.
  const cursor = shortText(32 * limits.idLength);
  const last = request.headers.get("last-event-id") ?? "";
  const query = last === "" ? url.searchParams : new URLSearchParams({ after: last });
  const after = queryOf(query, "after", cursor);
  const follow = queryOf(url.searchParams, "follow", yesOrNo);
  return { ...(after === undefined ? {} : { after }), ...(follow === undefined ? {} : { follow }) };
}

/** The routes about turns, with the options that their bodies may hold. */
export function turnRoutes(allowed: Described<TurnOptions>): readonly Route[] {
  const options = maybe(allowed);
  return [
    bodyRoute<StartBody>({
      method: "POST",
      path: "/sessions",
      operationId: "startSession",
      keyed: true,
      summary: "Begins a session, and its first turn.",
      body: fieldsOf<StartBody>({
        input: needed(about("What the user says.", textOr(many(userMessage)))),
        id: maybe(about("The session's name; one nobody can guess where it is not said.", text)),
        metadata: maybe(data),
        options,
      }),
      answers: turnAnswers,
      handle: (call, { input, id, metadata, options: said }) => {
        checkId(id, call.door.limits.idLength);
        const { context } = call.caller;
        const of = {
          ...(id === undefined ? {} : { id }),
          ...(metadata === undefined ? {} : { metadata }),
          ...(context === undefined ? {} : { context }),
        };
        return drive(call, () => call.sessions.start(input, { ...verbOptions(call, said), ...of }));
      },
    }),
    bodyRoute<SayBody>({
      method: "POST",
      path: "/sessions/{id}/reply",
      operationId: "reply",
      keyed: true,
      summary: "Says something to a session: the answer to its question, if it has one, or whatever comes next.",
      body: fieldsOf<SayBody>({ text: needed(text), options }),
      answers: turnAnswers,
      handle: (call, { text: said, options: more }) =>
        drive(call, () => call.sessions.reply(call.param("id"), said, verbOptions(call, more))),
    }),
    bodyRoute<SayBody>({
      method: "POST",
      path: "/sessions/{id}/send",
      operationId: "send",
      keyed: true,
      summary: "Says something: a reply, or, while a turn runs, something for that turn.",
      body: fieldsOf<SayBody>({ text: needed(text), options }),
      answers: turnAnswers,
      handle: (call, { text: said, options: more }) =>
        drive(call, () => call.sessions.send(call.param("id"), said, verbOptions(call, more))),
    }),
    bodyRoute<ContinueBody>({
      method: "POST",
      path: "/sessions/{id}/continue",
      operationId: "continueSession",
      keyed: true,
      summary: "Goes on, with a message or without one.",
      body: fieldsOf<ContinueBody>({ message: maybe(userMessage), options }),
      answers: turnAnswers,
      handle: (call, { message, options: more }) =>
        drive(call, () => call.sessions.continue(call.param("id"), message ?? null, verbOptions(call, more))),
    }),
    bodyRoute<Optioned>({
      method: "POST",
      path: "/sessions/{id}/step",
      operationId: "step",
      keyed: true,
      summary: "One reply and its tools.",
      body: fieldsOf<Optioned>({ options }),
      answers: turnAnswers,
      handle: (call, { options: more }) =>
        drive(call, () => call.sessions.step(call.param("id"), verbOptions(call, more))),
    }),
    bodyRoute<ResultsBody>({
      method: "POST",
      path: "/sessions/{id}/tool-results",
      operationId: "submitToolResults",
      keyed: true,
      summary:
        "Records results of calls that wait. The session goes on when it is told to (`continue`), in the same request or by its own route.",
      body: fieldsOf<ResultsBody>({
        results: needed(many(fieldsOf<ResultBody>({ toolCallId: needed(text), content: needed(value) }))),
        continue: maybe(about("Go on, once nothing waits any more. Only recorded where it is not said.", flag)),
        options,
      }),
      answers: turnAnswers,
      handle: (call, { results, continue: goOn = false, options: more }) => {
        const pairs = results.map(({ toolCallId, content }) => [toolCallId, content] as const);
        const as = { ...verbOptions(call, more), continue: goOn };
        return drive(call, () => call.sessions.submitToolResults(call.param("id"), pairs, as));
      },
    }),
    bodyRoute<DecisionBody>({
      method: "POST",
      path: "/sessions/{id}/decisions",
      operationId: "decide",
      keyed: true,
      summary:
        "Consents to a call that waits, or refuses it. The last answer lets the session go on, unless `continue` is false.",
      body: fieldsOf<DecisionBody>({
        toolCallId: needed(text),
        type: needed(wordOf(["approve", "deny"])),
        arguments: maybe(about("Other arguments than the model asked for.", data)),
        reason: maybe(about("Why not; the model gets to read it.", text)),
        by: maybe(about("Who decided.", text)),
        continue: maybe(flag),
        options,
      }),
      answers: turnAnswers,
      handle: (call, { toolCallId, continue: goOn = true, options: more, ...said }) => {
        const { name } = call.caller;
        const decision = decisionOf(name === undefined ? said : { ...said, by: name });
        const as = { ...verbOptions(call, more), continue: goOn };
        return drive(call, () => call.sessions.decide(call.param("id"), toolCallId, decision, as));
      },
    }),
    bodyRoute<CancelBody>({
      method: "POST",
      path: "/sessions/{id}/cancel",
      operationId: "cancel",
      summary: "Ends the turn that runs, for good, and says who won.",
      body: fieldsOf<CancelBody>({ turnId: maybe(text), reason: maybe(text) }),
      answers: {
        200: jsonAnswer("Who won: the cancel, or the end the turn was coming to.", described("CancelAnswer")),
        202: jsonAnswer(
          "It is stored, and nobody drives the turn yet who could carry it out.",
          described("CancelAnswer"),
        ),
      },
      handle: async (call, body) => {
        const { sessions, param, door } = call;
        // Without a place: also where there are none left, somebody has to be able to stop things.
        const result = await within(call, sessions.cancel(param("id"), body), door.limits.waitSeconds * 1000);
        const outcome = result ?? "stored";
        return json({ result: outcome }, outcome === "stored" ? 202 : 200);
      },
    }),
    bodyRoute<SteerBody>({
      method: "POST",
      path: "/sessions/{id}/steer",
      operationId: "steer",
      summary: "Says something to the turn that runs, at its next checkpoint, or else to the next one.",
      body: fieldsOf<SteerBody>({
        input: needed(textOr(userMessage)),
        transient: maybe(about("The turn reads it; the history does not keep it.", flag)),
        id: maybe(about("Its name; the same one is taken in once.", text)),
      }),
      answers: { 202: jsonAnswer("Which turn takes it, as things are.", described("SteerAnswer")) },
      keyed: true,
      handle: async ({ sessions, param, door, caller, key }, { input, transient = false, id = key ?? undefined }) => {
        checkId(id, door.limits.idLength);
        const said: SteerInput = typeof input === "string" && !transient ? input : steered(input, transient);
        // Where nothing runs, it begins a turn.
        const leaveTurn = door.enterTurn(caller);
        const as = id === undefined ? {} : { id };
        const taken = await orLeave(leaveTurn, () => sessions.steer(param("id"), said, as));
        sessions.attach(param("id"), taken.turnId).result.then(leaveTurn, leaveTurn);
        return json(taken, 202);
      },
    }),
    route({
      method: "DELETE",
      path: "/sessions/{id}/inputs/{inputId}",
      operationId: "withdraw",
      summary: "Takes back what was said to a turn, if nobody has taken it in.",
      answers: {
        200: jsonAnswer("What became of it.", described("WithdrawAnswer")),
        404: jsonAnswer("There is no such input.", described("WithdrawAnswer")),
      },
      handle: async ({ sessions, param }) => {
        const result = await sessions.withdraw(param("id"), param("inputId"));
        return json({ result }, result === "not_found" ? 404 : 200);
      },
    }),
    route({
      method: "GET",
      path: "/sessions/{id}/events",
      operationId: "watchSession",
      summary: "What happens in a session, from its first event or from behind a cursor.",
      query: eventParameters,
      answers: { 200: eventStream },
      handle: async (call) => {
        const id = call.param("id");
        const aim = eventOptions(call);
        if ((await call.sessions.get(id, { messages: 0 })) === null) throw noSession(id);
        return streamed(call, { events: call.sessions.events(id, aim), render: eventFrame });
      },
    }),
    route({
      method: "GET",
      path: "/sessions/{id}/turns/{turnId}",
      operationId: "getTurn",
      summary: "What a turn came to; 202 while it is open. `Prefer: wait=10` waits for it.",
      answers: turnAnswers,
      handle: async (call) => {
        const [sessionId, turnId] = [call.param("id"), call.param("turnId")];
        const waitMs = waitFor(call);
        const isOpen = await isTurnOpen(call);
        const { result } = call.sessions.attach(sessionId, turnId);
        const end = isOpen ? await waited(call, result, waitMs) : await result;
        return end === null ? json({ sessionId, turnId }, 202) : json(end);
      },
    }),
    route({
      method: "GET",
      path: "/sessions/{id}/turns/{turnId}/events",
      operationId: "watchTurn",
      summary:
        "What happens in one turn, until it has ended, and what it came to. 204 when there is nothing behind the cursor any more.",
      query: eventParameters,
      answers: { 200: eventStream, 204: { description: "It has ended, and everything of it has been read." } },
      handle: (call) => watchTurn(call),
    }),
    route({
      method: "POST",
      path: "/sessions/{id}/calls/{toolCallId}/token",
      operationId: "makeToken",
      summary: "A token that completes this one call, once, and only while it waits as it does now.",
      answers: { 201: jsonAnswer("The token.", described("TokenAnswer")) },
      handle: async ({ sessions, param }) =>
        json({ token: await sessions.token(param("id"), param("toolCallId")) }, 201),
    }),
    bodyRoute<CompletionBody>({
      method: "POST",
      path: "/complete",
      operationId: "complete",
      summary: "Completes the call a token is for. The token is the key: no other is asked for.",
      access: "open",
      body: fieldsOf<CompletionBody>({
        token: needed(text),
        type: needed(wordOf(["result", "answer", "approve", "deny"])),
        value: maybe(value),
        text: maybe(text),
        reason: maybe(text),
        by: maybe(text),
      }),
      answers: {
        200: jsonAnswer("It is completed.", described("CompletionAnswer")),
        404: jsonAnswer("There is no such token.", described("CompletionAnswer")),
        409: jsonAnswer("Somebody was first, or the call no longer waits as it did.", described("CompletionAnswer")),
      },
      handle: async ({ sessions }, { token, ...said }) => {
        const done = await sessions.complete(token, tokenAnswer(said));
        return json({ result: done.type }, done.type === "unknown" ? 404 : done.type === "completed" ? 200 : 409);
      },
    }),
  ];
}

/**
 * Turns as they were recorded. They are exact, so that they can be replayed, and hold what callers are not told elsewhere: what tools were told about
 * whoever began the session, and what providers said.
 */
export const recordRoute: Route = route({
  method: "GET",
  path: "/sessions/{id}/turns/{turnId}/record",
  operationId: "exportTurn",
  summary: "A turn as one JSON value; `everturn replay` runs it again, offline.",
  answers: { 200: jsonAnswer("The record.", described("TurnRecord")) },
  handle: async ({ sessions, param }) =>
    new Response(JSON.stringify(await sessions.export(param("id"), param("turnId"))), { headers: jsonHeaders }),
});

type CompletionBody = {
  readonly token: string;
  readonly type: "result" | "answer" | "approve" | "deny";
  readonly value?: Json;
  readonly text?: string;
  readonly reason?: string;
  readonly by?: string;
};

function tokenAnswer({ type, value: given, text: said, ...rest }: Omit<CompletionBody, "token">): TokenAnswer {
  switch (type) {
    case "result":
      return { type, value: given ?? null };
    case "answer":
      return { type, text: said ?? "" };
    case "approve":
    case "deny":
      return decisionOf({ type, ...rest });
  }
}

/** A turn as it goes on, or what is left to read of one that has ended. */
async function watchTurn(call: Call): Promise<Response> {
  const { sessions, param } = call;
  const [id, turnId] = [param("id"), param("turnId")];
  const aim = { ...eventOptions(call), turnId };
  const turn = sessions.attach(id, turnId);
  if (await isTurnOpen(call)) {
    const events = sessions.events(id, aim);
    const source = aim.follow === false ? { events, render: eventFrame } : turnSource(turn, events);
    return streamed(call, source);
  }
  const place = call.door.enterStream(call);
  return orLeave(place.leave, async () => {
    const rest = sessions.events(id, { ...aim, follow: false })[Symbol.asyncIterator]();
    const first = await rest.next();
    if (first.done === true) {
      place.leave();
      // A browser that reconnects is told in this way to stop.
      return new Response(null, { status: 204 });
    }
    // It has been begun: it is let go also where nobody reads on.
    const closed = () => void rest.return?.().catch(() => undefined);
    return place.answer({ ...turnSource(turn, resumed(first.value, rest)), closed });
  });
}

/** What an iterator still has, with what was taken from it. */
async function* resumed<T>(first: T, rest: AsyncIterator<T>): AsyncGenerator<T> {
  yield first;
  for (let next = await rest.next(); next.done !== true; next = await rest.next()) yield next.value;
}

async function isTurnOpen({ sessions, param }: Call): Promise<boolean> {
  const view = await sessions.get(param("id"), { messages: 0 });
  if (view === null) throw noSession(param("id"));
  const { openTurn } = view;
  return openTurn?.turnId === param("turnId") && openTurn.status !== "parked";
}

function steered(input: string | UserMessage, transient: boolean): SteerInput {
  const message = typeof input === "string" ? user(input) : input;
  return { type: transient ? "transient" : "message", message };
}

/** What a verb is told: what the body says, and the key it was sent under. */
function verbOptions({ key }: Call, options: TurnOptions = {}): TurnOptions & { readonly key?: string } {
  return key === null ? options : { ...options, key };
}
