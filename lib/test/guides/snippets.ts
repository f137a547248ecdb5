// The `ts` and `tsx` code blocks of Markdown files and doc comments, as modules, the modules in `html` code blocks, and
// the `sh` code blocks with an output. docs.test.ts runs them, besides those of `html`, which it compiles; the test of
// the packed types compiles the modules.

import type { Dirent } from "node:fs";

import { readdir, readFile } from "node:fs/promises";
import { join, relative } from "node:path";

const root = join(import.meta.dirname, "../../..");

/** A `ts` code block as a module, or an `sh` code block with an output. */
export type Snippet = {
  /** Its file and line. */
  readonly title: string;
  /** The file name, unique among all snippets: `.ts`, `.tsx` or `.sh`. */
  readonly module: string;
  readonly code: string;
  /** What the program prints; `null` for a snippet that is run by its assertions alone. */
  output: string | null;
  /** The module of a page, which is compiled and not run. */
  readonly isPage: boolean;
};

/** The Markdown files, and the sources with doc comments. */
export async function documentedFiles(): Promise<{
  readonly documents: readonly string[];
  readonly sources: readonly string[];
}> {
  const documents = [
    ...[
      "README.md",
      "ARCHITECTURE.md",
      "CONTRIBUTING.md",
      "AGENTS.md",
      "SECURITY.md",
      "CHANGELOG.md",
      "lib/README.md",
      "lib/SKILL.md",
    ].map((name) => join(root, name)),
    // docs/reference repeats the examples of doc comments, which are run from the sources.
    ...(await filesBelow(join(root, "docs"), (name) => name.endsWith(".md"))).filter(
      (path) => !path.startsWith(join(root, "docs/reference/")),
    ),
  ];
  const sources = await filesBelow(
    join(root, "lib/src"),
    (name) => name.endsWith(".ts") && !name.endsWith(".test.ts") && !name.endsWith(".types.ts"),
  );
  return { documents, sources };
}

/** All snippets, in the order of their files. */
export async function readSnippets(): Promise<readonly Snippet[]> {
  const { documents, sources } = await documentedFiles();
  const snippets = await Promise.all([
    ...documents.map((path) => snippetsOf(path, (line) => line)),
    ...sources.map((path) => snippetsOf(path, withoutStar)),
  ]);
  return snippets.flat();
}

/** All files below a folder whose names are wanted, in the order of their paths. */
export async function filesBelow(folder: string, wanted: (name: string) => boolean): Promise<readonly string[]> {
  const entries: readonly Dirent[] = await readdir(folder, { recursive: true, withFileTypes: true });
  return entries
    .filter((entry) => entry.isFile() && wanted(entry.name))
    .map((entry) => join(entry.parentPath, entry.name))
    .sort();
}

/** The code blocks that are neither snippets nor their output, by file and language, with their number. */
export async function otherBlocks(): Promise<ReadonlyMap<string, number>> {
  const { documents } = await documentedFiles();
  const blocks = new Map<string, number>();
  for (const path of documents) {
    let ticks = "";
    for (const line of (await readFile(path, "utf8")).split("\n")) {
      const fence = /^(?<ticks>`{3,})(?<language>[^`]*)$/.exec(line.trimEnd())?.groups;
      if (fence === undefined) continue;
      const { ticks: found = "", language = "" } = fence;
      if (ticks !== "") {
        if (found === ticks && language === "") ticks = "";
        continue;
      }
      ticks = found;
      if (/^(?:tsx?|html|text output)$/.test(language)) continue;
      const block = `${relative(root, path)} ${language}`;
      blocks.set(block, (blocks.get(block) ?? 0) + 1);
    }
  }
  return blocks;
}

