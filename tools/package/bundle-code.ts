// Bundles the code of the package with Rolldown: one file for each entry point and program, and shared chunks. Module state exists once, whichever entry
// points a program imports, and the command shares the library's chunks: a configuration file that imports `everturn` gets the instances of the command.
//
// The packages that users may install themselves (dependencies and optional peer dependencies of lib/package.json) stay imports. All others, which the
// command and `everturn/http` use, become part of the bundle; `licenses.txt` has their licences.
//
// Comments are left out, except annotations for bundlers and licences: the doc comments are in the declaration files. The names of functions and classes are
// kept, and every statement has a line, so that stack traces can be read. Local variables have short names.

import { join } from "node:path";

import { rolldown } from "rolldown";

import { breakLines } from "./break-lines.ts";
import { inputModules, library, readManifest, root } from "./entry-files.ts";
import { licenceTexts } from "./licences.ts";
import { pureInitializers } from "./pure-initializers.ts";

/**
 * Modules that become one chunk each, the first matching row counts. Without them Rolldown writes a chunk for each combination of entry points that share a
 * module, and `everturn` consists of 22 files; each file costs half a millisecond of an import. A chunk also contains what its modules import, unless
 * an earlier row has it, or `includeDependenciesRecursively` is false.
 */
const chunks = [
  // What run/perform/on-demand.ts loads. Only these modules: what they import is in the chunks that every run needs, which do not import them.
  {
    name: "tools",
    test: /lib\/src\/(?:run\/perform\/(?:checkpoint-hooks|code\.ts|encode-result|environment|prepare-tool|run-tool|start-mark|tool)|engine\/tool\/is-directive|kernel\/retry-delay)/,
    includeDependenciesRecursively: false,
    priority: 7,
  },
  {
    name: "code-protocol",
    test: /lib\/src\/kernel\/(?:protocol\/(?:code-protocol|cell-note)|machine\/cells)/,
    includeDependenciesRecursively: false,
    priority: 7,
  },
  {
    name: "model",
    // index.ts has no code of its own; in no group it would be an empty file.
    test: /lib\/src\/(?:model\/(?!message\/(?:base64|image|media-part)\.ts|parse\/finite-numbers)|clock\/(?!timer)|index\.ts$)|^everturn:/,
    includeDependenciesRecursively: false,
    priority: 6,
  },
  // Loaded by the first call of a model. Of the library it imports the model layer only, so that the client can share it.
  {
    name: "transport",
    test: /lib\/src\/(?:engine\/model-call\/transport|clock\/timer|wire\/sse|model\/message\/(?:base64|image|media-part)\.ts)|eventsource-parser/,
    priority: 5,
  },
  {
    name: "requests",
    test: /lib\/src\/(?:adapters\/(?:json-request|call-headers|credentials|dotenv)|engine\/model-call\/keys)\.ts$/,
    includeDependenciesRecursively: false,
    priority: 5,
  },
  // Image adapters and verbs. Apart from the main file, which then does not import code that only they and calls need.
  {
    name: "images",
    test: /lib\/src\/(?:adapters\/(?:[a-z]+-images|image-http)|run\/images)\.ts$/,
    includeDependenciesRecursively: false,
    priority: 5,
  },
  // What codecs share with runs, which remove added nulls from partial output.
  {
    name: "fields",
    test: /lib\/src\/wire\/(?:added-nulls|fields)\.ts$/,
    includeDependenciesRecursively: false,
    priority: 5,
  },
  // What several codecs share.
  {
    name: "codec-parts",
    test: /lib\/src\/(?:wire\/(?:audio-format|listed-tools|omission|provider-options|reply-builder|request-error|usage-extra)|model\/parse\/finite-numbers)\.ts$/,
    includeDependenciesRecursively: false,
    priority: 5,
  },
  { name: "kernel", test: /lib\/src\/kernel\//, priority: 4 },
  {
    name: "main",
    // Without what dynamic imports load.
    test: /lib\/src\/(?:engine|run|adapters)\/(?!quickjs|background|http-call|json-request|mcp-authorization|credentials|reply-limit|call-headers|perform\/middleware-chain)/,
    priority: 3,
  },
  { name: "runtime", test: /lib\/src\/(?:session|runtime)\//, priority: 1 },
  // Small modules that several storages, or several commands, share.
  { name: "storages", test: /lib\/src\/host\/shared\//, priority: 0 },
  {
    name: "commands",
    test: /apps\/cli\/src\/(?:private-file|(?:terminal|commands)\/(?:safe-text|style|exit-codes|id-prefix|stop-signal|version|text))\.ts$/,
    priority: 0,
  },
];

/** The files of the bundle, by path relative to lib/dist. */
export async function bundleCode(): Promise<ReadonlyMap<string, string>> {
  const { dependencies = {}, peerDependencies = {} } = readManifest();
  const installed = Object.keys({ ...dependencies, ...peerDependencies });
  const bundle = await rolldown({
    cwd: root,
    input: { ...inputModules() },
    platform: "node",
    preserveEntrySignatures: "allow-extension",
    plugins: [pureInitializers(join(library, "src/"))],
    external: [/^node:/, ...installed.map((name) => new RegExp(`^${name}(?:/|$)`))],
    resolve: { conditionNames: ["source", "import", "node", "default"] },
    // On a busy machine the plugin takes long enough for a warning.
    checks: { bundlerTimings: false },
    onLog: (level, log) => {
      if (level === "warn") throw new Error(`rolldown: ${log.message}`);
    },
  });
  const { output } = await bundle.generate({
    format: "esm",
    entryFileNames: "[name].js",
    chunkFileNames: "[name]-[hash].js",
    codeSplitting: { groups: [...chunks] },
    // Shorter statements and names of local variables. The names of functions and classes, which stack traces show, are kept. `breakLines` adds the lines.
    minify: {
      compress: true,
      mangle: { toplevel: false, keepNames: { function: true, class: true } },
      codegen: { removeWhitespace: true },
    },
    minifyInternalExports: false,
    comments: { legal: true, annotation: true, jsdoc: false },
  });
  await bundle.close();
  const outputChunks = output.filter((file) => file.type === "chunk");
  const files = new Map(outputChunks.map(({ fileName, code }) => [fileName, breakLines(code, fileName)]));
  files.set("licenses.txt", licenceTexts(outputChunks.flatMap(({ moduleIds }) => moduleIds)));
  return files;
}
