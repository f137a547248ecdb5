import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { afterAll, describe, expect, it } from "vitest";

import { loadTools } from "./tools-module.ts";

const folder = mkdtempSync(join(tmpdir(), "tools-"));
afterAll(() => rmSync(folder, { recursive: true }));

// What `tool()` makes, as a module of the user's sees it: a copy of the library of its own.
const made = (name: string) =>
  `{ name: "${name}", description: "", schema: { type: "object" }, hasHandler: true, prepare: async () => ({ ok: true }) }`;

let count = 0;
function moduleOf(text: string): string {
  count += 1;
  const path = join(folder, `tools-${count}.mjs`);
  writeFileSync(path, text);
  return path;
}

const namesIn = async (...texts: readonly string[]) => (await loadTools(texts.map(moduleOf))).map(({ name }) => name);

describe("a module of the user's gives tools", () => {
  it.each([
    ["by its default export", `export default ${made("a")}`, ["a"]],
    ["as a list", `export default [${made("a")}, ${made("b")}]`, ["a", "b"]],
    ["by a function", `export default async () => [${made("a")}]`, ["a"]],
    [
      "by name, and what else it exports is its own business",
      `export const a = ${made("a")}; export const x = 1; export function help() { throw 1; }`,
      ["a"],
    ],
    ["in a list by name", `export const all = [${made("a")}, ${made("b")}]`, ["a", "b"]],
  ])("%s", async (_, text, names) => {
    expect(await namesIn(text)).toEqual(names);
  });

  it("and several modules give those of each", async () => {
    expect(await namesIn(`export const a = ${made("a")}`, `export const b = ${made("b")}`)).toEqual(["a", "b"]);
  });
});

describe("what is no tool is refused with the module, the export and what was expected", () => {
  it.each([
    [
      "a default export that is a number",
      "export default 7",
      /tools-\d+\.mjs: its default export is a number; expected a tool made by tool\(\)/,
    ],
    ["a function that returns none", "export default () => null", /what its default export returns is null; expected/],
    [
      "a function that throws",
      "export default () => { throw new Error('no key'); }",
      /its default export threw: no key/,
    ],
    ["an item of a list", `export default [${made("a")}, {}]`, /\[1\] of its default export is an object; expected/],
    ["nothing at all", "export const x = 1", /has no tools: it exports x; expected/],
    [
      "a definition that nobody made a tool of",
      `export const t = { description: "", handler() {} }`,
      /its export t is no tool: wrap it, tool\(/,
    ],
    [
      "an export that throws when it is looked at",
      "export default { get name() { throw new Error('no'); } }",
      /cannot be read: no$/,
    ],
    [
      "a module that stands where the library is not installed",
      `import "everturn"`,
      /Cannot find package 'everturn' .*; install everturn beside it/,
    ],
    ["a module that does not run", "syntax error", /the tools module .*cannot be imported/],
  ])("%s", async (_, text, expected) => {
    await expect(namesIn(text)).rejects.toThrow(expected);
  });

  it("a module that is not there", async () => {
    await expect(loadTools([join(folder, "gone.mjs")])).rejects.toThrow(/the tools module .*gone\.mjs is not there$/);
    await expect(loadTools([folder])).rejects.toThrow(/the tools module .* is a folder: name the file$/);
  });

  it("two tools of one name", async () => {
    const twice = namesIn(`export const a = ${made("same")}`, `export const b = ${made("same")}`);
    await expect(twice).rejects.toThrow(/more than one "same": .*tools-\d+\.mjs and .*tools-\d+\.mjs both export one/);
  });
});
