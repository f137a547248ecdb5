// The source maps of the package, in an application outside of the workspace: stack traces of a failing tool name TypeScript lines, and a debugger that steps into
// the library stops at a TypeScript line.

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
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";

import { afterAll, beforeAll, describe, expect, test } from "vitest";

import { readManifest, root } from "../../tools/package/entry-files.ts";
import { publishedManifest } from "../../tools/package/published-manifest.ts";

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

type SourceMap = { readonly sources: readonly string[]; readonly sourcesContent: readonly (string | null)[] };

describe("the published maps", () => {
  const folder = join(library, "dist");
  const maps = readdirSync(folder).filter((name) => name.endsWith(".js.map"));

  test("contain the sources of the library as they are in the repository", () => {
    const contents = new Map<string, string | null>();
    for (const name of maps) {
      const { sources, sourcesContent }: SourceMap = JSON.parse(readFileSync(join(folder, name), "utf8"));
      sources.forEach((source, index) => contents.set(source, sourcesContent[index] ?? null));
    }
    const own = [...contents].filter(([source]) => source.startsWith("../src/"));

    expect(own.length).toBeGreaterThan(300);
    for (const [source, text] of own) expect(text, source).toBe(readFileSync(join(folder, source), "utf8"));
  });

  test("belong to a file of code each, which names its map", () => {
    for (const name of maps) {
      const code = readFileSync(join(folder, name.replace(/\.map$/, "")), "utf8");
      expect(code.trimEnd().endsWith(`//# sourceMappingURL=${name}`), name).toBe(true);
    }
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
  // The worker is the debugger: it steps over `debugger`, then into the call, and resolves the position with the map of the file.
  const program = `
    import { readFileSync } from "node:fs";
    import { SourceMap } from "node:module";
    import { fileURLToPath } from "node:url";
    import { isMainThread, Worker } from "node:worker_threads";
    import { Session } from "node:inspector";
    import { textPart } from "everturn/model";

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
