import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

import { afterAll, expect, it } from "vitest";

import { loadAsModule } from "./user-module.ts";

const folder = mkdtempSync(join(tmpdir(), "module-"));
afterAll(() => rmSync(folder, { recursive: true }));

/** The format that the hook passes on for a file of this name and text. */
function formatOf(name: string, text: string, format: string | null): string | null | undefined {
  const path = join(folder, name);
  writeFileSync(path, text);
  return loadAsModule(pathToFileURL(path).href, { format }, (_, context) => context.format);
}

it.each([
  ["a.ts", `// A comment.\nimport { x } from "./x.ts";`, "commonjs-typescript", "module-typescript"],
  ["a.ts", "export default {};", null, "module-typescript"],
  ["a.ts", `import"./x.ts";`, null, "module-typescript"],
  ["a.ts", `const x = require("x");\nmodule.exports = { import: x };`, "commonjs-typescript", "commonjs-typescript"],
  ["a.ts", `import("./x.ts").then(() => {});`, "commonjs-typescript", "commonjs-typescript"],
  ["a.cts", "export default {};", "commonjs-typescript", "commonjs-typescript"],
  ["a.js", "export default {};", "commonjs", "commonjs"],
  ["a.js", "export default {};", null, null],
])("%s with the text %j and the format %s is loaded as %s", (name, text, format, expected) => {
  expect(formatOf(name, text, format)).toBe(expected);
});

it("a file that is missing keeps its format, so Node reports it", () => {
  const url = pathToFileURL(join(folder, "missing.ts")).href;
  expect(loadAsModule(url, { format: null }, (_, context) => context.format)).toBe(null);
});
