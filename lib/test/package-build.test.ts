// The build of the package (tools/package): entry points, published package.json, and the bundler of declaration files
// on a package of a few files.

import type { Manifest } from "../../tools/package/entry-files.ts";

import { readdirSync, readFileSync } from "node:fs";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";

import { afterAll, beforeAll, describe, expect, test } from "vitest";

import { bundleDeclarations } from "../../tools/package/bundle-declarations.ts";
import { documentFiles, published } from "../../tools/package/documents.ts";
import { entryPoints, inputModules, readManifest, root } from "../../tools/package/entry-files.ts";
import { withInferredTypes } from "../../tools/package/inferred-types.ts";
import { publishedManifest } from "../../tools/package/published-manifest.ts";

const base: Manifest = { name: "everturn", version: "1.0.0", exports: {} };

describe("entry points", () => {
  test("are read from exports of lib/package.json, and the files are named after the subpath", () => {
    const exports = {
      ".": { source: "./src/index.ts", types: "./dist/index.d.ts", default: "./dist/index.js" },
      "./host/x": { source: "./src/host/x/index.ts", types: "./dist/host-x.d.ts", default: "./dist/host-x.js" },
      "./package.json": "./package.json",
    };
    expect(entryPoints({ ...base, exports }).map(({ name, source }) => [name, source])).toEqual([
      ["index", "lib/src/index.ts"],
      ["host-x", "lib/src/host/x/index.ts"],
    ]);
  });

  test("that name a file which the build does not write are an error", () => {
    const target = { source: "./src/mcp/index.ts", types: "./dist/mcp/index.d.ts", default: "./dist/mcp.js" };
    expect(() => entryPoints({ ...base, exports: { "./mcp": target } })).toThrow(
      '"./mcp" must name ./dist/mcp.d.ts and ./dist/mcp.js',
    );
    expect(() => entryPoints({ ...base, exports: { "./mcp": { default: "./dist/mcp.js" } } })).toThrow(
      'no condition "source"',
    );
  });

  test("and programs of the workspace have different names", () => {
    expect(Object.keys(inputModules())).toEqual(
      expect.arrayContaining(["index", "cli", "demo-worker", "sqlite-worker", "cell-worker"]),
    );
  });
});

