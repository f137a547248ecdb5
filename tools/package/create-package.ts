// The package create-everturn as it is published. The sources in apps/create-everturn have no version: the published
// package has the version of the library, and depends on exactly that version. They are private, so that npm refuses to
// publish them by mistake.
//
//   tsx create-package.ts FOLDER   writes the package into FOLDER, for `npm pack`

import { cpSync, mkdirSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";

import { readManifest, root } from "./entry-files.ts";

const source = join(root, "apps/create-everturn");

/** Writes the package into a folder, which is created. Returns the folder. */
export function writeCreatePackage(folder: string): string {
  mkdirSync(folder, { recursive: true });
  for (const name of ["bin", "README.md"]) cpSync(join(source, name), join(folder, name), { recursive: true });
  cpSync(join(root, "LICENSE"), join(folder, "LICENSE"));
  writeFileSync(join(folder, "package.json"), `${JSON.stringify(createManifest(readManifest(source)), null, 2)}\n`);
  return folder;
}

/** The package.json that is published. */
export function createManifest(
  sourceManifest: { readonly [field: string]: unknown },
  { version } = readManifest(),
): { readonly [field: string]: unknown } {
  const { name, private: _private, ...fields } = sourceManifest;
  return { name, version, ...fields, dependencies: { everturn: version } };
}

const [command, folder] = process.argv.slice(1);
if (command !== undefined && resolve(command) === import.meta.filename && folder !== undefined) {
  console.log(writeCreatePackage(resolve(folder)));
}
