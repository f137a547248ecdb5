// Bundles the code of the package with Rolldown: one file for each entry point and program, and shared chunks. Module
// state exists once, whichever entry points a program imports, and the command shares the library's chunks: a
// configuration file that imports `everturn` gets the instances of the command.
//
// The packages that users may install themselves (dependencies and optional peer dependencies of lib/package.json) stay
// imports. All others, which the command and `everturn/http` use, become part of the bundle; `licenses.txt` has their
// licences.
//
// The code is not minified, and each file has a source map that contains the TypeScript sources (docs/decisions/0053).

import type { RolldownBuild } from "rolldown";

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
  const used = await modulesLoadedBy("index");
  const usedLayers = new Set([...used].map(layerOf));
  const chunkOf = (id: string): string | null => {
    const layer = layerOf(id);
    return layer === null || used.has(id) || !usedLayers.has(layer) ? layer : `${layer}-more`;
  };
  const bundle = await open({ ...inputModules() });
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
      file.type === "chunk" ? file.code : publishedMap(JSON.parse(String(file.source)), false),
    ]),
  );
  files.set("licenses.txt", licenceTexts(output.flatMap((file) => (file.type === "chunk" ? file.moduleIds : []))));
  return files;
}

function open(input: { [name: string]: string }): Promise<RolldownBuild> {
  const { dependencies = {}, peerDependencies = {} } = readManifest();
  const installed = Object.keys({ ...dependencies, ...peerDependencies });
  return rolldown({
    cwd: root,
    input,
    platform: "node",
    preserveEntrySignatures: "allow-extension",
    external: [/^node:/, ...installed.map((name) => new RegExp(`^${name}(?:/|$)`))],
    resolve: { conditionNames: ["source", "import", "node", "default"] },
    // Of a bundled package of `everturn/react`. A page without a bundler has no `process`.
    transform: { define: { "process.env.NODE_ENV": '"production"' } },
    onLog: (level, log) => {
      if (level === "warn") throw new Error(`rolldown: ${log.message}`);
    },
  });
}

/**
 * The modules that an import of an entry point evaluates: those of a bundle with this entry point alone, without what
 * is loaded on demand.
 */
async function modulesLoadedBy(name: string): Promise<ReadonlySet<string>> {
  const entry = inputModules()[name];
  if (entry === undefined) throw new Error(`lib/package.json: no entry point is built as ${name}.js`);
  const bundle = await open({ [name]: entry });
  const { output } = await bundle.generate({ format: "esm" });
  await bundle.close();
  const chunks = new Map(output.flatMap((file) => (file.type === "chunk" ? [[file.fileName, file] as const] : [])));
  const loaded = new Set([output[0]]);
  for (const { imports } of loaded)
    for (const imported of imports) {
      const chunk = chunks.get(imported);
      if (chunk !== undefined) loaded.add(chunk);
    }
  return new Set([...loaded].flatMap(({ modules }) => Object.keys(modules)));
}

/**
 * The layer of a module of the library, which is its TypeScript project. A layer that `everturn` loads has a chunk with
 * the modules that it loads, and one with the others (`LAYER-more`): an import of `everturn` compiles no module that
 * only codecs and other entry points use. Without these groups Rolldown writes a chunk for each combination of entry
 * points that share a module: `everturn` consists of 45 files then, and each file costs half a millisecond of an
 * import. `null`: Rolldown decides, for files that are started as a thread or a process, and for what is loaded on
 * demand: the codecs, and the sandbox, whose worker must not import the module that starts it (Vite refuses to bundle
 * such a worker).
 */
function layerOf(id: string): string | null {
  if (!id.startsWith(sources) || started.has(id) || /\/(?:(?:wire|adapters)\/[^/]+|bridges\/quickjs)\//.test(id))
    return null;
  let folder = dirname(id);
  while (!existsSync(join(folder, "tsconfig.json"))) folder = dirname(folder);
  return relative(sources, folder).replaceAll(sep, "-") || null;
}
