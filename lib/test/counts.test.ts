// The counter of `npm run check:counts`, on a repository of a few files.

import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";

import { afterEach, describe, expect, test } from "vitest";

import { countRepository, formatCounts, narrowLimits } from "../../tools/counts/counts.ts";

type Files = { readonly [path: string]: string };

const files: Files = {
  "lib/package.json": JSON.stringify({
    exports: {
      ".": { source: "./src/index.ts" },
      "./runtime": { source: "./src/runtime/index.ts" },
      "./package.json": "./package.json",
    },
  }),
  "lib/src/index.ts": 'export type { Runtime } from "./runtime/index.ts";\n',
  "lib/src/runtime/index.ts": [
    'export type { Runtime } from "./runtime.ts";',
    'export { tables as storageTables } from "./rows/tables.ts";',
    "",
  ].join("\n"),
  "lib/src/runtime/runtime.ts": [
    'import type { Reader } from "./reader.ts";',
    "",
    "/** A comment",
    "",
    " * of several lines. */",
    "export type Runtime = Reader & {",
    "  // Overloads count once.",
    "  start(text: string): void;",
    "  start(text: string, id: string): void; /* after code */",
    "};",
    "",
  ].join("\n"),
  "lib/src/runtime/reader.ts":
    "export interface Reader {\n  readonly list: () => void;\n  readonly get: () => void;\n}\n",
  "lib/src/runtime/rows/tables.ts": [
    'const session = ["tenant", "session"] as const;',
    'export const tables = { sessions: session, leases: session, slots: ["scope"] } as const;',
    "",
  ].join("\n"),
  "lib/src/engine/options.ts": "export const runOptionTable = { seed: {}, model: {} } satisfies object;\n",
  "lib/src/http/routes.ts": [
    'export const rows = { readB: get("/b", { summary: "Reads B." }), other: get("/c"), more: at("b", { summary: "" }) };',
    'export const routes = [{ method: "GET", path: "/a", operationId: "readA" }];',
    "export function more(): object {",
    '  const text = "// no comment";',
    "  // The same operation, and an object that is no route.",
    '  return [{ method: "GET", path: "/a", operationId: "readA", text }, { operationId: "other" }];',
    "}",
    "",
  ].join("\n"),
  "lib/src/http/slots.ts": [
    "/**",
    " * Slots.",
    " *",
    " * @primitive requests in progress",
    " */",
    "export class Slots {",
    "  take(): number {",
    "    const free = [1, 2].map((slot) => slot + 1);",
    "",
    "    // Not counted.",
    "    return free.length;",
    "  }",
    "}",
    "",
  ].join("\n"),
  "lib/src/http/slots.test.ts": "export const ignored = 1;\n",
  "apps/launcher/bin/launcher.js": "console.log(1);\n",
  "apps/page/src/page.tsx": "export const Page = () => (\n  <p>\n    {/* text */}\n    Hello\n  </p>\n);\n",
  "tools/build.ts": "export const built = true; // a comment\n",
  "tools/node_modules/other/index.js": "export const other = 1;\n",
};

const roots: string[] = [];

afterEach(async () => {
  for (const root of roots.splice(0)) await rm(root, { recursive: true });
});

async function repository(written: Files = files): Promise<string> {
  const root = await mkdtemp(join(tmpdir(), "everturn-counts-"));
  roots.push(root);
  for (const [path, text] of Object.entries(written)) {
    await mkdir(dirname(join(root, path)), { recursive: true });
    await writeFile(join(root, path), text);
  }
  return root;
}

