// Operations on turns: those that start one, those that send input to a running one, and those that read events.
//
// An operation that starts a turn answers in the form that the client asks for (serve/http/routes/turn-answer.ts).
// Events are read with a cursor: `Last-Event-ID` or `?after=`.

import type { BodyParts, VerbsOf } from "./operation.ts";

import { eventStream, get, json, post, remove, turnAnswers } from "./operation.ts";
import {
  arraySchema,
  booleanSchema,
  enumSchema,
  flagQuery,
  jsonObjectSchema,
  jsonSchema,
  objectSchema,
  optionalField,
  requiredField,
  stringOr,
  stringSchema,
  textQuery,
} from "./schema.ts";

/** An operation that starts a turn. */
const startsTurn = { uses: "turn", idempotent: "key", answers: turnAnswers } as const;

/** The body of `reply` and `send`. */
const messageBody = ({ message, options, whenBusy }: BodyParts) =>
  objectSchema({
    text: optionalField(stringSchema, "The text of the message. This or `message` is required."),
    message: optionalField(message, "A user message with parts: text, images and files. In place of `text`."),
    whenBusy: optionalField(
      whenBusy,
      "What to do with the message while a turn is open. `steer`: add it to the turn at its next checkpoint. `queue`: start the next turn with it. `interrupt`: cancel the turn and start the next one with it. `reject`: answer 409. Default: the policy of the engine of the open turn, otherwise `reject` for reply and `steer` for send.",
    ),
    options: optionalField(options),
  });

/**
 * The name recorded with a decision is that of the key. Earlier clients sent one, which is accepted and has no effect.
 */
const ignoredName = optionalField(
  stringSchema,
  "Has no effect: the name of the API key is recorded with the decision.",
);

const eventQuery = {
  // A cursor contains an offset for each open part of a reply, so it is longer than an id.
  after: textQuery("The cursor to resume after. `Last-Event-ID` takes precedence.", (idLength) => 32 * idLength),
  follow: flagQuery("`false`: return the stored events and end the stream.", { default: true }),
};

