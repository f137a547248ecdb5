// Bundles the code of the package with Rolldown: one file for each entry point and program, and shared chunks. Module state exists once, whichever entry
// points a program imports, and the command shares the library's chunks: a configuration file that imports `everturn` gets the instances of the command.
//
// The packages that users may install themselves (dependencies and optional peer dependencies of lib/package.json) stay imports. All others, which the
// command and `everturn/http` use, become part of the bundle; `licenses.txt` has their licences.
//
// The code is not minified, and each file has a source map that contains the TypeScript sources (docs/decisions/0053).

import { existsSync } from "node:fs";
import { basename, dirname, join, relative, sep } from "node:path";

import { rolldown } from "rolldown";

import { inputModules, library, packageFolder, readManifest, root } from "./entry-files.ts";
import { licenceTexts } from "./licences.ts";
import { publishedMap, publishedSource } from "./source-maps.ts";

const sources = join(library, "src") + sep;
const started = new Set(Object.values(inputModules()).filter((path) => basename(path) !== "index.ts"));

/** The files of the bundle, by path relative to lib/dist. */
export async function bundleCode(): Promise<ReadonlyMap<string, string>> {
  const { dependencies = {}, peerDependencies = {} } = readManifest();
  const installed = Object.keys({ ...dependencies, ...peerDependencies });
  const bundle = await rolldown({
    cwd: root,
    input: { ...inputModules() },
    platform: "node",
    preserveEntrySignatures: "allow-extension",
    external: [/^node:/, ...installed.map((name) => new RegExp(`^${name}(?:/|$)`))],
    resolve: { conditionNames: ["source", "import", "node", "default"] },
    onLog: (level, log) => {
      if (level === "warn") throw new Error(`rolldown: ${log.message}`);
    },
  });
  const { output } = await bundle.generate({
    dir: packageFolder,
    format: "esm",
    entryFileNames: "[name].js",
    chunkFileNames: "[name]-[hash].js",
    codeSplitting: {
      groups: [
        {
          debugName: "layers",
          name: chunkOf,
          test: (id) => chunkOf(id) !== null,
          includeDependenciesRecursively: false,
        },
      ],
    },
    minify: false,
    sourcemap: true,
    sourcemapPathTransform: publishedSource,
    comments: { legal: true, annotation: true, jsdoc: false },
  });
  await bundle.close();
  const files = new Map(
    output.map((file) => [
      file.fileName,
      file.type === "chunk" ? file.code : publishedMap(JSON.parse(String(file.source)), "lines"),
    ]),
  );
  files.set("licenses.txt", licenceTexts(output.flatMap((file) => (file.type === "chunk" ? file.moduleIds : []))));
  return files;
}

/**
 * The chunk of a module of the library: one for each TypeScript project, that is for each layer. Without it Rolldown writes a chunk for each combination of entry points that
 * share a module: `everturn` consists of 45 files then, and each file costs half a millisecond of an import. `null`: Rolldown decides, for files that are started as
 * a thread or a process, and for what is loaded on demand (the codecs, the sandbox).
 */
function chunkOf(id: string): string | null {
  if (!id.startsWith(sources) || started.has(id) || /\/(?:wire|adapters)\/[^/]+\//.test(id)) return null;
  let folder = dirname(id);
  while (!existsSync(join(folder, "tsconfig.json"))) folder = dirname(folder);
  return relative(sources, folder).replaceAll(sep, "-") || null;
}
