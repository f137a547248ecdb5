// Tools from modules of the user's. A module's default export is a tool, a list of tools, or a function that gives either; without one, every named
// export that is a tool or a list of tools counts, and what else a module exports is its own business.

import type { Tool } from "everturn";

import { importFile } from "./config-file.ts";
import { SettingsError, thrownText } from "./setting-readers.ts";

const expected = "a tool made by tool() of everturn, a list of them, or a function that returns either";

/** Imports the modules and collects their tools. Two of one name are refused: the model could not tell them apart. */
export async function loadTools(paths: readonly string[]): Promise<readonly Tool[]> {
  const found = new Map<string, { readonly tool: Tool; readonly path: string }>();
  for (const path of paths) {
    for (const tool of await toolsOf(path)) {
      const other = found.get(tool.name);
      if (other !== undefined) {
        const both = other.path === path ? `${path} exports two` : `${other.path} and ${path} both export one`;
        throw new SettingsError(`tools: there is more than one "${tool.name}": ${both}`);
      }
      found.set(tool.name, { tool, path });
    }
  }
  return [...found.values()].map(({ tool }) => tool);
}

async function toolsOf(path: string): Promise<readonly Tool[]> {
  const module = await importFile(path, "the tools module");
  try {
    return await exportedTools(path, module);
  } catch (cause) {
    if (cause instanceof SettingsError) throw cause;
    // What is exported may be code too.
    throw new SettingsError(`the tools module ${path} cannot be read: ${thrownText(cause)}`, { cause });
  }
}

async function exportedTools(path: string, module: { readonly [name: string]: unknown }): Promise<readonly Tool[]> {
  if ("default" in module) return defaultTools(path, module["default"]);
  const tools = Object.entries(module).flatMap(([name, value]) => namedTools(path, name, value));
  if (tools.length === 0) {
    const names = Object.keys(module);
    const there = names.length === 0 ? "it exports nothing" : `it exports ${names.join(", ")}`;
    throw new SettingsError(`the tools module ${path} has no tools: ${there}; expected ${expected}`);
  }
  return tools;
}

async function defaultTools(path: string, value: unknown): Promise<readonly Tool[]> {
  const isFactory = typeof value === "function";
  const what = isFactory ? "what its default export returns" : "its default export";
  let given: unknown = value;
  if (isFactory) {
    try {
      given = await Reflect.apply(value, undefined, []);
    } catch (cause) {
      throw new SettingsError(`the tools module ${path}: its default export threw: ${thrownText(cause)}`, { cause });
    }
  }
  return checkedTools(path, what, given);
}

function namedTools(path: string, name: string, value: unknown): readonly Tool[] {
  if (isTool(value)) return [value];
  if (Array.isArray(value) && value.some(isTool)) return checkedTools(path, `its export ${name}`, value);
  // Somebody meant a tool, and the model would never have heard of it.
  if (isObject(value) && "handler" in value && "description" in value) {
    throw new SettingsError(`the tools module ${path}: its export ${name} is no tool: wrap it, tool({ … })`);
  }
  return [];
}

function checkedTools(path: string, what: string, value: unknown): readonly Tool[] {
  if (isTool(value)) return [value];
  if (!Array.isArray(value)) {
    throw new SettingsError(`the tools module ${path}: ${what} is ${kindOf(value)}; expected ${expected}`);
  }
  return value.map((item: unknown, index): Tool => {
    if (isTool(item)) return item;
    throw new SettingsError(`the tools module ${path}: [${index}] of ${what} is ${kindOf(item)}; expected ${expected}`);
  });
}

function isObject(value: unknown): value is object {
  return typeof value === "object" && value !== null;
}

/** Made by `tool()`, of this copy of the library or of another. */
function isTool(value: unknown): value is Tool {
  return (
    isObject(value) &&
    "name" in value &&
    typeof value.name === "string" &&
    "schema" in value &&
    "hasHandler" in value &&
    "prepare" in value &&
    typeof value.prepare === "function"
  );
}

function kindOf(value: unknown): string {
  if (value === null || value === undefined) return String(value);
  if (Array.isArray(value)) return "a list";
  return typeof value === "object" ? "an object" : `a ${typeof value}`;
}
