// Routes on whole sessions: list, read, delete, fork, recover, and usage.
//
// Pagination. Lists return `{ items, next }`; `next` is an opaque cursor for `after`, or `null` on the last page. A page is bounded
// by a number of items and by its size, because one message may be as large as a request body. So are the messages of a session.
//
// Forks copy messages. The copies of a tenant count against a quota for each hour (`copiedLengthPerHour`), because a small request can copy many megabytes.

import type { Page, SessionFilterStatus } from "../../../core/model/internal.ts";
import type { QueryField } from "../input.ts";
import type { Parameter, Route, RouteCall } from "./route.ts";

import { RuntimeError, sessionFilterStatuses } from "../../../core/model/internal.ts";
import { checkEngineOf } from "../auth.ts";
import { HttpError } from "../failure.ts";
import { boundedText, checkQuery, isPathSegment, queryParameter, wholeNumber } from "../input.ts";
import {
  countSchema,
  enumSchema,
  objectSchema,
  optionalField,
  stringSchema,
  withDescription,
} from "../openapi/body-schema.ts";
import { jsonAnswer, schemaRef } from "../openapi/schemas.ts";
import { bodyRoute, inPageSlot, json, operatorRoute, route } from "./route.ts";

export const limitParameter: Parameter = {
  name: "limit",
  description: "The maximum number of items. Default: 50. Values above the server's page size are reduced to it.",
  schema: { type: "integer", minimum: 1 },
};
export const afterParameter: Parameter = {
  name: "after",
  description: "The cursor `next` of the previous page.",
  schema: { type: "string" },
};

const statusParameter: Parameter = {
  name: "status",
  description:
    "Only sessions with this status. `running`: a turn is open. `parked`: the open turn is parked. Without an open turn: `waiting` for an answer, `failed`, `ended`. A page may have fewer items than `limit` and still have a `next`.",
  schema: { enum: [...sessionFilterStatuses] },
};
const engineParameter: Parameter = {
  name: "engine",
  description: "Only sessions whose newest turn has this engine.",
  schema: { type: "string" },
};
const filterStatus: QueryField<SessionFilterStatus> = {
  read: (text) => sessionFilterStatuses.find((status) => status === text) ?? null,
  expected: `one of ${sessionFilterStatuses.join(", ")}`,
};

/** Reads `limit` and `after`. `otherNames`: the other parameters of the route. */
export function pageOptions(
  { url, server: { limits } }: RouteCall,
  otherNames: readonly string[] = [],
): { readonly limit: number; readonly after?: string } {
  checkQuery(url.searchParams, ["limit", "after", ...otherNames]);
  const limit = Math.min(queryParameter(url.searchParams, "limit", wholeNumber) ?? 50, limits.pageSize);
  // The cursor of a list of sessions contains an id and a time.
  const after = queryParameter(url.searchParams, "after", boundedText(limits.idLength + 32));
  return { limit, ...(after === undefined ? {} : { after }) };
}

/** Items per read of the storage. Each item may be as large as a body, so a page is collected in small reads. */
const defaultItemsPerRead = 16;

/**
 * Reads a page of at most `limit` items that stops growing once its JSON reaches `pageLength` characters. It may exceed that by one read. A filtered page also ends
 * after a read that returned fewer items than it was asked for: that read has examined many sessions.
 */
export async function boundedPage<T>(
  call: RouteCall,
  { limit, ...from }: ReturnType<typeof pageOptions>,
  {
    isFiltered = false,
    itemsPerRead = defaultItemsPerRead,
  }: { readonly isFiltered?: boolean; readonly itemsPerRead?: number },
  read: (page: ReturnType<typeof pageOptions>) => Promise<Page<T>>,
): Promise<Page<T>> {
  await call.pageSlot();
  const items: T[] = [];
  let after = from.after;
  for (let length = 0; ;) {
    const count = Math.min(limit - items.length, itemsPerRead);
    const page = await read({
      limit: count,
      ...(after === undefined ? {} : { after }),
    });
    items.push(...page.items);
    length += JSON.stringify(page.items).length;
    const isFull = items.length >= limit || length >= call.server.limits.pageLength;
    const isShort = isFiltered && page.items.length < count;
    if (isFull || isShort || page.next === null) return { items, next: page.next };
    after = page.next;
  }
}

type ForkBody = { readonly id?: string; readonly at?: number };
type RecoverBody = { readonly from?: "step" };

