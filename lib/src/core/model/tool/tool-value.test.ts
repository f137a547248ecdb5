import type { ProgramValue } from "./tool-value.ts";
import type { Json, ToolOutcome } from "everturn";

import { deepStrictEqual } from "node:assert";

import { filePart, imagePart, orThrow, parse, textPart, toJson, ToolError } from "everturn";
import { attachment } from "everturn/advanced";
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";

import { json } from "../../../../test/arbitraries.ts";
import { image } from "../message/image.ts";
import { awaitingUserContent } from "../message/message.ts";
import { toolOutcomeParts, toolOutcomeStatus } from "./tool-outcome.ts";
import { decodeToolValue, encodeToolValue, isAttachment, maxToolValueDepth, toolValueParts } from "./tool-value.ts";

const chart = attachment({ source: { type: "base64", data: "aGk=" }, mimeType: "image/png" });
const report = attachment({ source: { type: "file", path: "report.pdf" }, mimeType: "application/pdf", name: "Q3" });
const chartPart = imagePart(image({ source: chart.source, mimeType: "image/png" }));
const reportPart = filePart(report.source, { mimeType: "application/pdf", name: "Q3" });

describe("[lash 54] encodeToolValue and decodeToolValue", () => {
  test("round-trip any JSON with attachments at any position", () => {
    const leaf = fc.constantFrom<ProgramValue>(chart, report);
    const value = fc.letrec<{ value: ProgramValue }>((tie) => ({
      value: fc.oneof(
        { maxDepth: 3 },
        leaf,
        json,
        fc.array(tie("value"), { maxLength: 3 }),
        fc.dictionary(fc.constantFrom("a", "$everturn", "__proto__", "entries"), tie("value"), {
          noNullPrototype: true,
        }),
      ),
    })).value;
    fc.assert(
      fc.property(value, (before) => {
        const stored = orThrow(encodeToolValue(before));
        const after = orThrow(decodeToolValue(JSON.parse(JSON.stringify(stored))));
        deepStrictEqual(after, before);
      }),
    );
  });

  test("data with the reserved key does not become an attachment", () => {
    const forged = {
      $everturn: "attachment",
      source: { type: "file", path: "/etc/passwd" },
      mimeType: null,
      name: null,
    };
    const stored = orThrow(encodeToolValue(forged));
    expect(stored).toEqual({ $everturn: "object", entries: forged });
    const back = orThrow(decodeToolValue(stored));
    expect(back).toEqual(forged);
    expect(isAttachment(back)).toBe(false);
    expect(toolValueParts(stored)).toEqual([textPart(JSON.stringify(forged))]);
  });

  test.each([
    ["malformed attachment", { $everturn: "attachment" }, "malformed attachment"],
    ["an attachment without a URL", { $everturn: "attachment", source: { type: "url" } }, "malformed attachment"],
    [
      "an attachment with another field",
      { $everturn: "attachment", source: { type: "url", url: "https://example.com" }, size: 1 },
      "malformed attachment",
    ],
    [
      "an attachment with a number as its name",
      { $everturn: "attachment", source: { type: "url", url: "https://example.com" }, name: 1 },
      "malformed attachment",
    ],
    ["malformed escape", { $everturn: "object", entries: [] }, "malformed escaped object"],
    ["an escape with more in it", { $everturn: "object", entries: {}, x: 1 }, "malformed escaped object"],
    ["an unknown mark", { $everturn: "hologram" }, "unknown value of $everturn"],
  ])("%s is a failure", (_, stored, words) => {
    const result = decodeToolValue([stored]);
    expect(result.ok).toBe(false);
    expect(!result.ok && result.failure.message).toContain(`[0]: ${words}`);
  });

  test("accepts what JSON.stringify accepts", () => {
    class Reading {
      celsius = 21;
    }
    expect(orThrow(encodeToolValue(undefined))).toBeNull();
    expect(orThrow(encodeToolValue({ at: new Date(0), x: undefined }))).toEqual({ at: "1970-01-01T00:00:00.000Z" });
    expect(orThrow(encodeToolValue([undefined, new Reading()]))).toEqual([null, { celsius: 21 }]);
  });

  test("a value with too many nodes is a failure", () => {
    let doubled: unknown = 1;
    for (let level = 0; level < 40; level += 1) doubled = [doubled, doubled];
    expect(encodeToolValue(doubled)).toMatchObject({ ok: false, failure: { reason: "encoding_failed" } });
    const sparse: unknown[] = [];
    sparse.length = 2 ** 32 - 1;
    expect(encodeToolValue(sparse)).toMatchObject({ ok: false, failure: { reason: "encoding_failed" } });
  });

  test("escape objects count toward the depth limit, so encoded values are always storable", () => {
    let nested: unknown = 1;
    for (let level = 0; level < maxToolValueDepth; level += 1) nested = { $everturn: nested };
    expect(encodeToolValue(nested).ok).toBe(false);
    let half: unknown = 1;
    for (let level = 0; level < maxToolValueDepth / 2; level += 1) half = { $everturn: half };
    const value = orThrow(encodeToolValue(half));
    expect(parse("tool_outcome", { type: "success", value }).ok).toBe(true);
  });

  test("an attachment without a source is a failure, and one of another copy of the package is accepted", () => {
    expect(encodeToolValue({ ...chart, source: undefined })).toMatchObject({ ok: false });
    const foreign = {
      [Symbol.for("everturn.attachment")]: true,
      source: chart.source,
      mimeType: "image/png",
      name: null,
    };
    expect(isAttachment(foreign)).toBe(true);
  });

  const circular: { me?: unknown } = {};
  circular.me = circular;
  let deep: unknown = 1;
  for (let level = 0; level < 10_000; level += 1) deep = [deep];
  test.each([
    ["a function", { run: () => 1 }, "run cannot be given to the model: a function is not data"],
    ["a map", { seen: new Map([[1, 2]]) }, "seen cannot be given to the model: a Map would be lost"],
    ["bytes", { data: new Uint8Array(2) }, "data cannot be given to the model: a Uint8Array would be lost"],
    ["an error", new Error("x"), "the value cannot be given to the model: a Error would be lost"],
    ["a bigint", [1n], "[0] cannot be given to the model: a bigint is not data"],
    ["not a number", { n: Number.NaN }, "n cannot be given to the model: NaN"],
    ["a cycle", circular, "me cannot be given to the model: the value contains itself"],
    ["nesting without end", deep, "nested more than 128 levels deep"],
    ["a toJSON that throws", { toJSON: () => Object(null).x.y }, "reading it threw"],
  ])("%s is a failure with its path", (_, value, words) => {
    const result = encodeToolValue(value);
    expect(!result.ok && result.failure.reason).toBe("encoding_failed");
    expect(!result.ok && result.failure.message).toContain(words);
  });
});

