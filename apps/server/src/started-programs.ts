// Finds the files of programs that a configuration starts, such as MCP servers, for the digest of covered-files.ts.
//
// The search is textual, as that of covered-files.ts: every word of a text is a candidate. A word names a program if
// there is such a file in one of the folders in which it may be meant: that of the configuration, which is the working
// directory of programs, that of the text, and folders that the configuration names (`cwd`). Scripts among them are
// searched too, and Python programs for the modules that they import.
//
// Not covered are programs that the system finds (`PATH`, absolute paths without an extension outside of the folder),
// packages that a program installs or imports, names that are computed, and what scripts of more than 1 MiB name.

import { closeSync, openSync, readSync, statSync } from "node:fs";
import { basename, dirname, join, resolve, sep } from "node:path";

const script = /\.(?:pyw?|sh|bash|zsh|fish|rb|p[lm]|php|lua|tcl|r|jl|ps1|cmd|bat)$/i;
/** Files that are run, or that a program runs or reads as its own code. */
const programFile =
  /\.(?:pyw?|sh|bash|zsh|fish|rb|p[lm]|php|lua|tcl|r|jl|ps1|cmd|bat|exe|jar|pyz|go|rs|java|kts?|swift)$/i;
const moduleFile = /\.[cm]?[jt]sx?$/;
const moduleExtensions = [".js", ".mjs", ".cjs", ".ts", ".mts", ".cts"];

const longestWord = 500;
const longestScript = 1_048_576;

/** Where a text is, and which folders its words may refer to. */
export type ProgramText = {
  /** The real path of the file. */
  readonly from: string;
  /** The folder of the configuration file. */
  readonly root: string;
  readonly isConfig: boolean;
  /** The folders that the configuration names. Those of `text` are added if it is the configuration. */
  readonly folders: Set<string>;
};

/** Returns whether the words of a file are searched for programs. */
export function isScript(path: string): boolean {
  return script.test(path);
}

/** The existing files of programs that a text names. `text` has its escape sequences decoded. */
export function programFiles(text: string, at: ProgramText): readonly string[] {
  if (!at.isConfig && text.length > longestScript) return [];
  const words = [...new Set(text.split(/[\s"'`=,;&|()<>[\]{}]+/))].filter(
    (word) => word !== "" && word.length <= longestWord && !word.includes("\0"),
  );
  const { from, root, isConfig, folders } = at;
  if (isConfig) for (const word of words) if (isFolder(resolve(root, word))) folders.add(resolve(root, word));
  const bases = [...new Set([root, ...foldersOf(from, root), ...folders])];
  // `python -m NAME` starts a module.
  const startsModules = isConfig && /(?:^|[\s"'`])-m(?:$|[\s"'`,])/m.test(text);
  const named = words.flatMap((word) =>
    bases.flatMap((base) => [
      ...candidates(word, base, at),
      ...(startsModules && /^[a-z_][\w.]*$/i.test(word) ? pythonModule(base, word) : []),
    ]),
  );
  const imported = /\.pyw?$/i.test(from) ? pythonImports(text, from, bases) : [];
  return [...new Set([...named, ...imported])].filter(
    (path) => !path.split(sep).includes("node_modules") && isFile(path),
  );
}

/** The paths that a word may mean in a folder. */
function candidates(word: string, base: string, { root, isConfig, from, folders }: ProgramText): readonly string[] {
  const path = resolve(base, word);
  if (programFile.test(word)) return [path];
  // Modules in the folder of the text itself are found by covered-files.ts.
  if (moduleFile.test(word)) return folders.has(base) || isScript(from) ? [path] : [];
  const started = folders.has(base) ? moduleExtensions.map((extension) => path + extension) : [];
  const isBare = !word.includes("/") && !word.includes(sep);
  const hasExtension = basename(path).includes(".");
  if (hasExtension || (isBare && !isConfig) || !path.startsWith(root + sep) || isDatabase(path)) return started;
  return [path, ...started];
}

/**
 * The folder of a file and those around it, up to the folder of the configuration: programs find their modules there.
 */
function foldersOf(from: string, root: string): readonly string[] {
  const folder = dirname(from);
  return folder === root || !folder.startsWith(root + sep) ? [folder] : [folder, ...foldersOf(folder, root)];
}

/** The modules that a Python program imports: those beside it, and those of its packages. */
function pythonImports(text: string, from: string, bases: readonly string[]): readonly string[] {
  const paths: string[] = [];
  for (const [, dots = "", name = "", list = ""] of text.matchAll(
    /^[ \t]*from[ \t]+(\.*)([\w.]*)[ \t]+import[ \t]+(\([^)]*\)|[^\n]*)/gm,
  )) {
    const relativeTo = join(dirname(from), ...Array.from({ length: Math.max(0, dots.length - 1) }, () => ".."));
    const members = list.match(/\w+/g) ?? [];
    for (const base of dots === "" ? bases : [relativeTo])
      for (const member of ["", ...members])
        paths.push(...pythonModule(base, [name, member].filter((part) => part !== "").join(".")));
  }
  for (const [, list = ""] of text.matchAll(/^[ \t]*import[ \t]+([^\n#]+)/gm))
    for (const name of list.split(",").map((item) => item.trim().split(/\s/, 1)[0] ?? ""))
      for (const base of bases) paths.push(...pythonModule(base, name));
  return paths;
}

/** The files that a dotted name of a Python module may mean, with those of the packages around it. */
function pythonModule(base: string, name: string): readonly string[] {
  const parts = name.split(".").filter((part) => part !== "");
  return parts.flatMap((_, index) => {
    const path = join(base, ...parts.slice(0, index + 1));
    return [`${path}.py`, join(path, "__init__.py"), join(path, "__main__.py")];
  });
}

/** Returns whether a file is a SQLite database: it changes with every turn. */
function isDatabase(path: string): boolean {
  if (!isFile(path)) return false;
  const start = Buffer.alloc(15);
  try {
    const file = openSync(path, "r");
    try {
      readSync(file, start);
    } finally {
      closeSync(file);
    }
  } catch {
    return false;
  }
  return start.toString("latin1") === "SQLite format 3";
}

/** Returns whether a path is that of a regular file. */
export function isFile(path: string): boolean {
  return statOf(path)?.isFile() === true;
}

function isFolder(path: string): boolean {
  return statOf(path)?.isDirectory() === true;
}

function statOf(path: string): ReturnType<typeof statSync> | undefined {
  try {
    return statSync(path, { throwIfNoEntry: false });
  } catch {
    // A part of the path is a file, or the path is too long: not all words are names.
    return undefined;
  }
}
