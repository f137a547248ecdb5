// An operation of the HTTP API, declared once, in a row of a table (session-, turn- and inspection-operations.ts). The
// name of the row is that of the verb, in the runtime and in the client. From the row follow
//   the OpenAPI operation          serve/http/openapi
//   the scope of a caller, and its right to the session: `own` for `write`, `read` for `read`      serve/http/access.ts
//   the route                      serve/http/routes/operation-route.ts. With `route: "verb"` it calls the verb of the
//                                  runtime with the path parameters and the fields of the request; other operations
//                                  need a function in serve/http/routes, which the compiler demands
//   the verb of the client         its type (`VerbsOf`) and its request (serve/client/requests.ts), unless `client` is
//                                  "own" or the operation has a turn, input or a stream
// A row has no code.

import type { JsonObject, TurnEnd, UserMessage } from "../../core/model/internal.ts";
import type { Results } from "./results.ts";
import type { BodySchema, Described, QueryField } from "./schema.ts";
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
 * and the verb checks which (serve/http/session-rights.ts). `open`: none, because the operation needs no
 * authentication.
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

/** The responses by status. `result` and `value`, which are never set, are types. */
type Answers<Result, Value> = {
  readonly responses: { readonly [status: string]: ResponseDescription };
  /** The type of the body. */
  readonly result?: Result;
  /** The field of the body that the verb returns. Default: the verb returns the body. */
  readonly field?: string;
  /** The type of what the verb returns. */
  readonly value?: Value;
};

/** Options of every request of the client. */
export type CallOptions = {
  /** Aborts the request and everything that is read from it. It does not affect the turn; `cancel` ends a turn. */
  readonly signal?: AbortSignal;
};

/** A row of a table. */
type Row = {
  readonly summary: string;
  /** Default: the name of the row. */
  readonly operationId?: string;
  /** The scope that a caller needs. Without one, the operation does not compile. */
  readonly scope: OperationScope;
  /**
   * Concerns other callers or the process: only for operators whose key does not list engines. With the scope `admin`
   * it concerns all tenants: only for operators that name none. Default: false, a caller reaches what belongs to it.
   */
  readonly operator?: boolean;
  /** Default: the query is ignored. */
  readonly query?: { readonly [name: string]: QueryField<unknown> };
  /** Default: the request has none. */
  readonly body?: (parts: BodyParts) => BodySchema<unknown>;
  readonly answers: Answers<unknown, unknown>;
  /**
   * Whether a request that is sent twice takes effect once. `key`: by its `Idempotency-Key`. `turn`: if its body names
   * the turn. Default: always, as for what only reads or removes.
   */
  readonly idempotent?: "always" | "key" | "turn" | "never";
  /** Default: `page`. */
  readonly uses?: Uses;
  /** `own`: the client has code of its own for the operation, or none. */
  readonly client?: "own";
  /**
   * The route calls the verb of the runtime that has the name of the row. The compiler checks that the types fit.
   * Default: a function in serve/http/routes.
   */
  readonly route?: "verb";
};

/** The types of an operation. */
export type OperationTypes = {
  readonly path: string;
  readonly query: unknown;
  /** `null`: the request has none. */
  readonly body: unknown;
  /** The type of the body of the response. */
  readonly result: unknown;
  /** What the verb returns: the result, or a field of it. */
  readonly value: unknown;
  readonly uses: Uses;
  readonly scope: OperationScope;
  readonly calls: "verb" | null;
  /** The verb of the client, or `never`. */
  readonly verb: unknown;
};

/** An operation: a row with its method and path. */
export type Operation<Types extends OperationTypes = OperationTypes> = Row & {
  readonly method: "GET" | "POST" | "DELETE";
  /** `{name}` is a path parameter. */
  readonly path: string;
  /** Never set. */
  readonly types?: Types;
};

/** Operations by the names of their verbs. */
export type OperationTable = { readonly [name: string]: Operation };

/** The types of a row. As a conditional type, it is written out in declaration files. */
type TypesOf<Path, Fields> = Fields extends Row
  ? {
      readonly path: Path;
      readonly query: QueryOf<Fields>;
      readonly body: BodyOf<Fields>;
      readonly result: Fields["answers"] extends Answers<infer Result, unknown> ? Result : never;
      readonly value: ValueOf<Fields>;
      readonly uses: UsesOf<Fields>;
      readonly scope: Fields["scope"];
      readonly calls: Fields extends { readonly route: "verb" } ? "verb" : null;
      readonly verb: ClientVerb<Path, Fields>;
    }
  : never;

type QueryOf<Fields> = Fields extends { readonly query: infer Query }
  ? { readonly [Name in keyof Query]: Query[Name] extends QueryField<infer T> ? T : never }
  : object;
type BodyOf<Fields> = Fields extends { readonly body: (parts: BodyParts) => BodySchema<infer Body> } ? Body : null;
type ValueOf<Fields extends Row> = Fields["answers"] extends Answers<unknown, infer Value> ? Value : never;
type UsesOf<Fields> = Fields extends { readonly uses: infer Use extends Uses } ? Use : "page";

/** Fields that a row does not have. */
type Unknown<Fields> = { readonly [Name in Exclude<keyof Fields, keyof Row>]: never };

export function get<const Path extends string, const Fields extends Row>(
  path: Path,
  fields: Fields & Unknown<Fields>,
): Operation<TypesOf<Path, Fields>> {
  return { ...fields, method: "GET", path };
}

