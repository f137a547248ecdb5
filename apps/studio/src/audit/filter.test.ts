import { expect, test } from "vitest";

import { auditRoute } from "../route.ts";
import { localTime, optionsOf, timeOf } from "./filter.ts";

test("a time of the form is read back, to the minute", () => {
  const at = Date.UTC(2026, 10, 19, 17, 30);
  expect(timeOf(localTime(at))).toBe(at);
  expect(localTime(null)).toBe("");
  expect(timeOf("")).toBeNull();
});

test("the server is asked for what the address names", () => {
  expect(optionsOf(auditRoute())).toEqual({ limit: 50 });
  expect(optionsOf(auditRoute({ of: "shop", actor: "ada", action: "deny", from: 1, until: 2, after: "3:0" }))).toEqual({
    limit: 50,
    tenant: "shop",
    actor: "ada",
    action: "deny",
    from: 1,
    until: 2,
    after: "3:0",
  });
});
