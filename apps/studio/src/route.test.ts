import { expect, test } from "vitest";

import { hrefOf, parseRoute, sessionRoute } from "./route.ts";

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
    { view: "playground", from: "s1" } as const,
    { view: "compare", left: "a&b", right: "c" } as const,
    { view: "replay" } as const,
  ]) {
    expect(parsed(hrefOf(route))).toEqual(route);
  }
});

test("numbers that are none and paths that are unknown are ignored", () => {
  const base = hrefOf({ view: "sessions" });
  expect(parsed(`${base}s/a?effect=-1&message=1e9&at=x`)).toEqual(sessionRoute("a"));
  expect(parsed(`${base}nowhere/at/all`)).toEqual({ view: "sessions" });
  expect(parsed(`${base}s/%E0%A4%A`)).toEqual({ view: "sessions" });
});
