// Finds the configuration file and reads it: JSON, or a module whose default export is the same. What it says is checked by name here, and by type
// where the settings are put together.

import { existsSync, readFileSync, statSync } from "node:fs";
import { dirname, extname, join, resolve } from "node:path";
import { pathToFileURL } from "node:url";

import { SettingsError, thrownText } from "./setting-readers.ts";

export type GivenConfig = {
  readonly path: string;
  /** What its paths are relative to. */
  readonly folder: string;
  readonly fields: { readonly [name: string]: unknown };
};

const names = ["everturn.config.json", "everturn.config.js", "everturn.config.mjs", "everturn.config.ts"];

/** The file that was named, or the one in the folder; `null` when there is none. */
export async function loadConfig(
  folder: string,
  named: string | null,
  known: readonly string[],
): Promise<GivenConfig | null> {
  const path = named === null ? findConfig(folder) : resolve(folder, named);
  if (path === null) return null;
  if (!existsSync(path)) throw new SettingsError(`the configuration file ${path} is not there`);
  const value = extname(path) === ".json" ? readJson(path) : await importDefault(path);
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw new SettingsError(`${path} has to hold an object with settings: ${known.join(", ")}`);
  }
  const fields = readFields(path, value);
  const strangers = Object.keys(fields).filter((name) => name !== "$schema" && !known.includes(name));
  if (strangers.length > 0) {
    throw new SettingsError(`${path}: unknown ${strangers.join(", ")}; known are ${known.join(", ")}`);
  }
  return { path, folder: dirname(path), fields };
}

/** The fields, read once: those of a module may be code. */
function readFields(path: string, value: object): GivenConfig["fields"] {
  try {
    return { ...value };
  } catch (cause) {
    throw new SettingsError(`${path} cannot be read: ${thrownText(cause)}`, { cause });
  }
}

function findConfig(folder: string): string | null {
  const found = names.map((name) => join(folder, name)).filter((path) => existsSync(path));
  if (found.length > 1) {
    throw new SettingsError(`there are several configuration files: ${found.join(", ")}; say which with --config FILE`);
  }
  return found[0] ?? null;
}

function readJson(path: string): unknown {
  try {
    // Some editors begin a file with a mark.
    return JSON.parse(readFileSync(path, "utf8").replace(/^\uFEFF/, ""));
  } catch (error) {
    // The parser may quote the file, and a token may be in it: that is left out, and so is the cause.
    throw new SettingsError(`${path} is not JSON: ${thrownText(error).replace(/, (?:\.\.\.)?".*$/s, "")}`);
  }
}

async function importDefault(path: string): Promise<unknown> {
  const module = await importFile(path, "the configuration file");
  if (!("default" in module)) {
    throw new SettingsError(`${path} has no default export: write \`export default { model: "…" }\``);
  }
  return module["default"];
}

/** Imports a file of the user's. TypeScript is left to Node: 22.18 and later strip types by themselves. */
export async function importFile(path: string, what: string): Promise<{ readonly [name: string]: unknown }> {
  if (!existsSync(path)) throw new SettingsError(`${what} ${path} is not there`);
  if (statSync(path).isDirectory()) throw new SettingsError(`${what} ${path} is a folder: name the file`);
  try {
    const module: { readonly [name: string]: unknown } = await import(pathToFileURL(path).href);
    return module;
  } catch (cause) {
    if (isUnknownExtension(cause) && /\.[cm]?ts$/.test(path)) {
      const message = `${what} ${path} is TypeScript, which Node ${process.versions.node} cannot import: use Node 22.18 or later, or write it as .mjs or .json`;
      throw new SettingsError(message, { cause });
    }
    const hint = isWithoutLibrary(cause) ? "; install everturn beside it, or move it into a project that has it" : "";
    throw new SettingsError(`${what} ${path} cannot be imported: ${thrownText(cause)}${hint}`, { cause });
  }
}

function isUnknownExtension(error: unknown): boolean {
  return error instanceof Error && "code" in error && error.code === "ERR_UNKNOWN_FILE_EXTENSION";
}

/** A module imports the library from where it stands itself, not from where the command is. */
function isWithoutLibrary(error: unknown): boolean {
  return (
    error instanceof Error &&
    "code" in error &&
    error.code === "ERR_MODULE_NOT_FOUND" &&
    error.message.startsWith("Cannot find package 'everturn'")
  );
}
