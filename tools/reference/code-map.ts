// The code map: the source files by folder, each with the first sentence of its first comment, and the folders that
// each folder may import.

import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";

type SourceFile = {
  readonly path: string;
  /** `null` if the file does not begin with a comment. */
  readonly sentence: string | null;
};

const folders = ["lib/src", "apps/server/src", "apps/cli/src", "apps/studio/src", "tools", "bench"];

const head = `# Code map

\`npm run docs:reference\` generates this page from the first comment of each source file and from the \`tsconfig.json\` of each folder. [ARCHITECTURE.md](../ARCHITECTURE.md) says how the parts work together, [rules.md](rules.md) what must hold.
`;

/** The text of docs/code-map.md, and the files that do not begin with a comment. */
export function renderCodeMap(root: string): { readonly text: string; readonly uncommented: readonly string[] } {
  const files = sourcePaths(root).map((path): SourceFile => ({ path, sentence: firstSentence(root, path) }));
  const members = new Map<string, SourceFile[]>();
  for (const file of files) {
    const folder = dirname(file.path);
    members.set(folder, [...(members.get(folder) ?? []), file]);
  }
  const sections = [...members].map(([folder, inFolder]) => renderFolder(root, folder, inFolder));
  return {
    text: [head, ...sections].join("\n"),
    uncommented: files.filter(({ sentence }) => sentence === null).map(({ path }) => path),
  };
}

function sourcePaths(root: string): readonly string[] {
  return folders
    .flatMap((folder) =>
      readdirSync(join(root, folder), { recursive: true, encoding: "utf8" }).map((path) => join(folder, path)),
    )
    .filter((path) => /(?<!\.test)\.tsx?$/.test(path) && !path.includes("node_modules"))
    .sort((one, other) => compare(dirname(one), dirname(other)) || compare(one, other));
}

function renderFolder(root: string, folder: string, files: readonly SourceFile[]): string {
  const imports = mayImport(root, folder);
  const lines = [
    `## \`${folder}/\``,
    "",
    ...(imports === null ? [] : [`May import: ${imports.length === 0 ? "no other folder" : imports.join(", ")}.`, ""]),
    ...files.map(({ path, sentence }) => `- \`${relative(folder, path)}\`: ${sentence ?? ""}`),
    "",
  ];
  return lines.join("\n");
}

/** The folders that the project of this folder refers to; `null` if the folder is no project of its own. */
function mayImport(root: string, folder: string): readonly string[] | null {
  const path = join(root, folder, "tsconfig.json");
  if (!existsSync(path)) return null;
  return [...readFileSync(path, "utf8").matchAll(/\{ "path": "(?<path>[^"]+)" \}/g)].map((match) => {
    const referred = join(folder, match.groups?.["path"] ?? "");
    return `\`${relative("lib/src", referred)}\``;
  });
}

/** The first sentence of the first paragraph, without a list that follows it. */
function firstSentence(root: string, path: string): string | null {
  const paragraph = /^(?:#!.*\n)?(?<lines>(?:\/\/ (?![ -]).*\n)+)/.exec(readFileSync(join(root, path), "utf8"));
  if (paragraph === null) return null;
  const text =
    paragraph.groups?.["lines"]
      ?.replaceAll(/^\/\/ /gm, "")
      .trim()
      .replaceAll("\n", " ") ?? "";
  return (/^.*?(?:[.](?=\s[A-Z`"(]|$)|:(?=\s[A-Z(]|$))/.exec(text)?.[0] ?? text).replace(/:$/, ".");
}

function compare(one: string, other: string): number {
  return one < other ? -1 : one > other ? 1 : 0;
}
