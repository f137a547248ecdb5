// Tests the comparison of recorded requests on bodies written by hand: each body is sent with the same meaning, and
// every defect that is put into an encoded body is found.

import type { WireApi } from "../../../src/core/wire/internal.ts";
import type { Checked } from "./check.ts";
import type { Recording } from "./convert.ts";
import type { JsonObject } from "everturn";

import { describe, expect, test } from "vitest";

import { recordedApis } from "./apis.ts";
import { bodies, referredItem } from "./bodies.ts";
import { checkRequest } from "./check.ts";
import { compare } from "./compare.ts";
import { mutations } from "./mutations.ts";

const apis = Object.values(recordedApis);
// Each body is checked once, in the test that needs it first.
const cases = apis.flatMap((api) =>
  Object.entries(bodies[api.api]).map(([title, body]) => {
    let checked: Checked | null = null;
    return {
      title: `${api.api}: ${title}`,
      api: api.api,
      check: () => (checked ??= checkRequest(api, recordingOf(body))),
    };
  }),
);

function checksOf(api: WireApi): readonly Checked[] {
  return cases.filter((one) => one.api === api).map(({ check }) => check());
}

function recordingOf(body: JsonObject): Recording {
  return { body, model: null, items: new Map([["fc_known", referredItem]]) };
}

describe("recorded requests", () => {
  test.each(cases)("$title is sent with the same meaning", ({ check }) => {
    const { verdict } = check();
    expect(verdict).not.toMatchObject({ type: "different" });
    expect(verdict).not.toMatchObject({ type: "refused" });
  });

  test.each(cases)("$title is accepted by the provider", ({ check }) => {
    expect(check().refusals).toEqual([]);
  });

  test.each(cases)("$title: every defect is found", ({ check }) => {
    const checked = check();
    expect(checked.mutations.length).toBeGreaterThan(3);
    expect(checked.mutations.filter(({ isFound }) => !isFound)).toEqual([]);
  });

  test.each(apis)("$api: every kind of defect occurs in a body", ({ api }) => {
    const injected = checksOf(api).flatMap((checked) => checked.mutations.map(({ name }) => name));
    const missing = mutations.map(({ name }) => name).filter((name) => !injected.includes(name));
    expect(missing).toEqual(impossibleDefects[api]);
  });

  test.each(apis)("$api: every rule is needed by a body", (api) => {
    const needed = checksOf(api.api).flatMap(({ verdict }) => (verdict.type === "harmless" ? verdict.rules : []));
    const rules = api.rules(recordingOf({})).map(({ name }) => name);
    expect(rules.filter((name) => !needed.includes(name))).toEqual([]);
  });

  test("fields without a type in the library are listed", () => {
    const checked = checkRequest(
      recordedApis["openai-chat"],
      recordingOf({ ...bodies["openai-chat"]["media"], other: 1 }),
    );
    expect(checked.options).toEqual(["modalities", "audio", "other"]);
  });

  test("a body that the library refuses is reported", () => {
    const { verdict } = checkRequest(recordedApis.gemini, recordingOf({ contents: [] }));
    expect(verdict).toMatchObject({ type: "refused", message: expect.stringContaining("nothing to send") });
  });

  test("a difference names its place and both values", () => {
    const pair = { recorded: { a: [{ b: 1 }] }, sent: { a: [{ b: 2 }], c: true } };
    expect(compare(pair, [])).toEqual({
      type: "different",
      differences: [
        { path: "a[0].b", recorded: 1, sent: 2 },
        { path: "c", recorded: undefined, sent: true },
      ],
    });
  });
});

/** Defects that no body of the API can have: Gemini matches results by name, and Chat Completions has no signatures. */
const impossibleDefects: { readonly [A in WireApi]: readonly string[] } = {
  "openai-responses": [],
  "openai-chat": ["signature lost"],
  "anthropic-messages": [],
  gemini: ["call id changed"],
};
