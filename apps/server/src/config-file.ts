// Finds the configuration file and reads it: JSON, or a module whose default export is the same. What it says is checked by name here, and by type
// where the settings are put together.

import { existsSync, readFileSync } from "node:fs";
import { dirname, extname, join, resolve } from "node:path";
import { pathToFileURL } from "node:url";

import { SettingsError } from "./setting-readers.ts";

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
  const strangers = Object.keys(value).filter((name) => name !== "$schema" && !known.includes(name));
  if (strangers.length > 0) {
    throw new SettingsError(`${path}: unknown ${strangers.join(", ")}; known are ${known.join(", ")}`);
  }
  return { path, folder: dirname(path), fields: { ...value } };
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
    return JSON.parse(readFileSync(path, "utf8"));
  } catch (cause) {
    throw new SettingsError(`${path} is not JSON: ${cause instanceof Error ? cause.message : String(cause)}`, {
      cause,
    });
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
  try {
    const module: { readonly [name: string]: unknown } = await import(pathToFileURL(path).href);
    return module;
  } catch (cause) {
    if (isUnknownExtension(cause) && /\.[cm]?ts$/.test(path)) {
      const message = `${what} ${path} is TypeScript, which Node ${process.versions.node} cannot import: use Node 22.18 or later, or write it as .mjs or .json`;
      throw new SettingsError(message, { cause });
    }
    throw new SettingsError(
      `${what} ${path} cannot be imported: ${cause instanceof Error ? cause.message : String(cause)}`,
      {
        cause,
      },
    );
  }
}

function isUnknownExtension(error: unknown): boolean {
  return error instanceof Error && "code" in error && error.code === "ERR_UNKNOWN_FILE_EXTENSION";
}
