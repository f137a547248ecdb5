// Finds the files whose content the trust in a configuration file covers, and their digests (trust.ts).
//
// Covered are
//   - the configuration file;
//   - files that its text names between quotation marks (imports, `tools`, `@FILE`);
//   - for modules among these, files that their text names by a relative path, an absolute path, a `file:` URL, a name
//     in `imports` of their package.json (`#tools`) or the name of their own package; and so on. That package.json is
//     covered too;
//   - programs that these start, by name (started-programs.ts).
//
// The search is textual: it finds `import`, `export … from`, `import("./x.js")`, `require` and
// `new URL("./x", import.meta.url)` with literal names, also in comments. It decodes escape sequences (`"./\x61.js"`)
// and percent-encoding (`"./%61.js"`), as the module loader does. It covers every file that a name may resolve to, so a
// file that appears beside a covered one and takes its place is a change.
//
// Not covered are names that are computed, `paths` of tsconfig.json, and packages in node_modules: whoever can change
// these can change the command too.

import { createHash } from "node:crypto";
import { readFileSync, realpathSync } from "node:fs";
import { dirname, join, relative, resolve, sep } from "node:path";
import { fileURLToPath } from "node:url";

import { isMap, SettingsError, thrownText } from "./setting-readers.ts";
import { isFile, isScript, programFiles } from "./started-programs.ts";

/**
 * The covered files of a configuration file: SHA-256 as hexadecimal text, by the path relative to the folder of the
 * configuration file.
 */
export type CoveredFiles = { readonly [path: string]: string };

const moduleFile = /\.[cm]?[jt]sx?$/;
/** Files that a name between quotation marks may mean. A database is not among them: it changes with every turn. */
const namedFile = /\.(?:[cm]?[jt]sx?|json|md|txt|node|wasm)$/;
/**
 * Longer texts between two quotation marks are not names of files, and neither are texts with these characters: most
 * lines of code.
 */
const longestName = 500;
const notName = /^\s|\s$|[{};<>|*\0]/;

/**
 * Reads the configuration file and every file that it covers. Throws `SettingsError` for a file that cannot be read.
 */
export function coveredFiles(configPath: string): CoveredFiles {
  const root = dirname(configPath);
  const files: { [path: string]: string } = {};
  const folders = new Set<string>();
  const queue = [configPath];
  for (let path = queue.pop(); path !== undefined; path = queue.pop()) {
    const key = relative(root, path).split(sep).join("/");
    if (Object.hasOwn(files, key)) continue;
    const content = read(path);
    files[key] = createHash("sha256").update(content).digest("hex");
    const isConfig = path === configPath;
    // Node resolves relative imports from the real path of a module.
    const real = realpathSync(path);
    const isModule = isConfig || moduleFile.test(path);
    const text = isModule || isScript(path) ? content.toString("utf8") : "";
    if (isModule) queue.push(...namedFiles(text, real, isConfig));
    queue.push(...programFiles(unescaped(text), { from: real, root, isConfig, folders }));
  }
  return files;
}

function read(path: string): Buffer {
  try {
    return readFileSync(path);
  } catch (cause) {
    throw new SettingsError(`cannot read ${path}: ${thrownText(cause)}`, { cause });
  }
}

/**
 * The existing files that a text names. Every text between two quotation marks of any kind is a candidate, so an
 * apostrophe in a comment hides no name. `bare`: names without `./` count too, as in `tools: "tools.mjs"`; in modules
 * they are packages.
 */
function namedFiles(text: string, from: string, bare: boolean): readonly string[] {
  const withoutContinuations = text.replaceAll(/\\\r?\n/g, "");
  return withoutContinuations.split(/["'`\n]/).flatMap((quoted) => {
    const candidate = unescaped(quoted);
    if (candidate === "" || candidate.length > longestName || notName.test(candidate)) return [];
    const instructions = bare && candidate.startsWith("@") ? [resolve(dirname(from), candidate.slice(1))] : [];
    const modules = pathsOf(candidate, from, bare).flatMap(possiblePaths);
    return [...instructions, ...modules, ...packageFiles(candidate, from)].filter(
      (path) => !path.split(sep).includes("node_modules") && isFile(path),
    );
  });
}

