// The public surface: how many names each entry point exports, that each has one meaning, and that each is documented.

import { readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";

import { describe, expect, test } from "vitest";

import { entryPoints, exportedNames, importedFiles, sourceFiles } from "../../tools/counts/public-names.ts";

const sources = entryPoints();
const surface = new Map([...sources].map(([path, file]) => [path, exportedNames(file)]));
const names = new Set([...surface.values()].flatMap((exported) => [...exported.keys()]));

describe("public names", () => {
  test("each entry point exports the recorded number of names", () => {
    expect(Object.fromEntries([...surface].map(([path, exported]) => [path, exported.size]))).toEqual({
      ".": 132,
      "./runtime": 26,
      "./sqlite": 6,
      "./postgres": 6,
      "./http": 26,
      "./client": 32,
      "./react": 19,
      "./studio": 1,
      "./middleware": 39,
      "./testing": 28,
      "./config": 5,
      "./mcp": 14,
      "./ai-sdk": 7,
      "./otel": 4,
      "./restate": 15,
      "./quickjs": 1,
      "./gpt-tokenizer": 1,
      "./advanced": 319,
    });
    expect(names.size).toBe(661);
    // A name that two entry points export counts once.
    const outside = [...surface].flatMap(([path, exported]) => (path === "./advanced" ? [] : [...exported.keys()]));
    expect(new Set(outside).size).toBe(349);
  });

  test("no name of everturn is in everturn/advanced, too", () => {
    const main = surface.get(".") ?? new Map();
    expect([...(surface.get("./advanced")?.keys() ?? [])].filter((name) => main.has(name))).toEqual([]);
  });

  test("names are listed one by one: in the entry point, or in the index.ts or advanced.ts of a layer that it takes", () => {
    const lists = [...sources.values()].flatMap((file) => {
      const taken = [...readFileSync(file, "utf8").matchAll(/^export \* from "(.+)";$/gm)].map(([, path = ""]) => path);
      return [file, ...taken.map((path) => join(dirname(file), path))];
    });
    const wholesale = lists.filter((file) => /^export \*/m.test(readFileSync(file, "utf8")));
    expect(wholesale.map((file) => relative(join(import.meta.dirname, "../src"), file))).toEqual([
      "core/index.ts",
      "advanced/index.ts",
    ]);
    expect(lists.filter((file) => !/\/(?:index|advanced)\.ts$/.test(file))).toEqual([]);
  });

  test("a name that two entry points export is the same declaration", () => {
    const meanings = new Map<string, Set<string>>();
    for (const exported of surface.values()) {
      for (const [name, declared] of exported) {
        const places = meanings.get(name) ?? new Set();
        meanings.set(name, places.add(`${declared.file}: ${declared.name}`));
      }
    }
    const ambiguous = [...meanings].filter(([, places]) => places.size > 1);
    expect(ambiguous.map(([name, places]) => [name, ...places])).toEqual([]);
  });
});

describe("imports between the folders of lib/src", () => {
  /** Entry points that collect the public names of several folders. */
  const collecting = [
    "core/index.ts",
    "durable/index.ts",
    "serve/index.ts",
    "bridges/middleware/index.ts",
    "advanced/index.ts",
  ];
  /**
   * Small internal files beside internal.ts, whose headers say why they are separate, and the folders `clock` and
   * `fair`, which have no internal.ts.
   */
  const alsoInternal = [
    "core/model/parse/reading.ts",
    "durable/rows/internal.ts",
    "core/clock/clock.ts",
    "core/clock/timer.ts",
    "core/fair/fair-share.ts",
    "core/fair/fair-ticks.ts",
  ];

  test("go through the other folder's internal.ts", () => {
    const around = sourceFiles()
      .filter((file) => !collecting.includes(file) && !file.endsWith(".test.ts"))
      .flatMap((file) => importedFiles(file).map((imported) => ({ file, imported })))
      .filter(({ file, imported }) => layerOf(file) !== layerOf(imported))
      .filter(({ imported }) => !imported.endsWith("/internal.ts") && !alsoInternal.includes(imported));
    expect(around.map(({ file, imported }) => `${file} imports ${imported}`)).toEqual([]);
  });
});

/**
 * The folder of a floor that a file is in. The folders of the runtime are one here: they import each other's files
 * directly, and their projects (tsconfig.json) say which may import which.
 */
function layerOf(file: string): string {
  const [floor = "", folder = ""] = file.split("/");
  const isOfRuntime = floor === "durable" && folder !== "host" && folder !== "restate";
  const isBeside = floor === "config" || floor === "testing";
  return isOfRuntime || isBeside ? floor : `${floor}/${folder}`;
}

describe.each([...surface])("everturn at %s", (_, exported) => {
  test("documents every name it exports", () => {
    const undocumented = [...exported].filter(([, { doc }]) => doc === null || doc.length < 20);
    expect(undocumented.map(([name, { file }]) => `${name} (${file})`)).toEqual([]);
  });
});
