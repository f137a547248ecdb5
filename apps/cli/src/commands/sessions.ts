// `everturn sessions`: lists, deletes and forks the sessions of the database. Lists are paginated by cursor.

import type { CommandContext } from "./context.ts";
import type { Message } from "everturn";
import type { Runtime, SessionFilter, SessionSummary } from "everturn/runtime";

import { messageText } from "everturn";
import { storedKeys } from "everturn/http";

import { safeJson } from "../terminal/safe-text.ts";
import { actorName, tenantOf, UsageError, withSessions } from "./context.ts";
import { exitCodes } from "./exit-codes.ts";
import { allTenants, locateSession } from "./id-prefix.ts";
import { statusText, tenantFlag } from "./pending-call.ts";
import { age, brief, plural, table, shellQuote } from "./text.ts";

export type ListRequest = {
  readonly limit: number;
  readonly after: string | null;
  readonly json: boolean;
  readonly filter: SessionFilter;
};

/** A session of a list, with its tenant. */
type Listed = SessionSummary & { readonly tenant: string; readonly firstWords: string };

/** Lists the sessions of the tenant of `--tenant`, or of all tenants. */
export async function listSessions(context: CommandContext, request: ListRequest): Promise<number> {
  const { io, out, say, note } = context;
  const { limit, after, json } = request;
  const tenant = tenantOf(context);
  return withSessions(context, async (sessions) => {
    const tenants = tenant === null ? await allTenants(sessions) : [tenant];
    if (after !== null && tenants.length > 1)
      throw new UsageError("--after continues the list of one tenant: --tenant names it");
    const page = await listedSessions(sessions, tenants, request);
    if (json) {
      say(safeJson(page));
      return exitCodes.ok;
    }
    const { items } = page;
    if (items.length === 0) {
      const isFiltered = Object.keys(request.filter).length > 0;
      note(
        after !== null
          ? "no more sessions"
          : isFiltered || tenant !== null
            ? "no such sessions"
            : "no sessions yet: everturn run or everturn chat starts one",
      );
      return exitCodes.ok;
    }
    const now = Date.now();
    const hasTenants = items.some((item) => item.tenant !== "");
    const titles = [...(hasTenants ? ["TENANT"] : []), "ID", "STATUS", "MESSAGES", "AGE", "FIRST WORDS"];
    const rows = items.map((item) => [
      ...(hasTenants ? [brief(item.tenant, 40)] : []),
      ...cells(item, item.firstWords, now),
    ]);
    const [head = "", ...lines] = table([titles, ...rows], io.stdout.columns);
    say(out.dim(head));
    for (const line of lines) say(line);
    if (page.next !== null)
      note(`next page: everturn sessions${tenantFlag(tenant)} --limit ${limit} --after ${shellQuote(page.next)}`);
    else if (page.isCut) note("there are more: --limit and --tenant show others");
    return exitCodes.ok;
  });
}

async function listedSessions(
  sessions: Runtime,
  tenants: readonly string[],
  { limit, after, filter }: ListRequest,
): Promise<{ readonly items: readonly Listed[]; readonly next: string | null; readonly isCut: boolean }> {
  const options = { ...filter, limit, ...(after === null ? {} : { after }) };
  const pages = [];
  for (const tenant of tenants) {
    const ofTenant = sessions.tenant(tenant);
    pages.push({ tenant, ofTenant, page: await ofTenant.list(options) });
  }
  const all = pages
    .flatMap(({ tenant, ofTenant, page }) => page.items.map((item) => ({ ...item, tenant, ofTenant })))
    .toSorted((left, right) => right.changedAt - left.changedAt);
  const items = await Promise.all(
    all.slice(0, limit).map(async ({ ofTenant, ...item }) => {
      return { ...item, firstWords: await firstWords(ofTenant, item.id) };
    }),
  );
  const [only] = pages;
  const next = pages.length === 1 ? (only?.page.next ?? null) : null;
  return { items, next, isCut: all.length > limit || pages.some(({ page }) => page.next !== null) };
}

function cells(item: SessionSummary, words: string, now: number): readonly string[] {
  return [
    brief(item.id, 200),
    item.limitWait === null ? statusText(item) : `queued (${item.limitWait.limit} limit)`,
    String(item.length),
    age(now - item.changedAt),
    brief(words, 60),
  ];
}

/** The beginning of the first user message. */
async function firstWords(sessions: Runtime, id: string): Promise<string> {
  const { items } = await sessions.messages(id, { limit: 4 });
  const userMessage = items.find((message: Message) => message.role === "user");
  return userMessage === undefined ? "" : brief(messageText(userMessage), 200);
}

export type DeleteRequest = {
  readonly ids: readonly string[];
  /** All sessions of this user of the tenant; `null`: none. */
  readonly owner: string | null;
  /** All sessions of the tenant. */
  readonly all: boolean;
};

/** Deletes sessions, or all of a user or of the tenant, whose stored keys are revoked. */
export async function deleteSessions(context: CommandContext, { ids, owner, all }: DeleteRequest): Promise<number> {
  const tenant = tenantOf(context);
  const isWhole = owner !== null || all;
  if (isWhole === ids.length > 0) throw new UsageError("name sessions, or --owner or --all with --tenant");
  if (isWhole && tenant === null)
    throw new UsageError("--owner and --all need --tenant; --tenant '' is the one without a name");
  return withSessions(context, async (sessions) => {
    for (const id of ids) {
      // Also a session whose row cannot be read is deleted, by its whole id.
      const located = tenant === null ? await exactSession(sessions, id) : sessions;
      await located.delete(id);
      context.note(`deleted ${id}`);
    }
    if (!isWhole) return exitCodes.ok;
    const deleted = await sessions.deleteAll(owner === null ? {} : { owner });
    const keys = storedKeys({ host: sessions.source.host });
    const listed = await keys.list({ tenant: tenant ?? "" });
    const revoked = listed.filter(({ name, state }) => state === "valid" && (owner === null || name === owner));
    for (const { id } of revoked) await keys.revoke(id, { by: actorName() });
    context.note(`deleted ${plural(deleted, "session")}, revoked ${plural(revoked.length, "key")}`);
    return exitCodes.ok;
  });
}

/** The sessions of the tenant that has this id: the one without a name, if it has. */
async function exactSession(sessions: Runtime, id: string): Promise<Runtime> {
  const isShared = await sessions.get(id, { messages: 0 }).then(
    (view) => view !== null,
    () => true,
  );
  if (isShared) return sessions;
  const located = await locateSession(sessions, id, null);
  if (located.id !== id)
    throw new UsageError(`there is no session ${JSON.stringify(id)}; ${located.id} begins with it`);
  return located.sessions;
}

export type ForkRequest = { readonly id: string; readonly as: string | null; readonly at: number | null };

export async function forkSession(context: CommandContext, { id, as, at }: ForkRequest): Promise<number> {
  return withSessions(context, async (all) => {
    const sessions = tenantOf(context) === null ? await exactSession(all, id) : all;
    context.say(await sessions.fork(id, { ...(as === null ? {} : { id: as }), ...(at === null ? {} : { at }) }));
    return exitCodes.ok;
  });
}
