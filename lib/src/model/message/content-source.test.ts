import * as fc from "fast-check";
import { expect, test } from "vitest";

import { read } from "../parse/shape.ts";
import { contentSourceShape, isContentSource } from "./content-source.ts";

test("isContentSource agrees with the shape of sources", () => {
  const type = fc.constantFrom("base64", "url", "file", "provider_file", "constructor", 1);
  const text = fc.constantFrom("text", 1, null, undefined);
  const source = fc.record(
    { type, data: text, url: text, path: text, provider: text, id: text },
    { requiredKeys: ["type"] },
  );
  const valid = fc.constantFrom(
    { type: "base64", data: "aGk=" },
    { type: "url", url: "https://example.com" },
    { type: "file", path: "report.pdf" },
    { type: "provider_file", provider: "openai", id: "file-1" },
  );
  fc.assert(
    fc.property(fc.oneof(source, valid, fc.constantFrom(null, "url", [])), (value) => {
      expect(isContentSource(value)).toBe("value" in read(contentSourceShape, value));
    }),
  );
});
