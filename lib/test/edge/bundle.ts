// Builds bundles for runtimes without Node, from the built exports of the package. An import that cannot be bundled is
// an error.

import { builtinModules } from "node:module";
import { gzipSync } from "node:zlib";

import { build, minify } from "vite";

/** Files by name; the first is the entry. */
export type Bundle = readonly { readonly name: string; readonly code: string; readonly isEntry: boolean }[];

/** Bundles a file, or a source text. */
export async function bundle(entry: { readonly file: string } | { readonly source: string }): Promise<Bundle> {
  const built = await build({
    configFile: false,
    root: import.meta.dirname,
    logLevel: "error",
    // Neither `source` nor `node`: the conditions of a web page.
    resolve: { conditions: ["module", "browser", "production"] },
    build: {
      write: false,
      minify: false,
      target: "es2023",
      lib: { entry: "file" in entry ? entry.file : given, formats: ["es"], fileName: "main" },
    },
    plugins: [
      {
        name: "no-node",
        enforce: "pre",
        resolveId(id, importer) {
          if (id.startsWith("node:") || builtinModules.includes(id)) throw new Error(`${importer} imports ${id}`);
          return id.endsWith(given) ? `\0${given}` : null;
        },
        load: (id) => (id === `\0${given}` && "source" in entry ? entry.source : null),
      },
    ],
  });
  const outputs = Array.isArray(built) ? built : "output" in built ? [built] : [];
  const chunks = outputs.flatMap(({ output }) => output.flatMap((file) => (file.type === "chunk" ? [file] : [])));
  const names = new Set(chunks.map(({ fileName }) => fileName));
  for (const { fileName, imports, dynamicImports } of chunks) {
    const missing = [...imports, ...dynamicImports].filter((id) => !names.has(id));
    if (missing.length > 0) throw new Error(`${fileName} asks for ${missing.join(", ")}, which is not in the bundle`);
  }
  // The files of web workers are assets.
  const workers = outputs.flatMap(({ output }) =>
    output.flatMap((file) =>
      file.type === "asset" && file.fileName.endsWith(".js") && typeof file.source === "string"
        ? [{ name: file.fileName, code: file.source, isEntry: false }]
        : [],
    ),
  );
  const files = await Promise.all(
    chunks.map(async ({ fileName, code, isEntry }) => {
      const small = await minify(fileName, code, { module: true, compress: true, mangle: true });
      return { name: fileName, code: small.code, isEntry };
    }),
  );
  return [...files, ...workers].toSorted((left, right) => Number(right.isEntry) - Number(left.isEntry));
}

const given = "virtual:given";

/** The size of a bundle: the files that are loaded at once, and those that are loaded on demand. */
export function sizeOf(files: Bundle): string {
  const [now, later] = [files.filter(({ isEntry }) => isEntry), files.filter(({ isEntry }) => !isEntry)];
  return later.length === 0 ? sizes(now) : `${sizes(now)}; ${sizes(later)} more when needed`;
}

function sizes(files: Bundle): string {
  const [whole, packed] = [0, 1].map((index) =>
    files.reduce((sum, { code }) => sum + (index === 0 ? Buffer.byteLength(code) : gzipSync(code).length), 0),
  );
  return `${kilobytes(whole)} kB min, ${kilobytes(packed)} kB gzip`;
}

function kilobytes(bytes = 0): string {
  return (bytes / 1000).toFixed(1);
}
