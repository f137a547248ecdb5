// The source maps of the package, in an application outside of the workspace: stack traces of a failing tool name
// TypeScript lines, and a debugger that steps into the library stops at a TypeScript line. The maps of the studio,
// which is minified, are checked by their content.

import type { SourceMapSegment } from "@jridgewell/sourcemap-codec";
import type { SourceMapPayload } from "node:module";

import { execFileSync } from "node:child_process";
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { SourceMap } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";

import { decode, encode } from "@jridgewell/sourcemap-codec";
import { afterAll, beforeAll, describe, expect, test } from "vitest";

import { readManifest, root } from "../../tools/package/entry-files.ts";
import { publishedManifest } from "../../tools/package/published-manifest.ts";
import { publishedMap } from "../../tools/package/source-maps.ts";

const library = join(import.meta.dirname, "..");
const project = mkdtempSync(join(tmpdir(), "everturn-maps-"));
const installed = join(project, "node_modules/everturn");

beforeAll(() => {
  mkdirSync(installed, { recursive: true });
  cpSync(join(library, "dist"), join(installed, "dist"), { recursive: true });
  for (const name of Object.keys(readManifest().dependencies ?? {})) {
    mkdirSync(dirname(join(project, "node_modules", name)), { recursive: true });
    symlinkSync(join(root, "node_modules", name), join(project, "node_modules", name), "junction");
  }
  writeFileSync(join(installed, "package.json"), JSON.stringify(publishedManifest(readManifest())));
});
afterAll(() => rmSync(project, { recursive: true, force: true }));

/** Runs a program in the project, and returns what it prints. */
function run(program: string, ...flags: readonly string[]): string {
  const path = join(project, "app.mjs");
  writeFileSync(path, program);
  return execFileSync(process.execPath, [...flags, path], { cwd: project, encoding: "utf8" });
}

type Program = {
  readonly name: string;
  readonly folder: string;
  readonly hasText: boolean;
  readonly leastSources: number;
  readonly leastTexts: number;
};

/** The file of the repository that a map names as a source. */
function sourceFile(source: string): string {
  return join(source.startsWith("../src/") ? library : root, source.slice("../".length));
}

