import { createHash } from "node:crypto";

import * as fc from "fast-check";
import { expect, test } from "vitest";

import { sha256Text } from "./sha256.ts";

test("has the digests of FIPS 180-4", () => {
  expect(sha256Text("abc")).toBe("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  expect(sha256Text("")).toBe("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
});

test("equals the digest of the platform for every text, also with lone surrogates", () => {
  const expected = (text: string) => createHash("sha256").update(Buffer.from(text)).digest("hex");
  for (let length = 0; length < 200; length += 1)
    expect(sha256Text("é".repeat(length))).toBe(expected("é".repeat(length)));
  fc.assert(
    fc.property(fc.string({ unit: "binary", maxLength: 300 }), fc.string({ unit: "grapheme" }), (left, right) => {
      expect(sha256Text(left + right)).toBe(expected(left + right));
    }),
  );
  expect(sha256Text("a\ud800b")).toBe(expected("a\ud800b"));
});
