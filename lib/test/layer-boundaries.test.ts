// The layer boundaries: what each folder of lib/src must not import or call. A file that violates a boundary is added
// to a copy of the sources, and the compiler or the linter of `npm run check` must reject it. The copy without the file
// passes, so the file causes the failure.

import { execFile } from "node:child_process";
import { cp, mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";

import { afterAll, beforeAll, describe, expect, test } from "vitest";

const root = join(import.meta.dirname, "../..");
const bin = (name: string) => join(root, "node_modules", name);
const pureFolders = ["core/model", "core/kernel", "core/wire"];

const exported: { readonly [subpath: string]: { readonly source: string } | string } = JSON.parse(
  await readFile(join(root, "lib/package.json"), "utf8"),
).exports;
const entryPointFiles = Object.values(exported).flatMap((target) =>
  typeof target === "string" ? [] : [join("lib", target.source)],
);

let copy = "";

beforeAll(async () => {
  copy = await mkdtemp(join(tmpdir(), "everturn-boundaries-"));
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
  // The apps are left out: they import the library through its entry points and have dependencies of their own.
  const projects = await readFile(join(root, "tsconfig.json"), "utf8");
  await writeFile(
    join(copy, "tsconfig.json"),
    projects.replaceAll(/^.*"\.\/apps\/.*\n/gm, "").replace(/,(\s*\])/, "$1"),
  );
  // Only the packages that the library may use can be resolved in the copy.
  for (const name of [
    "@cfworker",
    "@jitl",
    "@modelcontextprotocol",
    "@opentelemetry",
    "@restatedev",
    "@tanstack",
    "@types",
    "eventsource-parser",
    "gpt-tokenizer",
    "hono",
    "quickjs-emscripten-core",
    "undici-types",
  ]) {
    await mkdir(join(copy, "node_modules"), { recursive: true });
    await symlink(join(root, "node_modules", name), join(copy, "node_modules", name));
  }
});

afterAll(() => rm(copy, { recursive: true, force: true }));

/** Runs a command in the copy. Returns its output and whether it succeeded. */
function run(script: string, args: readonly string[]): Promise<{ readonly ok: boolean; readonly output: string }> {
  return new Promise((resolve) => {
    execFile(process.execPath, [script, ...args], { cwd: copy }, (error, stdout, stderr) => {
      resolve({ ok: error === null, output: stdout + stderr });
    });
  });
}

/** Compiles one project of the copy and those it refers to; without a folder, all projects. */
const types = (folder?: string) =>
  run(bin("typescript/bin/tsc"), ["-b", ...(folder === undefined ? [] : [join("lib/src", folder)])]);
const lint = () => run(bin("oxlint/bin/oxlint"), ["--deny-warnings", "-f", "unix"]);

type Violation = { readonly folder: string; readonly source: string };

/**
 * Adds all violations to the copy, checks it once, and returns the lines of the output for each violation. One check
 * takes seconds, so the violations of a group share it; each file is reported by its own name.
 */
async function reportsOf(
  violations: readonly Violation[],
  check: () => ReturnType<typeof run>,
): Promise<readonly string[]> {
  const paths = violations.map(({ folder }, index) => join(copy, "lib/src", folder, `violation-${index}.ts`));
  await Promise.all(paths.map((path, index) => writeFile(path, violations[index]?.source ?? "")));
  try {
    const { ok, output } = await check();
    expect(ok).toBe(false);
    const lines = output.split("\n");
    return paths.map((_, index) => lines.filter((line) => line.includes(`violation-${index}.ts`)).join("\n"));
  } finally {
    await Promise.all(paths.map((path) => rm(path)));
  }
}

test("the unchanged sources compile and pass the linter", async () => {
  const built = await types();
  expect(built.output).toBe("");
  expect(built.ok).toBe(true);
  expect(await lint()).toMatchObject({ ok: true });
});

describe.each(pureFolders)("[lash 1] %s", (folder) => {
  const notCompiled = [
    ["an import from a higher folder", 'export { user } from "../index.ts";', /TS6307/],
    ["a Node module", 'export { readFileSync } from "node:fs";', /TS2307|TS2591/],
    ["a package", 'export { test } from "vitest";', /TS2307/],
    ["Node's process", "export const pid = process.pid;", /TS2591.*process/],
    ["Node's Buffer", 'export const bytes = Buffer.from("");', /TS2591.*Buffer/],
    ["the DOM document", "export const title = document.title;", /TS2584.*document/],
    ["fetch", 'export const reply = fetch("/");', /TS2304.*fetch/],
    ["a timer", "export const timer = setTimeout(() => {}, 1);", /TS2304.*setTimeout/],
    ["a text decoder", "export const decoder = new TextDecoder();", /TS2304.*TextDecoder/],
    ["crypto of the platform", "export const id = crypto.randomUUID();", /TS2304.*crypto/],
    ["the console", 'console.log("hello");', /TS2584.*console/],
  ] as const;
  const rejected = [
    ["the clock", "export const now = Date.now();", /no clock/],
    ["a date", "export const today = new Date();", /no clock/],
    [
      "the clock through globalThis",
      'export const now: unknown = Reflect.get(globalThis, "Date");',
      /no ambient state/,
    ],
    ["Math.random", "export const dice = Math.random();", /Math.random/],
    ['Math["random"]', 'export const dice = Math["random"]();', /Math.random/],
    ["destructured Math.random", "export const { random } = Math;", /'Math.random' is restricted/],
  ] as const;
  let compiled: readonly string[] = [];
  let linted: readonly string[] = [];

  beforeAll(async () => {
    compiled = await reportsOf(
      notCompiled.map(([, source]) => ({ folder, source })),
      () => types(folder),
    );
    linted = await reportsOf(
      rejected.map(([, source]) => ({ folder, source })),
      lint,
    );
  });

  test.each(notCompiled.map(([name, , words], index) => ({ name, words, index })))(
    "$name does not compile",
    ({ words, index }) => {
      expect(compiled[index]).toMatch(words);
    },
  );

  test.each(rejected.map(([name, , words], index) => ({ name, words, index })))(
    "$name is rejected by the linter",
    ({ words, index }) => {
      expect(linted[index]).toMatch(words);
    },
  );
});

describe("time outside the pure folders comes from the clock option", () => {
  const rejected = [
    ["core/engine", "the time", "export const now = Date.now();", /'Date'/],
    ["serve/client", "a date", "export const today = new Date();", /'Date'/],
    ["serve/http", "the time through globalThis", "export const now = globalThis.Date.now();", /globalThis\.Date/],
    ["core/run", "performance.now", "export const now = performance.now();", /'performance'/],
    ["serve/client", "a timer", "export const timer = setTimeout(() => {}, 1);", /'setTimeout'/],
    ["serve/http", "an interval", "export const timer = setInterval(() => {}, 1);", /'setInterval'/],
    [
      "durable/drive",
      "globalThis.setTimeout",
      "export const timer = globalThis.setTimeout(() => {}, 1);",
      /'setTimeout'/,
    ],
    [
      "durable/host/sqlite",
      "AbortSignal.timeout",
      "export const signal = AbortSignal.timeout(1);",
      /AbortSignal\.timeout/,
    ],
    ["core/adapters", "node:timers/promises", 'export { setTimeout } from "node:timers/promises";', /timers\/promises/],
    ["testing", "Math.random", "export const dice = Math.random();", /Math\.random/],
  ] as const;
  let linted: readonly string[] = [];

  beforeAll(async () => {
    linted = await reportsOf(
      rejected.map(([folder, , source]) => ({ folder, source })),
      lint,
    );
  });

  test.each(rejected.map(([folder, name, , words], index) => ({ folder, name, words, index })))(
    "$folder: $name is rejected by the linter",
    ({ words, index }) => {
      expect(linted[index]).toMatch(words);
    },
  );
});

/**
 * The floors from below. A project refers to projects of its own floor and of those below. `config` and `testing` stand
 * beside the floors and may use all of them.
 */
const floors = ["core", "durable", "serve", "bridges"];

test("projects refer to their own floor and to those below", async () => {
  const files = await readdir(join(root, "lib/src"), { recursive: true });
  const projects = files.filter((path) => path.endsWith("tsconfig.json"));
  const upwards: string[] = [];
  for (const path of projects) {
    const folder = dirname(path);
    const floor = floors.indexOf(folder.split("/")[0] ?? "");
    if (floor === -1) continue;
    const text = await readFile(join(root, "lib/src", path), "utf8");
    for (const [, target = ""] of text.matchAll(/"path": "([^"]+)"/g)) {
      const used = join(folder, target);
      const usedFloor = floors.indexOf(used.split("/")[0] ?? "");
      if (usedFloor === -1 || usedFloor > floor) upwards.push(`${folder} refers to ${used}`);
    }
  }
  expect(projects.length).toBeGreaterThan(25);
  expect(upwards).toEqual([]);
});

/** Imports that go upwards: from a floor to one above it, and between the folders of the durable floor. */
test.each([
  ["core/run", "the durable floor", 'export { runtime } from "../../durable/internal.ts";'],
  ["core/engine", "a bridge", 'export { quickjs } from "../../bridges/quickjs/index.ts";'],
  ["durable", "the handler", 'export { createHandler } from "../serve/http/internal.ts";'],
  ["durable/rows", "the driver of turns", 'export { admissionOf } from "../drive/admission.ts";'],
  ["durable/rows", "a verb", 'export { accept } from "../accept/accept.ts";'],
  ["durable/read", "the driver of turns", 'export { readOne } from "../drive/context.ts";'],
  ["durable/drive", "a verb", 'export { accept } from "../accept/accept.ts";'],
  ["durable/sessions", "a verb that accepts input", 'export { accept } from "../accept/accept.ts";'],
  ["durable/accept", "the work of a process", 'export { work } from "../work/work.ts";'],
  ["durable/work", "a replay", 'export { replayTurn } from "../replay/replay-turn.ts";'],
  ["durable", "inspection", 'export { inspection } from "../serve/inspect/internal.ts";'],
  ["durable/host/memory", "the runtime", 'export { runtime } from "../../internal.ts";'],
  [
    "core/model",
    "what the server shares with its client",
    'export type { ServerView } from "../../serve/contract/internal.ts";',
  ],
  ["serve/contract", "the handler", 'export { createHandler } from "../http/internal.ts";'],
  ["serve/client", "the runtime", 'export { runtime } from "../../durable/internal.ts";'],
  ["serve/client", "the handler", 'export { createHandler } from "../http/internal.ts";'],
  ["serve/http", "an adapter", 'export { fake } from "../../core/adapters/internal.ts";'],
  ["serve/http", "a host", 'export { sqliteStorage } from "../../durable/host/sqlite/index.ts";'],
  ["serve/http", "a bridge", 'export { mcpTools } from "../../bridges/mcp/index.ts";'],
  ["serve/http", "a dialect", 'export { agUi } from "../dialects/internal.ts";'],
  ["serve/http", "the entry point of its floor", 'export { agUi } from "../index.ts";'],
  ["serve/inspect", "the handler", 'export { createHandler } from "../http/internal.ts";'],
  ["serve/dialects", "an adapter", 'export { fake } from "../../core/adapters/internal.ts";'],
  ["serve/dialects", "the client", 'export { createClient } from "../client/index.ts";'],
  ["serve/http", "a Node module", 'export { createServer } from "node:http";'],
  ["bridges/otel", "the durable floor", 'export { runtime } from "../../durable/internal.ts";'],
])("%s cannot import %s", async (folder, _, source) => {
  const [report] = await reportsOf([{ folder, source }], () => types(folder));
  expect(report).toMatch(/TS(?:6307|2307|2591|6059)/);
});

describe("entry points", () => {
  test.each(["everturn/model", "everturn/model/json", "everturn/dist/model/json.js", "everturn/src/model/json.ts"])(
    "%s cannot be imported",
    async (specifier) => {
      const program = `import(${JSON.stringify(specifier)}).then(() => process.exit(0), (error) => { console.log(error.code); process.exit(1); })`;
      const tried = await runProgram(program);
      expect(tried).toEqual({ ok: false, output: "ERR_PACKAGE_PATH_NOT_EXPORTED\n" });
    },
  );

  test("no exported type has the name of a web global", async () => {
    const texts = await Promise.all(entryPointFiles.map((path) => readFile(join(root, path), "utf8")));
    const exported = texts.flatMap((text) => text.match(/^export (?:type )?\{[^}]*\}/gm) ?? []);
    const names = new Set(exported.flatMap((text) => text.match(/\b[A-Z]\w+\b(?=[,\s}])/g) ?? []));
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
    // `Request` is a global and must be reported, which shows that the check works.
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
