// The functions that connect to MCP servers.

import type { Engine, Tool } from "../../core/engine/internal.ts";
import type { CallerContext } from "../../core/model/internal.ts";
import type { McpClient, McpOptions } from "./types.ts";

import { closeable, invalidArgument } from "../../core/model/internal.ts";
import { McpConnection } from "./connection.ts";

/**
 * Connects to an MCP server and reads its tools, which an engine takes: `engine({ tools: client.tools })`. Rejects if
 * the server cannot be reached. Call `close` when the program ends: it stops the process of a stdio server.
 */
export async function connectMcp(options: McpOptions): Promise<McpClient> {
  const client = mcpClient(options);
  try {
    await client.refresh();
    return client;
  } catch (error) {
    await client.close();
    throw error;
  }
}

/**
 * Builds the client without connecting; `refresh` connects and reads the tools. For servers with interactive
 * authorization (`finishAuth`).
 */
export function mcpClient(options: McpOptions): McpClient {
  return closeable(new McpConnection(options));
}

/**
 * Returns the engine with the tools of these servers. Every turn starts with the tools that the servers have then, so a
 * changed list takes effect with the next turn. Throws `MisuseError` if two tools have one name: give the servers a
 * `prefix`. A tool that a server adds later does not replace one of the same name that the engine or an earlier server
 * has.
 */
export function withMcp<Context extends CallerContext>(
  engine: Engine<Context>,
  clients: readonly Pick<McpClient, "tools">[],
): Engine<Context> {
  const own = engine.tools;
  const all = (): readonly Tool<Context>[] => [...own, ...clients.flatMap(({ tools }) => tools)];
  const current = (): readonly Tool<Context>[] => {
    const byName = new Map<string, Tool<Context>>();
    for (const tool of all()) if (!byName.has(tool.name)) byName.set(tool.name, tool);
    return [...byName.values()];
  };
  const names = all().map(({ name }) => name);
  const repeated = names.find((name, index) => names.indexOf(name) !== index);
  if (repeated !== undefined) {
    throw invalidArgument(`withMcp: two tools are named "${repeated}"; give the servers a prefix`);
  }
  const { tools: _, ...rest } = engine;
  return Object.defineProperty({ ...rest, tools: own }, "tools", { enumerable: true, get: current });
}
