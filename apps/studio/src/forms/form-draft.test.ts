import type { JsonObject } from "everturn";

import { expect, test } from "vitest";

import { isEdited, newDraft, obstaclesOf, withUnread } from "./form-draft.ts";
import { fieldsOf, pathKey } from "./schema-form.ts";

const schema: JsonObject = {
  type: "object",
  required: ["amount"],
  properties: {
    amount: { type: "number" },
    lines: { type: "array", items: { type: "string" } },
    order: { type: "object", properties: { id: { type: "string" } } },
  },
};
const short: JsonObject = { amount: 5, order: { id: "A-1", payTo: "Ada" } };
const lines = Array.from({ length: 87 }, (_, index) => `row ${index}`);

test("a form without changes can be sent, and is not edited", () => {
  expect(obstaclesOf(newDraft(short), fieldsOf(schema, short), short)).toEqual([]);
  expect(isEdited(newDraft(short), short)).toBe(false);
});

test("a text that cannot be read is an edit and an obstacle, until it can be read", () => {
  const broken = withUnread(newDraft(short), ["order", "payTo"], '"Ad');
  expect(isEdited(broken, short)).toBe(true);
  expect(obstaclesOf(broken, fieldsOf(schema, short), short)).toEqual(["The text of order.payTo is not JSON."]);
  expect(obstaclesOf(withUnread(newDraft(short), [], "{"), null, short)).toEqual([
    "The text of the arguments is not JSON.",
  ]);
  expect(withUnread(broken, ["order", "payTo"], null)).toEqual(newDraft(short));
});

test("a wrong value is an obstacle", () => {
  const draft = { ...newDraft(short), value: { ...short, amount: "12,5" } };
  expect(obstaclesOf(draft, fieldsOf(schema, short), short)).toEqual(["amount must be a number."]);
});

test("a long value that is not shown completely is an obstacle, also in a form of one field", () => {
  const long: JsonObject = { amount: 5, lines, order: { id: "A-1", note: "x".repeat(5000) } };
  const fields = fieldsOf(schema, long);
  expect(obstaclesOf(newDraft(long), fields, long)).toEqual([
    "Not all of lines is shown.",
    "Not all of order.note is shown.",
  ]);
  const shown = { ...newDraft(long), revealed: [pathKey(["lines"]), pathKey(["order", "note"])] };
  expect(obstaclesOf(shown, fields, long)).toEqual([]);
  expect(obstaclesOf(newDraft(long), null, long)).toEqual(["Not all of the arguments is shown."]);
  expect(obstaclesOf({ ...newDraft(long), revealed: [pathKey([])] }, null, long)).toEqual([]);
});

test("obstacles show invisible characters of names", () => {
  const hidden = { ...short, "pay\u202ETo": "x".repeat(5000) };
  expect(obstaclesOf(newDraft(hidden), fieldsOf(schema, hidden), hidden)).toEqual([
    "Not all of pay⟨U+202E⟩To is shown.",
  ]);
});
