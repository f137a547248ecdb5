import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

import { afterAll, describe, expect, it } from "vitest";

import { loadTools } from "./tools-module.ts";

const folder = mkdtempSync(join(tmpdir(), "tools-"));
afterAll(() => rmSync(folder, { recursive: true }));

// The source text of a tool as another copy of the library builds it.
const toolSource = (name: string) =>
  `{ name: "${name}", description: "", schema: { type: "object" }, hasHandler: true, prepare: async () => ({ ok: true }) }`;

let count = 0;
function moduleOf(text: string): string {
  count += 1;
  const path = join(folder, `tools-${count}.mjs`);
  writeFileSync(path, text);
  return path;
}

const namesIn = async (...texts: readonly string[]) => (await loadTools(texts.map(moduleOf))).map(({ name }) => name);

describe("loads tools", () => {
  it.each([
    ["from a default export", `export default ${toolSource("a")}`, ["a"]],
    ["from a list", `export default [${toolSource("a")}, ${toolSource("b")}]`, ["a", "b"]],
    ["from a function", `export default async () => [${toolSource("a")}]`, ["a"]],
    [
      "from named exports beside other exports",
      `export const a = ${toolSource("a")}; export const x = 1; export function help() { throw 1; }`,
      ["a"],
    ],
    ["from a named list", `export const all = [${toolSource("a")}, ${toolSource("b")}]`, ["a", "b"]],
  ])("%s", async (_, text, names) => {
    expect(await namesIn(text)).toEqual(names);
  });

  it("from several modules", async () => {
    expect(await namesIn(`export const a = ${toolSource("a")}`, `export const b = ${toolSource("b")}`)).toEqual([
      "a",
      "b",
    ]);
  });
});

describe("warns about exports that are not used", () => {
  const a = `export const a = ${toolSource("a")}`;

  it.each([
    [
      "beside named tools",
      `${a}; export function help() {} export const limit = 1; export const none = [];`,
      /tools-\d+\.mjs: not used: help \(a function\), limit \(a number\), none \(a list\); a named export is used if/,
    ],
    [
      "beside a default export",
      `${a}; export const b = 2; export default [${toolSource("c")}];`,
      /not used: a \(a tool\), b \(a number\); its default export is used instead$/,
    ],
  ])("%s", async (_, text, expected) => {
    const warnings: string[] = [];
    await loadTools([moduleOf(text)], (message) => warnings.push(message));
    expect(warnings).toEqual([expect.stringMatching(expected)]);
  });

  it("not about a tool that is also in a list or in the default export, which is loaded once", async () => {
    const warnings: string[] = [];
    const texts = [
      `${a}; export const all = [a];`,
      `export const b = ${toolSource("b")}; export const list = [b]; export default list;`,
    ];
    const tools = await loadTools(texts.map(moduleOf), (message) => warnings.push(message));
    expect([tools.map(({ name }) => name), warnings]).toEqual([["a", "b"], []]);
  });

  it("not about the names that Node adds to a CommonJS module", async () => {
    const warnings: string[] = [];
    const path = join(folder, "tools.cjs");
    writeFileSync(path, `module.exports = [${toolSource("a")}]; exports.__esModule = true;`);
    const tools = await loadTools([path], (message) => warnings.push(message));
    expect([tools.map(({ name }) => name), warnings]).toEqual([["a"], []]);
  });
});

describe("names the module, the export and what was expected for", () => {
  it.each([
    [
      "a default export that is a number",
      "export default 7",
      /tools-\d+\.mjs: its default export is a number; expected a tool made by tool\(\)/,
    ],
    [
      "a function that returns no tool",
      "export default () => null",
      /the return value of its default export is null; expected/,
    ],
    [
      "a function that throws",
      "export default () => { throw new Error('no key'); }",
      /its default export threw: no key/,
    ],
    [
      "a list with an item that is not a tool",
      `export default [${toolSource("a")}, {}]`,
      /\[1\] of its default export is an object; expected/,
    ],
    ["a module without tools", "export const x = 1", /has no tools: it exports x; expected/],
    [
      "a definition that was not passed to tool()",
      `export const t = { description: "", handler() {} }`,
      /its export t is not a tool; pass the definition to tool\(/,
    ],
    [
      "an export whose getter throws",
      "export default { get name() { throw new Error('no'); } }",
      /cannot be read: no$/,
    ],
    [
      "a module in a folder without the library",
      `import "everturn"`,
      /Cannot find package 'everturn' .*; install everturn in its folder/,
    ],
    ["a module with a syntax error", "syntax error", /the tools module .*cannot be imported/],
  ])("%s", async (_, text, expected) => {
    await expect(namesIn(text)).rejects.toThrow(expected);
  });

  it("a path that does not exist, or is a folder", async () => {
    await expect(loadTools([join(folder, "gone.mjs")])).rejects.toThrow(/the tools module .*gone\.mjs does not exist$/);
    await expect(loadTools([folder])).rejects.toThrow(/the tools module .* is a folder; a file is needed$/);
  });

  it("TypeScript where Node cannot import it; Node 22.18 and later can", async () => {
    const path = join(folder, "typed.ts");
    writeFileSync(path, `const name: string = "typed"; export const typed = { ...${toolSource("x")}, name };`);
    // tsx or a flag may also enable TypeScript: the import itself shows whether this process can load it.
    const canImport = await import(pathToFileURL(path).href).then(
      () => true,
      () => false,
    );
    const loaded = loadTools([path]).then((tools) => tools.map(({ name }) => name));
    if (canImport) expect(await loaded).toEqual(["typed"]);
    else await expect(loaded).rejects.toThrow(/typed\.ts is TypeScript, which Node \S+ cannot import: use Node 22\.18/);
  });

  it("two tools of one name", async () => {
    const twice = namesIn(`export const a = ${toolSource("same")}`, `export const b = ${toolSource("same")}`);
    await expect(twice).rejects.toThrow(
      /the name "same" is used more than once: .*tools-\d+\.mjs and .*tools-\d+\.mjs both export one/,
    );
  });
});