async function snippetsOf(path: string, strip: (line: string) => string): Promise<readonly Snippet[]> {
  const name = relative(root, path);
  const found: Snippet[] = [];
  /** The code block before the current one, if it is a shell script. It is a snippet only if its output follows. */
  let shell: Snippet | null = null;
  let open: {
    readonly line: number;
    readonly ticks: string;
    readonly language: string;
    readonly lines: string[];
  } | null = null;
  for (const [index, raw] of (await readFile(path, "utf8")).split("\n").entries()) {
    const line = strip(raw).trimEnd();
    if (open === null) {
      const { ticks, language = "" } = /^(?<ticks>`{3,})(?<language>[^`]*)$/.exec(line)?.groups ?? {};
      if (ticks !== undefined) open = { line: index + 1, ticks, language, lines: [] };
      continue;
    }
    if (line !== open.ticks) {
      open.lines.push(line);
      continue;
    }
    if (open.language === "ts" || open.language === "tsx") {
      const module = `${name.replaceAll(/[^A-Za-z0-9]+/g, "-")}-${open.line}.${open.language}`;
      const code = toModule(open.language === "tsx" ? [...open.lines, ...rendering(open.lines)] : open.lines);
      found.push({ title: `${name}:${open.line}`, module, code, output: null, isPage: false });
    } else if (open.language === "html") {
      const [, script] = /<script type="module">([^]*)<\/script>/.exec(open.lines.join("\n")) ?? [];
      if (script === undefined) throw new Error(`${name}:${open.line} has a page without a module`);
      const module = `${name.replaceAll(/[^A-Za-z0-9]+/g, "-")}-${open.line}.ts`;
      found.push({ title: `${name}:${open.line}`, module, code: script, output: null, isPage: true });
    } else if (open.language === "text output") {
      if (shell !== null) found.push(shell);
      const program = found.at(-1);
      if (program === undefined || program.output !== null) {
        throw new Error(`${name}:${open.line}: an output has to follow the code block of its program`);
      }
      program.output = open.lines.join("\n").trim();
    }
    // Code is never shown as text: every block of code is run.
    if (
      open.language === "text" &&
      open.ticks.length === 3 &&
      open.lines.some((text) => /^(?:import|export|const|await) /.test(text))
    ) {
      throw new Error(`${name}:${open.line} has code in a block of text; make it a block of ts or tsx`);
    }
    const module = `${name.replaceAll(/[^A-Za-z0-9]+/g, "-")}-${open.line}.sh`;
    shell =
      open.language === "sh"
        ? { title: `${name}:${open.line}`, module, code: `${open.lines.join("\n")}\n`, output: null, isPage: false }
        : null;
    open = null;
  }
  if (open !== null) throw new Error(`${name} has a code block that is not closed`);
  return found;
}

/** Statements that render the components of a module. */
function rendering(lines: readonly string[]): readonly string[] {
  const names = lines.flatMap((line) => /^export function (?<name>\w+)/.exec(line)?.groups?.["name"] ?? []);
  if (names.length === 0) throw new Error(`a tsx code block has to export a component: ${lines[0] ?? ""}`);
  return [
    'import { renderToString } from "react-dom/server";',
    ...names.map((name) => `expectEqual(renderToString(<${name} />).startsWith("<"), true);`),
  ];
}

function withoutStar(line: string): string {
  return /^\s*\* ?(?<rest>.*)$/.exec(line)?.groups?.["rest"] ?? "";
}

/** The snippet with its `// =>` comments turned into assertions. */
function toModule(lines: readonly string[]): string {
  const out: string[] = [];
  for (const line of lines) {
    const claim = /^(?<code>.*?)\s*\/\/ => (?<value>.*)$/.exec(line)?.groups;
    if (claim === undefined) {
      out.push(line);
      continue;
    }
    const statement = claim["code"] === "" ? takeStatement(out) : (claim["code"] ?? "");
    out.push(assertion(statement, claim["value"] ?? ""));
  }
  return `import { deepStrictEqual as expectEqual } from "node:assert";\n${out.join("\n")}\nvoid expectEqual;\n`;
}

/**
 * Takes the newest statement off the end of what has been written: the lines back to the one before that ends in `;`.
 */
function takeStatement(out: string[]): string {
  const last = out.findLastIndex((line, index) => index < out.length - 1 && (line === "" || line.endsWith(";")));
  return out.splice(last + 1).join("\n");
}

function assertion(statement: string, value: string): string {
  const declared = /^(?:const|let) (?<name>\w+)/.exec(statement)?.groups?.["name"];
  if (declared !== undefined) return `${statement}\nexpectEqual(${declared}, ${value});`;
  return `expectEqual(${statement.replace(/;$/, "")}, ${value});`;
}
