// What a route is: a method, a path, what it takes and answers, and what it does. The table of them is what is served and what is described.

import type { Clock } from "../../clock/clock.ts";
import type { JsonObject } from "../../model/internal.ts";
import type { Runtime } from "../../runtime/internal.ts";
import type { Caller } from "../auth.ts";
import type { HttpLimits } from "../limits.ts";
import type { Described } from "../openapi/described.ts";
import type { SseSource } from "../sse.ts";

import { told } from "../failure.ts";
import { readBody } from "../input.ts";

/** What is the same for every request. */
export type Door = {
  /** What stands before every path. */
  readonly base: string;
  readonly limits: HttpLimits;
  readonly clock: Clock;
  /** Says that the process is about to stop: nobody is kept waiting then. */
  readonly stopping: AbortSignal | null;
  /** Takes a place among the streams that may be open. Whoever wants one takes it before anything is begun. */
  readonly enterStream: (call: Pick<Call, "request" | "caller">) => StreamPlace;
  /** Takes a place among the turns that a tenant may have open. Returns how to give it back. */
  readonly enterTurn: (caller: Caller) => () => void;
};

/** A place for one stream. It is given back when the stream is over, or by leaving. */
type StreamPlace = {
  readonly answer: <T>(source: SseSource<T>, headers?: { readonly [name: string]: string }) => Response;
  readonly leave: () => void;
};

/** Answers with a stream of something that costs nothing to begin. */
export function streamed<T>(call: Call, source: SseSource<T>): Response {
  return call.door.enterStream(call).answer(source);
}

/** Does something that gives back what was taken for it when it does not work. */
export async function orLeave<T>(leave: () => void, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    leave();
    throw error;
  }
}

/** One request. */
export type Call = {
  readonly door: Door;
  readonly request: Request;
  readonly url: URL;
  readonly caller: Caller;
  /** The sessions this caller can see. */
  readonly sessions: Runtime;
  /** The JSON of the body, as it came; `null` for routes that take none. */
  readonly input: unknown;
  /** A part of the path. */
  readonly param: (name: string) => string;
  /** `Idempotency-Key`: asking again with the same gives back what was accepted. */
  readonly key: string | null;
  /** Gives the place among the requests back: what comes now is only waiting, in a place among the streams. */
  readonly rest: () => void;
};

export type Parameter = { readonly name: string; readonly description: string; readonly schema: JsonObject };

export type Route = {
  readonly method: "GET" | "POST" | "DELETE";
  /** `{name}` stands for a part of the path. */
  readonly path: string;
  readonly operationId: string;
  readonly summary: string;
  /** `open`: answers anybody. */
  readonly access: "caller" | "open";
  readonly query: readonly Parameter[];
  readonly body: JsonObject | null;
  /** Is the same thing, asked for again under the same `Idempotency-Key`, done once? */
  readonly keyed: boolean;
  /** What it answers when it goes well: a status, and what it says with it. */
  readonly answers: { readonly [status: string]: Answer };
  readonly handle: (call: Call) => Promise<Response>;
};

export type Answer = {
  readonly description: string;
  readonly content?: { readonly [mediaType: string]: JsonObject };
};

type RouteFields = Pick<Route, "method" | "path" | "operationId" | "summary" | "answers"> & {
  readonly access?: Route["access"];
  readonly keyed?: boolean;
  readonly query?: readonly Parameter[];
};

/** A route that takes no body. */
export function route(fields: RouteFields & { readonly handle: (call: Call) => Promise<Response> }): Route {
  return { access: "caller", query: [], keyed: false, ...fields, body: null };
}

/** A route that takes one. */
export function bodyRoute<Body>(
  fields: RouteFields & {
    readonly body: Described<Body>;
    readonly handle: (call: Call, body: Body) => Promise<Response>;
  },
): Route {
  const { body, handle, ...rest } = fields;
  const read = (call: Call) => handle(call, readBody(body, call.input));
  return { access: "caller", query: [], keyed: false, ...rest, body: body.schema, handle: read };
}

export const jsonHeaders = { "content-type": "application/json", "cache-control": "no-store" } as const;

export function json(value: unknown, status = 200, headers: { readonly [name: string]: string } = {}): Response {
  const all = { ...jsonHeaders, ...headers };
  return new Response(told(value), { status, headers: all });
}
