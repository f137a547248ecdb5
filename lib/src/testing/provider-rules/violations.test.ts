import { describe, expect, test } from "vitest";

import { providerRules, refusalOf, violations } from "./violations.ts";

const apis = ["openai-responses", "openai-chat", "anthropic-messages", "gemini"] as const;

describe.each(apis)("the rules of %s", (api) => {
  const rules = providerRules[api];

  test("have unique names and a source each", () => {
    expect(new Set(rules.map(({ name }) => name)).size).toBe(rules.length);
    for (const { source } of rules) expect(source).toMatch(/^https:\/\/[^ ]+$/);
  });

  // A row that is removed, or whose number, pattern or field is changed, fails here: the examples are at the limit and do not follow from the row.
  test.each(rules)("$name refuses its example and nothing else does", ({ name, refused, accepted }) => {
    expect([...new Set(violations(api, refused).map(({ rule }) => rule))]).toEqual([name]);
    expect(violations(api, accepted)).toEqual([]);
  });

  test("are answered in the format of the provider", () => {
    for (const { refused } of rules) {
      const [violation] = violations(api, refused);
      if (violation === undefined) throw new Error("no violation");
      const { status, body } = refusalOf(api, violation);
      expect(status).toBeGreaterThanOrEqual(400);
      expect(JSON.stringify(body)).toContain(JSON.stringify(violation.message).slice(1, -1));
    }
  });
});
