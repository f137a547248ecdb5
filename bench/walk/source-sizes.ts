// The size of the sources: lines by folder, the largest files, the longest functions, and the public names of each entry point.
//
// Functions are measured by oxlint (`max-lines-per-function`), in lines of the source with blank lines and comments. Names are read from the built
// declarations, where every export is a statement; the values among them are compared with those of the loaded module.

import { execFileSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, relative } from "node:path";
import { pathToFileURL } from "node:url";

export type SourceSizes = {
  readonly files: number;
  readonly lines: number;
  readonly folders: readonly { readonly folder: string; readonly files: number; readonly lines: number }[];
  readonly largestFiles: readonly { readonly file: string; readonly lines: number }[];
  readonly longestFunctions: readonly LongFunction[];
  readonly entryPoints: readonly { readonly entryPoint: string; readonly values: number; readonly types: number }[];
  /** Different names over all entry points. */
  readonly publicNames: number;
};

type LongFunction = { readonly file: string; readonly line: number; readonly name: string; readonly lines: number };

/** How many files and functions are listed. */
const listed = 10;

export async function sourceSizes(root: string): Promise<SourceSizes> {
  const sources = sourceFolders(root).flatMap((folder) => typescriptIn(join(root, folder)));
  const files = sources.map((path) => ({ file: relative(root, path), lines: linesOf(readFileSync(path, "utf8")) }));
  const entryPoints = await publicNames(join(root, "lib"));
  return {
    files: files.length,
    lines: sum(files.map(({ lines }) => lines)),
    folders: byFolder(files),
    largestFiles: files.toSorted((left, right) => right.lines - left.lines).slice(0, listed),
    longestFunctions: longestFunctions(root),
    entryPoints: entryPoints.map(({ entryPoint, values, types }) => ({
      entryPoint,
      values: values.size,
      types: types.size,
    })),
    publicNames: new Set(entryPoints.flatMap(({ values, types }) => [...values, ...types])).size,
  };
}

function sourceFolders(root: string): readonly string[] {
  const apps = readdirSync(join(root, "apps")).map((app) => join("apps", app, "src"));
  return [join("lib", "src"), ...apps];
}

function typescriptIn(folder: string): readonly string[] {
  return readdirSync(folder, { withFileTypes: true })
    .toSorted((left, right) => (left.name < right.name ? -1 : 1))
    .flatMap((entry) => {
      const path = join(folder, entry.name);
      if (entry.isDirectory()) return typescriptIn(path);
      return entry.name.endsWith(".ts") && !entry.name.endsWith(".test.ts") ? [path] : [];
    });
}

/** As `wc -l` counts them. */
function linesOf(text: string): number {
  return text.split("\n").length - 1;
}

/** Folders of the library by their first level, apps as a whole. */
function byFolder(files: readonly { readonly file: string; readonly lines: number }[]): SourceSizes["folders"] {
  const folders = new Map<string, { folder: string; files: number; lines: number }>();
  for (const { file, lines } of files) {
    const parts = dirname(file).split("/");
    const name = parts.slice(0, 3).join("/");
    const folder = folders.get(name) ?? { folder: name, files: 0, lines: 0 };
    folders.set(name, { folder: name, files: folder.files + 1, lines: folder.lines + lines });
  }
  return [...folders.values()].toSorted((left, right) => right.lines - left.lines);
}

function longestFunctions(root: string): readonly LongFunction[] {
  const place = mkdtempSync(join(tmpdir(), "everturn-walk-"));
  try {
    const config = join(place, "oxlint.json");
    const rule = { "eslint/max-lines-per-function": ["warn", { max: 30 }] };
    writeFileSync(config, JSON.stringify({ plugins: [], categories: { correctness: "off" }, rules: rule }));
    const oxlint = join(root, "node_modules/oxlint/bin/oxlint");
    const args = ["-c", config, "--disable-nested-config", "-f", "json", ...sourceFolders(root)];
    const printed = execFileSync(process.execPath, [oxlint, ...args], {
      cwd: root,
      encoding: "utf8",
      maxBuffer: 1 << 26,
    });
    const { diagnostics }: { readonly diagnostics: readonly Diagnostic[] } = JSON.parse(printed);
    return diagnostics
      .filter(({ filename }) => !filename.endsWith(".test.ts"))
      .map(({ message, filename, labels }) => ({
        file: filename,
        line: labels[0]?.span.line ?? 0,
        name: /`([^`]+)`/.exec(message)?.[1] ?? "",
        lines: Number(/\((\d+)\)/.exec(message)?.[1] ?? 0),
      }))
      .toSorted((left, right) => right.lines - left.lines)
      .slice(0, listed);
  } finally {
    rmSync(place, { recursive: true });
  }
}

type Diagnostic = {
  readonly message: string;
  readonly filename: string;
  readonly labels: readonly { readonly span: { readonly line: number } }[];
};

type Names = { readonly values: ReadonlySet<string>; readonly types: ReadonlySet<string> };

/** The names each entry point of a package exports. */
async function publicNames(folder: string): Promise<readonly (Names & { readonly entryPoint: string })[]> {
  const { name, exports }: PackageJson = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
  const entries = Object.entries(exports).flatMap(([path, target]) =>
    // The worker file exports nothing, and can only be loaded in a worker thread.
    typeof target === "string" || path.endsWith("/worker") ? [] : [{ entryPoint: join(name, path), ...target }],
  );
  return Promise.all(
    entries.map(async ({ entryPoint, types: declarations, default: code }) => {
      const names = exportedNames(join(folder, declarations));
      const loaded: object = await import(pathToFileURL(join(folder, code)).href);
      const values = new Set(Object.keys(loaded));
      const missing = [...values].filter((value) => !names.has(value));
      if (missing.length > 0) throw new Error(`${entryPoint}: ${missing.join(", ")} not found in its declarations`);
      return { entryPoint, values, types: new Set([...names].filter((one) => !values.has(one))) };
    }),
  );
}

type PackageJson = {
  readonly name: string;
  readonly exports: {
    readonly [path: string]: string | { readonly types: string; readonly default: string };
  };
};

const list = /^export (?:type )?\{([^}]*)\}/gm;
const all = /^export \* from "([^"]+)"/gm;
const declaration =
  /^export (?:declare )?(?:abstract )?(?:function|const|let|class|type|interface|enum|namespace) ([A-Za-z_$][\w$]*)/gm;

/** The names that a declaration file exports, those of `export *` included. */
function exportedNames(path: string): ReadonlySet<string> {
  const text = readFileSync(path, "utf8");
  const names = new Set<string>();
  for (const [, inside = ""] of text.matchAll(list)) {
    for (const item of inside.split(",").map((one) => one.trim())) {
      const name =
        item
          .replace(/^type /, "")
          .split(" as ")
          .at(-1)
          ?.trim() ?? "";
      if (name !== "") names.add(name);
    }
  }
  for (const [, name = ""] of text.matchAll(declaration)) names.add(name);
  for (const [, from = ""] of text.matchAll(all)) {
    const target = join(dirname(path), from.replace(/\.[jt]s$/, ".d.ts"));
    for (const name of exportedNames(target)) names.add(name);
  }
  return names;
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}
