// An operation of the HTTP API, declared once: the routes, the OpenAPI document and the requests of the client follow
// from its row (session-, turn- and inspection-operations.ts). A row has no code; its implementation is in
// serve/http/routes.

import type { JsonObject, TurnEnd, UserMessage } from "../../core/model/internal.ts";
import type { Results } from "./results.ts";
import type { BodySchema, QueryField } from "./schema.ts";
import type { TurnOptions, WhenBusy } from "./turn-options.ts";

import { resultRef } from "./results.ts";

/**
 * What the handler takes for a request, and what the implementation gives it:
 *   nothing  a value
 *   page     a value; one of the few permits for pages in memory until the response is counted. The default
 *   turn     a turn that starts: a permit of the open turns until it ends, of the streams while the client reads or
 *            waits, of the pages to start it and for its result
 *   input    input to a turn, which starts one if none is open: a permit of the open turns until that turn ends, and of
 *            the pages
 *   wait     a turn: the permits of a client that waits for its result
 *   stream   events: a permit of the streams until the response ends, and of the pages to begin
 *   text     one JSON text in parts: a permit of the streams until the response ends, and of the pages for each part
 *   cancel   the end of a turn, for which it waits without a permit; requests of this kind have permits of their own
 */
export type Uses = "nothing" | "page" | "turn" | "input" | "wait" | "stream" | "text" | "cancel";

/**
 * What a caller may do, besides what belongs to it: a key has a list of scopes, and each operation needs one.
 *   read    reading sessions, turns, events and engines
 *   write   starting, continuing, changing and deleting sessions
 *   decide  decisions about calls that wait for an approval or whose outcome is unknown
 *   admin   keys, the audit log, and whole tenants; only for operators
 */
export const scopes = ["read", "write", "decide", "admin"] as const;

/** What a key may do: see {@link Caller}. */
export type Scope = (typeof scopes)[number];

/**
 * The scope that an operation needs. `answer`: `write` or `decide`, by what is answered; the request needs one of them,
 * and the verb checks which (serve/http/session-rights.ts). `open`: none, because the operation needs no authentication.
 */
export type OperationScope = Scope | "answer" | "open";

/** Schemas that depend on the options of the handler. */
export type BodyParts = {
  readonly message: BodySchema<UserMessage>;
  readonly options: BodySchema<TurnOptions>;
  readonly whenBusy: BodySchema<WhenBusy>;
};

/** A response in the OpenAPI document, with the JSON Schema of each media type. */
export type ResponseDescription = {
  readonly description: string;
  readonly content?: { readonly [mediaType: string]: JsonObject };
};

/** The responses by status. `result`, which is never set, is the type of their body. */
type Answers<Result> = {
  readonly responses: { readonly [status: string]: ResponseDescription };
  readonly result?: Result;
};

/** An operation. `Path`, `Query`, `Body` and `Result` are the types of its parts. */
export type Operation<Path extends string, Query, Body, Result, Use extends Uses> = Fields<Query, Body, Result, Use> & {
  readonly method: "GET" | "POST" | "DELETE";
  /** `{name}` is a path parameter. */
  readonly path: Path;
};

type Fields<Query, Body, Result, Use> = Declared<Query, Result, Use> & {
  /** `withoutBody`: the request has none. */
  readonly body: (parts: BodyParts) => BodySchema<Body>;
};

type Declared<Query, Result, Use> = {
  readonly summary: string;
  /** The scope that a caller needs. Without one, the operation does not compile. */
  readonly scope: OperationScope;
  /**
   * Concerns other callers or the process: only for operators whose key does not list engines. With the scope `admin`
   * it concerns all tenants: only for operators that name none. Default: false, a caller reaches what belongs to it.
   */
  readonly operator?: boolean;
  /** Default: the query is ignored. */
  readonly query?: { readonly [N in keyof Query]: QueryField<Query[N]> };
  readonly answers: Answers<Result>;
  /**
   * Whether a request that is sent twice takes effect once. `key`: by its `Idempotency-Key`. `turn`: if its body names
   * the turn. Default: always, as for what only reads or removes.
   */
  readonly idempotent?: "always" | "key" | "turn" | "never";
  /** Default: `page`. */
  readonly uses?: Use;
};

/** Any operation. */
export type AnyOperation = Operation<string, unknown, unknown, unknown, Uses>;

/** The body of an operation that has none. */
export const withoutBody = (): BodySchema<null> => ({ shape: () => null, schema: {} });

export function get<const Path extends string, Result, Use extends Uses = "page", Query = object>(
  path: Path,
  fields: Declared<Query, Result, Use>,
): Operation<Path, Query, null, Result, Use> {
  return { ...fields, method: "GET", path, body: withoutBody };
}

export function post<const Path extends string, Result, Body, Use extends Uses>(
  path: Path,
  fields: Fields<object, Body, Result, Use> & { readonly uses: Use; readonly idempotent: string },
): Operation<Path, object, Body, Result, Use> {
  return { ...fields, method: "POST", path };
}

export function remove<const Path extends string, Result, Use extends Uses = "page", Query = object>(
  path: Path,
  fields: Declared<Query, Result, Use>,
): Operation<Path, Query, null, Result, Use> {
  return { ...fields, method: "DELETE", path, body: withoutBody };
}

/** JSON responses with this result: a description of each status. */
export function json<N extends keyof Results>(name: N, statuses: Statuses): Answers<Results[N]> {
  return { responses: responsesOf(statuses, { content: { "application/json": resultRef(name).schema } }) };
}

/** A JSON response with this result, or one without a body: there is none. */
export function jsonOrNothing<N extends keyof Results>(
  name: N,
  found: Statuses,
  none: Statuses,
): Answers<Results[N] | null> {
  return { responses: { ...json(name, found).responses, ...responsesOf(none) } };
}

/** Responses without a body. */
export function nothing(statuses: Statuses): Answers<void> {
  return { responses: responsesOf(statuses) };
}

type Statuses = { readonly [status: number]: string };

function responsesOf(statuses: Statuses, content: Omit<ResponseDescription, "description"> = {}) {
  const entries = Object.entries(statuses);
  return Object.fromEntries(entries.map(([status, description]) => [status, { description, ...content }]));
}

const events = { "text/event-stream": resultRef("Event").schema };

/** A stream of events, or no body. */
export function eventStream(statuses: Statuses = {}): Answers<void> {
  return { responses: { 200: { description: "A stream of events.", content: events }, ...responsesOf(statuses) } };
}

/** The responses of an operation that starts a turn, or waits for one. */
export const turnAnswers: Answers<TurnEnd> = {
  responses: {
    200: {
      description: "A stream of events if the client accepts `text/event-stream`; otherwise the result of the turn.",
      content: { ...events, "application/json": resultRef("TurnEnd").schema },
    },
    ...json("TurnAccepted", { 202: "The turn was accepted and has not ended. `Location` is its URL." }).responses,
  },
};

/** The names of the path parameters. */
export type PathNames<Path extends string> = Path extends `${string}{${infer Name}}${infer Rest}`
  ? Name | PathNames<Rest>
  : never;

/** The values of the path parameters, in their order. */
export type PathValues<Path extends string> = Path extends `${string}{${string}}${infer Rest}`
  ? readonly [string, ...PathValues<Rest>]
  : readonly [];
