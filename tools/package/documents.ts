// The documents in the package: the guides, without links to files that are not published, and `llms.txt`, the list of
// them with one line each. The build writes them; lib/SKILL.md is written by hand.

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

import { root } from "./entry-files.ts";

const guides = join(root, "docs/guide");

/** The files, by path relative to lib. */
export function documentFiles(): ReadonlyMap<string, string> {
  const names = readdirSync(guides).filter((name) => name.endsWith(".md"));
  const texts = names.map(
    (name) => [`docs/guide/${name}`, published(readFileSync(join(guides, name), "utf8"))] as const,
  );
  return new Map([...texts, ["llms.txt", guideList(readFileSync(join(guides, "README.md"), "utf8"))]]);
}

/**
 * A guide with links to other guides only, and tables without padding. Of other links the text stays. Code is not
 * changed.
 */
export function published(text: string): string {
  const parts = text.split(/^(```[^]*?^```$)/m);
  return parts.map((part) => (part.startsWith("```") ? part : withoutPadding(withoutLinks(part)))).join("");
}

function withoutLinks(text: string): string {
  return text
    .replaceAll(/!\[[^\]]*\]\((?![a-z]+:)[^)\s]+\)\n*/g, "")
    .replaceAll(/\[([^\]]*)\]\((?![a-z]+:|#|[\w-]+\.md(?:#[\w-]*)?\))[^)\s]+\)/g, "$1");
}

/** Rows of tables without the spaces and dashes that align their columns: a twelfth of the size. */
function withoutPadding(text: string): string {
  return text.replaceAll(/^\|.*\|$/gm, (row) => row.replaceAll(/ {2,}\|/g, " |").replaceAll(/-{4,}/g, "---"));
}

/** `llms.txt` from the table of the index of the guides: a guide that the index leaves out is an error. */
function guideList(index: string): string {
  const rows = [...index.matchAll(/^\| \[(?<title>[^\]]+)\]\((?<file>[\w-]+\.md)\) *\| (?<use>.+?) *\|$/gm)];
  const lines = rows.map(
    ({ groups: { title = "", file = "", use = "" } = {} }) => `- [${title}](docs/guide/${file}): ${use}`,
  );
  return [
    "# Everturn",
    "",
    "> LLM turns that survive crashes: provider-neutral calls, a tool loop, streaming, human approval, durable sessions.",
    "",
    "[SKILL.md](SKILL.md) says how to use the package, for coding agents. [README.md](README.md) lists the entry points. The types in `dist/*.d.ts` have the documentation of every public name.",
    "",
    "## Guides",
    "",
    ...lines,
    "",
  ].join("\n");
}
