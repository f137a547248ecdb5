// Documentation that runs. Every `ts` code block in a Markdown file or a doc comment becomes a module of its own, is
// type-checked as a user's program would be, and is executed. A comment `// => value` after a statement, or on the line
// after it, is its assertion.
//
// A `tsx` code block exports components, which are rendered once.
//
// A `ts` code block that a `text output` code block follows is a program with a real adapter. It runs in a process of
// its own, in an empty folder, against a provider on the loopback interface (guides/provider.ts), and has to print that
// output and end by itself. guides/replies.ts has what the provider replies to it. An `sh` code block with such an
// output is a program too; `npx everturn` in it runs the built command.
//
// The module of a page (`html`) is type-checked and not run.

import type { PostgresServer } from "./postgres-server.ts";

import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join, relative, resolve } from "node:path";
import { promisify } from "node:util";

import { transform } from "rolldown/utils";
import { afterAll, beforeAll, describe, expect, test } from "vitest";

import { LoopbackProvider } from "./guides/provider.ts";
import { replies } from "./guides/replies.ts";
import { documentedFiles, filesBelow, otherBlocks, readSnippets } from "./guides/snippets.ts";
import { startPostgres } from "./postgres-server.ts";

const root = join(import.meta.dirname, "../..");
const workplace = join(root, "lib/.snippets/docs");

/**
 * Known defects: programs whose requests a provider refuses. An entry that is no longer refused fails its test and has
 * to be removed.
 */
const acceptedUntilFixed: { readonly [program: string]: readonly string[] } = {};

const { documents, sources } = await documentedFiles();
const snippets = await readSnippets();
const programs = snippets.filter(({ output }) => output !== null);
const provider = new LoopbackProvider();
let postgres: PostgresServer;

afterAll(async () => {
  await provider.close();
  await postgres.close();
});

beforeAll(async () => {
  await provider.listen();
  postgres = await startPostgres();
  await rm(workplace, { recursive: true, force: true });
  await mkdir(workplace, { recursive: true });
  await Promise.all(snippets.map(({ module, code }) => writeFile(join(workplace, module), code)));
  const transpiled = programs.filter(({ module }) => module.endsWith(".ts"));
  await Promise.all(transpiled.map(({ module, code }) => writeJavaScript(module, code)));
  await writeJavaScript("redirect.ts", await readFile(join(import.meta.dirname, "guides/redirect.ts"), "utf8"));
  const options = { noUnusedLocals: false, jsx: "react-jsx" };
  const page = snippets
    .filter(({ code, isPage }) => isPage || code.includes('"everturn/react"'))
    .map(({ module }) => module);
  const config = { extends: "../../../tsconfig.test.json", compilerOptions: options };
  const projects = {
    "tsconfig.json": { ...config, include: ["*.ts", "*.tsx"], exclude: page },
    // Components use the DOM.
    "tsconfig.page.json": {
      ...config,
      include: page,
      compilerOptions: { ...options, lib: ["ES2023", "DOM", "DOM.Iterable"] },
    },
  };
  for (const [name, project] of Object.entries(projects)) {
    await writeFile(join(workplace, name), JSON.stringify(project));
  }
}, 60_000);

test("there are snippets, in Markdown and in doc comments", () => {
  expect(snippets.filter(({ title }) => title.includes(".md:")).length).toBeGreaterThan(3);
  expect(snippets.filter(({ title }) => title.includes(".ts:")).length).toBeGreaterThan(10);
});

