// Makes the routes of operations (serve/contract): reads what a request contains, takes and releases the permits that
// the operation declares, calls the implementation and answers with what it returns.
//
// The type of a request has no permits, so an implementation cannot acquire any (`OperationCall`). What it returns
// follows from `uses` of the operation. If that starts something, it returns the function which does so: its checks run
// before a permit is taken.
//
// An operation with `route: "verb"` has no implementation: it calls the verb of the runtime that has its name, with the
// path parameters and the fields of the request. The compiler demands an implementation if the types do not fit.

import type { Cancelled } from "../../../core/model/internal.ts";
import type { RuntimeEvent, TurnHandle } from "../../../durable/internal.ts";
import type {
  BodyParts,
  Operation,
  OperationTable,
  OperationTypes,
  PathNames,
  PathValues,
  QueryField,
  SentFields,
  Uses,
} from "../../contract/internal.ts";
import type { CallerSessions } from "../access.ts";
import type { LargeText } from "../large-text.ts";
import type { PermittedCall, Route, RouteCall } from "./route.ts";

import { isPlainObject } from "../../../core/model/parse/reading.ts";
import { HttpError } from "../failure.ts";
import { readBody, readQuery } from "../input.ts";
import { inPagePermit, inStreamPermit, inTurnPermit, releaseOnError, streamed } from "./permits.ts";
import { Answer, json } from "./route.ts";
import { cancelResponse, driveTurn, eventFrame, turnResponse, turnSource } from "./turn-answer.ts";

/** A request as an implementation sees it. */
export type OperationCall<Path extends string, Query, Body> = Pick<
  RouteCall,
  "limits" | "caller" | "actor" | "sessions" | "inspection" | "runtime" | "key"
> & {
  /** The decoded value of a path parameter, of 1 to `idLength` characters. */
  readonly param: (name: PathNames<Path>) => string;
  readonly query: Partial<Query>;
  readonly body: Body;
};

/**
 * What an implementation returns, by what its operation uses. A `Response` stands for one that is not the first which
 * the operation declares.
 */
type Returned<Result> = {
  readonly nothing: Promise<Result | Response>;
  readonly page: Promise<Result | Response>;
  readonly turn: () => Promise<TurnHandle>;
  readonly input: () => Promise<Result & { readonly turnId: string }>;
  readonly wait: TurnHandle;
  /** `null`: there are no events, and will be none. */
  readonly stream: Promise<EventStream | null>;
  readonly text: AsyncGenerator<string | LargeText, void>;
  readonly cancel: Promise<Cancelled>;
};

/** Events to stream. `turn`: its result follows the last event. `isOpen`: the turn has not ended yet. */
export type EventStream = {
  readonly events: AsyncIterable<RuntimeEvent>;
  readonly turn?: { readonly handle: TurnHandle; readonly isOpen: boolean };
  /** Called once, when the response has ended. */
  readonly onClose?: () => void;
};

type Implementation<Op> =
  Op extends Operation<infer Types>
    ? (request: OperationCall<Types["path"], Types["query"], Types["body"]>) => Returned<Types["result"]>[Types["uses"]]
    : never;

/** The implementations of operations by their names. Those whose routes call a verb have none. */
export type Implementations<Table> = {
  readonly [Name in keyof Table as IsVerb<Name, Table[Name]> extends true ? never : Name]: Implementation<Table[Name]>;
};

/**
 * Whether the route calls the verb of the runtime that has the name of the operation, and the verb takes its path
 * parameters and fields and returns what it answers. A page has a limit that depends on the handler, so it needs an
 * implementation.
 */
type IsVerb<Name, Op> =
  Op extends Operation<infer Types>
    ? Types["calls"] extends "verb"
      ? "limit" extends keyof Types["query"]
        ? false
        : Name extends keyof CallerSessions
          ? CallerSessions[Name] extends VerbFor<Types>
            ? true
            : false
          : false
      : false
    : false;

type VerbFor<Types extends OperationTypes> = (
  ...call: VerbArguments<Types["path"], Types["query"], Types["body"]>
) => VerbResult<Types["result"], Types["value"]>[Types["uses"]];

type VerbArguments<Path extends string, Query, Body> = readonly [
  ...PathValues<Path>,
  ...(keyof SentFields<Query, Body> extends never ? readonly [] : readonly [SentFields<Query, Body>]),
];

/** What a verb returns for an operation without an implementation. With `value`, the body has no other field. */
type VerbResult<Result, Value> = {
  readonly [Use in Uses]: Use extends "nothing" | "page"
    ? Promise<Result extends Value | { readonly [Field in keyof Result]: Value } ? Value : never>
    : Use extends "wait" | "cancel"
      ? Returned<Result>[Use]
      : never;
};

/** A request of one operation. */
export type RequestOf<Op> = Parameters<Implementation<Op>>[0];

/** The routes of operations. */
export function routesOf<Table extends OperationTable>(
  operations: Table,
  parts: BodyParts,
  implementations: Implementations<Table>,
): readonly Route[] {
  return Object.entries<Operation>(operations).map(([name, operation]) => {
    const {
      operationId = name,
      uses = "page",
      scope,
      operator = false,
      summary,
      method,
      path,
      answers,
      idempotent,
    } = operation;
    const query: { readonly [name: string]: QueryField<unknown> } = operation.query ?? {};
    const schema = operation.body?.(parts);
    const implementation = implementationOf(name, operation, implementations);
    return {
      operationId,
      summary,
      scope,
      operator,
      method,
      path,
      answers: answers.responses,
      query: Object.entries(query).map(([name, { description, schema: type }]) => ({
        name,
        description,
        schema: type,
      })),
      body: schema?.schema ?? null,
      keyed: idempotent === "key",
      pool: uses === "cancel" ? "cancel" : "requests",
      answer: new Answer(async (call) => {
        const { limits } = call;
        const parameters = new URLSearchParams(call.url.searchParams);
        // A browser's `EventSource` reconnects to the URL it was created with and sends the newest id in this header.
        const lastEventId = call.request.headers.get("last-event-id") ?? "";
        if (uses === "stream" && lastEventId !== "") parameters.set("after", lastEventId);
        const read = {
          query: readQuery(parameters, operation.query, limits.idLength),
          body: schema === undefined ? null : readBody(schema, call.input),
        };
        if (path.includes("{id}")) await checkEngine(call, read.body);
        const run = () => implementation({ ...call, ...read });
        return answer(uses, { call, run, status: Number(Object.keys(answers.responses)[0]) });
      }),
    };
  });
}

