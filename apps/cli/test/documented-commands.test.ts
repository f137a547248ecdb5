// The commands in documents: every line of a shell block, and every command in a code span. Commands of `everturn` are
// parsed by the program and their flags are read as settings, without running them; `npm run` names a script of the
// repository or of a template, `npm install` packages that the repository knows, and `curl` an operation of the API.

import type { Command } from "commander";

import { readFileSync } from "node:fs";
import { mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";

import { loadSettings } from "@everturn/server";
import { engine, fake } from "everturn";
import { createHandler } from "everturn/http";
import { memoryStorage, runtime } from "everturn/runtime";
import { afterAll, beforeAll, describe, expect, test } from "vitest";

import { createContext } from "../src/commands/context.ts";
import { templates } from "../src/commands/templates.ts";
import { createProgram } from "../src/program.ts";
import { createPlace } from "./harness.ts";

const root = join(import.meta.dirname, "../../..");

type Line = {
  /** The file and the line. */
  readonly at: string;
  readonly words: readonly string[];
  /** A code span: it may name a command without its arguments. */
  readonly isSpan: boolean;
};

const lines = await documentedCommands();
let folder = "";

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "everturn-documented-"));
});
afterAll(() => rm(folder, { recursive: true }));

test("there are commands of every kind", () => {
  const kinds = ["everturn", "npm", "curl"].map((name) => lines.filter(({ words }) => words[0] === name).length);
  expect(kinds.map((count) => count > 2)).toEqual([true, true, true]);
});

test("every line of a shell block begins with a known program", () => {
  const programs = new Set(["everturn", "npm", "curl", "export", "echo", "cd", "git", "jq", "apt-get", "./deploy.sh"]);
  expect(lines.filter(({ words }) => !programs.has(words[0] ?? "")).map(({ at, words }) => [at, ...words])).toEqual([]);
});

describe("everturn accepts", () => {
  test.each(lines.filter(({ words }) => words[0] === "everturn"))("$words ($at)", async ({ words, isSpan }) => {
    const refused = await refusal(words.slice(1));
    if (isSpan && refused?.includes("missing required argument") === true) return;
    expect(refused).toBeNull();
  });

  test.each([
    [["sevre"], /unknown command 'sevre'/],
    [["serve", "--prot", "1"], /unknown option '--prot'/],
    [["serve", "--port", "1e9"], /--port/],
    [["show"], /missing required argument/],
  ] as const)("not %s", async (words, text) => {
    expect(await refusal(words)).toMatch(text);
  });
});

/** What the program says about a command line; `null`: it would run it. */
async function refusal(words: readonly string[]): Promise<string | null> {
  let refused = "";
  const output = { isTerminal: false, columns: 80, write: (text: string) => void (refused += text) };
  const io = {
    environment: { HOME: folder, XDG_DATA_HOME: folder, XDG_CONFIG_HOME: folder, EVERTURN_TOKEN: "x".repeat(32) },
    folder,
    stdin: async () => "",
    stdout: output,
    stderr: output,
    onInterrupt: () => () => undefined,
    onTerminate: () => () => undefined,
    confirm: null,
    openBrowser: () => undefined,
    exit: () => undefined,
  };
  const program = createProgram(io, () => undefined);
  const commands: Command[] = [program];
  for (const command of commands) commands.push(...command.commands);
  for (const command of commands.slice(1)) {
    command.action(async () => {
      const options: { readonly [name: string]: unknown } = command.optsWithGlobals();
      await createContext(io, { options, config: false, color: false }).settings();
    });
  }
  try {
    await program.parseAsync(words, { from: "user" });
    return null;
  } catch (error) {
    const isHelp = error instanceof Error && "exitCode" in error && error.exitCode === 0;
    return isHelp ? null : `${String(error)} ${refused}`;
  }
}

