// Imports modules of the user: the configuration module and modules with tools. They are code of the user and run with
// the rights of the process.
//
// TypeScript
//   Node removes types from 22.18 on. An older Node gets the loader `tsx` if the project of the file has it; the
//   command itself contains no compiler. Otherwise the error names the alternatives. docs/decisions/0032.
//
// Module system
//   `npm init` writes `"type": "commonjs"` into package.json, and older versions of npm write no type. Node then takes
//   a `.ts` file for CommonJS, although TypeScript is written with `import` and `export`. So a `.ts` file with such
//   statements is loaded as an ES module whatever package.json says, as tsx does.

import { existsSync, readFileSync, statSync } from "node:fs";
import * as nodeModule from "node:module";
import { fileURLToPath, pathToFileURL } from "node:url";

import { isMap, SettingsError, thrownText } from "./setting-readers.ts";

/** Imports a module of the user. `what` names the module in errors. Throws `SettingsError`. */
export async function importFile(path: string, what: string): Promise<{ readonly [name: string]: unknown }> {
  if (!existsSync(path)) throw new SettingsError(`${what} ${path} does not exist`);
  if (statSync(path).isDirectory()) throw new SettingsError(`${what} ${path} is a folder; a file is needed`);
  await prepareTypescript(path);
  try {
    return unwrapped(await import(pathToFileURL(path).href));
  } catch (cause) {
    if (isUnknownExtension(cause)) {
      const message = `${what} ${path} is TypeScript or imports it, which Node ${process.versions.node} cannot load: use Node 22.18 or later, or add the loader tsx to the project (npm install --save-dev tsx), or write it as JavaScript (.mjs)`;
      throw new SettingsError(message, { cause });
    }
    throw new SettingsError(`${what} ${path} cannot be imported: ${thrownText(cause)}${hintFor(cause)}`, { cause });
  }
}

/**
 * Enables TypeScript for the modules of a project: with a hook if this Node loads TypeScript, else with the loader of
 * the project, if it has one.
 */
async function prepareTypescript(path: string): Promise<void> {
  // Absent before Node 22.10; `false`: the feature is turned off.
  const typescript: unknown = "typescript" in process.features && process.features.typescript;
  if (typescript !== false) return registerModuleHook();
  const loader = resolveLoader(path);
  // The module that `node --import tsx` imports. Node evaluates it once.
  if (loader !== null) await import(pathToFileURL(loader).href);
}

/** The file of `tsx` in the project of a module; `null`: the project does not have it. */
function resolveLoader(path: string): string | null {
  try {
    return nodeModule.createRequire(path).resolve("tsx");
  } catch {
    return null;
  }
}

let isRegistered = false;

/**
 * Loads `.ts` files with `import` or `export` as ES modules. Does nothing in a runtime without synchronous hooks (Node
 * has them from 22.15 on).
 */
function registerModuleHook(): void {
  const registerHooks: unknown = Reflect.get(nodeModule, "registerHooks");
  if (isRegistered || typeof registerHooks !== "function") return;
  isRegistered = true;
  Reflect.apply(registerHooks, nodeModule, [{ load: loadAsModule }]);
}

type LoadContext = { readonly format?: string | null };

/** A `load` hook of Node. */
export function loadAsModule<T>(url: string, context: LoadContext, next: (url: string, context: LoadContext) => T): T {
  // The format is absent if package.json has no type.
  const mayBeCommonJs = context.format === "commonjs-typescript" || (context.format ?? null) === null;
  const isModule = mayBeCommonJs && /^file:[^?#]*\.ts$/.test(url) && hasModuleSyntax(fileURLToPath(url));
  return next(url, isModule ? { ...context, format: "module-typescript" } : context);
}

/** Whether a line of the file begins with an import or an export. */
function hasModuleSyntax(path: string): boolean {
  try {
    return /^(?:import\b(?!\s*\()|export\b)/m.test(readFileSync(path, "utf8"));
  } catch {
    // Node reports the error when it reads the file.
    return false;
  }
}

/**
 * The exports of a module. In a project without `"type": "module"`, tsx compiles to CommonJS, and `import` wraps the
 * exports into a default export.
 */
function unwrapped(module: { readonly [name: string]: unknown }): { readonly [name: string]: unknown } {
  const exported = module["default"];
  return isMap(exported) && "__esModule" in exported ? exported : module;
}

function isUnknownExtension(error: unknown): boolean {
  return (
    error instanceof Error &&
    "code" in error &&
    error.code === "ERR_UNKNOWN_FILE_EXTENSION" &&
    /\.[cm]?ts"/.test(error.message)
  );
}

/** What to do about an error of `import`; empty if its message says enough. */
function hintFor(error: unknown): string {
  if (!(error instanceof Error)) return "";
  // Node resolves `import "everturn"` from the folder of the importing module, not from the folder of the command.
  if (
    "code" in error &&
    error.code === "ERR_MODULE_NOT_FOUND" &&
    error.message.startsWith("Cannot find package 'everturn'")
  )
    return "; install everturn in its folder, or move it into a project that has it";
  // A `.js` file with `import` or `export` in a project of CommonJS.
  if (error instanceof SyntaxError && /outside a module|Unexpected token 'export'/.test(error.message))
    return `; name the file .mjs, or set "type": "module" in package.json (npm pkg set type=module)`;
  return "";
}
