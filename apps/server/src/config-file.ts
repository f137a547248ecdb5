// Finds and reads the configuration file: JSON, or a module with an object as its default export. This file checks the
// names of the fields; the readers of setting-readers.ts and program-config.ts check their values.
//
// A configuration module and tool modules are code of the user and run with the rights of the process. A file that was
// found in the folder, not named, is used only if the user trusts it (trust.ts).

import type { System } from "./user-folders.ts";

import { existsSync, readFileSync, statSync } from "node:fs";
import { dirname, extname, join, resolve } from "node:path";

import { SettingsError, thrownText } from "./setting-readers.ts";
import { checkTrusted } from "./trust.ts";
import { importFile } from "./user-module.ts";

/** The content of a configuration file. */
export type GivenConfig = {
  readonly path: string;
  /** The folder that its relative paths are resolved against. */
  readonly folder: string;
  readonly fields: { readonly [name: string]: unknown };
};

/** The names that are searched in the working directory. */
const fileNames = ["everturn.config.json", "everturn.config.js", "everturn.config.mjs", "everturn.config.ts"];

/**
 * Reads the named file, or the one in the folder if the user trusts it; `null`: none exists. Throws `SettingsError` for
 * a field that is not in `fieldNames`, and `UntrustedConfigError`.
 */
export async function loadConfig(
  folder: string,
  namedPath: string | null,
  fieldNames: readonly string[],
  system: System,
): Promise<GivenConfig | null> {
  const path = namedPath === null ? findConfig(folder) : resolve(folder, namedPath);
  if (path === null) return null;
  if (!existsSync(path)) throw new SettingsError(`the configuration file ${path} does not exist`);
  if (namedPath === null) checkTrusted(path, system);
  const value = extname(path) === ".json" ? readJson(path) : await importDefault(path);
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw new SettingsError(`${path} has to contain an object with settings: ${fieldNames.join(", ")}`);
  }
  const fields = readFields(path, value);
  const unknownNames = Object.keys(fields).filter((name) => name !== "$schema" && !fieldNames.includes(name));
  if (unknownNames.length > 0) {
    throw new SettingsError(
      `${path}: unknown setting ${unknownNames.join(", ")}; the settings are ${fieldNames.join(", ")}`,
    );
  }
  return { path, folder: dirname(path), fields };
}

/** Copies the fields, so that each is read once: a field of a module may be a getter, which can throw. */
function readFields(path: string, value: object): GivenConfig["fields"] {
  try {
    return { ...value };
  } catch (cause) {
    throw new SettingsError(`${path} cannot be read: ${thrownText(cause)}`, { cause });
  }
}

/** The configuration files of a folder. */
export function configFilesIn(folder: string): readonly string[] {
  return fileNames.map((name) => join(folder, name)).filter((path) => existsSync(path));
}

/**
 * Returns the configuration file of a folder; `null`: it has none. Throws `SettingsError` if it has several, or one
 * that is not a regular file.
 */
export function findConfig(folder: string): string | null {
  const paths = configFilesIn(folder);
  if (paths.length > 1) {
    throw new SettingsError(
      `there are several configuration files: ${paths.join(", ")}; choose one with --config FILE`,
    );
  }
  const [path = null] = paths;
  // Reading a pipe or a device may never end.
  if (path !== null && !statSync(path).isFile()) {
    throw new SettingsError(`${path} is not a regular file; --no-config ignores it`);
  }
  return path;
}

function readJson(path: string): unknown {
  try {
    // Some editors write a byte order mark.
    return JSON.parse(readFileSync(path, "utf8").replace(/^\uFEFF/, ""));
  } catch (error) {
    // V8's message quotes the file, which may contain a token. The quotation is removed, and the error is not passed on
    // as the cause.
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
