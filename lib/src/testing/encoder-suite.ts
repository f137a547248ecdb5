// What an encoder of tool results has to keep, if the model is to read JSON.

import type { ToolResultEncoder } from "../engine/internal.ts";
import type { Json, ToolFailure } from "../model/internal.ts";
import type { ConformanceCase } from "./conformance.ts";

import { toolFailure } from "../model/internal.ts";
import { broken, holds, same } from "./conformance.ts";

const rules = {
  text: "text is shown as it is",
  json: "everything that is not text is shown as JSON",
  bare: "a value is shown without the box it came in",
  failure: "of a failure the model reads the message, and nothing that is meant for the program",
  pure: "the same result is shown in the same way every time",
};

const failure: ToolFailure = toolFailure("handler_failed", {
  message: 'no flights to "Oslo"',
  raw: { row: "raw-4f9a" },
  metadata: { trace: "trace-4f9a" },
  cause: new Error("cause-4f9a"),
});

/** The conformance cases of a tool result encoder. */
export function encoderSuite(encode: ToolResultEncoder): readonly ConformanceCase[] {
  const reads = (...values: readonly Json[]): void => {
    for (const value of values) same(parsed(shown(encode, value)), value, rules.json, "what it shows, read as JSON,");
  };
  return [
    {
      name: "text is shown as it is",
      run: async () => {
        for (const text of ["sunny", 'a "quoted" word', "two\nlines", '{"looks":"like JSON"}', "æ–🙂"]) {
          same(shown(encode, text), text, rules.text, "what it shows");
        }
      },
    },
    { name: "an object is shown as JSON", run: async () => reads({ celsius: 21, where: { city: "Oslo" } }, {}) },
    { name: "a list is shown as JSON", run: async () => reads([1, "two", [3], { four: 4 }, null], []) },
    {
      name: "whole numbers, truth and nothing are shown as JSON",
      run: async () => reads(0, -7, 42, true, false, null),
    },
    { name: "fractions are shown as JSON and lose nothing", run: async () => reads(0.1, -2.5, 1e-7, 1e21, 0.1 + 0.2) },
    {
      name: "a value is shown without the box it came in",
      run: async () => {
        same(shown(encode, 42), "42", rules.bare, "what it shows of a number");
        same(shown(encode, "done"), "done", rules.bare, "what it shows of a text");
        const own = { type: "ok", value: 1 };
        same(parsed(shown(encode, own)), own, rules.bare, "an object that looks like a box");
      },
    },
    {
      name: "of a failure the model reads the message",
      run: async () => {
        const text = textOf(encode({ type: "error", failure }));
        const quoted = JSON.stringify(failure.message).slice(1, -1);
        const says = text.includes(failure.message) || text.includes(quoted);
        holds(says, rules.failure, `the message ${failure.message}`, text);
      },
    },
    {
      name: "what of a failure is meant for the program is not shown",
      run: async () => {
        const text = textOf(encode({ type: "error", failure }));
        holds(!text.includes("4f9a"), rules.failure, "no raw, no cause, no metadata", text);
      },
    },
    {
      name: "the same result is shown in the same way every time",
      run: async () => {
        const value = { b: [1, { d: null, c: "x" }], a: 0.5 };
        const [first, second] = [encode({ type: "ok", value }), encode({ type: "ok", value: structuredClone(value) })];
        same(second, first, rules.pure, "the second time");
        const failed = encode({ type: "error", failure });
        same(encode({ type: "error", failure }), failed, rules.pure, "the second time, for a failure,");
      },
    },
  ];
}

function shown(encode: ToolResultEncoder, value: Json): string {
  return textOf(encode({ type: "ok", value }));
}

/** Content as the text it is for a value without attachments. */
function textOf(content: ReturnType<ToolResultEncoder>): string {
  if (typeof content === "string") return content;
  return content
    .map((part) => {
      if (part.type !== "text") throw broken(rules.json, "text only for a value without attachments", part.type);
      return part.text;
    })
    .join("");
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw broken(rules.json, "JSON", text);
  }
}
