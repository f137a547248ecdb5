// Names and policies of MCP tools as Everturn tools.

import type { McpAnnotations, McpOptions, McpToolInfo } from "./types.ts";
import type { Tool as SdkTool } from "@modelcontextprotocol/client";

import { reservedToolNames } from "../model/internal.ts";

/** Tool names of providers: 1 to 64 letters, digits, underscores and hyphens. */
const maxNameLength = 64;

/**
 * The name for the model: prefix and name, with other characters replaced by underscores. A name that is too long, reserved or taken ends with a number, in
 * the order of the list, so that the same list always gives the same names.
 */
export function toolName(prefix: string, name: string, taken: ReadonlySet<string>): string {
  const plain = `${prefix}${name}`.replaceAll(/[^A-Za-z0-9_-]/g, "_");
  const isUsable = (candidate: string) =>
    !taken.has(candidate) && !reservedToolNames.some((word) => word === candidate);
  const cut = plain.slice(0, maxNameLength);
  if (cut !== "" && isUsable(cut)) return cut;
  for (let n = 2; ; n += 1) {
    const suffix = `_${n}`;
    const candidate = `${plain.slice(0, maxNameLength - suffix.length)}${suffix}`;
    if (isUsable(candidate)) return candidate;
  }
}

/** The hints of a tool, with the defaults of the specification. */
function annotationsOf({ annotations = {} }: SdkTool, isTrusted: boolean): McpAnnotations {
  const {
    readOnlyHint = false,
    destructiveHint = true,
    idempotentHint = false,
    openWorldHint = true,
  } = isTrusted ? annotations : {};
  return { readOnlyHint, destructiveHint, idempotentHint, openWorldHint };
}

/** A tool as options of the caller see it. */
export function toolInfo(tool: SdkTool, { trustAnnotations = true }: McpOptions): McpToolInfo {
  const { name, title = null, description = null } = tool;
  return { name, title, description, annotations: annotationsOf(tool, trustAnnotations) };
}

export function isIncluded({ include }: McpOptions, tool: McpToolInfo): boolean {
  if (include === undefined) return true;
  return typeof include === "function" ? include(tool) : include.includes(tool.name);
}

/** The replay policy. A call that only reads, or that has the same effect twice as once, can be made again. */
export function replayOf({ replay }: McpOptions, tool: McpToolInfo): "safe" | "never" | "ask" {
  if (typeof replay === "function") return replay(tool);
  const { readOnlyHint, idempotentHint } = tool.annotations;
  return replay ?? (readOnlyHint || idempotentHint ? "safe" : "never");
}

export function needsApprovalOf({ needsApproval }: McpOptions, tool: McpToolInfo): boolean {
  if (typeof needsApproval === "function") return needsApproval(tool);
  const { readOnlyHint, destructiveHint } = tool.annotations;
  return needsApproval ?? (!readOnlyHint && destructiveHint);
}
