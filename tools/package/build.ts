// `npm run build:package`: writes lib/dist as it is published. `--code` leaves the declaration files out; they need `tsc -b`, which type-checks first.
//
// Files whose text does not change are not written, and others are removed only after all new ones are there: a command or a test that runs meanwhile keeps
// working if the sources are the same.

import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";

import { bundleCode } from "./bundle-code.ts";
import { bundleDeclarations, declarationFileOf } from "./bundle-declarations.ts";
import { buildFolder, entryPoints, library, packageFolder, readManifest, root } from "./entry-files.ts";

const withTypes = !process.argv.includes("--code");
const code = await bundleCode();
const declarations = withTypes ? declarationFiles() : new Map<string, string>();
writeFiles(new Map([...code, ...declarations]));

function declarationFiles(): ReadonlyMap<string, string> {
  const sources = join(library, "src");
  const entries = entryPoints().map(({ name, source }) => ({
    name,
    path: declarationFileOf(join(root, source), sources, buildFolder),
  }));
  const { dependencies = {}, peerDependencies = {} } = readManifest();
  return bundleDeclarations(entries, buildFolder, Object.keys({ ...dependencies, ...peerDependencies }));
}

function writeFiles(files: ReadonlyMap<string, string>): void {
  for (const [path, text] of files) {
    const target = join(packageFolder, path);
    if (textOf(target) === text) continue;
    mkdirSync(dirname(target), { recursive: true });
    const temporary = `${target}.${process.pid}.tmp`;
    writeFileSync(temporary, text);
    renameSync(temporary, target);
  }
  for (const path of readdirSync(packageFolder, { recursive: true, encoding: "utf8" })) {
    // Files of a build that runs at the same time end with `.tmp`.
    const isKept = path.endsWith(".tmp") || (!withTypes && path.endsWith(".d.ts")) || files.has(path);
    const target = join(packageFolder, path);
    if (!isKept && statSync(target, { throwIfNoEntry: false })?.isFile() === true) rmSync(target, { force: true });
  }
}

function textOf(path: string): string | null {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return null;
  }
}
