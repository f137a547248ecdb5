// The licence texts of the packages whose files are in a bundle.

import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";

/** The text of the file with the licences. `modules`: absolute paths of the files in the bundle; those outside of node_modules are ours. */
export function licenceTexts(modules: readonly string[]): string {
  const folders = new Set(modules.flatMap((id) => (id.includes("/node_modules/") ? [packageOf(id)] : [])));
  const texts = [...folders].sort().map((folder) => {
    const { name, version }: { readonly name: string; readonly version: string } = JSON.parse(
      readFileSync(join(folder, "package.json"), "utf8"),
    );
    const file = readdirSync(folder).find((path) => /^licen[cs]e/i.test(path));
    if (file === undefined) throw new Error(`${name} has no licence file, so it cannot be part of the bundle`);
    return `${name} ${version}\n\n${readFileSync(join(folder, file), "utf8").trim()}\n`;
  });
  return `The files in this folder contain code of these packages.\n\n${texts.join(`\n${"-".repeat(80)}\n\n`)}`;
}

function packageOf(module: string): string {
  let folder = dirname(module);
  // Packages have package.json files without a name in inner folders.
  while (!existsSync(join(folder, "package.json")) || !/node_modules\/(?:@[^/]+\/)?[^/]+$/.test(folder)) {
    folder = dirname(folder);
  }
  return folder;
}