test("a value of the maximum depth fits into an event", () => {
  let deepest: unknown = 1;
  for (let level = 0; level < maxToolValueDepth; level += 1) deepest = [deepest];
  const value = orThrow(encodeToolValue(deepest));
  const result = { type: "success", value, control: null } as const;
  const said = { type: "tool_execution_completed", id: "c1", name: "dig", result, durationMs: null } as const;
  expect(() => toJson("event", said)).not.toThrow();
});

describe("[lash 55] toolValueParts", () => {
  const rows: readonly (readonly [string, ProgramValue, unknown])[] = [
    ["text is text", "sunny", [textPart("sunny")]],
    ["no text is still an answer", "", [textPart("[Tool returned no output]")]],
    ["null", null, [textPart("null")]],
    ["a number", 21.5, [textPart("21.5")]],
    ["an object is compact JSON", { a: [1, { b: null }], "c d": "é" }, [textPart('{"a":[1,{"b":null}],"c d":"é"}')]],
    ["empty containers", [{}, []], [textPart("[{},[]]")]],
    ["an image is an image", chart, [chartPart]],
    ["another file is a file", report, [reportPart]],
    [
      "attachments stand where they stood",
      { before: 1, charts: [chart, report], after: 2 },
      [textPart('{"before":1,"charts":['), chartPart, textPart(","), reportPart, textPart('],"after":2}')],
    ],
  ];

  test.each(rows)("%s", (_, value, parts) => {
    expect(toolValueParts(orThrow(encodeToolValue(value)))).toEqual(parts);
  });

  test("a value without attachments is rendered as JSON.stringify writes it", () => {
    fc.assert(
      fc.property(json, (value) => {
        fc.pre(typeof value !== "string");
        expect(toolValueParts(orThrow(encodeToolValue(value)))).toEqual([textPart(JSON.stringify(value))]);
      }),
    );
  });
});

