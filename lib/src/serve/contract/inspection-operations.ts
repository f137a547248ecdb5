// Operations that read about the server, its engines and its turns. A handler serves them with its option `inspect`,
// and the operations on records with `records`.

import type { VerbsOf } from "./operation.ts";

import { get, json, post } from "./operation.ts";
import { countQuery, objectSchema, textQuery } from "./schema.ts";
import { pageQuery } from "./session-operations.ts";

/** The longest query of a search, in characters. */
const maxQueryLength = 16_384;

export const inspectionOperations = {
  /** The server, and what the caller may do there. */
  server: get("/server", {
    operationId: "getServer",
    scope: "read",
    summary: "Returns what the server is and what the caller may do there.",
    uses: "nothing",
    answers: json("ServerView", { 200: "The server." }),
  }),
  /** The engines that the caller may use, with their tools. */
  engines: get("/engines", {
    operationId: "listEngines",
    scope: "read",
    summary: "Lists the engines that the caller may use, with their tools. Only operators see instructions.",
    uses: "nothing",
    answers: json("EngineList", { 200: "The engines." }, "items"),
  }),
  /** A page of the turns of a session, newest first. */
  turns: get("/sessions/{id}/turns", {
    operationId: "listTurns",
    scope: "read",
    summary: "Lists the turns of a session, newest first.",
    query: pageQuery,
    answers: json("TurnPage", { 200: "A page of turns." }),
  }),
  /** What a turn did and when. `after` is `next` of the previous page. */
  timeline: get("/sessions/{id}/turns/{turnId}/timeline", {
    operationId: "getTimeline",
    scope: "read",
    summary:
      "Returns what a turn did and when, from its journal, also while it runs. A page has at most 500 rows; `next` is the `after` of the next page.",
    query: {
      after: countQuery("Only rows after this ordinal: `next` of the previous page."),
      limit: countQuery("The maximum number of rows. Default: 500, which is the maximum.", { minimum: 1 }),
    },
    answers: json("Timeline", { 200: "A page of the timeline." }),
  }),
  /** Everything that is stored about one row of the journal of a turn. */
  effect: get("/sessions/{id}/turns/{turnId}/effects/{ordinal}", {
    operationId: "getEffect",
    scope: "read",
    summary:
      "Returns everything that is stored about one row of the journal of a turn. Causes, request bodies, environments and references to providers are part of it only if turn records may be exported.",
    answers: json("EffectDetail", { 200: "The row." }),
  }),
  /** The processes that drive turns. Only for operators. */
  workers: get("/workers", {
    operationId: "listWorkers",
    scope: "read",
    summary: "Lists the processes that drive turns, of all tenants. Only for operators.",
    operator: true,
    answers: json("WorkerList", { 200: "The processes." }, "items"),
  }),
  /** Starts a prepared conversation of the offline model and returns its session. */
  startScenario: post("/scenarios/{name}", {
    scope: "write",
    operator: true,
    summary: "Starts a prepared conversation of the offline model. Only for operators.",
    uses: "nothing",
    idempotent: "never",
    body: () => objectSchema({}),
    answers: json("ScenarioStarted", { 201: "The session of the conversation." }),
  }),
  /** Sums over the turns that ended in a period. Default: the last 24 hours. Times are in milliseconds. */
  overview: get("/overview", {
    operationId: "getOverview",
    scope: "read",
    summary:
      "Sums up the turns that ended in a period, by time, engine, tool and tenant: of all tenants, or of the tenant of the operator's key. Only for operators.",
    operator: true,
    query: {
      from: countQuery(
        "The beginning of the period, in milliseconds since 1970-01-01 UTC. Default: 24 hours before `until`. At most 90 days before it.",
      ),
      until: countQuery("The end of the period, in milliseconds since 1970-01-01 UTC. Default: now."),
    },
    answers: json("Overview", { 200: "The sums." }),
  }),
  search: get("/search", {
    operationId: "searchMessages",
    client: "own",
    scope: "read",
    summary: "Finds messages that contain all words of a query. 404 if the storage cannot search.",
    query: {
      q: textQuery("The words. The last one may be the beginning of a word.", () => maxQueryLength),
      limit: countQuery("The largest number of messages. Default: 20.", { minimum: 1, maximum: 100 }),
    },
    answers: json("SearchHitList", { 200: "The messages, of the newest sessions first." }),
  }),
};

/** The verbs of the client that inspect. Exported as part of `Inspector`. */
export type InspectionVerbs = VerbsOf<typeof inspectionOperations>;

export const recordOperations = {
  /** The request of a model call, rebuilt. Only if `records` of {@link ServerView} says so. */
  request: get("/sessions/{id}/turns/{turnId}/effects/{ordinal}/request", {
    operationId: "getRequest",
    scope: "read",
    summary:
      "Returns the request of a model call, rebuilt from the pinned configuration, the history and the journal, and where it differs from the recorded digests. Reads the turn up to this row.",
    answers: json("RequestView", { 200: "The request." }),
  }),
  /** Returns a turn as one JSON value. Only if the server allows it (`records: true`). */
  export: get("/sessions/{id}/turns/{turnId}/record", {
    operationId: "exportTurn",
    scope: "read",
    summary: "Exports a turn as one JSON value, which `everturn replay` replays offline.",
    uses: "text",
    answers: json("TurnRecord", { 200: "The record." }),
  }),
};

/** The verbs of the client on turn records. Exported as part of `EverturnClient` and `Inspector`. */
export type RecordVerbs = VerbsOf<typeof recordOperations>;