export const sessionRoutes: readonly Route[] = [
  route({
    method: "GET",
    path: "/sessions",
    operationId: "listSessions",
    summary: "Lists the sessions that the caller may read, most recently changed first.",
    query: [limitParameter, afterParameter, statusParameter, engineParameter],
    answers: { 200: jsonAnswer("A page of summaries.", schemaRef("SessionPage")) },
    handle: async (call) => {
      const { url, sessions, server } = call;
      const page = pageOptions(call, ["status", "engine"]);
      const status = queryParameter(url.searchParams, "status", filterStatus);
      const engine = queryParameter(url.searchParams, "engine", boundedText(server.limits.idLength));
      const filter = { ...(status === undefined ? {} : { status }), ...(engine === undefined ? {} : { engine }) };
      // The rules of the handler filter too: a page may have fewer items than `limit`.
      const isFiltered = status !== undefined || engine !== undefined || call.runtime === null;
      return json(await boundedPage(call, page, { isFiltered }, (part) => sessions.list({ ...part, ...filter })));
    },
  }),
  route({
    method: "GET",
    path: "/sessions/{id}",
    operationId: "getSession",
    summary:
      "Returns a session as of its last committed turn, with its newest messages and its open turn. `length` is the number of all messages; `GET /sessions/{id}/messages` returns the others.",
    query: [
      {
        name: "messages",
        description: "The number of newest messages to return. Fewer are returned if they would be larger than a page.",
        schema: { type: "integer", minimum: 0, default: 100 },
      },
    ],
    answers: { 200: jsonAnswer("The session.", schemaRef("SessionView")) },
    handle: async ({ sessions, url, param, server, pageSlot }) => {
      checkQuery(url.searchParams, ["messages"]);
      const count = queryParameter(url.searchParams, "messages", wholeNumber) ?? 100;
      const { pageSize, pageLength } = server.limits;
      await pageSlot();
      const view = await sessions.get(param("id"), { messages: Math.min(count, pageSize), maxLength: pageLength });
      if (view === null) throw noSession(param("id"));
      // The context is data of the operator for tool handlers; callers do not see it.
      return json({ ...view, session: { ...view.session, context: {} } });
    },
  }),
  route({
    method: "GET",
    path: "/sessions/{id}/messages",
    operationId: "listMessages",
    summary: "Lists the messages of a session, oldest first.",
    query: [limitParameter, afterParameter],
    answers: { 200: jsonAnswer("A page of messages.", schemaRef("MessagePage")) },
    handle: async (call) => {
      const page = { ...pageOptions(call), maxLength: call.server.limits.pageLength };
      await call.pageSlot();
      return json(await call.sessions.messages(call.param("id"), page));
    },
  }),
  route({
    method: "GET",
    path: "/sessions/{id}/usage",
    operationId: "getUsage",
    summary: "Returns the token usage and cost of a session, by kind and by model.",
    answers: { 200: jsonAnswer("The sums.", schemaRef("LedgerSum")) },
    handle: async ({ sessions, param, pageSlot }) => {
      await pageSlot();
      return json(await sessions.usage(param("id")));
    },
  }),
  operatorRoute({
    method: "GET",
    path: "/usage",
    operationId: "getUsageWithoutSession",
    summary:
      "Returns the token usage and cost of the tenant's chat completions, which belong to no session. Only for operators: the sums are those of all callers.",
    answers: { 200: jsonAnswer("The sums.", schemaRef("LedgerSum")) },
    handle: async ({ pageSlot }, runtime) => {
      await pageSlot();
      return json(await runtime.usage(null));
    },
  }),
  route({
    method: "DELETE",
    path: "/sessions/{id}",
    operationId: "deleteSession",
    summary: "Deletes a session, and the branches of a chat with it. Its open turn is stopped.",
    answers: { 204: { description: "The session is deleted." } },
    handle: async ({ sessions, param }) => {
      await sessions.delete(param("id"));
      return new Response(null, { status: 204 });
    },
  }),
  bodyRoute<ForkBody>({
    method: "POST",
    path: "/sessions/{id}/fork",
    operationId: "forkSession",
    summary: "Creates a session with a copy of this session's messages.",
    body: objectSchema<ForkBody>({
      id: optionalField(withDescription("The id of the new session. Default: a random id.", stringSchema)),
      at: optionalField(withDescription("Copy only the first `at` messages. Default: all.", countSchema)),
    }),
    answers: { 201: jsonAnswer("The id of the new session.", schemaRef("SessionId")) },
    handle: async (call, body) => {
      const { sessions, param, server } = call;
      const { idLength, copiedLengthPerHour } = server.limits;
      checkId(body.id, idLength);
      return json({ id: await sessions.fork(param("id"), { ...body, copiedLengthPerHour }) }, 201);
    },
  }),
  bodyRoute<RecoverBody>({
    method: "POST",
    path: "/sessions/{id}/recover",
    operationId: "recoverSession",
    summary: "Drives the open turn again, makes a failed session usable, or ends a parked turn.",
    body: objectSchema<RecoverBody>({
      from: optionalField(withDescription("Restart the open step of a parked turn.", enumSchema(["step"]))),
    }),
    answers: { 200: jsonAnswer("What recovery did.", schemaRef("Recovered")) },
    handle: async (call, body) => {
      // The turn of the session runs on.
      await checkEngine(call, undefined);
      return json(await call.sessions.recover(call.param("id"), body));
    },
  }),
];

/** The error for a session that does not exist in the caller's tenant. */
export function noSession(id: string): RuntimeError {
  return new RuntimeError("not_found", { message: `there is no session ${JSON.stringify(id)}` });
}

/** Rejects an id of a request that is too long or cannot be a path segment (path traversal with `.` and `..`, lone surrogates). */
export function checkId(id: string | undefined, maxLength: number): void {
  if (id === undefined || (id.length > 0 && id.length <= maxLength && isPathSegment(id))) return;
  const message = `an id must have 1 to ${maxLength} characters, no lone surrogates, and must not be "." or ".."`;
  throw new HttpError("invalid_body", message, { details: { path: ["id"] } });
}

/**
 * The engine belongs to the session: a request may name it, and cannot choose another one, with other limits and schemas. Rejects with 403 also if
 * the caller may not use it. A session that does not exist is left to the verb.
 */
export async function checkEngine(call: RouteCall, named: string | undefined): Promise<void> {
  const { sessions, caller, param } = call;
  if (named === undefined && caller.engines === undefined) return;
  const view = await inPageSlot(call, () => sessions.get(param("id"), { messages: 0 }));
  if (view === null) return;
  if (named !== undefined && named !== view.engine) {
    throw new HttpError("forbidden", "the engine of a session cannot be changed", {
      details: { path: ["options", "engine"] },
    });
  }
  checkEngineOf(caller, view.engine);
}