describe("the README of the package", () => {
  const readme = readFileSync(join(import.meta.dirname, "../README.md"), "utf8");

  test("lists every entry point", () => {
    const table = readme.slice(readme.indexOf("## Entry points"), readme.indexOf("## Documentation"));
    const listed = [...table.matchAll(/^\|(?<cell>[^|]+)\|/gm)].flatMap((row) =>
      [...(row.groups?.["cell"] ?? "").matchAll(/`(?<name>[^`]+)`/g)].map((match) => match.groups?.["name"] ?? ""),
    );
    expect(listed.sort()).toEqual(
      entryPoints()
        .map(({ subpath }) => `everturn${subpath.slice(1)}`)
        .sort(),
    );
  });

  test("names every optional package", () => {
    const optional = Object.keys(readManifest().peerDependencies ?? {});
    expect(optional.filter((name) => !readme.includes(`\`${name}\``))).toEqual([]);
  });

  test("has no links to files that are not published", () => {
    expect(readme.match(/\]\((?!https?:|#)[^)]*\)/g) ?? []).toEqual([]);
  });
});

describe("the documents of the package", () => {
  const files = documentFiles();
  const skill = readFileSync(join(root, "lib/SKILL.md"), "utf8");
  const linksIn = (text: string) =>
    [
      ...text
        .replaceAll(/^```[^]*?^```$/gm, "")
        .replaceAll(/`[^`\n]*`/g, "")
        .matchAll(/\]\((?![a-z]+:)([^)#\s]+)/g),
    ].map(([, target = ""]) => target);

  test("are every guide and a list of them with one line each", () => {
    const guides = readdirSync(join(root, "docs/guide")).filter((name) => name.endsWith(".md"));
    expect(guides.filter((name) => !files.has(`docs/guide/${name}`))).toEqual([]);
    const list = files.get("llms.txt") ?? "";
    const unlisted = guides.filter((name) => name !== "README.md" && !list.includes(`](docs/guide/${name}): `));
    expect(unlisted).toEqual([]);
  });

  test("link to each other only", () => {
    const published = new Set([...files.keys(), "SKILL.md", "README.md"]);
    const texts = new Map([...files, ["SKILL.md", skill]]);
    const links = [...texts].flatMap(([path, text]) => linksIn(text).map((target) => ({ path, target })));
    const broken = links.filter(({ path, target }) => !published.has(join(dirname(path), target)));
    expect(links.length).toBeGreaterThan(100);
    expect(broken).toEqual([]);
  });

  test("keep the text of a link that leaves the package, and do not change code", () => {
    expect(published("See [the types](../reference/README.md#a) and [tools](tools.md#b).\n")).toBe(
      "See the types and [tools](tools.md#b).\n",
    );
    expect(published("```md\n[x](../y.md)\n```\n[x](../y.md)\n")).toBe("```md\n[x](../y.md)\n```\nx\n");
  });

  test("describe the package to agents: a name and a description of at most 1,024 characters", () => {
    const [, name, description = ""] = /^---\nname: ([a-z0-9-]+)\ndescription: (.+)\n---\n/.exec(skill) ?? [];
    expect(name).toBe("everturn");
    expect(description.length).toBeGreaterThan(40);
    expect(description.length).toBeLessThanOrEqual(1024);
  });
});

test("the published package.json has no sources, scripts and development dependencies", () => {
  const manifest = {
    ...base,
    scripts: { prepack: "x" },
    devDependencies: { hono: "4" },
    dependencies: { a: "1" },
    exports: {
      ".": { source: "./src/index.ts", types: "./dist/index.d.ts", default: "./dist/index.js" },
      "./p": "./p",
    },
  };
  expect(publishedManifest(manifest)).toEqual({
    ...base,
    dependencies: { a: "1" },
    exports: { ".": { types: "./dist/index.d.ts", default: "./dist/index.js" }, "./p": "./p" },
  });
});

describe("bundled declarations", () => {
  const files = {
    "index.d.ts": 'export { create } from "./engine/create.ts";\nexport type { Options } from "./engine/create.ts";\n',
    "session.d.ts": 'export { create } from "./session/index.ts";\n',
    "engine/create.d.ts": [
      'import type { Json as Value } from "../model/json.ts";',
      'import { helper } from "./helper.ts";',
      "/** Options of {@link create}. */",
      "export type Options = {",
      "    /** A value. */",
      "    readonly value: Value;",
      "    readonly hidden: Hidden;",
      "};",
      "type Hidden = ReturnType<typeof helper>;",
      "type Unused = string;",
      "/** Creates. */",
      "export declare function create(options: Options): Value;",
      'export declare function create(options: Options, more: import("./helper.ts").More): Value;',
    ].join("\n"),
    "engine/helper.d.ts": [
      "type Hidden = 1;",
      "export declare function helper(): Hidden;",
      "export declare class More {",
      "    #private;",
      "    [Symbol.iterator](): Iterator<Hidden>;",
      "}",
    ].join("\n"),
    "model/json.d.ts": "export type Json = string | readonly Json[];\n",
    "otel/index.d.ts":
      'import type { Tracer as T } from "tracing";\nexport declare function instrument(tracer: T): void;\n',
    "session/index.d.ts":
      'import { create as createEngine } from "../engine/create.ts";\nexport declare function create(engine: typeof createEngine): void;\n',
  };
  let folder = "";

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "declarations-"));
    for (const [path, text] of Object.entries(files)) {
      await mkdir(dirname(join(folder, path)), { recursive: true });
      await writeFile(join(folder, path), text);
    }
  });
  afterAll(() => rm(folder, { recursive: true, force: true }));

  const bundle = () =>
    bundleDeclarations(
      ["index", "session"].map((name) => ({ name, path: join(folder, `${name}.d.ts`) })),
      folder,
    );

  test("are one file for each entry point and each layer", () => {
    expect([...bundle().keys()].sort()).toEqual([
      "index.d.ts",
      "session.d.ts",
      "types/engine.d.ts",
      "types/model.d.ts",
      "types/session.d.ts",
    ]);
    expect(bundle().get("index.d.ts")).toBe('export { create, Options } from "./types/engine.js";\n');
  });

  test("keep doc comments and overloads, and leave out what no entry point needs", () => {
    const engine = bundle().get("types/engine.d.ts");
    expect(engine).toContain("/** Options of {@link create}. */\ntype Options = {\n\t/** A value. */\n");
    expect(engine).toContain(
      "/** Creates. */\ndeclare function create(options: Options): Json;\ndeclare function create(",
    );
    expect(engine).toContain("more: More): Json;");
    expect(engine).not.toContain("Unused");
  });

  test("import from other layers, and number a private name that two files of a layer declare", () => {
    const engine = bundle().get("types/engine.d.ts");
    expect(engine).toMatch(/^import \{ Json \} from "\.\/model\.js";\n/);
    expect(engine).toContain("type Hidden = ReturnType<typeof helper>;");
    expect(engine).toContain("type Hidden2 = 1;");
    expect(engine).toContain("declare function helper(): Hidden2;");
    expect(engine).toContain("[Symbol.iterator](): Iterator<Hidden2>;");
  });

  test("alias an imported name that the layer declares itself", () => {
    expect(bundle().get("types/session.d.ts")).toBe(
      'import { create as create2 } from "./engine.js";\ndeclare function create(engine: typeof create2): void;\nexport { create };\n',
    );
  });

  test("import the types of a package that users install, and of no other", () => {
    const entry = { name: "otel", path: join(folder, "otel/index.d.ts") };
    expect(bundleDeclarations([entry], folder, ["tracing"]).get("types/otel.d.ts")).toBe(
      'import type { Tracer as T } from "tracing";\ndeclare function instrument(tracer: T): void;\nexport { instrument };\n',
    );
    expect(() => bundleDeclarations([entry], folder)).toThrow('the public types refer to "tracing"');
  });
});

describe("types that are inferred from tables of fields", () => {
  const imports = 'import type { Infer, InferUnion, Part, PresentField, OptionalField, WordOf } from "./shape.ts";\n';

  test("are written out with the doc comments of the fields", () => {
    const emitted = [
      "declare const partFields: {",
      "    /** The text. */",
      "    text: PresentField<string>;",
      "    part?: never;",
      "};",
      "export type Part = Infer<typeof partFields>;",
    ];
    expect(() => withInferredTypes(imports + emitted.join("\n"), "part.d.ts")).toThrow(
      "part.d.ts: part?: never; is not a field",
    );
    const text = withInferredTypes(
      imports + emitted.join("\n").replace("part?: never", 'others: OptionalField<import("./part.ts").Part>'),
      "part.d.ts",
    );
    expect(text).toContain(
      'export type Part = {\n    /** The text. */\n    readonly text: string;\n    readonly others?: import("./part.ts").Part;\n};',
    );
  });

  test("of open objects have their declared fields as optional ones", () => {
    const emitted = [
      "declare const options: {",
      "    /** A limit. */",
      "    limit: Shape<number | null>;",
      "};",
      "export type Options = JsonObject & InferSome<typeof options>;",
    ];
    expect(withInferredTypes(imports + emitted.join("\n"), "options.d.ts")).toContain(
      "export type Options = JsonObject & {\n    /** A limit. */\n    readonly limit?: number | null;\n};",
    );
  });

  test("of unions are the list of the members, also behind other members", () => {
    const emitted = [
      "declare const cases: {",
      "    /** No more. */",
      "    end: {};",
      "    delta: {",
      "        text: PresentField<string>;",
      "    };",
      "};",
      'export type Event = InferUnion<"type", typeof cases>;',
      'export type More = Event | InferUnion<"type", typeof cases>;',
    ];
    const text = withInferredTypes(imports + emitted.join("\n"), "event.d.ts").replaceAll(/\s+/g, " ");
    const members = '/** No more. */ BAR{ readonly type: "end"; } | { readonly type: "delta"; readonly text: string; }';
    expect(text).toContain(`export type Event = ${members.replace("BAR", "| ")}`);
    expect(text).toContain(`export type More = Event | ${members.replace("BAR", "")}`);
  });

  test("of lists of words are the words", () => {
    const emitted =
      'export declare const words: readonly ["on", "off"];\nexport type Word = WordOf<typeof words>;\nexport type Other = WordOf<typeof others>;';
    expect(() => withInferredTypes(imports + emitted, "words.d.ts")).toThrow(
      "words.d.ts: others is not declared in this file",
    );
    expect(withInferredTypes(imports + emitted.replace("typeof others", "typeof words"), "words.d.ts")).toContain(
      'export type Word = "on" | "off";',
    );
  });
});
