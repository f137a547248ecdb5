// Loads tools from modules of the user; a configuration module may also contain tools. A default export is a tool, a
// list of tools, or a function that returns either. Without a default export, every named export that is a tool or a
// list of tools is used.
//
// Nothing is left out without a message
//   error     a default export of another type, a list with an item that is not a tool, a definition that was not
//             passed to `tool()`, two different tools of one name, a module without tools
//   warning   a named export that is not used: helpers and constants are legitimate, a tool beside a default export is
//             probably a mistake
// One tool that is exported twice, by itself and in a list, is one tool.

import type { Tool } from "everturn";

import { isTool, SettingsError, thrownText } from "./setting-readers.ts";
import { importFile } from "./user-module.ts";

const expected = "a tool made by tool() of everturn, a list of them, or a function that returns either";

/** Receives a complete sentence about exports that are not used. */
export type WarnTools = (message: string) => void;

/**
 * Imports the modules and collects their tools. Throws `SettingsError` for two tools of one name, because the model
 * calls tools by name. `warn` receives a message for each module with exports that are not used. Default: warnings are
 * discarded.
 */
export async function loadTools(
  modules: readonly (string | Tool)[],
  warn: WarnTools = () => undefined,
): Promise<readonly Tool[]> {
  const toolsByName = new Map<string, { readonly tool: Tool; readonly path: string }>();
  for (const item of modules) {
    const path = typeof item === "string" ? item : "the configuration file";
    for (const tool of typeof item === "string" ? await toolsOf(item, warn) : [item]) {
      const existing = toolsByName.get(tool.name);
      if (existing !== undefined && existing.tool !== tool) {
        const both = existing.path === path ? `${path} exports two` : `${existing.path} and ${path} both export one`;
        throw new SettingsError(`tools: the name "${tool.name}" is used more than once: ${both}`);
      }
      toolsByName.set(tool.name, { tool, path });
    }
  }
  return [...toolsByName.values()].map(({ tool }) => tool);
}

async function toolsOf(path: string, warn: WarnTools): Promise<readonly Tool[]> {
  const module = await importFile(path, "the tools module");
  try {
    return await exportedTools(path, module, warn);
  } catch (cause) {
    if (cause instanceof SettingsError) throw cause;
    // An export may be an object with getters, which can throw.
    throw new SettingsError(`the tools module ${path} cannot be read: ${thrownText(cause)}`, { cause });
  }
}

async function exportedTools(
  path: string,
  module: { readonly [name: string]: unknown },
  warn: WarnTools,
): Promise<readonly Tool[]> {
  // Node adds `module.exports`, and compilers add `__esModule`, to a CommonJS module.
  const named = Object.entries(module).filter(([name]) => !["default", "module.exports", "__esModule"].includes(name));
  if ("default" in module) {
    const tools = await defaultTools(path, module["default"]);
    warnUnused(path, unusedBeside(module["default"], tools, named), "its default export is used instead", warn);
    return tools;
  }
  const exported = named.map(([name, value]) => ({ name, value, tools: namedTools(path, name, value) }));
  const tools = exported.flatMap((entry) => entry.tools);
  if (tools.length === 0) {
    const names = named.map(([name]) => name);
    const text = names.length === 0 ? "it exports nothing" : `it exports ${names.join(", ")}`;
    throw new SettingsError(`the tools module ${path} has no tools: ${text}; expected ${expected}`);
  }
  const unused = exported.filter((entry) => entry.tools.length === 0);
  warnUnused(path, unused, "a named export is used if it is a tool or a list of tools", warn);
  return tools;
}

type NamedExport = { readonly name: string; readonly value: unknown };

/**
 * The named exports that a default export leaves out. An export whose value is part of the default export is used. In a
 * CommonJS module the properties of `module.exports`, which is the default export, are named exports too.
 */
function unusedBeside(
  value: unknown,
  tools: readonly Tool[],
  named: readonly (readonly [string, unknown])[],
): readonly NamedExport[] {
  const isUsed = (item: unknown): boolean => item === value || tools.some((tool) => tool === item);
  return named
    .filter(([, item]) => !isUsed(item) && !(Array.isArray(item) && item.length > 0 && item.every(isUsed)))
    .map(([name, item]) => ({ name, value: item }));
}

function warnUnused(path: string, unused: readonly NamedExport[], reason: string, warn: WarnTools): void {
  if (unused.length === 0) return;
  const names = unused.map(({ name, value }) => `${name} (${isTool(value) ? "a tool" : describeType(value)})`);
  warn(`the tools module ${path}: not used: ${names.join(", ")}; ${reason}`);
}

async function defaultTools(path: string, value: unknown): Promise<readonly Tool[]> {
  const isFactory = typeof value === "function";
  const what = isFactory ? "the return value of its default export" : "its default export";
  let tools: unknown = value;
  if (isFactory) {
    try {
      tools = await Reflect.apply(value, undefined, []);
    } catch (cause) {
      throw new SettingsError(`the tools module ${path}: its default export threw: ${thrownText(cause)}`, { cause });
    }
  }
  return checkedTools(path, what, tools);
}

function namedTools(path: string, name: string, value: unknown): readonly Tool[] {
  if (isTool(value)) return [value];
  if (Array.isArray(value) && value.some(isTool)) return checkedTools(path, `its export ${name}`, value);
  // A definition that was not passed to `tool()`. Ignoring it would leave the user's tool out without a message.
  if (isObject(value) && "handler" in value && "description" in value) {
    throw new SettingsError(
      `the tools module ${path}: its export ${name} is not a tool; pass the definition to tool({ … })`,
    );
  }
  return [];
}

function checkedTools(path: string, what: string, value: unknown): readonly Tool[] {
  if (isTool(value)) return [value];
  if (!Array.isArray(value)) {
    throw new SettingsError(`the tools module ${path}: ${what} is ${describeType(value)}; expected ${expected}`);
  }
  return value.map((item: unknown, index): Tool => {
    if (isTool(item)) return item;
    throw new SettingsError(
      `the tools module ${path}: [${index}] of ${what} is ${describeType(item)}; expected ${expected}`,
    );
  });
}

function isObject(value: unknown): value is object {
  return typeof value === "object" && value !== null;
}

function describeType(value: unknown): string {
  if (value === null || value === undefined) return String(value);
  if (Array.isArray(value)) return "a list";
  return typeof value === "object" ? "an object" : `a ${typeof value}`;
}
