// The fences around the pure folders, tried from the inside: a copy of the sources gets an intruder, and the commands behind
// `npm run check` have to turn it away. Without the intruder the same copy passes, so each failure is the intruder's.

import { execFile } from "node:child_process";
import { cp, mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { afterAll, beforeAll, describe, expect, test } from "vitest";

const root = join(import.meta.dirname, "../..");
const bin = (name: string) => join(root, "node_modules", name);
const pureFolders = (await readdir(join(root, "lib/src"))).filter((name) => ["model", "kernel", "wire"].includes(name));

const exported: { readonly [door: string]: { readonly source: string } | string } = JSON.parse(
  await readFile(join(root, "lib/package.json"), "utf8"),
).exports;
const doorFiles = Object.values(exported).flatMap((door) =>
  typeof door === "string" ? [] : [join("lib", door.source)],
);

let copy = "";

beforeAll(async () => {
  copy = await mkdtemp(join(tmpdir(), "everturn-fences-"));
  for (const name of [
    "lib/src",
    "lib/package.json",
    "package.json",
    "tsconfig.base.json",
    ".oxlintrc.json",
    ".gitignore",
  ]) {
    await cp(join(root, name), join(copy, name), { recursive: true });
  }
  // The apps are outside: they use the library by its doors, and have dependencies of their own.
  const projects = await readFile(join(root, "tsconfig.json"), "utf8");
  await writeFile(
    join(copy, "tsconfig.json"),
    projects.replaceAll(/^.*"\.\/apps\/.*\n/gm, "").replace(/,(\s*\])/, "$1"),
  );
  // Only what the library may use is there to be found.
  for (const name of [
    "@cfworker",
    "@jitl",
    "@types",
    "eventsource-parser",
    "hono",
    "quickjs-emscripten-core",
    "undici-types",
  ]) {
    await mkdir(join(copy, "node_modules"), { recursive: true });
    await symlink(join(root, "node_modules", name), join(copy, "node_modules", name));
  }
});

afterAll(() => rm(copy, { recursive: true, force: true }));

/** What a command printed, and whether it was content. */
function run(script: string, args: readonly string[]): Promise<{ readonly ok: boolean; readonly output: string }> {
  return new Promise((resolve) => {
    execFile(process.execPath, [script, ...args], { cwd: copy }, (error, stdout, stderr) => {
      resolve({ ok: error === null, output: stdout + stderr });
    });
  });
}

const types = () => run(bin("typescript/bin/tsc"), ["-b"]);
const lint = () => run(bin("oxlint/bin/oxlint"), ["--deny-warnings", "-f", "unix"]);

async function withIntruder<T>(folder: string, source: string, check: () => Promise<T>): Promise<T> {
  const path = join(copy, "lib/src", folder, "intruder.ts");
  await writeFile(path, source);
  try {
    return await check();
  } finally {
    await rm(path);
  }
}

test("the house as it is passes", async () => {
  const built = await types();
  expect(built.output).toBe("");
  expect(built.ok).toBe(true);
  expect(await lint()).toMatchObject({ ok: true });
});

describe.each(pureFolders)("[lash 1] %s", (folder) => {
  test.each([
    ["an import from above", 'export { user } from "../index.ts";', /TS6307/],
    ["a module of Node", 'export { readFileSync } from "node:fs";', /TS2307|TS2591/],
    ["a package", 'export { test } from "vitest";', /TS2307/],
    ["Node's process", "export const pid = process.pid;", /TS2591.*process/],
    ["Node's Buffer", 'export const bytes = Buffer.from("");', /TS2591.*Buffer/],
    ["the document of a page", "export const title = document.title;", /TS2584.*document/],
    ["fetch", 'export const reply = fetch("/");', /TS2304.*fetch/],
    ["a timer", "export const timer = setTimeout(() => {}, 1);", /TS2304.*setTimeout/],
    ["a text decoder", "export const decoder = new TextDecoder();", /TS2304.*TextDecoder/],
    ["randomness of the platform", "export const id = crypto.randomUUID();", /TS2304.*crypto/],
    ["the console", 'console.log("hello");', /TS2584.*console/],
  ])("%s does not compile", async (_, source, words) => {
    const checked = await withIntruder(folder, source, types);
    expect(checked.ok).toBe(false);
    expect(checked.output).toMatch(/intruder\.ts/);
    expect(checked.output).toMatch(words);
  });

  test.each([
    ["the clock", "export const now = Date.now();", /no clock/],
    ["a date", "export const today = new Date();", /no clock/],
    ["the clock by a detour", 'export const now: unknown = Reflect.get(globalThis, "Date");', /nothing ambient/],
    ["dice", "export const dice = Math.random();", /Math.random/],
    ["dice in brackets", 'export const dice = Math["random"]();', /Math.random/],
    ["dice taken out", "export const { random } = Math;", /'Math.random' is restricted/],
  ])("%s does not pass the linter", async (_, source, words) => {
    const checked = await withIntruder(folder, source, lint);
    expect(checked.ok).toBe(false);
    expect(checked.output).toMatch(/intruder\.ts/);
    expect(checked.output).toMatch(words);
  });
});

describe("time outside the pure folders comes from a clock that is passed in", () => {
  test.each([
    ["engine", "the time", "export const now = Date.now();", /'Date'/],
    ["client", "a date", "export const today = new Date();", /'Date'/],
    ["http", "the time by way of the global object", "export const now = globalThis.Date.now();", /globalThis\.Date/],
    ["run", "a stopwatch", "export const now = performance.now();", /'performance'/],
    ["client", "a timer", "export const timer = setTimeout(() => {}, 1);", /'setTimeout'/],
    ["http", "an interval", "export const timer = setInterval(() => {}, 1);", /'setInterval'/],
    [
      "runtime",
      "a timer of the global object",
      "export const timer = globalThis.setTimeout(() => {}, 1);",
      /'setTimeout'/,
    ],
    ["host/sqlite", "a signal with a timer", "export const signal = AbortSignal.timeout(1);", /AbortSignal\.timeout/],
    ["adapters", "a timer of Node", 'export { setTimeout } from "node:timers/promises";', /timers\/promises/],
    ["testing", "randomness", "export const dice = Math.random();", /Math\.random/],
  ])("%s: %s does not pass the linter", async (folder, _, source, words) => {
    const checked = await withIntruder(folder, source, lint);
    expect(checked.ok).toBe(false);
    expect(checked.output).toMatch(/intruder\.ts/);
    expect(checked.output).toMatch(words);
  });
});

test.each([
  ["client", "the runtime", 'export { runtime } from "../runtime/internal.ts";'],
  ["client", "the handler", 'export { createHandler } from "../http/index.ts";'],
  ["http", "an adapter", 'export { fake } from "../adapters/internal.ts";'],
  ["http", "a host", 'export { memoryStorage } from "../host/memory/index.ts";'],
  ["http", "a module of Node", 'export { createServer } from "node:http";'],
  ["runtime", "the handler", 'export { createHandler } from "../http/index.ts";'],
])("%s does not get to %s", async (folder, _, source) => {
  const checked = await withIntruder(folder, source, types);
  expect(checked.ok).toBe(false);
  expect(checked.output).toMatch(/intruder\.ts.*TS(?:6307|2307|2591|6059)/);
});

describe("the doors", () => {
  test.each(["everturn/model/json", "everturn/dist/model/json.js", "everturn/src/model/json.ts"])(
    "%s is not one of them",
    async (specifier) => {
      const program = `import(${JSON.stringify(specifier)}).then(() => process.exit(0), (error) => { console.log(error.code); process.exit(1); })`;
      const tried = await runProgram(program);
      expect(tried).toEqual({ ok: false, output: "ERR_PACKAGE_PATH_NOT_EXPORTED\n" });
    },
  );

  test("no type they show has the name of a web global", async () => {
    const doors = await Promise.all(doorFiles.map((path) => readFile(join(root, path), "utf8")));
    const names = new Set(doors.flatMap((door) => door.match(/\b[A-Z]\w+\b(?=[,\s}])/g) ?? []));
    expect(names.size).toBeGreaterThan(100);
    const folder = join(copy, "globals");
    await mkdir(folder, { recursive: true });
    const lines = ["Request", ...names].map((name, index) => `export type n${index} = ${name};`);
    await writeFile(join(folder, "names.ts"), lines.join("\n"));
    const options = { noEmit: true, strict: true, target: "ES2023", lib: ["ES2023", "DOM"], types: [] };
    await writeFile(join(folder, "tsconfig.json"), JSON.stringify({ compilerOptions: options, include: ["*.ts"] }));
    const { output } = await run(bin("typescript/bin/tsc"), ["-p", folder]);
    const unknown = new Set(
      [...output.matchAll(/names\.ts\((\d+),\d+\): error TS(?:2304|2552)/g)].map((match) => Number(match[1])),
    );
    const globals = lines.flatMap((line, index) => (unknown.has(index + 1) ? [] : [line.replace(/^.* = /, "")]));
    // `Request` is there to show that a global would be seen.
    expect(globals).toEqual(["Request;"]);
  });
});

function runProgram(program: string): Promise<{ readonly ok: boolean; readonly output: string }> {
  return new Promise((resolve) => {
    execFile(process.execPath, ["--input-type=module", "-e", program], { cwd: join(root, "lib") }, (error, stdout) => {
      resolve({ ok: error === null, output: stdout });
    });
  });
}
