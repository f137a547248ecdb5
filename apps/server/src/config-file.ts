// Finds and reads the configuration file: JSON, or a module with an object as its default export. This file checks the names of the fields; the
// readers of setting-readers.ts and program-config.ts check their values.
//
// A configuration module and tool modules are code of the user and run with the rights of the process. A file that was found in the folder, not named, is
// used only if the user trusts it (trust.ts).
//
// TypeScript
//   Node removes types from 22.18 on. An older Node gets the loader `tsx` if the project of the file has it; the command itself contains no compiler. Otherwise
//   the error names the alternatives. docs/decisions/0032.

import type { System } from "./user-folders.ts";

import { existsSync, readFileSync, statSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, extname, join, resolve } from "node:path";
import { pathToFileURL } from "node:url";

import { SettingsError, thrownText } from "./setting-readers.ts";
import { checkTrusted } from "./trust.ts";

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
 * Reads the named file, or the one in the folder if the user trusts it; `null`: none exists. Throws `SettingsError` for a field that is not in `fieldNames`, and
 * `UntrustedConfigError`.
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

/** Returns the configuration file of a folder; `null`: it has none. Throws `SettingsError` if it has several. */
export function findConfig(folder: string): string | null {
  const paths = fileNames.map((name) => join(folder, name)).filter((path) => existsSync(path));
  if (paths.length > 1) {
    throw new SettingsError(
      `there are several configuration files: ${paths.join(", ")}; choose one with --config FILE`,
    );
  }
  return paths[0] ?? null;
}

function readJson(path: string): unknown {
  try {
    // Some editors write a byte order mark.
    return JSON.parse(readFileSync(path, "utf8").replace(/^\uFEFF/, ""));
  } catch (error) {
    // V8's message quotes the file, which may contain a token. The quotation is removed, and the error is not passed on as the cause.
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

/** Imports a module of the user. `what` names the module in errors. */
export async function importFile(path: string, what: string): Promise<{ readonly [name: string]: unknown }> {
  if (!existsSync(path)) throw new SettingsError(`${what} ${path} does not exist`);
  if (statSync(path).isDirectory()) throw new SettingsError(`${what} ${path} is a folder; a file is needed`);
  if (typescriptFile.test(path)) await loadTypescriptWith(path);
  try {
    return unwrapped(await import(pathToFileURL(path).href));
  } catch (cause) {
    if (isUnknownExtension(cause)) {
      const message = `${what} ${path} is TypeScript or imports it, which Node ${process.versions.node} cannot load: use Node 22.18 or later, or add the loader tsx to the project (npm install --save-dev tsx), or write it as JavaScript (.mjs)`;
      throw new SettingsError(message, { cause });
    }
    const hint = isMissingLibrary(cause)
      ? "; install everturn in its folder, or move it into a project that has it"
      : "";
    throw new SettingsError(`${what} ${path} cannot be imported: ${thrownText(cause)}${hint}`, { cause });
  }
}

const typescriptFile = /\.[cm]?ts$/;

/**
 * Registers the loader `tsx` of the project of a module, if this Node does not load TypeScript and the project has it. It is the module that `node --import tsx`
 * imports; Node evaluates it once.
 */
async function loadTypescriptWith(path: string): Promise<void> {
  // Absent before Node 22.10; `false`: the feature is turned off.
  const typescript: unknown = "typescript" in process.features && process.features.typescript;
  if (typescript !== false) return;
  const loader = resolveLoader(path);
  if (loader !== null) await import(pathToFileURL(loader).href);
}

/** The file of `tsx` in the project of a module; `null`: the project does not have it. */
function resolveLoader(path: string): string | null {
  try {
    return createRequire(path).resolve("tsx");
  } catch {
    return null;
  }
}

/** The exports of a module. In a project without `"type": "module"`, tsx compiles to CommonJS, and `import` wraps the exports into a default export. */
function unwrapped(module: { readonly [name: string]: unknown }): { readonly [name: string]: unknown } {
  const exported = module["default"];
  return isMap(exported) && "__esModule" in exported ? exported : module;
}

function isMap(value: unknown): value is { readonly [name: string]: unknown } {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function isUnknownExtension(error: unknown): boolean {
  return (
    error instanceof Error &&
    "code" in error &&
    error.code === "ERR_UNKNOWN_FILE_EXTENSION" &&
    /\.[cm]?ts"/.test(error.message)
  );
}

/** Node resolves `import "everturn"` from the folder of the importing module, not from the folder of the command. */
function isMissingLibrary(error: unknown): boolean {
  return (
    error instanceof Error &&
    "code" in error &&
    error.code === "ERR_MODULE_NOT_FOUND" &&
    error.message.startsWith("Cannot find package 'everturn'")
  );
}
