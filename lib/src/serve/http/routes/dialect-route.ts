// Makes the routes of dialects, and others that are no operation of the API, from declarations. A declaration says what
// a request uses, like that of an operation; what uses nothing has to say so. Its implementation gets no permit, and
// returns what follows from `uses`.

import type { Cancelled } from "../../../core/model/internal.ts";
import type { TurnHandle } from "../../../durable/internal.ts";
import type { BodySchema } from "../../contract/internal.ts";
import type { Streamed } from "./permits.ts";
import type { Parameter, PermittedCall, Route, RouteCall } from "./route.ts";

import { readBody } from "../input.ts";
import { inRunPermit, inStreamPermit, inTurnPermit } from "./permits.ts";
import { Answer } from "./route.ts";
import { cancelResponse } from "./turn-answer.ts";

/**
 * What an implementation returns, by what its route uses. The names that operations have too mean the same (`Uses` in
 * serve/contract).
 */
type Returned = {
  readonly nothing: Promise<Response>;
  readonly page: Promise<Response>;
  /** `null`: there are no events, and will be none. */
  readonly stream: Promise<Streamed | null>;
  /** A turn whose events the client reads. What the implementation reads before it starts one is in a page permit. */
  readonly turn: Promise<() => Promise<StreamedTurn>>;
  readonly cancel: Promise<Cancelled>;
  readonly run: Run;
};

export type StreamedTurn = { readonly turn: TurnHandle; readonly stream: Streamed };

/**
 * A run without a session: a permit of the open turns until its response has ended, and if that is a stream
 * (`streams`), one of the streams. A run that declares none and returns a stream is an error.
 */
type Run = { readonly streams: boolean; readonly start: () => Promise<Response | Streamed> };

type DialectUses = keyof Returned;

type RouteFields<Use> = Pick<Route, "method" | "path" | "operationId" | "summary" | "scope" | "answers"> & {
  readonly query?: readonly Parameter[];
  /** Default: `page`. */
  readonly uses?: Use;
};

/** A route without a body. */
export function route<Use extends DialectUses = "page">(
  fields: RouteFields<Use> & { readonly handle: (call: RouteCall) => Returned[Use] },
): Route {
  return routeOf(fields, null, fields.handle);
}

/** A route with a JSON body. Its implementation receives the body after it was checked against the schema. */
export function bodyRoute<Body, Use extends DialectUses = "page">(
  fields: RouteFields<Use> & {
    readonly body: BodySchema<Body>;
    readonly handle: (call: RouteCall, body: Body) => Returned[Use];
  },
): Route {
  const { body, handle } = fields;
  return routeOf(fields, body.schema, (call) => handle(call, readBody(body, call.input)));
}

function routeOf<Use extends DialectUses>(
  { method, path, operationId, summary, scope, answers: responses, query = [], uses }: RouteFields<Use>,
  body: Route["body"],
  run: (call: PermittedCall) => Returned[Use],
): Route {
  // Without `uses`, `Use` is `page`, which the compiler cannot infer here.
  const use = uses ?? ("page" as Use);
  return {
    method,
    path,
    operationId,
    summary,
    answers: responses,
    scope,
    operator: false,
    query,
    body,
    keyed: false,
    pool: use === "cancel" ? "cancel" : "requests",
    answer: new Answer(async (call) => answer(use, call, () => run(call))),
  };
}

async function answer<Use extends DialectUses>(
  use: Use,
  call: PermittedCall,
  run: () => Returned[Use],
): Promise<Response> {
  return answers[use](call, run);
}

/** Take and release the permits of a request, and answer it. */
const answers: {
  readonly [Use in DialectUses]: (call: PermittedCall, run: () => Returned[Use]) => Promise<Response>;
} = {
  nothing: async (_, run) => run(),
  page: async (call, run) => {
    await call.pagePermit();
    return run();
  },
  stream: async (call, run) => {
    await call.pagePermit();
    return inStreamPermit(call, async () => (await run()) ?? new Response(null, { status: 204 }));
  },
  turn: async (call, run) => {
    await call.pagePermit();
    const start = await run();
    return inStreamPermit(call, async () => (await inTurnPermit(call, start)).stream);
  },
  cancel: async (call, run) => cancelResponse(call, run()),
  run: async (call, run) => {
    const { streams, start } = run();
    if (streams) return inStreamPermit(call, () => inRunPermit(call, start));
    const response = await inRunPermit(call, start);
    if (response instanceof Response) return response;
    throw new Error("a run that declares no stream has returned one");
  },
};