export function post<const Path extends string, const Fields extends Row & Required<Pick<Row, "uses" | "idempotent">>>(
  path: Path,
  fields: Fields & Unknown<Fields>,
): Operation<TypesOf<Path, Fields>> {
  return { ...fields, method: "POST", path };
}

export function remove<const Path extends string, const Fields extends Row>(
  path: Path,
  fields: Fields & Unknown<Fields>,
): Operation<TypesOf<Path, Fields>> {
  return { ...fields, method: "DELETE", path };
}

/**
 * JSON responses: a description of each status. Their body is a result of this name, or has a schema of its own.
 * `field`: the field of the body that the verb returns.
 */
export function json<N extends keyof Results>(result: N, statuses: Statuses): Answers<Results[N], Results[N]>;
export function json<N extends keyof Results, F extends string & keyof Results[N]>(
  result: N,
  statuses: Statuses,
  field: F,
): Answers<Results[N], Results[N][F]>;
export function json<T>(result: Described<T>, statuses: Statuses): Answers<T, T>;
export function json(
  result: keyof Results | Described<unknown>,
  statuses: Statuses,
  field?: string,
): Answers<unknown, unknown> {
  const { schema } = typeof result === "string" ? resultRef(result) : result;
  const responses = responsesOf(statuses, { content: { "application/json": schema } });
  return { responses, ...(field === undefined ? {} : { field }) };
}

/** A JSON response with this result, or one without a body: there is none. */
export function jsonOrNothing<N extends keyof Results>(
  name: N,
  found: Statuses,
  none: Statuses,
): Answers<Results[N] | null, Results[N] | null> {
  return { responses: { ...json(name, found).responses, ...responsesOf(none) } };
}

/** Responses without a body. */
export function nothing(statuses: Statuses): Answers<void, void> {
  return { responses: responsesOf(statuses) };
}

type Statuses = { readonly [status: number]: string };

function responsesOf(statuses: Statuses, content: Omit<ResponseDescription, "description"> = {}) {
  const entries = Object.entries(statuses);
  return Object.fromEntries(entries.map(([status, description]) => [status, { description, ...content }]));
}

const events = { "text/event-stream": resultRef("Event").schema };

/** A stream of events, or no body. */
export function eventStream(statuses: Statuses = {}): Answers<void, void> {
  return { responses: { 200: { description: "A stream of events.", content: events }, ...responsesOf(statuses) } };
}

/** The responses of an operation that starts a turn, or waits for one. */
export const turnAnswers: Answers<TurnEnd, TurnEnd> = {
  responses: {
    200: {
      description: "A stream of events if the client accepts `text/event-stream`; otherwise the result of the turn.",
      content: { ...events, "application/json": resultRef("TurnEnd").schema },
    },
    ...json("TurnAccepted", { 202: "The turn was accepted and has not ended. `Location` is its URL." }).responses,
  },
};

/** The path parameters as arguments of the client. */
interface PathArguments {
  readonly id: readonly [id: string];
  readonly turnId: readonly [turnId: string];
  readonly inputId: readonly [inputId: string];
  readonly toolCallId: readonly [toolCallId: string];
  readonly keyId: readonly [keyId: string];
  readonly ordinal: readonly [ordinal: number];
  readonly name: readonly [name: string];
}

/** The names of the path parameters. */
export type PathNames<Path extends string> = string extends Path
  ? string
  : Path extends `${string}{${infer Name}}${infer Rest}`
    ? Name | PathNames<Rest>
    : never;

/** The values of the path parameters, in their order. */
export type PathValues<Path extends string> = string extends Path
  ? readonly unknown[]
  : Path extends `${string}{${infer Name}}${infer Rest}`
    ? readonly [...(Name extends keyof PathArguments ? PathArguments[Name] : readonly [string]), ...PathValues<Rest>]
    : readonly [];

/** The fields of the query or of the body. */
export type SentFields<Query, Body> = Body extends null ? Partial<Query> : Body;

/**
 * A verb of the client that follows from its row: path parameters, then the fields of the request. It is written out in
 * declaration files, where tools/package/inferred-types.ts moves it to the name of the row.
 */
type ClientVerb<Path, Fields extends Row> = Fields extends
  | { readonly client: "own" }
  | { readonly uses: "turn" | "input" | "wait" | "stream" }
  ? never
  : Path extends string
    ? (
        ...call: [...PathValues<Path>, ...Options<SentFields<QueryOf<Fields>, BodyOf<Fields>>>]
      ) => Promise<ValueOf<Fields>>
    : never;

type Options<Fields> = keyof Fields extends never
  ? [options?: CallOptions]
  : object extends Fields
    ? [options?: CallOptions & Plain<Fields>]
    : [options: CallOptions & Plain<Fields>];

/** The fields in one object type. */
type Plain<T> = T extends infer Fields ? { readonly [K in keyof Fields]: Fields[K] } : never;

/** The verbs of the client that follow from a table. */
export type VerbsOf<Table> = {
  readonly [Name in keyof Table as VerbOf<Table[Name]> extends never ? never : Name]: VerbOf<Table[Name]>;
};

type VerbOf<Row> = Row extends Operation<infer Types> ? Types["verb"] : never;

/** Whether the verb of the client follows from the row: what the type {@link ClientVerb} says, for a value. */
export function isClientVerb({ uses = "page", client }: Operation): boolean {
  return client !== "own" && !["turn", "input", "wait", "stream"].includes(uses);
}
