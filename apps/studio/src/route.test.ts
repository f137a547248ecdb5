import { expect, test } from "vitest";

import {
  auditRoute,
  hrefOf,
  overviewRoute,
  parseListFilter,
  parseRoute,
  sessionRoute,
  takeTenant,
  waitingRoute,
} from "./route.ts";

function parsed(href: string) {
  const { pathname, search } = new URL(href, "http://localhost");
  return parseRoute(pathname, search);
}

test("every route is read back from its URL", () => {
  for (const route of [
    { view: "sessions" } as const,
    sessionRoute("session/1 ü"),
    sessionRoute("s", { turnId: "t1", effect: 3, message: 12, at: 450 }),
    waitingRoute(),
    waitingRoute({ sessionId: "a/b", call: "call_0", engine: "shop", reason: "approval" }),
    overviewRoute(),
    overviewRoute("7d"),
    auditRoute(),
    auditRoute({ actor: "a b", action: "deny", of: "shop", from: 1, until: 2, after: "3:0f" }),
    { view: "playground", from: "s1" } as const,
    { view: "compare", left: "a&b", right: "c" } as const,
    { view: "replay" } as const,
  ]) {
    expect(parsed(hrefOf(route))).toEqual(route);
  }
});

test("every URL names the tenant that is shown, or the one that is asked for", () => {
  takeTenant("?tenant=shop%20%26%20co&turn=t1");
  const route = sessionRoute("s", { turnId: "t1" });
  expect(hrefOf(waitingRoute())).toMatch(/waiting\?tenant=shop\+%26\+co$/);
  expect(new URL(hrefOf(route), "http://localhost").searchParams.get("tenant")).toBe("shop & co");
  expect(parsed(hrefOf(route))).toEqual(route);
  expect(hrefOf({ view: "sessions" }, "other")).toMatch(/\/\?tenant=other$/);
  expect(hrefOf(overviewRoute(), "")).toMatch(/overview$/);
  takeTenant("?tenant=");
  expect(hrefOf({ view: "sessions" })).not.toContain("?");
});

test("numbers that are none and paths that are unknown are ignored", () => {
  const base = hrefOf({ view: "sessions" });
  expect(parsed(`${base}s/a?effect=-1&message=1e9&at=x`)).toEqual(sessionRoute("a"));
  expect(parsed(`${base}nowhere/at/all`)).toEqual({ view: "sessions" });
  expect(parsed(`${base}s/%E0%A4%A`)).toEqual({ view: "sessions" });
});

test("the views with the list of sessions keep its filter, and unknown values are ignored", () => {
  const filter = { status: "waiting", engine: "shop", text: "a & b", period: "7d" } as const;
  for (const route of [{ view: "sessions" } as const, sessionRoute("s", { effect: 2 })]) {
    const { search } = new URL(hrefOf(route, null, filter), "http://localhost");
    expect(parseListFilter(search)).toEqual(filter);
    expect(parsed(hrefOf(route, null, filter))).toEqual(route);
  }
  expect(hrefOf(waitingRoute(), null, filter)).toMatch(/waiting$/);
  const none = { status: null, engine: null, text: null, period: null };
  expect(parseListFilter("?status=else&changed=toString&find=&engine=")).toEqual(none);
});
