// Operations on whole sessions, and of the process. Lists return `{ items, next }`; `next` is an opaque cursor for
// `after`, or `null` on the last page.

import type { VerbsOf } from "./operation.ts";

import { sessionFilterStatuses } from "../../core/model/internal.ts";
import { get, json, jsonOrNothing, nothing, post, remove } from "./operation.ts";
import {
  countQuery,
  countSchema,
  enumQuery,
  enumSchema,
  flagQuery,
  objectSchema,
  optionalField,
  stringSchema,
  textQuery,
  textsQuery,
} from "./schema.ts";

/** The query of a page. */
export const pageQuery = {
  limit: countQuery(
    "The maximum number of items. Default: 50. Values above the server's page size are reduced to it.",
    { minimum: 1 },
  ),
  // The cursor of a list of sessions contains an id and a time.
  after: textQuery("The cursor `next` of the previous page.", (idLength) => idLength + 32),
};

const callKey = optionalField(stringSchema, "An idempotency key: a call that is repeated with it takes effect once.");
const sessionVersion = optionalField(
  countSchema,
  "The version of the session that the caller has read; 409 if it has changed.",
);

export const sessionOperations = {
  /**
   * Returns a page of sessions, most recently changed first. The fields other than `limit` and `after` select sessions;
   * such a page may be short and still have a `next`.
   */
  list: get("/sessions", {
    operationId: "listSessions",
    scope: "read",
    summary: "Lists the sessions that the caller may read, most recently changed first.",
    query: {
      ...pageQuery,
      status: enumQuery(
        "Only sessions with this status. `running`: a turn is open. `parked`: the open turn is parked. Without an open turn: `waiting` for an answer, `failed`, `ended`. A page may have fewer items than `limit` and still have a `next`.",
        sessionFilterStatuses,
      ),
      engine: textQuery("Only sessions whose newest turn has this engine.", (idLength) => idLength),
      owner: textQuery("Only sessions of this caller.", (idLength) => idLength),
      metadata: textsQuery(
        'Only sessions whose metadata has these values: a JSON object of texts, such as `{"case":"17"}`. A value that is no text is compared as JSON.',
        (idLength) => 4 * idLength,
      ),
    },
    answers: json("SessionPage", { 200: "A page of summaries." }),
  }),
  get: get("/sessions/{id}", {
    operationId: "getSession",
    client: "own",
    scope: "read",
    summary:
      "Returns a session as of its last committed turn, with its newest messages and its open turn. `length` is the number of all messages; `GET /sessions/{id}/messages` returns the others.",
    query: {
      messages: countQuery(
        "The number of newest messages to return. Fewer are returned if they would be larger than a page.",
        { minimum: 0, default: 100 },
      ),
      optional: flagQuery(
        "`true`: respond with 204 instead of 404 if there is no such session. The console of a browser shows every 404 as an error.",
        { default: false },
      ),
    },
    answers: jsonOrNothing("SessionView", { 200: "The session." }, { 204: "`optional`: there is no such session." }),
  }),
  /**
   * Returns a page of messages, oldest first. `after` is the index of a message, from 0, or `next` of the last page.
   */
  messages: get("/sessions/{id}/messages", {
    operationId: "listMessages",
    scope: "read",
    summary: "Lists the messages of a session, oldest first.",
    query: {
      ...pageQuery,
      after: { ...pageQuery.after, read: (text: string): number | string => text },
    },
    answers: json("MessagePage", { 200: "A page of messages." }),
  }),
  usage: get("/sessions/{id}/usage", {
    route: "verb",
    operationId: "getUsage",
    client: "own",
    scope: "read",
    summary: "Returns the token usage and cost of a session, by kind and by model.",
    answers: json("LedgerSum", { 200: "The sums." }),
  }),
  getUsageWithoutSession: get("/usage", {
    client: "own",
    scope: "read",
    summary:
      "Returns the token usage and cost of the tenant's chat completions, which belong to no session. Only for operators: the sums are those of all callers.",
    operator: true,
    answers: json("LedgerSum", { 200: "The sums." }),
  }),
  /** Deletes a session. */
  delete: remove("/sessions/{id}", {
    route: "verb",
    operationId: "deleteSession",
    scope: "write",
    summary: "Deletes a session, and the branches of a chat with it. Its open turn is stopped.",
    uses: "nothing",
    answers: nothing({ 204: "The session is deleted." }),
  }),
  /**
   * Creates a session with the messages of this one, or with the first `at` messages, and returns its id. `redo`: the
   * id of a call of the last copied message, which waits in the copy: `decide` runs it, with other arguments if given,
   * and `submitToolResults` gives it another result.
   */
  fork: post("/sessions/{id}/fork", {
    operationId: "forkSession",
    scope: "write",
    summary: "Creates a session with a copy of this session's messages.",
    uses: "nothing",
    idempotent: "never",
    body: () =>
      objectSchema({
        id: optionalField(stringSchema, "The id of the new session. Default: a random id."),
        at: optionalField(countSchema, "Copy only the first `at` messages. Default: all."),
        redo: optionalField(
          stringSchema,
          "The id of a call of the last copied message, which waits in the copy for a decision: approve it, with other arguments if given, or give it a result.",
        ),
      }),
    answers: json("SessionId", { 201: "The id of the new session." }, "id"),
  }),
  /**
   * Requests a compaction: the next model call of the session is preceded by a summary of its older messages, which
   * stands for them in requests. A repeated call with the same `key` changes nothing more.
   */
  compact: post("/sessions/{id}/compact", {
    route: "verb",
    scope: "write",
    summary:
      "Requests a summary of the older messages before the next model call. It stands for them in requests; the session keeps them. Starts no turn. 409 while a turn is open.",
    uses: "nothing",
    idempotent: "never",
    body: () =>
      objectSchema({
        instructions: optionalField(stringSchema, "What the summary has to keep."),
        key: callKey,
        version: sessionVersion,
      }),
    answers: json("Compaction", { 200: "What the next requests leave out." }),
  }),
  /**
   * Undoes the newest compaction: the next request contains its messages again. Withdraws a requested one first. A
   * repeated call with the same `key` changes nothing more.
   */
  undoCompaction: post("/sessions/{id}/undo-compaction", {
    route: "verb",
    scope: "write",
    summary:
      "Takes the newest summary back, so that requests contain its messages again; withdraws a requested one first. 409 while a turn is open.",
    uses: "nothing",
    idempotent: "never",
    body: () =>
      objectSchema({
        frame: optionalField(stringSchema, "The id of the frame to take back; 409 if it is not the newest one."),
        key: callKey,
        version: sessionVersion,
      }),
    answers: json("Compaction", { 200: "What the next requests leave out." }),
  }),
  /** Returns a page of the frames of a session, oldest first: where summaries stand for messages in requests. */
  frames: get("/sessions/{id}/frames", {
    operationId: "listFrames",
    scope: "read",
    summary:
      "Lists the frames of a session, oldest first: each is a summary that stands for the messages before `to` in requests, or stood for them until it was undone.",
    query: pageQuery,
    answers: json("FramePage", { 200: "A page of frames." }),
  }),
  /**
   * Drives the open turn again, makes a failed session usable, or ends a parked turn. `from: "step"` restarts its open
   * step.
   */
  recover: post("/sessions/{id}/recover", {
    route: "verb",
    operationId: "recoverSession",
    scope: "write",
    summary: "Drives the open turn again, makes a failed session usable, or ends a parked turn.",
    uses: "nothing",
    idempotent: "never",
    body: () => objectSchema({ from: optionalField(enumSchema(["step"]), "Restart the open step of a parked turn.") }),
    answers: json("Recovered", { 200: "What recovery did." }),
  }),
};

/** The verbs of the client on whole sessions. Exported as part of `EverturnClient`. */
export type SessionVerbs = VerbsOf<typeof sessionOperations>;

export const processOperations = {
  /** Checks that the process responds and its storage answers. */
  health: get("/health", {
    scope: "open",
    summary: "Checks that the process responds and its storage answers.",
    uses: "nothing",
    answers: json("Health", { 200: "The process and its storage work." }),
  }),
};

/** The verbs of the client on the process. Exported as part of `EverturnClient`. */
export type ProcessVerbs = VerbsOf<typeof processOperations>;