test("examples in Markdown name values by the words of the glossary: agent, sessions, host", () => {
  const markdown = snippets.filter(({ title }) => /\.md:/.test(title));
  const namesOf = (declaration: RegExp) =>
    new Set(markdown.flatMap(({ code }) => [...code.matchAll(declaration)].map(({ groups }) => groups?.["name"])));
  // An agent may have the name of its role, but `assistant` is the constructor of messages.
  expect([...namesOf(/const (?<name>\w+) = (?:engine|withMcp)\(/g)]).not.toContain("assistant");
  // Two processes or two applications need two names.
  const processes = ["first", "second", "web", "worker", "hotel", "payments"];
  const runtimes = [...namesOf(/const (?<name>\w+) = runtime\(/g)].filter((name) => !processes.includes(name ?? ""));
  expect(runtimes).toEqual(["sessions"]);
  const withRuntime = markdown.filter(({ code }) => code.includes("runtime({"));
  const storages = withRuntime.flatMap(({ code }) => [
    ...code.matchAll(/const (?<name>\w+) = (?:sqlite|postgres|memory)Storage\(/g),
  ]);
  expect(new Set(storages.map(({ groups }) => groups?.["name"]))).toEqual(new Set(["host"]));
});

test("every other code block is checked by another test, or is no code", async () => {
  const shell = [...(await otherBlocks())].filter(([block]) => / (?:sh|bash)$/.test(block));
  // apps/cli/test/documented-commands.test.ts parses the commands.
  expect(shell.length).toBeGreaterThan(10);
  const others = [...(await otherBlocks())].filter((block) => !shell.some(([name]) => name === block[0]));
  expect(Object.fromEntries(others)).toEqual({
    // Diagrams.
    "ARCHITECTURE.md text": 2,
    "docs/guide/human-approval.md text": 1,
    "docs/guide/security.md text": 1,
    // What commands print, with ids and times that differ from run to run.
    "docs/guide/cli.md text": 3,
    "docs/guide/deploying.md text": 1,
    "docs/guide/operators.md text": 1,
    // What `everturn serve` prints, and the configuration of nginx.
    "docs/guide/studio.md text": 2,
    // The reply of a model, to the program before it.
    "docs/guide/code-protocol.md text": 1,
    // Read as a configuration by apps/cli/test/documented-commands.test.ts.
    "docs/guide/mcp.md json": 1,
    // The older system from which Everturn was built.
    "docs/coming-from-allm-and-lash.md elixir": 1,
  });
});

test("every @example holds a snippet", async () => {
  const texts = await Promise.all(sources.map((path) => readFile(path, "utf8")));
  const examples = texts.reduce((sum, text) => sum + (text.match(/\* @example$/gm)?.length ?? 0), 0);
  expect(snippets.filter(({ title }) => title.includes(".ts:"))).toHaveLength(examples);
});

test.each(["tsconfig.json", "tsconfig.page.json"])("every snippet type-checks (%s)", async (project) => {
  const tsc = join(root, "node_modules/typescript/bin/tsc");
  const checked = promisify(execFile)(process.execPath, [tsc, "-p", join(workplace, project)], { cwd: workplace });
  const output = await checked.then(
    () => "",
    (error: { readonly stdout: string }) => error.stdout,
  );
  expect(output).toBe("");
});

describe("every snippet runs and does what it says", () => {
  test.each(snippets.filter(({ output, isPage }) => output === null && !isPage))("$title", async ({ module }) => {
    await import(/* @vite-ignore */ join(workplace, module));
  });
});

// A program is a process of its own, which takes seconds on a busy machine.
describe("every program of a guide prints what the guide says", { timeout: 120_000 }, () => {
  test.each(programs)("$title", async ({ title, module, output }) => {
    const document = title.replace(/:\d+$/, "");
    const number = programs
      .filter((program) => program.title.startsWith(`${document}:`))
      .findIndex((program) => program.title === title);
    const name = document.replace(/^docs\/guide\//, "").replace(/\.md$/, "");
    const script = replies[name]?.[number];
    if (script === undefined) throw new Error(`guides/replies.ts has no replies for program ${number} of ${name}`);
    const program = `${name.replaceAll("/", "-")}-${number}`;
    const known = acceptedUntilFixed[program] ?? [];
    const { stdout, stderr } = await runProgram(module, provider.address(program, script, known));
    const refused = new Set(provider.refusals(program).map(({ rule }) => rule));
    expect([...refused], "rules of the providers that the requests violate").toEqual(known);
    expect(stdout.trim(), stderr).toBe(output);
    expect(provider.unused(program), "replies that the program did not request").toEqual([]);
  });
});

test("every relative link leads to a file and, with an anchor, to a heading of it", async () => {
  // Pages of the reference are targets only: `npm run check:reference` says whether they are up to date.
  const reference = await filesBelow(join(root, "docs/reference"), (name) => name.endsWith(".md"));
  const read = async (path: string) => [path, await readFile(path, "utf8")] as const;
  const texts = new Map(await Promise.all([...documents, ...reference].map(read)));
  const anchors = new Map([...texts].map(([path, text]) => [path, anchorsOf(text)]));
  const links = documents.flatMap((path) => linksIn(texts.get(path) ?? "").map((link) => ({ path, link })));
  const broken = links.filter(({ path, link }) => {
    const [file = "", anchor] = link.split("#");
    const target = file === "" ? path : resolve(dirname(path), file);
    return !existsSync(target) || (anchor !== undefined && anchors.get(target)?.has(anchor) === false);
  });
  expect(links.length).toBeGreaterThan(100);
  expect(broken.map(({ path, link }) => `${relative(root, path)}: ${link}`)).toEqual([]);
});

test("every rule that is cited by its number is in docs/rules.md", async () => {
  const rules = await readFile(join(root, "docs/rules.md"), "utf8");
  const known = new Set([...rules.matchAll(/\*\*([KWERSHQ]\d+)\*\*/g)].map((match) => match[1]));
  const texts = await Promise.all([...sources, ...documents.slice(0, 3)].map((path) => readFile(path, "utf8")));
  const cited = new Set(
    texts.flatMap((text) => [...text.matchAll(/\b([KWERSHQ]\d{1,2})\b(?=[),:]| )/g)].map((match) => match[1])),
  );
  expect(cited.size).toBeGreaterThan(5);
  expect([...cited].filter((rule) => !known.has(rule))).toEqual([]);
});

/** The targets of relative Markdown links. Code blocks and code spans are left out. */
function linksIn(text: string): readonly string[] {
  return [
    ...withoutCodeBlocks(text)
      .replaceAll(/`[^`\n]*`/g, "")
      .matchAll(/\]\(([^)\s]+)\)/g),
  ]
    .map((match) => match[1] ?? "")
    .filter((target) => !/^[a-z]+:/.test(target));
}

/**
 * The anchors that GitHub gives to headings: lower case, without punctuation, numbered from the second of the same text
 * on.
 */
function anchorsOf(text: string): ReadonlySet<string> {
  const anchors = new Set<string>();
  for (const [, heading = ""] of withoutCodeBlocks(text).matchAll(/^#{1,6} (.+)$/gm)) {
    const plain = heading
      .replaceAll(/\[([^\]]*)\]\([^)]*\)/g, "$1")
      .trim()
      .toLowerCase();
    const slug = plain.replaceAll(/[^\p{L}\p{N}\s_-]/gu, "").replaceAll(/\s/g, "-");
    let anchor = slug;
    for (let count = 1; anchors.has(anchor); count += 1) anchor = `${slug}-${count}`;
    anchors.add(anchor);
  }
  return anchors;
}

function withoutCodeBlocks(text: string): string {
  return text.replaceAll(/^(`{3,})[^`]*?\n[^]*?^\1$/gm, "");
}

/**
 * Writes the JavaScript of a program. All programs are transpiled in this process: a loader in each of theirs would
 * take longer than the program.
 */
async function writeJavaScript(module: string, code: string): Promise<void> {
  await writeFile(javaScriptOf(module), (await transform(module, code)).code);
}

function javaScriptOf(module: string): string {
  return join(workplace, module.replace(/\.ts$/, ".mjs"));
}

async function runProgram(
  module: string,
  address: string,
): Promise<{ readonly stdout: string; readonly stderr: string }> {
  const folder = await mkdtemp(join(tmpdir(), "everturn-guide-"));
  const keys = { OPENAI_API_KEY: "sk-1", ANTHROPIC_API_KEY: "sk-2", GEMINI_API_KEY: "sk-3" };
  const env = {
    ...process.env,
    NODE_OPTIONS: "",
    PORT: "0",
    ...keys,
    EVERTURN_GUIDE_PROVIDER: address,
    DATABASE_URL: postgres.url(),
  };
  const options = { cwd: folder, env, timeout: 100_000 };
  try {
    if (!module.endsWith(".sh")) {
      const args = ["--import", javaScriptOf("redirect.ts"), javaScriptOf(module)];
      return await promisify(execFile)(process.execPath, args, options);
    }
    const command = [process.execPath, join(root, "lib/bin/everturn.js")];
    await writeFile(join(folder, "npx"), `#!/bin/sh\nshift\nexec ${command.join(" ")} "$@"\n`, { mode: 0o755 });
    const path = `${folder}:${process.env["PATH"] ?? ""}`;
    const commandEnv = {
      PATH: path,
      ANTHROPIC_API_KEY: "", // The command uses the first provider whose key is set.
      GEMINI_API_KEY: "",
      EVERTURN_DATABASE: join(folder, "sessions.db"),
      OPENAI_BASE_URL: `${address}/v1`,
    };
    const running = promisify(execFile)("sh", ["-e", join(workplace, module)], {
      ...options,
      env: { ...env, ...commandEnv },
    });
    running.child.stdin?.end(); // The command reads piped input to its end.
    return await running;
  } finally {
    await rm(folder, { recursive: true });
  }
}
