// Loads tools from modules of the user. A default export is a tool, a list of tools, or a function that returns either. Without a default export,
// every named export that is a tool or a list of tools is used, and other exports are ignored.

import type { Tool } from "everturn";

import { importFile } from "./config-file.ts";
import { SettingsError, thrownText } from "./setting-readers.ts";

const expected = "a tool made by tool() of everturn, a list of them, or a function that returns either";

/** Imports the modules and collects their tools. Throws `SettingsError` for two tools of one name, because the model calls tools by name. */
export async function loadTools(paths: readonly string[]): Promise<readonly Tool[]> {
  const toolsByName = new Map<string, { readonly tool: Tool; readonly path: string }>();
  for (const path of paths) {
    for (const tool of await toolsOf(path)) {
      const existing = toolsByName.get(tool.name);
      if (existing !== undefined) {
        const both = existing.path === path ? `${path} exports two` : `${existing.path} and ${path} both export one`;
        throw new SettingsError(`tools: the name "${tool.name}" is used more than once: ${both}`);
      }
      toolsByName.set(tool.name, { tool, path });
    }
  }
  return [...toolsByName.values()].map(({ tool }) => tool);
}

async function toolsOf(path: string): Promise<readonly Tool[]> {
  const module = await importFile(path, "the tools module");
  try {
    return await exportedTools(path, module);
  } catch (cause) {
    if (cause instanceof SettingsError) throw cause;
    // An export may be an object with getters, which can throw.
    throw new SettingsError(`the tools module ${path} cannot be read: ${thrownText(cause)}`, { cause });
  }
}

async function exportedTools(path: string, module: { readonly [name: string]: unknown }): Promise<readonly Tool[]> {
  if ("default" in module) return defaultTools(path, module["default"]);
  const tools = Object.entries(module).flatMap(([name, value]) => namedTools(path, name, value));
  if (tools.length === 0) {
    const names = Object.keys(module);
    const exported = names.length === 0 ? "it exports nothing" : `it exports ${names.join(", ")}`;
    throw new SettingsError(`the tools module ${path} has no tools: ${exported}; expected ${expected}`);
  }
  return tools;
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

/** Returns whether a value was built by `tool()`. Checked by its fields, because the module may import another copy of the library. */
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
