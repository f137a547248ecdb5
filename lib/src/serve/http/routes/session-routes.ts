// Operations on whole sessions: list, read, delete, fork, recover, and usage.
//
// A page is bounded by a number of items and by its size, because one message may be as large as a request body. So are
// the messages of a session.
//
// Forks copy messages. The copies of a tenant count against a quota for each hour (`copiedLengthPerHour`), because a
// small request can copy many megabytes.

import type { Page } from "../../../core/model/internal.ts";
import type { Runtime } from "../../../durable/internal.ts";
import type { sessionOperations } from "../../contract/internal.ts";
import type { HttpLimits } from "../limits.ts";
import type { Implementations, OperationCall } from "./operation-route.ts";

import { HttpError } from "../failure.ts";
import { isPathSegment } from "../input.ts";
import { noSession } from "./turn-answer.ts";

/** Items per read of the storage. Each item may be as large as a body, so a page is collected in small reads. */
const defaultItemsPerRead = 16;

type PageOptions<Cursor = string> = { readonly limit: number; readonly after?: Cursor };

/** The page that a query asks for. */
function pageOptions<Cursor>(
  { limit = 50, after }: Partial<PageOptions<Cursor>>,
  { pageSize }: HttpLimits,
): PageOptions<Cursor> {
  return { limit: Math.min(limit, pageSize), ...(after === undefined ? {} : { after }) };
}

/**
 * Reads the page that a query asks for. It stops growing once its JSON reaches `pageLength` characters, and may exceed
 * that by one read. A filtered page also ends after a read that returned fewer items than it was asked for: that read
 * has examined many sessions.
 */
export async function boundedPage<T>(
  { query, limits }: Pick<OperationCall<string, PageOptions, unknown>, "query" | "limits">,
  {
    isFiltered = false,
    itemsPerRead = defaultItemsPerRead,
  }: { readonly isFiltered?: boolean; readonly itemsPerRead?: number },
  read: (page: PageOptions) => Promise<Page<T>>,
): Promise<Page<T>> {
  const { limit, ...from } = pageOptions(query, limits);
  const items: T[] = [];
  let after = from.after;
  for (let length = 0; ;) {
    const count = Math.min(limit - items.length, itemsPerRead);
    const page = await read({ limit: count, ...(after === undefined ? {} : { after }) });
    items.push(...page.items);
    length += JSON.stringify(page.items).length;
    const isFull = items.length >= limit || length >= limits.pageLength;
    const isShort = isFiltered && page.items.length < count;
    if (isFull || isShort || page.next === null) return { items, next: page.next };
    after = page.next;
  }
}

export const sessionImplementations: Implementations<typeof sessionOperations> = {
  list: (request) => {
    const { limit: _, after: __, ...filter } = request.query;
    // The rules of the handler filter too: a page may have fewer items than `limit`.
    const isFiltered = Object.keys(filter).length > 0 || request.runtime === null;
    return boundedPage(request, { isFiltered }, (part) => request.sessions.list({ ...part, ...filter }));
  },
  get: async ({ sessions, query: { messages = 100, optional = false }, param, limits }) => {
    const { pageSize, pageLength } = limits;
    const view = await sessions.get(param("id"), { messages: Math.min(messages, pageSize), maxLength: pageLength });
    if (view === null && optional) return null;
    if (view === null) throw noSession(param("id"));
    // The context is data of the operator for tool handlers; callers do not see it.
    return { ...view, session: { ...view.session, context: {} } };
  },
  frames: ({ sessions, param, query, limits }) => sessions.frames(param("id"), pageOptions(query, limits)),
  messages: ({ sessions, param, query, limits }) =>
    sessions.messages(param("id"), { ...pageOptions(query, limits), maxLength: limits.pageLength }),
  getUsageWithoutSession: (request) => operatorRuntime(request).usage(null),
  fork: async ({ sessions, param, body, limits: { idLength, copiedLengthPerHour } }) => {
    checkId(body.id, idLength);
    return { id: await sessions.fork(param("id"), { ...body, copiedLengthPerHour }) };
  },
};

/** The runtime of an operator. The handler rejects the requests of other callers before. */
export function operatorRuntime({ runtime }: { readonly runtime: Runtime | null }): Runtime {
  if (runtime !== null) return runtime;
  throw new HttpError("forbidden", "only operators may use this route: callers with `operator: true`");
}

/**
 * Rejects an id of a request that is too long or cannot be a path segment (path traversal with `.` and `..`, lone
 * surrogates).
 */
export function checkId(id: string | undefined, maxLength: number): void {
  if (id === undefined || (id.length > 0 && id.length <= maxLength && isPathSegment(id))) return;
  const message = `an id must have 1 to ${maxLength} characters, no lone surrogates, and must not be "." or ".."`;
  throw new HttpError("invalid_body", message, { details: { path: ["id"] } });
}
