// Cursors: rendering and parsing are inverse, and any other text is refused.

import { MisuseError } from "everturn";
import * as fc from "fast-check";
import { expect, test } from "vitest";

import { parseCursor, renderCursor } from "./cursor.ts";

const count = fc.integer({ min: 0, max: 999_999_999_999_999 });
const part = fc
  .tuple(fc.constantFrom("text", "reasoning", "call"), fc.integer({ min: 0, max: 999 }))
  .map(([kind, place]) => `${kind}/${place}`);
const position = fc.record({
  effectId: fc.string({ unit: "grapheme", minLength: 1 }),
  epoch: count,
  n: count,
  offsets: fc.array(fc.tuple(part, count), { maxLength: 4 }).map((read) => new Map(read)),
});

test("parsing reverses rendering for every cursor, and a cursor is one line", () => {
  fc.assert(
    fc.property(count, fc.option(position), (sequence, position) => {
      const line = renderCursor({ sequence, position });
      expect(line).toMatch(/^[\x21-\x7e]+$/);
      expect(parseCursor(line)).toEqual({ sequence, position });
    }),
  );
});

test("any other text throws MisuseError and nothing else", () => {
  fc.assert(
    fc.property(fc.oneof(fc.string(), fc.string({ unit: "binary" })), (text) => {
      try {
        const { sequence } = parseCursor(text);
        expect(Number.isSafeInteger(sequence) && sequence >= 0).toBe(true);
      } catch (error) {
        expect(error).toBeInstanceOf(MisuseError);
      }
    }),
  );
});