type AnyImplementation = (request: OperationCall<string, unknown, unknown>) => Returned<object>[Uses];

/**
 * The implementation of an operation, or a call of its verb. The types of `Implementations` pair each name with a
 * function, which the compiler cannot infer for one name.
 */
function implementationOf(name: string, operation: Operation, implementations: object): AnyImplementation {
  const own = implementations as { readonly [name: string]: AnyImplementation | undefined };
  return own[name] ?? ((request) => callVerb(name, operation, request));
}

type Verb = (...call: readonly unknown[]) => Returned<object>[Uses];

/** Calls the verb of the runtime that has the name of an operation. `IsVerb` has compared their types. */
function callVerb(
  name: string,
  { uses, path, query, body, answers: { field } }: Operation,
  { sessions, param, ...request }: OperationCall<string, unknown, unknown>,
): Returned<object>[Uses] {
  const verbs: { readonly [name: string]: unknown } = sessions;
  const verb = verbs[name] as Verb;
  const parameters = [...path.matchAll(/\{(\w+)\}/g)].map(([, parameter = ""]) => param(parameter));
  const sent = body !== undefined ? [request.body] : query === undefined ? [] : [request.query];
  const result = verb(...parameters, ...sent);
  return field === undefined || uses === "cancel" ? result : inField(field, result);
}

async function inField(field: string, value: unknown): Promise<object> {
  return { [field]: await value };
}

type Handled<Use extends Uses> = {
  readonly call: PermittedCall;
  /** Runs the implementation. */
  readonly run: () => Returned<object>[Use];
  /** The first status that the operation declares. */
  readonly status: number;
};

async function answer<Use extends Uses>(uses: Use, handled: Handled<Use>): Promise<Response> {
  return answers[uses](handled);
}

/** Take and release the permits of a request, and answer it. */
const answers: { readonly [Use in Uses]: (handled: Handled<Use>) => Promise<Response> } = {
  nothing: async ({ run, status }) => valueResponse(await run(), status),
  page: async ({ call, run, status }) => {
    await call.pagePermit();
    return valueResponse(await run(), status);
  },
  turn: async ({ call, run }) => driveTurn(call, run()),
  input: async ({ call, run, status }) => {
    const send = run();
    const start = async () => {
      const accepted = await inPagePermit(call, send);
      return { accepted, turn: call.sessions.attach(call.param("id"), accepted.turnId) };
    };
    return json((await inTurnPermit(call, start)).accepted, status);
  },
  wait: async ({ call, run }) => turnResponse(call, run()),
  cancel: async ({ call, run }) => cancelResponse(call, run()),
  stream: async ({ call, run }) => {
    // The rows of the session and of the turn have the text of the answer.
    await call.pagePermit();
    return inStreamPermit(call, async () => {
      const stream = await run();
      // `EventSource` reconnects after the end of a stream, but not after a 204 (WHATWG HTML, section 9.2.3).
      if (stream === null) return new Response(null, { status: 204 });
      const { turn, events, ...closing } = stream;
      if (turn === undefined) return streamed({ events, render: eventFrame, ...closing });
      return streamed({ ...turnSource(call, turn.handle, { events, isOpen: turn.isOpen }), ...closing });
    });
  },
  text: async ({ call, run }) => {
    const permit = call.server.acquireStream(call);
    return releaseOnError(permit.release, async () => {
      const texts = run();
      // A page in memory is several times as large as its text.
      const next = () => inPagePermit(call, () => texts.next());
      // The first part is read before the response starts: its errors have a status.
      return permit.respondJson(textsFrom(await next(), next, texts));
    });
  },
};

/** `null`: what a request asks for does not exist, which it allows. */
function valueResponse(value: object | null | undefined, status: number): Response {
  if (value instanceof Response) return value;
  if (value === null) return new Response(null, { status: 204 });
  return value === undefined ? new Response(null, { status }) : json(value, status);
}

async function* textsFrom<T>(
  first: IteratorResult<T, void>,
  next: () => Promise<IteratorResult<T, void>>,
  texts: AsyncGenerator<T, void>,
): AsyncGenerator<T, void> {
  try {
    for (let part = first; part.done !== true; part = await next()) yield part.value;
  } finally {
    await texts.return();
  }
}

/**
 * The engine belongs to the session: a request may name it, and cannot choose another one, with other limits and
 * schemas. A session that does not exist is left to the verb.
 */
async function checkEngine(call: PermittedCall, body: unknown): Promise<void> {
  const { sessions, param } = call;
  const options = isPlainObject(body) ? body["options"] : undefined;
  const named = isPlainObject(options) ? options["engine"] : undefined;
  if (named === undefined) return;
  const view = await inPagePermit(call, () => sessions.get(param("id"), { messages: 0 }));
  if (view === null || named === view.engine) return;
  throw new HttpError("forbidden", "the engine of a session cannot be changed", {
    details: { path: ["options", "engine"] },
  });
}
