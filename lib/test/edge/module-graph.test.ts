// The import graph of each entry point: no Node module, so that it loads in a page and in a worker (except SQLite), and
// no package that users need not install. The graph is that of a bundler, without types. `run.ts` runs the bundles in a
// browser and in workerd.

import { readFile } from "node:fs/promises";
import { builtinModules } from "node:module";
import { join, relative } from "node:path";

import { build } from "vite";
import { beforeAll, describe, expect, test } from "vitest";

const library = join(import.meta.dirname, "../..");
const { exports, peerDependencies }: Package = JSON.parse(await readFile(join(library, "package.json"), "utf8"));
const entryPoints = Object.entries(exports).flatMap(([name, entryPoint]) =>
  typeof entryPoint === "string" ? [] : [{ name, file: join(library, entryPoint.source) }],
);
/** The file that `everturn/quickjs` starts as a worker. */
const cellWorker = join(library, "src/bridges/quickjs/cell-worker.ts");

/**
 * The packages that an entry point may load. The pure ones need none; the JSON Schema validator is loaded on first use.
 */
const packagesOf: { readonly [entryPoint: string]: readonly string[] } = {
  "./http": ["eventsource-parser", "hono"],
  "./otel": ["eventsource-parser", "@opentelemetry/api"],
  "./react": ["@tanstack/virtual-core", "eventsource-parser", "react"],
};
const anyDoor: readonly string[] = ["eventsource-parser"];
/** Optional packages, needed only by users of the entry point. They may be loaded on demand. */
const peersOf: { readonly [entryPoint: string]: readonly string[] } = {
  "./postgres": ["pg"],
  "./restate": ["@restatedev/restate-sdk"],
  "./mcp": [
    "@modelcontextprotocol/client",
    "@modelcontextprotocol/client/stdio",
    "@modelcontextprotocol/server",
    "@modelcontextprotocol/server/stdio",
  ],
  "./gpt-tokenizer": ["gpt-tokenizer"],
  "./otel": ["@opentelemetry/api"],
  "./react": ["react"],
};

/** Node modules: SQLite runs in a Node worker thread, clients of Postgres need Node, and the studio is files. */
const nodeOf: { readonly [entryPoint: string]: readonly string[] } = {
  // node:fs reads /proc, to find out whether the process that holds a lease still exists.
  "./sqlite": ["node:fs", "node:path", "node:worker_threads"],
  "./postgres": ["node:crypto"],
  "./studio": ["node:crypto", "node:fs", "node:fs/promises", "node:path", "node:url", "node:util", "node:zlib"],
  // Only a process that Restate calls loads it.
  "./restate": ["node:http2"],
};

type Package = {
  readonly exports: { readonly [entryPoint: string]: { readonly source: string } | string };
  readonly peerDependencies: { readonly [name: string]: string };
};
type Imports = { readonly now: readonly string[]; readonly later: readonly string[] };

const graph = new Map<string, Imports>();

beforeAll(async () => {
  await build({
    configFile: false,
    logLevel: "silent",
    build: {
      write: false,
      minify: false,
      rollupOptions: {
        input: [...entryPoints.map(({ file }) => file), cellWorker],
        external: (id) => !id.startsWith(".") && !id.startsWith("/"),
        preserveEntrySignatures: "strict",
      },
    },
    plugins: [
      {
        name: "graph",
        moduleParsed: ({ id, importedIds, dynamicallyImportedIds }) => {
          graph.set(id, { now: importedIds, later: dynamicallyImportedIds });
        },
      },
    ],
  });
});

/** The external imports of a file and their importers: those needed at load, or all. */
function needs(file: string, how: "loaded" | "ever"): readonly (readonly [id: string, by: string])[] {
  const found: (readonly [string, string])[] = [];
  const seen = new Set([file]);
  for (const here of seen) {
    const { now, later } = graph.get(here) ?? { now: [], later: [] };
    for (const id of how === "loaded" ? now : [...now, ...later]) {
      if (id.startsWith(library)) seen.add(id);
      // Modules with this prefix belong to the bundler.
      else if (!id.startsWith("\0")) found.push([id, relative(library, here)]);
    }
  }
  return found;
}

function isNode(id: string): boolean {
  return id.startsWith("node:") || builtinModules.includes(id);
}

function isOf(id: string, names: readonly string[]): boolean {
  return names.some((name) => id === name || id.startsWith(`${name}/`));
}

test("the module graph is not empty", () => {
  expect(graph.size).toBeGreaterThan(100);
  expect(entryPoints.filter(({ file }) => !graph.has(file))).toEqual([]);
  const front = join(library, "src/core/index.ts");
  expect(needs(front, "loaded")).toContainEqual(["eventsource-parser", "src/core/wire/sse.ts"]);
  expect(needs(front, "ever")).toContainEqual(["@cfworker/json-schema", "src/core/engine/tool/schema.ts"]);
});

describe.each(entryPoints)("everturn at $name", ({ name, file }) => {
  test("imports no unexpected Node module, statically or dynamically", () => {
    const used = new Set(needs(file, "ever").flatMap(([id]) => (isNode(id) ? [id] : [])));
    expect([...used].toSorted()).toEqual(nodeOf[name] ?? []);
  });

  test("loads only its allowed packages", () => {
    expect(needs(file, "loaded").filter(([id]) => !isNode(id) && !isOf(id, packagesOf[name] ?? anyDoor))).toEqual([]);
  });

  test("imports an optional package only in its own entry point", () => {
    const others = Object.keys(peerDependencies).filter((peer) => !peersOf[name]?.includes(peer));
    expect(needs(file, "ever").filter(([id]) => isOf(id, others))).toEqual([]);
  });
});

test("the worker of the sandbox imports only the interpreter, because bundlers build web workers as one file", () => {
  const used = needs(cellWorker, "ever").map(([id]) => id);
  expect(used.toSorted()).toEqual(["@jitl/quickjs-singlefile-mjs-release-sync", "quickjs-emscripten-core"]);
});