export const turnOperations = {
  start: post("/sessions", {
    operationId: "startSession",
    scope: "write",
    summary: "Starts a session and its first turn.",
    ...startsTurn,
    body: ({ message, options }) =>
      objectSchema({
        input: requiredField(stringOr(arraySchema(message)), "The text of a user message, or user messages."),
        id: optionalField(stringSchema, "The id of the session. Default: a random id."),
        metadata: optionalField(jsonObjectSchema),
        options: optionalField(options),
      }),
  }),
  reply: post("/sessions/{id}/reply", {
    scope: "write",
    summary:
      "Adds a user message and runs a turn. If the session asked a question, the message is the answer. While a turn is open, `whenBusy` decides; by default the answer is 409.",
    ...startsTurn,
    body: messageBody,
  }),
  send: post("/sessions/{id}/send", {
    scope: "write",
    summary: "Sends a user message like `reply`, but steers an open turn by default.",
    ...startsTurn,
    body: messageBody,
  }),
  continue: post("/sessions/{id}/continue", {
    operationId: "continueSession",
    scope: "write",
    summary: "Runs the next turn, with a message or without one.",
    ...startsTurn,
    body: ({ message, options }) => objectSchema({ message: optionalField(message), options: optionalField(options) }),
  }),
  step: post("/sessions/{id}/step", {
    scope: "write",
    summary: "Runs a turn of one step: a model reply and its tool calls.",
    ...startsTurn,
    body: ({ options }) => objectSchema({ options: optionalField(options) }),
  }),
  submitToolResults: post("/sessions/{id}/tool-results", {
    scope: "answer",
    summary:
      "Records the results of pending calls. With `continue: true` the result of the last pending call starts a turn; otherwise `POST /sessions/{id}/continue` does.",
    ...startsTurn,
    body: ({ options }) =>
      objectSchema({
        results: requiredField(
          arraySchema(objectSchema({ toolCallId: requiredField(stringSchema), content: requiredField(jsonSchema) })),
        ),
        continue: optionalField(booleanSchema, "`true`: start a turn once no call is pending. Default: false."),
        options: optionalField(options),
      }),
  }),
  decide: post("/sessions/{id}/decisions", {
    scope: "decide",
    summary:
      "Approves or denies a pending call. The decision on the last pending call starts a turn, unless `continue` is false.",
    ...startsTurn,
    body: ({ options }) =>
      objectSchema({
        toolCallId: requiredField(stringSchema),
        digest: requiredField(
          stringSchema,
          "`digest` of the pending call that was shown to the person who decides. If the call has changed meanwhile, the response is 409 `call_changed` and nothing changes.",
        ),
        type: requiredField(enumSchema(["approve", "deny"])),
        arguments: optionalField(
          jsonObjectSchema,
          "Arguments that replace those that were shown. Only with `approve`.",
        ),
        reason: optionalField(stringSchema, "The reason of a denial; the model reads it. Only with `deny`."),
        by: ignoredName,
        continue: optionalField(booleanSchema),
        options: optionalField(options),
      }),
  }),
  /**
   * Cancels the open turn. `stored` means that no process drives the turn at the moment; the next one ends it. Without
   * a `turnId` the open turn is cancelled, and the request is not retried.
   */
  cancel: post("/sessions/{id}/cancel", {
    route: "verb",
    scope: "write",
    summary: "Cancels the open turn.",
    uses: "cancel",
    idempotent: "turn",
    body: () => objectSchema({ turnId: optionalField(stringSchema), reason: optionalField(stringSchema) }),
    answers: json(
      "CancelAnswer",
      {
        200: "`cancelled`, `completion_won` if the turn ended before the cancel was recorded, or `nothing_open`.",
        202: "The cancel is stored. No process drives the turn at the moment; the next one ends it.",
      },
      "result",
    ),
  }),
  steer: post("/sessions/{id}/steer", {
    scope: "write",
    summary: "Adds input to the open turn at its next checkpoint, or to the next turn if there is none.",
    uses: "input",
    idempotent: "key",
    body: ({ message }) =>
      objectSchema({
        input: requiredField(stringOr(message)),
        transient: optionalField(booleanSchema, "`true`: the turn reads the input, and the history does not keep it."),
        id: optionalField(
          stringSchema,
          "The id of the input. Input of the same id is accepted once. Default: the `Idempotency-Key`.",
        ),
      }),
    answers: json("SteerAnswer", { 202: "The id of the input and of the turn that is expected to accept it." }),
  }),
  /** Withdraws input that no turn has accepted yet: the id of steered input, or the `key` of a queued message. */
  withdraw: remove("/sessions/{id}/inputs/{inputId}", {
    scope: "write",
    summary:
      "Withdraws steered input or a queued message that no turn has accepted yet. The id of a message is its `Idempotency-Key`.",
    uses: "page",
    answers: json(
      "WithdrawAnswer",
      { 200: "Whether the input was withdrawn.", 404: "There is no input of that id." },
      "result",
    ),
  }),
  events: get("/sessions/{id}/events", {
    operationId: "watchSession",
    scope: "read",
    summary: "Streams the events of a session, from the first one or after a cursor.",
    uses: "stream",
    query: eventQuery,
    answers: eventStream(),
  }),
  attach: get("/sessions/{id}/turns/{turnId}", {
    route: "verb",
    operationId: "getTurn",
    scope: "read",
    summary: "Returns the result of a turn; 202 while it is open. `Prefer: wait=10` waits up to 10 seconds for it.",
    uses: "wait",
    answers: turnAnswers,
  }),
  watchTurn: get("/sessions/{id}/turns/{turnId}/events", {
    scope: "read",
    summary:
      "Streams the events of one turn until it ends, then its result. 204 if the turn has ended and there are no events after the cursor.",
    uses: "stream",
    query: eventQuery,
    answers: eventStream({
      204: "The turn has ended and all its events were read. `EventSource` does not reconnect after a 204.",
    }),
  }),
  /** Returns a token that completes this pending call once, while it waits with its current arguments. */
  token: post("/sessions/{id}/calls/{toolCallId}/token", {
    operationId: "makeToken",
    // The token answers the call without authentication, so a caller that may not decide about the call gets none.
    scope: "answer",
    summary: "Returns a token that completes this pending call once, while it waits with its current arguments.",
    uses: "page",
    idempotent: "always",
    answers: json("TokenAnswer", { 201: "The token." }, "token"),
  }),
  complete: post("/complete", {
    client: "own",
    scope: "open",
    summary: "Completes the pending call of a token. The token is the only authentication.",
    uses: "nothing",
    idempotent: "never",
    body: () =>
      objectSchema({
        token: requiredField(stringSchema),
        type: requiredField(enumSchema(["result", "answer", "approve", "deny"])),
        value: optionalField(jsonSchema),
        text: optionalField(stringSchema),
        reason: optionalField(stringSchema),
        by: ignoredName,
      }),
    answers: json("CompletionAnswer", {
      200: "The call is completed.",
      404: "There is no such token.",
      409: "The call was completed before, or no longer waits with the same arguments.",
    }),
  }),
};

/** The verbs of the client on turns. Exported as part of `EverturnClient`. */
export type TurnVerbs = VerbsOf<typeof turnOperations>;
