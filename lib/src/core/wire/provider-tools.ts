// Tools that a provider defines, and which of them the program runs.
//
// A provider tool is run by the provider (a web search), or by the program (a shell, a text editor): the provider only
// defines the call and its answer. The calls of the second group reach the program as ordinary tool calls. This file
// maps the definition of such a tool to the name that its calls have, so that the engine can pair the definition with a
// handler. The decoders give the calls the same names.
//
// Names of calls
//   OpenAI      `shell`, `local_shell`, `apply_patch`, `computer`, `tool_search`: the items have no name; `custom`: the
//               name in the definition; `mcp`: `mcp_<server label>` for the approval requests of that server
//   Anthropic   the field `name` of the definition, which the API fixes for each type (`bash_20250124` is `bash`); a
//               toolset has no name, and its calls have the name of the family (`computer_toolset_20260801` is
//               `computer`)

import type { JsonObject, ProviderTool } from "../model/internal.ts";

import { objectAt, textAt } from "./fields.ts";

/** The name under which the calls of a provider tool reach the program; `null`: the provider runs the tool. */
export function clientCallName({ name, options }: ProviderTool): string | null {
  switch (name) {
    case "custom":
      return textAt(options, "name") ?? textAt(objectAt(options, "custom"), "name");
    case "shell":
      return isHostedEnvironment(objectAt(options, "environment")) ? null : name;
    case "local_shell":
    case "apply_patch":
      return name;
    case "computer":
    case "computer_use_preview":
      return "computer";
    case "tool_search":
      return textAt(options, "execution") === "client" ? name : null;
    case "mcp":
      return mcpCallName(textAt(options, "server_label") ?? "");
    default:
      return toolsetFamily(name) ?? (clientTypes.test(name) ? datedToolName(name) : null);
  }
}

/** Types of Anthropic's tools whose calls the program runs. */
const clientTypes = /^(?:bash|text_editor|computer|memory)_\d{8}$/;

/** The family of an Anthropic toolset whose calls the program runs: `computer` or `browser`; `null` for other types. */
function toolsetFamily(type: string): string | null {
  return /^(computer|browser)_toolset_\d{8}$/.exec(type)?.[1] ?? null;
}

/**
 * The name of the approval requests of an MCP server: `mcp_` and the label of the server, with the characters and the
 * length of a tool name.
 */
export function mcpCallName(serverLabel: string): string {
  return `mcp_${serverLabel.replaceAll(/[^A-Za-z0-9_-]/g, "_")}`.slice(0, 64);
}

/** Does the provider run the commands of a shell in this environment: a container of its own? */
export function isHostedEnvironment(environment: JsonObject | null): boolean {
  return textAt(environment, "type")?.startsWith("container") === true;
}

/**
 * The name of an Anthropic tool whose type has a date (`web_search_20250305`): the type without the date, unless
 * `toolNamesByType` lists another. `null`: the type has no date, or it is a toolset, which has no name.
 */
export function datedToolName(type: string): string | null {
  const undated = /^(.+)_\d{8}$/.exec(type)?.[1];
  if (undated === undefined || undated.endsWith("_toolset")) return null;
  return toolNamesByType.get(type) ?? undated;
}

/** Names of provider tools that cannot be derived from their type. */
const toolNamesByType: ReadonlyMap<string, string> = new Map([
  ["text_editor_20241022", "str_replace_editor"],
  ["text_editor_20250124", "str_replace_editor"],
  ["text_editor_20250429", "str_replace_based_edit_tool"],
  ["text_editor_20250728", "str_replace_based_edit_tool"],
]);