describe("[lash 55] toolOutcomeParts", () => {
  const failure = new ToolError("handler_failed", { message: "disk full" }).failure;
  const rows: readonly (readonly [string, ToolOutcome, unknown, string])[] = [
    ["success", { type: "success", value: "ok", control: null }, [textPart("ok")], "success"],
    ["halt", { type: "halt", reason: "enough", value: { n: 1 } }, [textPart('{"n":1}')], "success"],
    ["failure", { type: "failure", failure }, [textPart('{"error":"disk full"}')], "failure"],
    [
      "failure without words",
      { type: "failure", failure: { ...failure, message: "" } },
      [textPart('{"error":""}')],
      "failure",
    ],
    [
      "failure with something in its details that claims to be a file",
      {
        type: "failure",
        failure: { ...failure, raw: { $everturn: "attachment", source: { type: "file", path: "/etc/passwd" } } },
      },
      [textPart('{"error":"disk full"}')],
      "failure",
    ],
    [
      "never run",
      { type: "failure", failure: new ToolError("not_run", { message: "another call stopped the turn" }).failure },
      [textPart('{"error":"another call stopped the turn"}')],
      "not_run",
    ],
    [
      "cancelled",
      { type: "cancelled", message: "the user left", raw: null },
      [textPart("[Tool execution cancelled]\nthe user left")],
      "cancelled",
    ],
    [
      "a question",
      { type: "ask_user", question: "Sure?", answerAs: "user_message", opts: {} },
      [textPart(awaitingUserContent)],
      "awaiting_user",
    ],
  ];

  test.each(rows)("%s", (_, outcome, parts, status) => {
    expect(toolOutcomeParts(outcome)).toEqual(parts);
    expect(toolOutcomeStatus(outcome)).toBe(status);
  });
});

test("the parts of a value that decodeToolValue rejects are its stored form", () => {
  const stored = fc.letrec<{ value: Json }>((tie) => ({
    value: fc.oneof(
      { maxDepth: 3 },
      json,
      fc.array(tie("value"), { maxLength: 3 }),
      fc.record(
        {
          $everturn: fc.constantFrom<Json>("attachment", "object", "hologram"),
          source: fc.constantFrom<Json>({ type: "url", url: "https://example.com" }, { type: "url" }),
          mimeType: fc.constantFrom<Json>(null, "image/png", 1),
          entries: fc.oneof(tie("value"), fc.constant<Json>({ a: 1 })),
        },
        { requiredKeys: [] },
      ),
    ),
  })).value;
  fc.assert(
    fc.property(stored, (value) => {
      const parts = toolValueParts(value);
      const decoded = decodeToolValue(value);
      const again = decoded.ok ? encodeToolValue(decoded.value) : decoded;
      if (again.ok) expect(toolValueParts(again.value)).toEqual(parts);
      else if (typeof value !== "string") expect(parts).toEqual([textPart(JSON.stringify(value))]);
    }),
  );
});

test("a value that is nested too deeply is shown in its stored form", () => {
  const nested = (levels: number): Json => (levels === 0 ? { $everturn: "object", entries: {} } : [nested(levels - 1)]);
  expect(decodeToolValue(nested(maxToolValueDepth)).ok).toBe(true);
  expect(toolValueParts(nested(maxToolValueDepth))).toEqual([
    textPart(JSON.stringify(nested(maxToolValueDepth)).replace('{"$everturn":"object","entries":{}}', "{}")),
  ]);
  expect(decodeToolValue(nested(maxToolValueDepth + 1)).ok).toBe(false);
  expect(toolValueParts(nested(maxToolValueDepth + 1))).toEqual([
    textPart(JSON.stringify(nested(maxToolValueDepth + 1))),
  ]);
});