/** The paths that a name in a module may mean, as written and with its percent-encoding decoded. */
function pathsOf(name: string, from: string, bare: boolean): readonly string[] {
  if (name.startsWith("file:")) return pathOfUrl(name);
  const path = name.replace(/[?#].*$/s, "");
  if (path === "" || (!bare && !/^\.{0,2}\//.test(path))) return [];
  return [...new Set([path, percentDecoded(path)])].map((written) => resolve(dirname(from), written));
}

function pathOfUrl(url: string): readonly string[] {
  try {
    return [fileURLToPath(url)];
  } catch {
    // Not a URL of a local file.
    return [];
  }
}

function percentDecoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** A text of JavaScript or JSON with its escape sequences decoded. */
function unescaped(text: string): string {
  if (!text.includes("\\")) return text;
  return text.replaceAll(
    /\\(?:u\{(?<point>[\da-f]{1,6})\}|u(?<unit>[\da-f]{4})|x(?<byte>[\da-f]{2})|(?<other>.))/gi,
    (...groups) => {
      const { point, unit, byte, other }: { readonly [name: string]: string | undefined } = groups.at(-1);
      const code = Number.parseInt(point ?? unit ?? byte ?? "", 16);
      return code <= 0x10_ff_ff ? String.fromCodePoint(code) : (other ?? "");
    },
  );
}

/**
 * The files that a module name may resolve to: as written, TypeScript in place of JavaScript, without its extension, an
 * index of a folder.
 */
function possiblePaths(path: string): readonly string[] {
  const extensions = [".ts", ".mts", ".cts", ".tsx", ".js", ".mjs", ".cjs", ".jsx"];
  const typescript = /\.[cm]?jsx?$/.test(path) ? [path.replace(/js(x?)$/, "ts$1")] : [];
  const named = namedFile.test(path) ? [path] : [];
  const completed = namedFile.test(path) ? [] : extensions.map((extension) => path + extension);
  return [...named, ...typescript, ...completed, ...extensions.map((extension) => join(path, `index${extension}`))];
}

/**
 * The files that a name means by the package.json of a module: one of its `imports` (`#tools`), or a path of the
 * package itself (`my-app/tools`), under any condition; and that package.json. Empty: the name is neither.
 */
function packageFiles(name: string, from: string): readonly string[] {
  // Most candidates are no names of modules: do not look for a package.json for them.
  if (!/^(?:#|@?[\w.-]+(?:\/|$))[^\s:]*$/.test(name)) return [];
  const manifest = nearestManifest(dirname(from));
  if (manifest === null) return [];
  const { path, fields } = manifest;
  const isOwn =
    typeof fields["name"] === "string" && (name === fields["name"] || name.startsWith(`${fields["name"]}/`));
  if (!name.startsWith("#") && !isOwn) return [];
  const subpath = isOwn ? `.${name.slice(String(fields["name"]).length)}` : name;
  const targets = matchingTargets(isOwn ? fields["exports"] : fields["imports"], subpath);
  return targets.length === 0 ? [] : [path, ...targets.map((target) => resolve(dirname(path), target))];
}

/**
 * The targets of a name in `imports` or `exports`, under any condition. A `*` of a pattern stands for a part of the
 * name.
 */
function matchingTargets(map: unknown, name: string): readonly string[] {
  const hasKeys = isMap(map) && Object.keys(map).some((key) => /^[.#]/.test(key));
  return Object.entries(hasKeys ? map : { ".": map }).flatMap(([key, target]) => {
    const [start = "", end] = key.split("*", 2);
    if (end === undefined) return key === name ? textsOf(target) : [];
    const isMatch = name.startsWith(start) && name.endsWith(end) && name.length >= start.length + end.length;
    const part = name.slice(start.length, name.length - end.length);
    return isMatch ? textsOf(target).map((text) => text.replaceAll("*", () => part)) : [];
  });
}

/** The texts inside a value of lists and objects. */
function textsOf(value: unknown): readonly string[] {
  if (typeof value === "string") return [value];
  if (Array.isArray(value)) return value.flatMap(textsOf);
  return isMap(value) ? Object.values(value).flatMap(textsOf) : [];
}

type Manifest = { readonly path: string; readonly fields: { readonly [name: string]: unknown } };

/** The package.json of the package that a folder belongs to; `null`: there is none, or it cannot be parsed. */
function nearestManifest(folder: string): Manifest | null {
  const path = join(folder, "package.json");
  if (!isFile(path)) return dirname(folder) === folder ? null : nearestManifest(dirname(folder));
  try {
    const fields: unknown = JSON.parse(readFileSync(path, "utf8"));
    return isMap(fields) ? { path, fields } : null;
  } catch {
    return null;
  }
}
