import type { Json } from "everturn";
import type { EffectDetail } from "everturn/advanced";

import { user } from "everturn";
import { effectRequest, effectResponse } from "everturn/advanced";
import { usageTexts } from "everturn/react";
import { createElement } from "react";
import { renderToStaticMarkup } from "react-dom/server";
import { describe, expect, test } from "vitest";

import { supportCase, usageFixture } from "../../test/turn-fixture.ts";
import { curlOf, curlOfUserMessage } from "../parts/take-out.ts";
import { takeTenant } from "../route.ts";
import { journalOf } from "./effect-parts.ts";
import { EffectView } from "./effect-view.tsx";
import { JsonTree } from "./json-tree.tsx";
import { inputName, outputName } from "./usage-text.ts";

const htmlOf = (value: Json): string => renderToStaticMarkup(createElement(JsonTree, { value, label: "Value" }));

const detail: EffectDetail = {
  ordinal: 3,
  effect: { id: "t2/0/tool/0", type: "call_tool", call: { id: "c1", name: "find_order", arguments: { order: 1042 } } },
  item: { type: "response", response: { type: "tool_returned", outcome: { type: "success", value: { paid: 189 } } } },
  epoch: 1,
  attempt: 1,
  timing: null,
  records: [{ name: "started", value: { epoch: 1 } }],
};

describe("the tree of a JSON value", () => {
  test("cuts a text of a megabyte, and says how much is left", () => {
    const html = htmlOf({ text: "x".repeat(1_000_000) });
    expect(html.length).toBeLessThan(2000);
    expect(html).toContain("999,600 more characters");
  });

  test("draws the first items of a long list only", () => {
    const html = htmlOf(Array.from({ length: 100_000 }, (_, index) => index));
    expect(html).toContain("99,900 more");
    expect(html.length).toBeLessThan(20_000);
  });

  test("closes large nodes below the top", () => {
    const large = Object.fromEntries(Array.from({ length: 50 }, (_, index) => [`k${index}`, index]));
    const html = htmlOf({ large });
    expect(html).toContain("50 fields");
    expect(html).not.toContain("k49");
  });

  test("shows markup, control characters and quotes as text", () => {
    const html = htmlOf({ "<b>": '<img src=x onerror=alert(1)> "\u0000' });
    expect(html).not.toMatch(/<(?:img|b)>|<img/);
    expect(html).toContain("\\u0000");
  });

  test.each<[Json, string]>([
    [null, "null"],
    [true, "true"],
    [[], "[]"],
    [{}, "{}"],
    ["", "&quot;&quot;"],
  ])("shows %j", (value, text) => {
    expect(htmlOf(value)).toContain(text);
  });
});

test("takes the request, the response and the row apart", () => {
  expect(effectRequest(detail)).toMatchObject({ name: "find_order" });
  expect(effectResponse(detail)).toEqual({ type: "success", value: { paid: 189 } });
  expect(journalOf(detail)).toMatchObject({ ordinal: 3, outcome: "tool_returned", records: ["started"] });
});

test("shows the body that was sent to the provider if it was logged", () => {
  const response = { type: "model_replied", requestBody: '{"model":"m"}', reply: { outputText: "hi" } };
  expect(effectRequest({ ...detail, item: { type: "response", response } })).toEqual({ model: "m" });
  expect(effectRequest({ ...detail, item: { type: "response", response: { ...response, requestBody: "{" } } })).toBe(
    "{",
  );
});

test("a curl command sends a user message again, with its files", () => {
  const text = curlOfUserMessage("http://localhost:4242", "s 1", { content: "it's $(id)" });
  expect(text.split(" \\\n  ")).toEqual([
    "curl",
    '-H "Authorization: Bearer $EVERTURN_TOKEN"',
    '-H "Content-Type: application/json"',
    `--data-raw '{"text":"it'\\''s $(id)"}'`,
    "'http://localhost:4242/sessions/s%201/send'",
  ]);
  const message = user([{ type: "text", text: "look" }]);
  const body = JSON.stringify({ message: { role: "user", content: message.content } });
  expect(curlOfUserMessage("http://localhost:4242", "s1", message)).toContain(`--data-raw '${body}'`);
});

test("a curl command names the variable of the token, and quotes what a shell would expand", () => {
  const command = curlOf("http://localhost:4242", ["sessions", "it's $(id)", "turns", "t1", "effects", "3"]);
  expect(command).toContain('"Authorization: Bearer $EVERTURN_TOKEN"');
  expect(command).toContain("'http://localhost:4242/sessions/it'\\''s%20%24(id)/turns/t1/effects/3'");
});

test("numbers of a call have units, and unknown ones are a dash", () => {
  expect(usageTexts(usageFixture(1842, 1676, 58, 0.0042))).toEqual({ input: "1,842 · 91 %", output: "58 · $0.0042" });
  expect(usageTexts(null)).toEqual({ input: "–", output: "–" });
});

test("the name of a number says only what is known", () => {
  expect([inputName(usageFixture(1842, 1676, 58, 0.0042)), outputName(usageFixture(1842, 1676, 58, 0.0042))]).toEqual([
    "tokens in · cached",
    "tokens out · cost",
  ]);
  expect([inputName(null), outputName(null)]).toEqual(["tokens in", "tokens out"]);
});

test("an effect shows its kind, its attempts and what a crash does", () => {
  const effect = supportCase.effects[5];
  if (effect === undefined) throw new Error("the fixture has no sixth row");
  const html = renderToStaticMarkup(
    createElement(EffectView, {
      effect,
      turn: supportCase.turn,
      detail: null,
      detailError: null,
      rerun: null,
      durability: "durable",
      request: null,
      actions: null,
    }),
  );
  expect(html).toContain("412 ms");
  expect(html).toContain("Attempts 2");
  expect(html).toContain("nothing is sent to the model twice");
});

test("a command acts in the tenant that is shown", () => {
  takeTenant(`?tenant=${encodeURIComponent("ada's shop ü")}`);
  expect(curlOf("http://localhost:4242", ["sessions", "s1"])).toContain(
    `-H 'Everturn-Tenant: ada'\\''s%20shop%20%C3%BC' \\\n`,
  );
  takeTenant("");
  expect(curlOf("http://localhost:4242", ["sessions", "s1"])).not.toContain("Everturn-Tenant");
});
