// The address of the page: which view is shown, and what is selected in it. The URL is the only place where the
// selection is stored, so every message and effect has a link, and the back button works.

import { useMemo, useSyncExternalStore } from "react";

/** A view and its selection. */
export type Route =
  | { readonly view: "sessions" }
  | SessionRoute
  | WaitingRoute
  | OverviewRoute
  | AuditRoute
  | { readonly view: "playground"; readonly from: string | null }
  | { readonly view: "compare"; readonly left: string; readonly right: string }
  | { readonly view: "replay" };

/** A session, and what is selected in it. */
export type SessionRoute = {
  readonly view: "session";
  readonly sessionId: string;
  /** The turn whose timeline is shown; `null`: the newest. */
  readonly turnId: string | null;
  /** The ordinal of the selected row of its journal. */
  readonly effect: number | null;
  /** The index of the selected message. */
  readonly message: number | null;
  /** The time of the playhead, in milliseconds since the turn was accepted; `null`: the present. */
  readonly at: number | null;
};

/** The inbox: the calls that wait, and the one that is selected. */
export type WaitingRoute = {
  readonly view: "waiting";
  /** The session of the selected call; `null`: none is selected. */
  readonly sessionId: string | null;
  readonly call: string | null;
  /** Only calls of sessions of this engine; `null`: all. */
  readonly engine: string | null;
  /** Only calls that wait for this reason; `null`: all. */
  readonly reason: string | null;
};

/** The overview of a period; `null`: the last 24 hours. */
export type OverviewRoute = { readonly view: "overview"; readonly period: Period | null };

/** A period that ends now. */
export type Period = keyof typeof periods;

/** The periods that can be chosen, in milliseconds. */
export const periods = {
  "1h": 3_600_000,
  "24h": 24 * 3_600_000,
  "7d": 7 * 24 * 3_600_000,
  "30d": 30 * 24 * 3_600_000,
} as const;

/** The periods with their names for the reader. */
export const periodNames: { readonly [P in Period]: string } = {
  "1h": "1 hour",
  "24h": "24 hours",
  "7d": "7 days",
  "30d": "30 days",
};

/** The statuses that the list of sessions can be limited to. */
export const listStatuses = ["running", "waiting", "failed", "parked"] as const;

/** Which sessions the list shows; `null`: all. It is part of the URL of every view that has the list. */
export type ListFilter = {
  readonly status: (typeof listStatuses)[number] | null;
  readonly engine: string | null;
  /** A part of the title, the id, the owner or the tool that waits. */
  readonly text: string | null;
  /** When the session has changed last. */
  readonly period: Period | null;
};

/** A page of the audit log, and which rows it shows; `null`: all. */
export type AuditRoute = {
  readonly view: "audit";
  readonly actor: string | null;
  readonly action: string | null;
  /** Not the tenant that the page shows: the log has the rows of all. */
  readonly of: string | null;
  /** In milliseconds. */
  readonly from: number | null;
  readonly until: number | null;
  /** The cursor of the page; `null`: the newest rows. */
  readonly after: string | null;
};

/**
 * The path of the page, with a slash at its end. A build can be served at any path: its modules are in `assets` of it.
 */
const base = import.meta.env.DEV
  ? import.meta.env.BASE_URL
  : new URL(/* @vite-ignore */ "..", import.meta.url).pathname;

/** The URL of the API, without a slash at its end. The page says where it is, relative to its path. */
export function apiUrl(): string {
  const path = document.querySelector<HTMLMetaElement>('meta[name="everturn-api"]')?.content ?? "../";
  return new URL(path, new URL(base, location.origin)).href.replace(/\/$/, "");
}

/** The tenant that the page shows; `null`: that of the key. */
let shown: string | null = null;

/**
 * Takes the tenant of the address (`?tenant=`), which every URL of the page then has. It stays while the document lives,
 * so nothing that is cached or typed belongs to another tenant. A switch loads the page.
 */
export function takeTenant(search: string): void {
  shown = new URLSearchParams(search).get("tenant") || null;
}

export function shownTenant(): string | null {
  return shown;
}

/** Parses the path and query of a URL. Unknown paths are the list of sessions. */
export function parseRoute(pathname: string, search: string): Route {
  const [view = "", ...rest] = pathname.startsWith(base) ? pathname.slice(base.length).split("/") : [];
  const query = new URLSearchParams(search);
  switch (view) {
    case "s": {
      const sessionId = decoded(rest[0] ?? "");
      if (sessionId === "") return { view: "sessions" };
      return {
        view: "session",
        sessionId,
        turnId: query.get("turn"),
        effect: count(query.get("effect")),
        message: count(query.get("message")),
        at: count(query.get("at")),
      };
    }
    case "waiting":
      return waitingRoute({
        sessionId: query.get("session"),
        call: query.get("call"),
        engine: query.get("engine"),
        reason: query.get("reason"),
      });
    case "overview":
      return overviewRoute(periodOf(query.get("period")));
    case "audit":
      return {
        view: "audit",
        actor: query.get("actor"),
        action: query.get("action"),
        of: query.get("of"),
        from: count(query.get("from")),
        until: count(query.get("until")),
        after: query.get("after"),
      };
    case "playground":
      return { view: "playground", from: query.get("from") };
    case "compare":
      return { view: "compare", left: query.get("left") ?? "", right: query.get("right") ?? "" };
    case "replay":
      return { view: "replay" };
    default:
      return { view: "sessions" };
  }
}

