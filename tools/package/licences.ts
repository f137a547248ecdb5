// The licence texts of the packages whose files are in a bundle.

import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";

/**
 * The text of the file with the licences. Packages whose licences differ in their copyright notices only are listed
 * together, with all notices above the common text. `modules`: absolute paths of the files in the bundle; those outside
 * of node_modules are ours.
 */
export function licenceTexts(modules: readonly string[]): string {
  const folders = new Set(modules.flatMap((id) => (id.includes("/node_modules/") ? [packageOf(id)] : [])));
  const groups = new Map<string, LicenceGroup>();
  for (const folder of [...folders].sort()) {
    const { name, version }: { readonly name: string; readonly version: string } = JSON.parse(
      readFileSync(join(folder, "package.json"), "utf8"),
    );
    const file = readdirSync(folder).find((path) => /^licen[cs]e/i.test(path));
    if (file === undefined) throw new Error(`${name} has no licence file, so it cannot be part of the bundle`);
    const lines = readFileSync(join(folder, file), "utf8").split("\n");
    const terms = lines.filter((line) => !isNotice(line)).join("\n");
    const key = terms.replaceAll(/\s+/g, " ").trim();
    const group = groups.get(key) ?? { packages: [], notices: new Set(), terms: terms.trim() };
    groups.set(key, group);
    group.packages.push(`${name} ${version}`);
    for (const line of lines.filter(isNotice)) group.notices.add(line.trim());
  }
  const texts = [...groups.values()].map(({ packages, notices, terms }) =>
    [packages, [...notices], [terms]].flatMap((part) => (part.length === 0 ? [] : [part.join("\n")])).join("\n\n"),
  );
  return `The files in this folder contain code of these packages.\n\n${texts.join(`\n\n${"-".repeat(80)}\n\n`)}\n`;
}

type LicenceGroup = { readonly packages: string[]; readonly notices: Set<string>; readonly terms: string };

function isNotice(line: string): boolean {
  return /^\s*(?:copyright\s+(?:\(c\)|©|\d{4})|\(c\)|©)/i.test(line);
}

function packageOf(module: string): string {
  let folder = dirname(module);
  // Packages have package.json files without a name in inner folders.
  while (!existsSync(join(folder, "package.json")) || !/node_modules\/(?:@[^/]+\/)?[^/]+$/.test(folder)) {
    folder = dirname(folder);
  }
  return folder;
}
