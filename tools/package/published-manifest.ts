// The package.json inside the published package: lib/package.json without what only the workspace uses (the condition
// "source", whose files are not published, `scripts` and `devDependencies`).
//
//   tsx published-manifest.ts write     replaces lib/package.json and keeps a copy (`prepack` of lib/package.json)
//   tsx published-manifest.ts restore   moves the copy back (`postpack`)
//
// npm packs the package.json on the disk and has no option to name another one. A pack that is killed between the two
// steps leaves the copy; the next `write` or `restore` starts from it.

import type { Manifest } from "./entry-files.ts";

import { existsSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import { library } from "./entry-files.ts";

const path = join(library, "package.json");
const copy = join(library, "package.json.workspace");

/** What is published of a manifest of the workspace. */
export function publishedManifest(manifest: Manifest): object {
  const { scripts: _scripts, devDependencies: _devDependencies, exports, ...fields } = manifest;
  const published = Object.entries(exports).map(([subpath, target]) => {
    if (typeof target === "string") return [subpath, target];
    const { source: _source, ...conditions } = target;
    return [subpath, conditions];
  });
  return { ...fields, exports: Object.fromEntries(published) };
}

const command = process.argv[2];
if (command === "write" || command === "restore") {
  if (existsSync(copy)) renameSync(copy, path);
}
if (command === "write") {
  const text = readFileSync(path, "utf8");
  writeFileSync(copy, text);
  writeFileSync(path, `${JSON.stringify(publishedManifest(JSON.parse(text)), null, 2)}\n`);
}