describe("counts of a repository", () => {
  test("concepts are counted from their declarations", async () => {
    const { concepts, primitives } = countRepository(await repository());
    expect(Object.fromEntries(concepts.map(({ name, count }) => [name, count]))).toEqual({
      tables: 3,
      "run options": 2,
      "members of Runtime": 3,
      "HTTP operations": 2,
      "concurrency primitives": 1,
      "entry points": 2,
      "public names": 2,
    });
    expect(primitives).toEqual([{ name: "Slots", shares: "requests in progress" }]);
  });

  test("lines are counted by floor, without comments, blank lines, tests and packages", async () => {
    const { floors } = countRepository(await repository());
    expect(floors).toEqual([
      { name: "lib/src/engine", files: 1, lines: 1 },
      { name: "lib/src/http", files: 2, lines: 12 },
      { name: "lib/src/*.ts", files: 1, lines: 1 },
      { name: "lib/src/runtime", files: 4, lines: 13 },
      { name: "apps/page", files: 1, lines: 5 },
      { name: "tools", files: 1, lines: 1 },
    ]);
  });

  test("the same declarations in other folders give the same concepts", async () => {
    const moved = Object.fromEntries(
      Object.entries(files).map(([path, text]) => [
        path.replace("lib/src/runtime/", "lib/src/durable/").replace("lib/src/http/", "lib/src/serve/http/"),
        text.replaceAll("./runtime/index.ts", "./durable/index.ts").replace("./src/runtime/", "./src/durable/"),
      ]),
    );
    const before = countRepository(await repository());
    const after = countRepository(await repository(moved));
    expect(after.concepts).toEqual(before.concepts);
    expect(after.floors.map(({ name }) => name)).toContain("lib/src/serve");
  });

  test("the longest functions have the name of their class, variable or property", async () => {
    const { longestFunctions } = countRepository(await repository());
    expect(longestFunctions).toMatchObject([
      { name: "Page", place: "apps/page/src/page.tsx:1", lines: 5 },
      { name: "more", place: "lib/src/http/routes.ts:3", lines: 4 },
      { name: "Slots.take", place: "lib/src/http/slots.ts:7", lines: 4 },
      { name: "(anonymous)", place: "lib/src/http/slots.ts:8", lines: 1 },
    ]);
  });

  test("functions of core and durable with more than 120 lines or 6 parameters are found", async () => {
    const ofLines = (lines: number) => `() => {\n${"  // A comment.\n  call();\n".repeat(lines - 2)}};\n`;
    const text = [
      `export const long = ${ofLines(121)}`,
      `export const longest = ${ofLines(120)}`,
      "export class Pool {\n  constructor(a, b, c, d, e, f, g) {}\n  take(a, b, c, d, e, f) {}\n}\n",
    ].join("");
    const counts = countRepository(
      await repository({
        ...files,
        "lib/src/core/a.ts": text,
        "lib/src/durable/b.ts": text,
        "lib/src/http/c.ts": text,
      }),
    );
    expect(counts.exceeding.map(({ name, place, lines, parameters }) => [name, place, lines, parameters])).toEqual(
      ["lib/src/core/a.ts", "lib/src/durable/b.ts"].flatMap((path) => [
        ["long", `${path}:1`, 121, 0],
        ["Pool.constructor", `${path}:480`, 1, 7],
      ]),
    );
    expect(formatCounts(counts)).toContain("functions over 120 lines, 6 parameters, or their narrower limits");
    expect(countRepository(await repository()).exceeding).toEqual([]);
  });

  test.each(Object.entries(narrowLimits))("%s has narrower limits, and exists", async (fileAndName, limits) => {
    const [file = "", name = ""] = fileAndName.split(" ");
    const code = await readFile(join(import.meta.dirname, "../..", file), "utf8");
    expect(code).toMatch(new RegExp(`function ${name}\\b`));
    const exceeding = async (lines: number, parameters: number) => {
      const given = "abcdefg".slice(0, parameters).split("").join(", ");
      const text = `export function ${name}(${given}) {\n${"  call();\n".repeat(lines - 2)}}\n`;
      return countRepository(await repository({ ...files, [file]: text })).exceeding.length;
    };
    expect(await exceeding(limits.lines, limits.parameters)).toBe(0);
    expect(await exceeding(limits.lines + 1, limits.parameters)).toBe(1);
    expect(await exceeding(limits.lines, limits.parameters + 1)).toBe(1);
  });

  test("the table is aligned", async () => {
    expect(formatCounts(countRepository(await repository())).split("\n")).toEqual(
      expect.arrayContaining([
        "  tables                  3",
        "  concurrency primitives  1",
        "  Slots  requests in progress",
        "  lib/src/http     12   2 files",
        "  all              33  10 files",
        "  Slots.take   4  lib/src/http/slots.ts:7",
      ]),
    );
  });
});

describe("code that is not understood is an error", () => {
  const cases: readonly (readonly [what: string, changed: Files, message: RegExp])[] = [
    ["no primitive", { "lib/src/http/slots.ts": "export class Slots {}\n" }, /found no concurrency primitives/],
    ["a tag without text", { "lib/src/http/slots.ts": "/** @primitive */\nexport class Slots {}\n" }, /@primitive </],
    [
      "a tag inside a class",
      { "lib/src/engine/a.ts": "class A {\n  /** @primitive x */\n  b = 1;\n}\n" },
      /@primitive </,
    ],
    ["no table of options", { "lib/src/engine/options.ts": "" }, /runOptionTable is declared in 0 files/],
    ["no routes", { "lib/src/http/routes.ts": "" }, /found no HTTP operations/],
    [
      "tables that are computed",
      { "lib/src/runtime/rows/tables.ts": "export const tables = { ...others() };\n" },
      /tables has keys that are not identifiers/,
    ],
    [
      "a mapped type",
      { "lib/src/runtime/runtime.ts": "export type Runtime = { [K in 'a']: K };\n" },
      /members of a TSMappedType are not understood/,
    ],
  ];

  test.each(cases)("%s", async (_, changed, message) => {
    const changedRoot = await repository({ ...files, ...changed });
    expect(() => countRepository(changedRoot)).toThrow(message);
  });
});
