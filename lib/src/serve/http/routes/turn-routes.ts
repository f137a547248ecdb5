// Operations on turns: those that start one, those that send input to a running one, and those that read events.
//
// Invariants
//   1. Operations that start a turn, and `steer`, which starts one when no turn is running, declare a turn permit: it
//      is taken before they start it.
//   2. `cancel` takes no turn or stream permit, and has request permits of its own: it must work when all others are
//      taken.
//   3. `POST /complete` is the only open operation with an effect; its token authorises one pending call.

import type { UserMessage } from "../../../core/model/internal.ts";
import type { DecisionInput } from "../../../core/session/internal.ts";
import type { TokenAnswer } from "../../../durable/internal.ts";
import type { turnOperations } from "../../contract/internal.ts";
import type { ContentPolicy } from "../content-policy.ts";
import type { EventStream, Implementations, RequestOf } from "./operation-route.ts";

import { user } from "../../../core/model/internal.ts";
import { contextOf, engineOfNew } from "../auth.ts";
import { checkToolContent } from "../content-policy.ts";
import { HttpError } from "../failure.ts";
import { json } from "./route.ts";
import { checkId } from "./session-routes.ts";
import { isTurnOpen, noSession } from "./turn-answer.ts";

/** The implementations. `policy` says which files and URLs results of tools may contain. */
export const turnImplementations = (policy: ContentPolicy): Implementations<typeof turnOperations> => ({
  start: (request) => {
    const {
      sessions,
      caller,
      limits,
      body: { input, options, ...fields },
    } = request;
    checkId(fields.id, limits.idLength);
    const engine = engineOfNew(caller, options?.engine);
    const { turnContext: context, ...startOptions } = verbOptions(request);
    const sessionFields = { context, ...fields, ...(engine === undefined ? {} : { engine }) };
    return () => sessions.start(input, { ...startOptions, ...sessionFields });
  },
  reply: (request) => {
    const input = textOrMessage(request.body);
    return () => request.sessions.reply(request.param("id"), input, messageOptions(request));
  },
  send: (request) => {
    const input = textOrMessage(request.body);
    return () => request.sessions.send(request.param("id"), input, messageOptions(request));
  },
  continue: (request) => {
    const { message = null } = request.body;
    return () => request.sessions.continue(request.param("id"), message, verbOptions(request));
  },
  step: (request) => () => request.sessions.step(request.param("id"), verbOptions(request)),
  submitToolResults: (request) => {
    const { results, continue: startTurn = false } = request.body;
    for (const [index, { content }] of results.entries())
      checkToolContent(content, policy, ["results", index, "content"]);
    const resultPairs = results.map(({ toolCallId, content }) => [toolCallId, content] as const);
    const options = { ...verbOptions(request), continue: startTurn };
    return () => request.sessions.submitToolResults(request.param("id"), resultPairs, options);
  },
  decide: (request) => {
    const { toolCallId, continue: startTurn = true, options: _, ...fields } = request.body;
    const decision = decisionOf(fields, request.caller.name);
    const options = { ...verbOptions(request), continue: startTurn };
    return () => request.sessions.decide(request.param("id"), toolCallId, decision, options);
  },
  steer: ({ sessions, caller, param, key, limits, body }) => {
    const { input, transient = false, id = key ?? undefined } = body;
    checkId(id, limits.idLength);
    const message = typeof input === "string" ? user(input) : input;
    const options = { turnContext: contextOf(caller), ...(id === undefined ? {} : { id }) };
    return () => sessions.steer(param("id"), { type: transient ? "transient" : "message", message }, options);
  },
  withdraw: async ({ sessions, param }) => {
    const result = await sessions.withdraw(param("id"), param("inputId"));
    return json({ result }, result === "not_found" ? 404 : 200);
  },
  events: async ({ sessions, param, query }) => {
    if ((await sessions.get(param("id"), { messages: 0 })) === null) throw noSession(param("id"));
    return { events: sessions.events(param("id"), query) };
  },
  watchTurn: watchTurn,
  token: async ({ sessions, param, limits: { completionTokenMs: ttlMs } }) => ({
    token: await sessions.token(param("id"), param("toolCallId"), { ttlMs }),
    sessionId: param("id"),
    toolCallId: param("toolCallId"),
    expiresInMs: ttlMs,
  }),
  complete: async ({ sessions, body: { token, ...answer } }) => {
    checkToolContent(answer.value ?? null, policy, ["value"]);
    const completion = await sessions.complete(token, tokenAnswer(answer));
    const { type: result } = completion;
    const { sessionId, toolCallId } = completion.type === "unknown" ? noCall : completion;
    return json({ result, sessionId, toolCallId }, result === "unknown" ? 404 : result === "completed" ? 200 : 409);
  },
});

