// Sessions over HTTP: looking at them, and what is done to them as a whole.

import type { Page } from "../../model/internal.ts";
import type { Call, Parameter, Route } from "./route.ts";

import { RuntimeError } from "../../model/internal.ts";
import { HttpError } from "../failure.ts";
import { canBeInPath, checkQuery, queryOf, shortText, wholeNumber } from "../input.ts";
import { about, fieldsOf, maybe, text, whole, wordOf } from "../openapi/described.ts";
import { described, jsonAnswer } from "../openapi/schemas.ts";
import { bodyRoute, json, route } from "./route.ts";

const limitParameter: Parameter = {
  name: "limit",
  description: "How many, at most.",
  schema: { type: "integer", minimum: 1 },
};
const afterParameter: Parameter = {
  name: "after",
  description: "From where the last page's `next` said.",
  schema: { type: "string" },
};

function pageOf({ url, door: { limits } }: Call): { readonly limit: number; readonly after?: string } {
  checkQuery(url.searchParams, ["limit", "after"]);
  const limit = Math.min(queryOf(url.searchParams, "limit", wholeNumber) ?? 50, limits.pageSize);
  const after = queryOf(url.searchParams, "after", shortText(limits.idLength + 32));
  return { limit, ...(after === undefined ? {} : { after }) };
}

/** How many items are read at a time. Each may be as long as a body. */
const atOnce = 16;

/** A page that is not too long, from as many short ones as it takes. */
async function boundedPage<T>(
  call: Call,
  read: (page: ReturnType<typeof pageOf>) => Promise<Page<T>>,
): Promise<Page<T>> {
  const { limit, ...from } = pageOf(call);
  const items: T[] = [];
  let after = from.after;
  for (let length = 0; ;) {
    const page = await read({
      limit: Math.min(limit - items.length, atOnce),
      ...(after === undefined ? {} : { after }),
    });
    items.push(...page.items);
    length += JSON.stringify(page.items).length;
    const isFull = items.length >= limit || length >= call.door.limits.pageLength;
    if (isFull || page.next === null) return { items, next: page.next };
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
    summary: "Sessions, those that changed last first.",
    query: [limitParameter, afterParameter],
    answers: { 200: jsonAnswer("A page of summaries.", described("SessionPage")) },
    handle: async (call) => json(await boundedPage(call, (page) => call.sessions.list(page))),
  }),
  route({
    method: "GET",
    path: "/sessions/{id}",
    operationId: "getSession",
    summary: "A session at its last boundary, with its newest messages, and the turn that is open.",
    query: [
      {
        name: "messages",
        description: "How many of the newest messages.",
        schema: { type: "integer", minimum: 0, default: 100 },
      },
    ],
    answers: { 200: jsonAnswer("The session.", described("SessionView")) },
    handle: async ({ sessions, url, param, door }) => {
      checkQuery(url.searchParams, ["messages"]);
      const asked = queryOf(url.searchParams, "messages", wholeNumber) ?? 100;
      const view = await sessions.get(param("id"), { messages: Math.min(asked, door.limits.pageSize) });
      if (view === null) throw noSession(param("id"));
      // What tools are told about whoever began it is between the operator and the tools.
      return json({ ...view, session: { ...view.session, context: {} } });
    },
  }),
  route({
    method: "GET",
    path: "/sessions/{id}/messages",
    operationId: "listMessages",
    summary: "Messages of a session, oldest first.",
    query: [limitParameter, afterParameter],
    answers: { 200: jsonAnswer("A page of messages.", described("MessagePage")) },
    handle: async (call) => json(await boundedPage(call, (page) => call.sessions.messages(call.param("id"), page))),
  }),
  route({
    method: "GET",
    path: "/sessions/{id}/usage",
    operationId: "getUsage",
    summary: "What a session has cost, by what it was paid for and by model.",
    answers: { 200: jsonAnswer("The sums.", described("LedgerSum")) },
    handle: async ({ sessions, param }) => json(await sessions.usage(param("id"))),
  }),
  route({
    method: "DELETE",
    path: "/sessions/{id}",
    operationId: "deleteSession",
    summary: "Ends a session and forgets it.",
    answers: { 204: { description: "It is gone." } },
    handle: async ({ sessions, param }) => {
      await sessions.delete(param("id"));
      return new Response(null, { status: 204 });
    },
  }),
  bodyRoute<ForkBody>({
    method: "POST",
    path: "/sessions/{id}/fork",
    operationId: "forkSession",
    summary: "Begins a session of its own that starts like this one.",
    body: fieldsOf<ForkBody>({
      id: maybe(about("Its name.", text)),
      at: maybe(about("With the first so many messages; all where it is not said.", whole)),
    }),
    answers: { 201: jsonAnswer("The new session's id.", described("SessionId")) },
    handle: async ({ sessions, param, door }, body) => {
      checkId(body.id, door.limits.idLength);
      return json({ id: await sessions.fork(param("id"), body) }, 201);
    },
  }),
  bodyRoute<RecoverBody>({
    method: "POST",
    path: "/sessions/{id}/recover",
    operationId: "recoverSession",
    summary: "Drives the open turn again, makes a failed session usable, or ends a parked turn.",
    body: fieldsOf<RecoverBody>({
      from: maybe(about("Start the open step of a parked turn again.", wordOf(["step"]))),
    }),
    answers: { 200: jsonAnswer("What was done.", described("Recovered")) },
    handle: async ({ sessions, param }, body) => json(await sessions.recover(param("id"), body)),
  }),
];

export function noSession(id: string): RuntimeError {
  return new RuntimeError("not_found", { message: `there is no session ${JSON.stringify(id)}` });
}

/** Ids that come from outside have a length, and can stand in a path: half a character cannot be written there, and `.` and `..` are no names. */
export function checkId(id: string | undefined, most: number): void {
  if (id === undefined || (id.length > 0 && id.length <= most && canBeInPath(id))) return;
  const message = `an id has 1 to ${most} characters, whole ones, and is not "." or ".."`;
  throw new HttpError("invalid_body", message, { details: { path: ["id"] } });
}
