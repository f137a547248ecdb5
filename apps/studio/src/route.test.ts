import { expect, test } from "vitest";

import { auditRoute, hrefOf, parseRoute, sessionRoute, takeTenant } from "./route.ts";

function parsed(href: string) {
  const { pathname, search } = new URL(href, "http://localhost");
  return parseRoute(pathname, search);
}

test("every route is read back from its URL", () => {
  for (const route of [
    { view: "sessions" } as const,
    sessionRoute("session/1 ü"),
    sessionRoute("s", { turnId: "t1", effect: 3, message: 12, at: 450 }),
    { view: "waiting" } as const,
    { view: "overview" } as const,
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
  expect(hrefOf({ view: "waiting" })).toMatch(/waiting\?tenant=shop\+%26\+co$/);
  expect(new URL(hrefOf(route), "http://localhost").searchParams.get("tenant")).toBe("shop & co");
  expect(parsed(hrefOf(route))).toEqual(route);
  expect(hrefOf({ view: "sessions" }, "other")).toMatch(/\/\?tenant=other$/);
  expect(hrefOf({ view: "overview" }, "")).toMatch(/overview$/);
  takeTenant("?tenant=");
  expect(hrefOf({ view: "sessions" })).not.toContain("?");
});

test("numbers that are none and paths that are unknown are ignored", () => {
  const base = hrefOf({ view: "sessions" });
  expect(parsed(`${base}s/a?effect=-1&message=1e9&at=x`)).toEqual(sessionRoute("a"));
  expect(parsed(`${base}nowhere/at/all`)).toEqual({ view: "sessions" });
  expect(parsed(`${base}s/%E0%A4%A`)).toEqual({ view: "sessions" });
});