const noCall = { sessionId: null, toolCallId: null };

type Operations = typeof turnOperations;
type DecisionBody = RequestOf<Operations["decide"]>["body"];
type CompletionBody = RequestOf<Operations["complete"]>["body"];

/**
 * The decision of a body. `by` is the name of the caller. A field of the other kind of decision is rejected: ignoring
 * it would drop a reason or changed arguments without an error.
 */
function decisionOf(
  { type, digest, arguments: args, reason }: Partial<DecisionBody> & Pick<DecisionBody, "type">,
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

/**
 * The answer of a body with a token. `value` belongs to `result`, `text` to `answer`. A missing value is `null`, a
 * missing text is empty.
 */
function tokenAnswer({ type, value = null, text = "", reason }: Omit<CompletionBody, "token">): TokenAnswer {
  switch (type) {
    case "result":
      return { type, value };
    case "answer":
      return { type, text };
    case "approve":
    case "deny":
      // The token identifies a call and no caller, so no name is recorded.
      return decisionOf({ type, ...(reason === undefined ? {} : { reason }) }, undefined);
  }
}

/**
 * Streams an open turn until it ends, or the remaining stored events of one that has ended. For an ended turn the first
 * event is read before the response, to answer 204 if there is none.
 */
async function watchTurn({ sessions, param, query }: RequestOf<Operations["watchTurn"]>): Promise<EventStream | null> {
  const [id, turnId] = [param("id"), param("turnId")];
  const options = { ...query, turnId };
  const handle = sessions.attach(id, turnId);
  if (await isTurnOpen({ sessions }, { sessionId: id, turnId })) {
    const events = sessions.events(id, options);
    return query.follow === false ? { events } : { events, turn: { handle, isOpen: true } };
  }
  const remaining = sessions.events(id, { ...options, follow: false })[Symbol.asyncIterator]();
  const first = await remaining.next();
  if (first.done === true) return null;
  // The iterator has started, so it is returned also when the client disconnects before reading.
  const onClose = () => void remaining.return?.().catch(() => undefined);
  return { events: prepend(first.value, remaining), turn: { handle, isOpen: false }, onClose };
}

/** Yields `first` and then the remaining values of an iterator. */
async function* prepend<T>(first: T, remaining: AsyncIterator<T>): AsyncGenerator<T> {
  yield first;
  for (let next = await remaining.next(); next.done !== true; next = await remaining.next()) yield next.value;
}

/** The message of `reply` and `send`. Rejects a body with neither a text nor a message, or with both. */
function textOrMessage({ text, message }: RequestOf<Operations["reply"]>["body"]): string | UserMessage {
  const given = message ?? text;
  if (given !== undefined && (text === undefined || message === undefined)) return given;
  const name = given === undefined ? "text" : "message";
  const problem = given === undefined ? "text or message is required" : "message cannot be combined with text";
  throw new HttpError("invalid_body", problem, { details: { path: [name] } });
}

/** The options of `reply` and `send`. */
function messageOptions(request: RequestOf<Operations["reply" | "send"]>) {
  const { whenBusy } = request.body;
  return { ...verbOptions(request), ...(whenBusy === undefined ? {} : { whenBusy }) };
}

/**
 * The options of a runtime verb: those of the body, the context of the caller, and the idempotency key of the request.
 */
function verbOptions({
  key,
  caller,
  body: { options },
}: Pick<RequestOf<Operations["step"]>, "key" | "caller" | "body">) {
  return { ...options, turnContext: contextOf(caller), ...(key === null ? {} : { key }) };
}