/** The filter of the list of sessions, from the query of a URL. Unknown values are ignored. */
export function parseListFilter(search: string): ListFilter {
  const query = new URLSearchParams(search);
  const status = query.get("status");
  return {
    status: listStatuses.find((other) => other === status) ?? null,
    engine: query.get("engine") || null,
    text: query.get("find") || null,
    period: periodOf(query.get("changed")),
  };
}

function filterFields({ status, engine, text, period }: ListFilter): QueryFields {
  return { status, engine, find: text, changed: period };
}

const noFilter: ListFilter = { status: null, engine: null, text: null, period: null };

/** The filter of the list that is shown. Views without the list have none. */
function shownFilter(): ListFilter {
  if (typeof location === "undefined") return noFilter;
  const { view } = parseRoute(location.pathname, location.search);
  return view === "sessions" || view === "session" ? parseListFilter(location.search) : noFilter;
}

/**
 * The URL of a route, in the tenant that is shown or in another one. Views with the list of sessions keep its filter, or
 * get `filter`.
 */
export function hrefOf(route: Route, tenant: string | null = shown, filter: ListFilter = shownFilter()): string {
  const queryOf = (fields: QueryFields): string => queryText({ ...fields, tenant: tenant || null });
  switch (route.view) {
    case "sessions":
      return base + queryOf(filterFields(filter));
    case "session": {
      const { sessionId, turnId, effect, message, at } = route;
      return `${base}s/${encodeURIComponent(sessionId)}${queryOf({ turn: turnId, effect, message, at, ...filterFields(filter) })}`;
    }
    case "audit": {
      const { view, ...fields } = route;
      return `${base}${view}${queryOf(fields)}`;
    }
    case "playground":
      return `${base}playground${queryOf({ from: route.from })}`;
    case "compare":
      return `${base}compare${queryOf({ left: route.left, right: route.right })}`;
    case "waiting": {
      const { view, sessionId, ...fields } = route;
      return `${base}${view}${queryOf({ session: sessionId, ...fields })}`;
    }
    case "overview":
      return `${base}overview${queryOf({ period: route.period })}`;
    case "replay":
      return `${base}replay${queryOf({})}`;
  }
}

/** The route of a session without a selection. */
export function sessionRoute(sessionId: string, selection: Partial<SessionRoute> = {}): SessionRoute {
  return { turnId: null, effect: null, message: null, at: null, ...selection, view: "session", sessionId };
}

/** The inbox, with nothing selected by default. */
export function waitingRoute(selection: Partial<WaitingRoute> = {}): WaitingRoute {
  return { sessionId: null, call: null, engine: null, reason: null, ...selection, view: "waiting" };
}

export function overviewRoute(period: Period | null = null): OverviewRoute {
  return { view: "overview", period };
}

/** The newest rows of the audit log. */
export function auditRoute(filter: Partial<AuditRoute> = {}): AuditRoute {
  return { actor: null, action: null, of: null, from: null, until: null, after: null, ...filter, view: "audit" };
}

/** Shows another route. `replace`: the back button skips the present one, for a selection that changes often. */
export function navigate(route: Route, { replace = false }: { readonly replace?: boolean } = {}): void {
  show(hrefOf(route), replace);
}

/** Changes the filter of the list of sessions. `replace`: as in {@link navigate}, for a text that is typed. */
export function changeFilter(
  change: Partial<ListFilter>,
  { replace = false }: { readonly replace?: boolean } = {},
): void {
  const route = parseRoute(location.pathname, location.search);
  show(hrefOf(route, shown, { ...shownFilter(), ...change }), replace);
}

function show(href: string, replace: boolean): void {
  if (href === location.pathname + location.search) return;
  if (replace) history.replaceState(null, "", href);
  else history.pushState(null, "", href);
  dispatchEvent(new Event("everturn-route"));
}

/** The filter of the list of sessions. */
export function useListFilter(): ListFilter {
  const search = useSyncExternalStore(subscribe, () => queryText(filterFields(shownFilter())));
  return useMemo(() => parseListFilter(search), [search]);
}

/** The present route. */
export function useRoute(): Route {
  const address = useSyncExternalStore(subscribe, () => location.pathname + location.search);
  const [pathname = "", search = ""] = address.split(/(?=\?)/, 2);
  return parseRoute(pathname, search);
}

function subscribe(changed: () => void): () => void {
  addEventListener("popstate", changed);
  addEventListener("everturn-route", changed);
  return () => {
    removeEventListener("popstate", changed);
    removeEventListener("everturn-route", changed);
  };
}

type QueryFields = { readonly [name: string]: string | number | null };

function queryText(fields: QueryFields): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(fields)) if (value !== null) query.set(name, `${value}`);
  return query.size === 0 ? "" : `?${query}`;
}

function count(text: string | null): number | null {
  return text !== null && /^\d{1,15}$/.test(text) ? Number(text) : null;
}

/** A period by its name in a URL; `null`: there is none of this name. */
export function periodOf(text: string | null): Period | null {
  return text !== null && isPeriod(text) ? text : null;
}

function isPeriod(text: string): text is Period {
  return Object.hasOwn(periods, text);
}

function decoded(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    return "";
  }
}
