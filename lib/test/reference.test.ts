// The generator of docs/reference, on a package of three declaration files.

import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";

import { afterAll, beforeAll, describe, expect, test } from "vitest";

import { entryPoints } from "../../tools/reference/declarations.ts";
import { renderReference } from "../../tools/reference/render.ts";

const files = {
  "package.json": JSON.stringify({
    exports: {
      ".": { source: "./src/index.ts" },
      "./more": { source: "./src/more.ts" },
      "./package.json": "./package.json",
    },
  }),
  "src/index.ts": "// Entry point `everturn`: what most programs need.\n",
  "src/more.ts": "// Entry point `everturn/more`: all names.\n",
  "build/index.d.ts": 'export type { Options } from "./things.ts";\nexport { options } from "./things.ts";\n',
  "build/more.d.ts": 'export { Box, Outcome, bare, type Options } from "./things.ts";\n',
  "build/things.d.ts": [
    "/** Options of {@link options}. `retry` is optional. */",
    "export type Options = {",
    "    /** Milliseconds. Default: 500. */",
    "    readonly delayMs: number;",
    "    readonly retry?: Hidden;",
    "};",
    "/** A type that no entry point exports. */",
    "type Hidden = {",
    "    /** Attempts in total. */",
    "    readonly attempts: number;",
    "};",
    "/**",
    " * Checks options.",
    " *",
    " * @example",
    " * ```ts",
    ' * import { options } from "everturn";',
    " * ```",
    " */",
    "export declare function options(given: Options): Options;",
    "/** States how a run has ended. */",
    "export type Outcome = ",
    "/** The model answered. */",
    "{",
    '    readonly type: "answer";',
    "    readonly text: string;",
    "}",
    "/** A limit was reached. */",
    " | {",
    '    readonly type: "limit";',
    "};",
    "/** A class with a private member. */",
    "export declare class Box {",
    "    #private;",
    "    /** The value in the box. */",
    "    get value(): string;",
    "}",
    "export declare const bare: number;",
    "",
  ].join("\n"),
};

let folder = "";
let pages: Awaited<ReturnType<typeof renderReference>>["pages"] = [];
let index = "";
let defaults = "";
let report = "";

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "everturn-reference-"));
  for (const [name, text] of Object.entries(files)) {
    await mkdir(dirname(join(folder, name)), { recursive: true });
    await writeFile(join(folder, name), text);
  }
  ({ pages, index, defaults, report } = await renderReference(entryPoints(folder)));
});

afterAll(() => rm(folder, { recursive: true }));

describe("a page of the reference", () => {
  const page = (file: string) => pages.find((each) => each.file === file)?.text ?? "";

  test("has the purpose of the entry point and a line for each of its names", () => {
    expect(page("everturn.md")).toContain("# `everturn`\n\nWhat most programs need.");
    expect(page("everturn.md")).toContain("| [`options`](#options) | function | Checks options. |");
    expect(index).toContain("| [`everturn/more`](everturn-more.md) | All names. | 4 |");
  });

  test("shows the signature without comments and the documented fields in a table", () => {
    expect(page("everturn.md")).toContain(
      "```ts\ntype Options = {\n  readonly delayMs: number;\n  readonly retry?: Hidden;\n};\n```",
    );
    expect(page("everturn.md")).toContain("| `delayMs` | Milliseconds. Default: 500. |");
  });

  test("lists the options that have a default on a page of its own", () => {
    expect(defaults).toContain("| [`Options`](everturn.md#options-1) | `delayMs` | Default: 500. |");
    expect(defaults).not.toContain("`attempts`");
  });

  test("gives headings that differ in case different anchors, and links to them", () => {
    expect(page("everturn.md")).toContain("Options of [`options`](#options).");
    expect(page("everturn.md")).toContain("| [`Options`](#options-1) | type |");
  });

  test("documents a name once and links to it from the other entry points", () => {
    expect(page("everturn-more.md")).toContain("| [`Options`](everturn.md#options-1) | type |");
    expect(page("everturn-more.md")).not.toContain("### Options");
  });

  test("lists types that are mentioned and not exported", () => {
    expect(page("everturn.md")).toMatch(/## Supporting types[^]*### Hidden[^]*\| `attempts` \| Attempts in total\. \|/);
  });

  test("describes the variants of a union and leaves private members out", () => {
    expect(page("everturn-more.md")).toContain('| `"answer"` | The model answered. |');
    expect(page("everturn-more.md")).toContain('| `"limit"` | A limit was reached. |');
    expect(page("everturn-more.md")).toContain("class Box {\n  get value(): string;\n}");
  });

  test("keeps examples", () => {
    expect(page("everturn.md")).toContain('Example:\n\n```ts\nimport { options } from "everturn";\n```');
  });
});

test("a public name without a doc comment is counted", () => {
  expect(pages.map(({ counts }) => counts.undocumented)).toEqual([[], ["bare"]]);
});

test("the report has every signature once, with those of types that are only mentioned, and no comments", () => {
  expect(report).toContain("// everturn: 2 names\n");
  expect(report.match(/^type Options = /gm)).toHaveLength(1);
  expect(report).toContain("type Hidden = {\n  readonly attempts: number;\n};");
  expect(report).toContain("function options(given: Options): Options;");
  expect(report).not.toContain("/**");
});
