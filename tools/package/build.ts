// `npm run build:package`: writes lib/dist, lib/docs and lib/studio as they are published. `--code` leaves the
// declaration files out; they need `tsc -b`, which type-checks first.

import { writeFileSync } from "node:fs";
import { join } from "node:path";

import { bundleCode } from "./bundle-code.ts";
import { bundleDeclarations } from "./bundle-declarations.ts";
import { declarationFileOf } from "./declaration-files.ts";
import { documentFiles } from "./documents.ts";
import { buildFolder, entryPoints, library, packageFolder, readManifest, root } from "./entry-files.ts";
import { buildStudio } from "./studio.ts";
import { writeFiles } from "./write-files.ts";

const withTypes = !process.argv.includes("--code");
const code = await bundleCode();
const declarations = withTypes ? declarationFiles() : new Map<string, string>();
writeFiles(packageFolder, new Map([...code, ...declarations]), (path) => !withTypes && path.endsWith(".d.ts"));
writeDocuments();
await buildStudio();

function declarationFiles(): ReadonlyMap<string, string> {
  const sources = join(library, "src");
  const entries = entryPoints().map(({ name, source }) => ({
    name,
    path: declarationFileOf(join(root, source), sources, buildFolder),
  }));
  const { dependencies = {}, peerDependencies = {} } = readManifest();
  return bundleDeclarations(entries, buildFolder, Object.keys({ ...dependencies, ...peerDependencies }));
}

function writeDocuments(): void {
  const files = documentFiles();
  const below = (folder: string) => [...files].filter(([path]) => path.startsWith(folder));
  writeFiles(join(library, "docs"), new Map(below("docs/").map(([path, text]) => [path.slice("docs/".length), text])));
  writeFileSync(join(library, "llms.txt"), files.get("llms.txt") ?? "");
}
