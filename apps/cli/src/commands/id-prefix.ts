// Finds a session or a turn by its id or by the beginning of its id, as Git finds a commit. Only commands that read use
// it: `sessions delete` takes whole ids, because a prefix that fits today may fit another session tomorrow.

import type { Runtime } from "everturn/runtime";

import { safeLine } from "../terminal/safe-text.ts";
import { UsageError } from "./context.ts";

/** How many candidates an error lists. */
const candidatesShown = 10;
/** The size of a page when ids are searched. */
const pageSize = 100;

/** The result of a search: the id, or the ids that begin with the text, which may be none. */
export type Match =
  | { readonly type: "found"; readonly id: string }
  | { readonly type: "ambiguous"; readonly ids: readonly string[] }
  | { readonly type: "none" };

/**
 * Finds a session. An id that exists is found also if other ids begin with it, with one read. A prefix reads the list
 * of sessions page by page; the cost is linear in their number.
 */
export async function findSession(sessions: Runtime, text: string): Promise<Match> {
  if (text === "") return { type: "none" };
  if ((await sessions.get(text, { messages: 0 })) !== null) return { type: "found", id: text };
  const ids: string[] = [];
  for (let after: string | null = null; ;) {
    const page: Awaited<ReturnType<Runtime["list"]>> = await sessions.list({
      limit: pageSize,
      ...(after === null ? {} : { after }),
    });
    ids.push(...page.items.map(({ id }) => id).filter((id) => id.startsWith(text)));
    if (page.next === null) break;
    after = page.next;
  }
  // A session that changes during the search may be on two pages.
  return matchOf([...new Set(ids)]);
}

/** Finds an id in a list. */
export function findId(ids: readonly string[], text: string): Match {
  if (text === "") return { type: "none" };
  if (ids.includes(text)) return { type: "found", id: text };
  return matchOf(ids.filter((id) => id.startsWith(text)));
}

function matchOf(ids: readonly string[]): Match {
  const [id, ...others] = ids;
  if (id === undefined) return { type: "none" };
  return others.length === 0 ? { type: "found", id } : { type: "ambiguous", ids };
}

/** The sentence for an ambiguous prefix, with the candidates: `what` is `sessions` or `turns`. */
export function ambiguousText(what: string, text: string, ids: readonly string[]): string {
  const shown = ids.slice(0, candidatesShown).map(safeLine).join(", ");
  const others = ids.length > candidatesShown ? `, and ${ids.length - candidatesShown} more` : "";
  return `${ids.length} ${what} begin with ${JSON.stringify(text)}: ${shown}${others}; type more of the id`;
}

/** A session, and the sessions of its tenant. */
export type LocatedSession = { readonly sessions: Runtime; readonly id: string; readonly tenant: string };

/** The names of all tenants, and that of the shared one. */
export async function allTenants(sessions: Runtime): Promise<readonly string[]> {
  const names = new Set([""]);
  for (let after: string | null = null; ;) {
    const page: Awaited<ReturnType<Runtime["tenants"]>> = await sessions.tenants(after === null ? {} : { after });
    for (const name of page.items) names.add(name);
    if (page.next === null) return [...names];
    after = page.next;
  }
}

/**
 * Finds a session in the tenant, or without one in all tenants, by its id or the beginning of its id. Throws
 * `UsageError` if there is none, or several.
 */
export async function locateSession(sessions: Runtime, text: string, tenant: string | null): Promise<LocatedSession> {
  if (text === "") throw new UsageError('there is no session ""; everturn sessions lists them');
  const places = (tenant === null ? await allTenants(sessions) : [tenant]).map((name) => {
    return { tenant: name, sessions: tenant === null ? sessions.tenant(name) : sessions };
  });
  const exact: LocatedSession[] = [];
  for (const place of places)
    if ((await place.sessions.get(text, { messages: 0 })) !== null) exact.push({ ...place, id: text });
  const found = exact.length > 0 ? exact : await withPrefix(places, text);
  const [only, ...others] = found;
  if (only === undefined) {
    const where = tenant === null ? "" : ` in ${tenantText(tenant)}`;
    throw new UsageError(`there is no session ${JSON.stringify(text)}${where}; everturn sessions lists them`);
  }
  if (others.length === 0) return only;
  const names = [...new Set(found.map((one) => tenantText(one.tenant)))];
  if (names.length > 1) {
    throw new UsageError(
      `sessions of ${names.join(" and ")} ${exact.length > 0 ? "are called" : "begin with"} ${JSON.stringify(text)}: --tenant names one`,
    );
  }
  throw new UsageError(
    ambiguousText(
      "sessions",
      text,
      found.map(({ id }) => id),
    ),
  );
}

async function withPrefix(
  places: readonly Omit<LocatedSession, "id">[],
  text: string,
): Promise<readonly LocatedSession[]> {
  const found: LocatedSession[] = [];
  for (const place of places) {
    const match = await findSession(place.sessions, text);
    const ids = match.type === "found" ? [match.id] : match.type === "ambiguous" ? match.ids : [];
    found.push(...ids.map((id) => ({ ...place, id })));
  }
  return found;
}

function tenantText(tenant: string): string {
  return tenant === "" ? "the tenant without a name" : `the tenant ${safeLine(tenant)}`;
}

/** As `findSession`. Throws `UsageError` if there is no such session or the prefix is ambiguous. */
export async function sessionNamed(sessions: Runtime, text: string): Promise<string> {
  const match = await findSession(sessions, text);
  if (match.type === "found") return match.id;
  if (match.type === "ambiguous") throw new UsageError(ambiguousText("sessions", text, match.ids));
  throw new UsageError(`there is no session ${JSON.stringify(text)}; everturn sessions lists them`);
}
