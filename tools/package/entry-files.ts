// The files that the package build writes for callers outside the bundle. Everything else in lib/dist is a shared
// chunk.
//
// Public entry points have one declaration: `exports` of lib/package.json. Its condition "source" names the module,
// "types" and "default" the files that are built from it. A new entry point is a new line there. Files that are loaded
// by path and not imported by name are in `programs` below.

import { readFileSync } from "node:fs";
import { join } from "node:path";

export const root = join(import.meta.dirname, "../..");
export const library = join(root, "lib");
/** The declaration files and nothing else, written by `tsc -b`. */
export const buildFolder = join(library, "build");
/** The published code and types. */
export const packageFolder = join(library, "dist");

/**
 * Programs: the command, and files that are started as a thread or a process with
 * `new URL("./NAME.js", import.meta.url)`. All files of the bundle are in one folder, so that such an address is right
 * whatever chunk the code lands in.
 */
const programs: { readonly [name: string]: string } = {
  cli: "apps/cli/src/main.ts",
  "sqlite-worker": "lib/src/durable/host/sqlite/sqlite-worker.ts",
  "cell-worker": "lib/src/bridges/quickjs/cell-worker.ts",
  "demo-worker": "apps/cli/src/demo/worker.ts",
  "scenario-worker": "apps/server/src/scenarios/crash-worker.ts",
};

export type EntryPoint = {
  /** The subpath in `exports`: `.`, `./sqlite`. */
  readonly subpath: string;
  /** The file in lib/dist, without its extension. */
  readonly name: string;
  /** The module, relative to the repository. */
  readonly source: string;
};

export type Manifest = {
  readonly name: string;
  readonly version: string;
  readonly exports: { readonly [subpath: string]: string | { readonly [condition: string]: string } };
  readonly dependencies?: { readonly [name: string]: string };
  readonly peerDependencies?: { readonly [name: string]: string };
  readonly [field: string]: unknown;
};

export function readManifest(folder = library): Manifest {
  return JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
}

/**
 * The public entry points. Throws if an entry in `exports` does not have the three conditions, or names files that the
 * build does not write.
 */
export function entryPoints(manifest = readManifest()): readonly EntryPoint[] {
  return Object.entries(manifest.exports).flatMap(([subpath, target]) => {
    if (typeof target === "string") return [];
    const { source, types, default: code } = target;
    if (source === undefined) throw new Error(`lib/package.json: "${subpath}" has no condition "source"`);
    const name = entryName(subpath);
    if (types !== `./dist/${name}.d.ts` || code !== `./dist/${name}.js`) {
      throw new Error(`lib/package.json: "${subpath}" must name ./dist/${name}.d.ts and ./dist/${name}.js`);
    }
    return [{ subpath, name, source: `lib/${source.slice(2)}` }];
  });
}

/** The modules from which the bundle is built, by the name of the file. */
export function inputModules(): { readonly [name: string]: string } {
  const entries = entryPoints().map(({ name, source }) => [name, join(root, source)] as const);
  return {
    ...Object.fromEntries(entries),
    ...Object.fromEntries(Object.entries(programs).map(([name, source]) => [name, join(root, source)])),
  };
}

/** The subpath with dashes. */
function entryName(subpath: string): string {
  return subpath === "." ? "index" : subpath.slice(2).replaceAll("/", "-");
}