describe.each<Program>([
  {
    name: "library and the command",
    folder: join(library, "dist"),
    hasText: true,
    leastSources: 300,
    leastTexts: 300,
  },
  { name: "studio", folder: join(library, "studio/assets"), hasText: false, leastSources: 100, leastTexts: 30 },
])("the published maps of the $name", ({ folder, hasText, leastSources, leastTexts }) => {
  // Files that only re-export have no map.
  const isReExport = (name: string) =>
    /^(?:(?:import|export) [^;]*;\s*)*$/.test(readFileSync(join(folder, name), "utf8"));
  const code = readdirSync(folder).filter((name) => name.endsWith(".js") && !isReExport(name));
  type PublishedMap = Omit<SourceMapPayload, "sourcesContent"> & Partial<Pick<SourceMapPayload, "sourcesContent">>;
  const mapOf = (name: string): PublishedMap => JSON.parse(readFileSync(join(folder, `${name}.map`), "utf8"));

  test(`name our sources ${hasText ? "and contain them as they are in the repository" : "without their text"}, and no others`, () => {
    const contents = new Map<string, string | undefined>();
    for (const { sources, sourcesContent } of code.map(mapOf))
      sources.forEach((source, index) => contents.set(source, sourcesContent?.[index]));

    expect(contents.size).toBeGreaterThan(leastSources);
    for (const [source, text] of contents) {
      expect(source).toMatch(/^\.\.\/(?:src|apps)\//);
      const written = readFileSync(sourceFile(source), "utf8");
      expect(text, source).toBe(hasText ? written : undefined);
    }
  });

  test("are named by their files of code", () => {
    for (const name of code) {
      const text = readFileSync(join(folder, name), "utf8");
      expect(text.trimEnd().endsWith(`//# sourceMappingURL=${name}.map`), name).toBe(true);
    }
  });

  test("lead from a text in the code to the line of the source that contains it", () => {
    // Literals that occur once in the code and once in its sources.
    let found = 0;
    for (const name of code) {
      const map = mapOf(name);
      const positions = new SourceMap({ ...map, sourcesContent: [] });
      const lines = readFileSync(join(folder, name), "utf8").split("\n");
      const sources = new Map(
        map.sources.map((source) => [source, readFileSync(sourceFile(source), "utf8").split("\n")]),
      );
      for (const literal of literalsOf(lines)) {
        const places = [...sources].flatMap(([source, texts]) =>
          texts.flatMap((text, line) => (text.includes(literal.text) ? [{ text, place: `${source}:${line}` }] : [])),
        );
        const [origin] = places;
        // The bundler moves the text of a constant to the line of its use, and the map names that line.
        if (origin === undefined || places.length > 1 || /\bconst \w+ =/.test(origin.text)) continue;
        const entry = positions.findEntry(literal.line, literal.column);
        if (!("originalSource" in entry)) throw new Error(`${name}: no source of ${literal.text}`);
        expect(`${entry.originalSource}:${entry.originalLine}`, literal.text).toBe(origin.place);
        found += 1;
      }
    }
    expect(found).toBeGreaterThan(leastTexts);
  });
});

type Literal = { readonly text: string; readonly line: number; readonly column: number };

/** The literals of three and more words that occur once. `text` has no quotes: the minifier changes them. */
function literalsOf(lines: readonly string[]): readonly Literal[] {
  const literals = new Map<string, Literal | null>();
  lines.forEach((content, line) => {
    for (const match of content.matchAll(/(?<=(?<quote>["`]))[a-z]+(?: [a-z]+){2,}(?=\k<quote>)/g)) {
      const [text] = match;
      // The position of the quote: the mapping of a literal begins there.
      literals.set(text, literals.has(text) ? null : { text, line, column: match.index - 1 });
    }
  });
  return [...literals.values()].filter((literal) => literal !== null);
}

describe("a published map", () => {
  // Two lines of code: of a package, of us (three segments of one line, two of them with names, and one of the next),
  // and of the package again.
  const segments: SourceMapSegment[][] = [
    [
      [0, 0, 7, 0],
      [10, 1, 3, 0, 1],
      [14, 1, 3, 8, 0],
      [16, 1, 3, 9],
      [20, 1, 4, 0],
      [30, 0, 8, 0],
      [34, 0, 9, 0],
    ],
    [[2, 1, 4, 2]],
  ];
  const map = {
    version: 3,
    file: "x.js",
    names: ["second", "first"],
    sources: ["../node_modules/a/index.js", "../apps/studio/src/b.ts"],
    sourcesContent: ["a", "b"],
    mappings: encode(segments),
  };
  const published = ({ isMinified }: { readonly isMinified: boolean }) => {
    const { mappings, ...fields }: SourceMapPayload = JSON.parse(publishedMap(map, isMinified));
    return { fields, segments: decode(mappings) };
  };

  test("leads from the code of bundled packages to no source, and from ours to each line and name", () => {
    expect(published({ isMinified: true })).toEqual({
      fields: {
        version: 3,
        file: "x.js",
        names: ["first", "second"],
        sources: ["../apps/studio/src/b.ts"],
      },
      segments: [[[10, 0, 3, 0, 0], [14, 0, 3, 8, 1], [20, 0, 4, 0], [30]], [[2, 0, 4, 2]]],
    });
  });

  test("of the studio has no sources of the library, whose own maps have them", () => {
    const ofLibrary = { ...map, sources: ["../node_modules/a/index.js", "../src/b.ts"] };
    const sourcesOf = (isMinified: boolean): readonly string[] =>
      JSON.parse(publishedMap(ofLibrary, isMinified)).sources;
    expect(sourcesOf(true)).toEqual([]);
    expect(sourcesOf(false)).toEqual(["../src/b.ts"]);
  });

  test("of code that is not minified leads to each line, and has no names", () => {
    expect(published({ isMinified: false })).toEqual({
      fields: { version: 3, file: "x.js", names: [], sources: ["../apps/studio/src/b.ts"], sourcesContent: ["b"] },
      segments: [[[10, 0, 3, 0], [20, 0, 4, 0], [30]], [[2, 0, 4, 2]]],
    });
  });
});

const failingTool = `
  import { chat, engine, fake, tool } from "everturn";
  const broken = tool({
    name: "broken",
    description: "Fails.",
    schema: { type: "object" },
    handler: () => {
      Error.stackTraceLimit = 30;
      const error = new Error("the disk is full");
      console.log(error.stack);
      throw error;
    },
  });
  const scripts = [[{ type: "tool_call", name: "broken", arguments: {} }], [{ type: "text", text: "sorry" }]];
  await chat(engine({ adapter: fake({ scripts }), model: "fake:m", tools: [broken] }), "Write the file.");
`;

describe("the stack trace of a failing tool", () => {
  /** The frames inside the package: path relative to it, and line. */
  const framesIn = (stack: string) =>
    [...stack.matchAll(/node_modules\/everturn\/(?<path>\S+?):(?<line>\d+):\d+/g)].map(({ groups }) => ({
      path: groups?.["path"] ?? "",
      line: Number(groups?.["line"]),
    }));

  test("names lines of our TypeScript sources with --enable-source-maps", () => {
    const stack = run(failingTool, "--enable-source-maps");
    const frames = framesIn(stack);

    expect(stack).toContain("Error: the disk is full");
    expect(frames.length).toBeGreaterThan(2);
    for (const { path, line } of frames) {
      expect(path).toMatch(/^src\/.+\.ts$/);
      expect(existsSync(join(library, path)), path).toBe(true);
      expect(readFileSync(join(library, path), "utf8").split("\n")[line - 1]?.trim(), `${path}:${line}`).toMatch(/\w/);
    }
    const [first] = frames;
    const text = readFileSync(join(library, first?.path ?? ""), "utf8").split("\n")[(first?.line ?? 0) - 1];
    expect(text).toMatch(/handler|run\w*\(/);
  });

  test("names functions and files of the package without a flag", () => {
    const stack = run(failingTool);

    expect(framesIn(stack).every(({ path }) => path.startsWith("dist/"))).toBe(true);
    expect(stack).toMatch(/at (?:async )?\w+\.?#?\w* .*node_modules\/everturn\/dist\//);
  });
});

test("a debugger that steps into a function of the library stops at its TypeScript line", () => {
  // The worker is the debugger: it steps over `debugger`, then into the call, and resolves the position with the map of
  // the file.
  const program = `
    import { readFileSync } from "node:fs";
    import { SourceMap } from "node:module";
    import { fileURLToPath } from "node:url";
    import { isMainThread, Worker } from "node:worker_threads";
    import { Session } from "node:inspector";
    import { textPart } from "everturn";

    if (isMainThread) {
      const worker = new Worker(new URL(import.meta.url));
      await new Promise((resolve) => worker.once("message", resolve));
      debugger;
      textPart("hello");
      worker.postMessage("end");
    } else {
      const { parentPort } = await import("node:worker_threads");
      const session = new Session();
      session.connectToMainThread();
      const scripts = new Map();
      session.on("Debugger.scriptParsed", ({ params }) => scripts.set(params.scriptId, params));
      let steps = 0;
      session.on("Debugger.paused", ({ params }) => {
        const { location } = params.callFrames[0];
        const { url, sourceMapURL } = scripts.get(location.scriptId);
        steps += 1;
        if (!url.includes("/everturn/dist/") && steps < 10) return session.post("Debugger.stepInto");
        const map = JSON.parse(readFileSync(fileURLToPath(new URL(sourceMapURL, url)), "utf8"));
        const entry = new SourceMap(map).findEntry(location.lineNumber, location.columnNumber);
        const source = map.sources.find((name) => entry.originalSource.endsWith(name.replace("../", "")));
        const text = map.sourcesContent[map.sources.indexOf(source)].split("\\n")[entry.originalLine];
        console.log(JSON.stringify({ source, text: text.trim() }));
        session.post("Debugger.resume");
        session.post("Debugger.disable");
      });
      session.post("Debugger.enable", () => parentPort.postMessage("ready"));
      parentPort.once("message", () => session.disconnect());
    }
  `;
  expect(JSON.parse(run(program))).toEqual({
    source: "../src/core/model/message/part.ts",
    text: expect.stringContaining('construct("textPart", textPartShape'),
  });
}, 20_000);
