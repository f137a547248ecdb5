// Names and policies of MCP tools as Everturn tools.

import type { McpAnnotations, McpOptions, McpToolInfo } from "./types.ts";
import type { Tool as SdkTool } from "@modelcontextprotocol/client";

import { reservedToolNames } from "../../core/model/internal.ts";

/** Tool names of providers: 1 to 64 letters, digits, underscores and hyphens. */
const maxNameLength = 64;

/**
 * Returns the function from a name of the list to the name for the model: prefix and name, with other characters
 * replaced by underscores. A name that is changed, and is too long, reserved or equal to that of another tool of the
 * list, ends with a hash of the name at the server. So a name never passes from one tool to another when the list
 * changes: a call that waits for an approval then fails, and does not call another tool.
 */
export function toolNames(prefix: string, listed: readonly string[]): (name: string) => string {
  const counts = new Map<string, number>();
  for (const name of new Set(listed)) {
    const plain = plainName(prefix, name);
    counts.set(plain, (counts.get(plain) ?? 0) + 1);
  }
  const given = new Set<string>();
  return (name) => {
    const plain = plainName(prefix, name);
    const isReserved = reservedToolNames.some((word) => word === plain);
    const isUnchanged = plain === `${prefix}${name}`;
    const isUsable = plain !== "" && !isReserved && (isUnchanged || counts.get(plain) === 1) && name !== "";
    const isCut = plain.length > maxNameLength;
    const suffix = isUsable && !isCut ? "" : `_${hashOf(name)}`;
    const result = `${plain.slice(0, maxNameLength - suffix.length)}${suffix}`;
    if (given.has(result)) throw new Error(`the name ${result} is taken by another tool`);
    given.add(result);
    return result;
  };
}

function plainName(prefix: string, name: string): string {
  return `${prefix}${name}`.replaceAll(/[^A-Za-z0-9_-]/g, "_");
}

/** A hash of a name as 8 hexadecimal digits (FNV-1a). */
function hashOf(name: string): string {
  let hash = 0x811c9dc5;
  for (const byte of new TextEncoder().encode(name)) hash = Math.imul(hash ^ byte, 0x01000193);
  return (hash >>> 0).toString(16).padStart(8, "0");
}

/** The hints of a tool that has none, by the specification. */
const noHints: McpAnnotations = {
  readOnlyHint: false,
  destructiveHint: true,
  idempotentHint: false,
  openWorldHint: true,
};

/**
 * The hints of tools over the lists of one connection: after the first list they only become stricter. The operator has
 * seen the first list; a server that calls a tool harmless later, or adds a tool with such hints, would otherwise
 * switch off approvals, and make calls repeatable, unnoticed. A tool that was not in the first list has the hints of a
 * tool without annotations.
 */
export class SeenAnnotations {
  readonly #byTool = new Map<string, McpAnnotations>();
  #isFirst = true;

  /** The tools of a list, with their hints as they are used. */
  next(listed: readonly McpToolInfo[]): readonly McpToolInfo[] {
    const isFirst = this.#isFirst;
    this.#isFirst = false;
    return listed.map((tool) => {
      const seen = this.#byTool.get(tool.name) ?? (isFirst ? tool.annotations : noHints);
      const annotations = stricter(seen, tool.annotations);
      this.#byTool.set(tool.name, annotations);
      return { ...tool, annotations };
    });
  }
}

function stricter(left: McpAnnotations, right: McpAnnotations): McpAnnotations {
  return {
    readOnlyHint: left.readOnlyHint && right.readOnlyHint,
    destructiveHint: left.destructiveHint || right.destructiveHint,
    idempotentHint: left.idempotentHint && right.idempotentHint,
    openWorldHint: left.openWorldHint || right.openWorldHint,
  };
}

/** The hints of a tool, with the defaults of the specification. */
function annotationsOf({ annotations = {} }: SdkTool, isTrusted: boolean): McpAnnotations {
  if (!isTrusted) return noHints;
  return {
    readOnlyHint: annotations.readOnlyHint ?? noHints.readOnlyHint,
    destructiveHint: annotations.destructiveHint ?? noHints.destructiveHint,
    idempotentHint: annotations.idempotentHint ?? noHints.idempotentHint,
    openWorldHint: annotations.openWorldHint ?? noHints.openWorldHint,
  };
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