describe("npm", () => {
  const scripts = new Set<string>();
  const packages = new Set<string>(["everturn"]);

  beforeAll(async () => {
    const place = createPlace();
    const manifests = ["package.json", "lib/package.json", "tools/test/clients/package.json"].map((path) =>
      join(root, path),
    );
    for (const template of templates) {
      expect(await place.run(["init", template, "--template", template])).toMatchObject({ code: 0 });
      manifests.push(join(place.folder, template, "package.json"));
    }
    for (const path of manifests) {
      const manifest: { readonly [field: string]: { readonly [name: string]: string } | undefined } = JSON.parse(
        readFileSync(path, "utf8"),
      );
      for (const name of Object.keys(manifest["scripts"] ?? {})) scripts.add(name);
      for (const field of ["dependencies", "devDependencies", "peerDependencies"]) {
        for (const name of Object.keys(manifest[field] ?? {})) packages.add(name);
      }
    }
    const lock: { readonly packages: { readonly [path: string]: unknown } } = JSON.parse(
      readFileSync(join(root, "package-lock.json"), "utf8"),
    );
    place.remove();
    for (const path of Object.keys(lock.packages)) packages.add(path.replace(/^.*node_modules\//, ""));
  });

  test.each(lines.filter(({ words }) => words[0] === "npm"))("$words ($at)", ({ words }) => {
    const [, verb = "", ...rest] = words;
    const names = rest.filter((word) => !word.startsWith("-"));
    if (verb === "run") expect(scripts).toContain(names[0]);
    else if (verb === "start" || verb === "test") expect(scripts).toContain(verb);
    else if (verb === "install" || verb === "i") {
      const registry = names.filter((name) => !name.endsWith(".tgz")).map((name) => name.replace(/(?<=.)@.*$/, ""));
      expect(registry.filter((name) => !packages.has(name))).toEqual([]);
    } else expect(["ci", "create", "init", "pack", "pkg"]).toContain(verb);
  });
});

describe("the API has the operation of", () => {
  let operations: readonly string[] = [];

  beforeAll(async () => {
    const sessions = runtime({
      host: memoryStorage(),
      engines: { default: engine({ adapter: fake({ script: [] }) }) },
    });
    const handler = createHandler({ sessions, auth: "none" });
    const response = await handler(new Request("http://localhost/openapi.json"));
    const { paths }: { readonly paths: { readonly [path: string]: object } } = JSON.parse(await response.text());
    operations = Object.entries(paths).flatMap(([path, methods]) =>
      Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`),
    );
    await sessions.close();
  });

  test.each(lines.filter(({ words }) => words[0] === "curl"))("$words ($at)", ({ words }) => {
    const method = words[words.indexOf("-X") + 1 || words.length] ?? (words.includes("-d") ? "POST" : "GET");
    const address = words.find((word) => /^(?:https?:\/\/)?[\w.]+:\d+\//.test(word)) ?? "";
    const path = address.replace(/^(?:https?:\/\/)?[^/]+/, "").replace(/\?.*$/, "");
    const matches = operations.filter((operation) =>
      new RegExp(`^${operation.replaceAll(/\{\w+\}/g, "[^/]+").replaceAll(".", "\\.")}$`).test(`${method} ${path}`),
    );
    expect(matches).not.toEqual([]);
  });
});

test("the configuration in the guide of MCP is accepted", async () => {
  const [, json] = /^```json\n([^]*?)^```$/m.exec(readFileSync(join(root, "docs/guide/mcp.md"), "utf8")) ?? [];
  await writeFile(join(folder, "everturn.config.json"), json ?? "");
  const environment = { HOME: folder, TICKETS_TOKEN: "secret" };
  const { program } = await loadSettings({ environment, folder, config: "everturn.config.json" });
  expect(program.mcpServers).toMatchObject({ files: {}, tickets: {} });
});

/** The commands of the documents that readers get: those of the repository, the guides and the templates. */
async function documentedCommands(): Promise<readonly Line[]> {
  const files = [
    "README.md",
    "CONTRIBUTING.md",
    "AGENTS.md",
    "SECURITY.md",
    "lib/README.md",
    "lib/SKILL.md",
    ...(await markdownBelow("docs")).filter((path) => !/^docs\/(?:reference|decisions|code-map)\b/.test(path)),
    ...(await markdownBelow("lib/templates")),
    ...(await markdownBelow("examples")),
  ];
  return files.flatMap((file) => {
    const found: Line[] = [];
    let language: string | null = null;
    let continued = "";
    for (const [index, text] of readFileSync(join(root, file), "utf8").split("\n").entries()) {
      const at = `${file}:${index + 1}`;
      const fence = /^\s*(?<ticks>`{3,})(?<language>\S*)/.exec(text)?.groups;
      if (fence !== undefined) language = language === null ? (fence["language"] ?? "") : null;
      else if (language === "sh" || language === "bash") {
        continued += text.endsWith("\\") ? `${text.slice(0, -1)} ` : text;
        if (text.endsWith("\\")) continue;
        found.push(...commandsOf(continued).map((words) => ({ at, words, isSpan: false })));
        continued = "";
      } else if (language === null) {
        const spans = [...text.matchAll(/`(?<code>(?:npx )?everturn [a-z-][^`]*|npm (?:run|ci|start|test)\b[^`]*)`/g)];
        const commands = spans.flatMap((span) => commandsOf((span.groups?.["code"] ?? "").replaceAll("\\|", "/")));
        // An ellipsis stands for arguments.
        const named = commands.map((words) => (words.includes("…") ? words.slice(0, words.indexOf("…")) : words));
        found.push(...named.map((words) => ({ at, words, isSpan: true })));
      }
    }
    return found;
  });
}

async function markdownBelow(path: string): Promise<readonly string[]> {
  const entries = await readdir(join(root, path), { recursive: true, withFileTypes: true });
  return entries
    .filter((entry) => entry.isFile() && entry.name.endsWith(".md") && !entry.parentPath.includes("node_modules"))
    .map((entry) => relative(root, join(entry.parentPath, entry.name)));
}

/** The words of each command of a line of a shell: quotes, `$(…)`, comments, pipes, lists and redirections. */
function commandsOf(line: string): readonly (readonly string[])[] {
  const tokens = line.matchAll(
    /(?<space>\s+)|(?<comment>(?<=^|\s)#.*$)|(?<operator>\|\||&&|[|;&]|>>?\s*\S+|<\s*\S+)|'(?<single>[^']*)'|"(?<double>(?:\\.|[^"\\])*)"|(?<substitution>\$\([^)]*\))|(?<bare>[^\s'"|;&<>]+)/g,
  );
  const commands: string[][] = [[]];
  let isNewWord = true;
  for (const { groups = {} } of tokens) {
    const text = groups["single"] ?? groups["double"] ?? groups["substitution"] ?? groups["bare"];
    const words = commands.at(-1) ?? [];
    if (text === undefined) {
      isNewWord = true;
      if (groups["operator"] !== undefined && !/^[<>]/.test(groups["operator"])) commands.push([]);
    } else if (isNewWord) {
      words.push(text);
      isNewWord = false;
    } else words.push(`${words.pop() ?? ""}${text}`);
  }
  return commands
    .map((words) => (words[0] === "npx" ? words.slice(1) : words))
    .map((words) => words.slice(words.findIndex((word) => !/^[A-Z_]+=/.test(word))))
    .filter((words) => words.length > 0);
}
