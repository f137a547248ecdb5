// The conformance suite of tool result encoders that encode as JSON.

import type { ToolResultEncoder } from "../core/engine/internal.ts";
import type { Json, ToolFailure } from "../core/model/internal.ts";
import type { ConformanceCase } from "./conformance.ts";

import { toolFailure } from "../core/model/internal.ts";
import { broken, casesOf, holds, same } from "./conformance.ts";

const rules = {
  text: "text is encoded unchanged",
  json: "a value that is not text is encoded as JSON",
  bare: "a value is encoded without its wrapper object",
  failure: "of a failure only the message is encoded, not the details for the program",
  pure: "encoding is deterministic",
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
    for (const value of values)
      same(parsed(encodedText(encode, value)), value, rules.json, "the encoded text, parsed as JSON,");
  };
  return casesOf({
    "text is encoded unchanged": async () => {
      for (const text of ["sunny", 'a "quoted" word', "two\nlines", '{"looks":"like JSON"}', "æ–🙂"]) {
        same(encodedText(encode, text), text, rules.text, "the encoded text");
      }
    },
    "an object is encoded as JSON": async () => reads({ celsius: 21, where: { city: "Oslo" } }, {}),
    "an array is encoded as JSON": async () => reads([1, "two", [3], { four: 4 }, null], []),
    "integers, booleans and null are encoded as JSON": async () => reads(0, -7, 42, true, false, null),
    "fractions are encoded as JSON without loss": async () => reads(0.1, -2.5, 1e-7, 1e21, 0.1 + 0.2),
    "a value is encoded without its wrapper object": async () => {
      same(encodedText(encode, 42), "42", rules.bare, "the encoded number");
      same(encodedText(encode, "done"), "done", rules.bare, "the encoded string");
      const wrapperLike = { type: "ok", value: 1 };
      same(parsed(encodedText(encode, wrapperLike)), wrapperLike, rules.bare, "an object that looks like a wrapper");
    },
    "the message of a failure is encoded": async () => {
      const text = plainText(encode({ type: "error", failure }));
      const quoted = JSON.stringify(failure.message).slice(1, -1);
      const hasMessage = text.includes(failure.message) || text.includes(quoted);
      holds(hasMessage, rules.failure, `the message ${failure.message}`, text);
    },
    "the details of a failure for the program are not encoded": async () => {
      const text = plainText(encode({ type: "error", failure }));
      holds(!text.includes("4f9a"), rules.failure, "no raw, no cause, no metadata", text);
    },
    "encoding is deterministic": async () => {
      const value = { b: [1, { d: null, c: "x" }], a: 0.5 };
      const [first, second] = [encode({ type: "ok", value }), encode({ type: "ok", value: structuredClone(value) })];
      same(second, first, rules.pure, "the second encoding");
      const failed = encode({ type: "error", failure });
      same(encode({ type: "error", failure }), failed, rules.pure, "the second encoding of a failure");
    },
  });
}

function encodedText(encode: ToolResultEncoder, value: Json): string {
  return plainText(encode({ type: "ok", value }));
}

/**
 * Joins the text parts of encoded content. Any other part is a violation: the values of the suite have no attachments.
 */
function plainText(content: ReturnType<ToolResultEncoder>): string {
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
