// Builds the studio (apps/studio) into lib/studio, from where it is published and served. The folder is not part of the
// repository.
//
// The build runs only if its inputs have changed: the page, the folders of the library that it imports, and the lock
// file, which names the versions of its packages. The digest of the inputs is in `.stamp`, written last, so that an
// interrupted build is repeated.

import type { Rolldown } from "vite";

import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { join, relative } from "node:path";

import { library, root } from "./entry-files.ts";
import { licenceTexts } from "./licences.ts";
import { publishedMap, publishedSource } from "./source-maps.ts";
import { writeFiles } from "./write-files.ts";

/** The folder with the page and its assets. */
const studioFolder = join(library, "studio");
/** The file with the licences of the packages in the bundle. */
const licenceFile = "THIRD-PARTY-LICENSES.txt";
const stampFile = ".stamp";

const sources = ["apps/studio", "lib/src/core", "lib/src/durable", "lib/src/serve"];
const otherInputs = [
  "lib/react.css",
  "package-lock.json",
  "tsconfig.base.json",
  "tools/package/studio.ts",
  "tools/package/licences.ts",
  "tools/package/source-maps.ts",
];

/** Builds the page if an input has changed since the last build. */
export async function buildStudio(): Promise<void> {
  const stamp = digestOfInputs();
  if (stamp === fileText(join(studioFolder, stampFile))) return;
  // Otherwise a test run, which sets another value, would build React for development.
  process.env["NODE_ENV"] = "production";
  // Most runs do not need it, and it takes a part of a second to load.
  const { build } = await import("vite");
  const results = await build({
    configFile: join(root, "apps/studio/vite.config.ts"),
    build: { write: false, rolldownOptions: { output: { sourcemapPathTransform: publishedSource } } },
    logLevel: "warn",
  });
  const files = new Map<string, string | Uint8Array>();
  const modules: string[] = [];
  for (const result of Array.isArray(results) ? results : [results]) {
    if (!("output" in result)) throw new Error("vite watches the studio in place of building it");
    for (const file of result.output) {
      files.set(file.fileName, outputContent(file));
      modules.push(
        ...(file.type === "chunk"
          ? file.moduleIds
          : file.originalFileNames.map((name) => join(root, "apps/studio", name))),
      );
    }
  }
  for (const name of readdirSync(join(root, "apps/studio/public")))
    files.set(name, readFileSync(join(root, "apps/studio/public", name)));
  files.set(licenceFile, licenceTexts(modules.map((id) => id.replaceAll("\0", "").replace(/\?.*$/, ""))));
  // After the assets that it names.
  const page = files.get("index.html");
  if (page === undefined) throw new Error("the build of the studio has no index.html");
  files.delete("index.html");
  writeFiles(studioFolder, new Map([...files, ["index.html", page], [stampFile, stamp]]));
}

function outputContent(file: Rolldown.OutputChunk | Rolldown.OutputAsset): string | Uint8Array {
  if (file.type === "chunk") return file.code;
  return file.fileName.endsWith(".js.map") ? publishedMap(JSON.parse(String(file.source)), true) : file.source;
}

function digestOfInputs(): string {
  const hash = createHash("sha256");
  const paths = sources.flatMap((folder) => filesBelow(join(root, folder)));
  for (const path of [...paths.sort(), ...otherInputs.map((name) => join(root, name))])
    hash
      .update(`${relative(root, path)}\0`)
      .update(readFileSync(path))
      .update("\0");
  return hash.digest("hex");
}

/** The files that can be part of the build: no tests, and no output of the compiler. */
function filesBelow(folder: string): readonly string[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) return /^(?:node_modules|build|test)$/.test(entry.name) ? [] : filesBelow(path);
    return /\.(?:test|types)\.tsx?$|\.tsbuildinfo$/.test(entry.name) ? [] : [path];
  });
}

function fileText(path: string): string | null {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return null;
  }
}
