// Writes the API reference to docs/reference (with `api.txt`, the report of all signatures) and the code map to
// docs/code-map.md, or with `--check` compares them with what is there.
//
// `npm run docs:reference` writes; `npm run check:reference` fails when a public name has no doc comment, when a source
// file does not begin with a comment, or when a page differs from the sources. Both build first, because the reference
// is read from the declaration files in lib/dist. `--fields` lists the fields without a doc comment.

import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import { renderCodeMap } from "./code-map.ts";
import { entryPoints } from "./declarations.ts";
import { renderReference } from "./render.ts";

const root = join(import.meta.dirname, "../..");
const folder = join(root, "docs/reference");
const check = process.argv.includes("--check");

const { pages, index, defaults, report } = await renderReference(entryPoints());
const texts = new Map([
  ...pages.map(({ file, text }) => [file, text] as const),
  ["README.md", index],
  ["defaults.md", defaults],
  ["api.txt", report],
]);

mkdirSync(folder, { recursive: true });
const present = readdirSync(folder);
const stale = [
  ...present.filter((file) => !texts.has(file)),
  ...[...texts].filter(([file, text]) => !present.includes(file) || read(file) !== text).map(([file]) => file),
];
if (!check) {
  for (const file of present) if (!texts.has(file)) rmSync(join(folder, file));
  for (const [file, text] of texts) writeFileSync(join(folder, file), text);
}

const codeMap = renderCodeMap(root);
const codeMapPath = join(root, "docs/code-map.md");
const isMapStale = !existsSync(codeMapPath) || readFileSync(codeMapPath, "utf8") !== codeMap.text;
if (!check) writeFileSync(codeMapPath, codeMap.text);

console.log("entry point                 names  undocumented  fields  undocumented");
for (const { entry, counts } of pages) {
  const numbers = [
    String(counts.names).padStart(5),
    String(counts.undocumented.length).padStart(12),
    String(counts.fields).padStart(6),
    String(counts.undocumentedFields.length).padStart(12),
  ];
  console.log(`${entry.name.padEnd(26)}  ${numbers.join("  ")}`);
}
if (process.argv.includes("--fields")) {
  for (const { entry, counts } of pages)
    for (const field of counts.undocumentedFields) console.log(`${entry.name}: ${field}`);
}

const undocumented = pages.flatMap(({ entry, counts }) => counts.undocumented.map((name) => `${entry.name}: ${name}`));
if (undocumented.length > 0) {
  console.error(`These public names have no doc comment of at least 20 characters:\n  ${undocumented.join("\n  ")}`);
}
if (check && stale.length > 0) {
  console.error(
    `Out of date in docs/reference: ${stale.join(", ")}. Run "npm run docs:reference" and commit the result.`,
  );
}
if (codeMap.uncommented.length > 0) {
  console.error(`These files do not begin with a comment:\n  ${codeMap.uncommented.join("\n  ")}`);
}
if (check && isMapStale) {
  console.error(`docs/code-map.md is out of date. Run "npm run docs:reference" and commit the result.`);
}
const isWrong = undocumented.length > 0 || codeMap.uncommented.length > 0;
if (isWrong || (check && (stale.length > 0 || isMapStale))) process.exitCode = 1;

function read(file: string): string {
  return readFileSync(join(folder, file), "utf8");
}
