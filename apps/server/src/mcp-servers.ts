// Connects the MCP servers of the configuration file, and adds their tools to the engines. Only a configuration file
// can name servers, and a file that was found in a folder is read only if the user trusts it (trust.ts): an entry
// starts a program.

import type { Environment, Settings } from "./settings.ts";
import type { Engine } from "everturn";
import type { McpClient } from "everturn/mcp";

import { dirname } from "node:path";

import { SettingsError, thrownText } from "./setting-readers.ts";

/** The connected servers. */
export type ConnectedServers = {
  readonly clients: readonly McpClient[];
  /** The engines with the tools of the servers. */
  readonly engines: { readonly [name: string]: Engine };
  readonly close: () => Promise<void>;
};

/**
 * Connects the servers. Throws `SettingsError` for an entry that cannot be used and for a server that cannot be
 * reached.
 */
export async function connectServers(
  { program, configFile }: Settings,
  engines: { readonly [name: string]: Engine },
  environment: Environment,
): Promise<ConnectedServers> {
  if (Object.keys(program.mcpServers).length === 0) return { clients: [], engines, close: async () => undefined };
  // Loaded only here: most commands use no MCP server.
  const { connectMcpServers, withMcp } = await import("everturn/mcp");
  const cwd = configFile === null ? {} : { cwd: dirname(configFile) };
  try {
    const clients = await connectMcpServers(program.mcpServers, { environment, ...cwd });
    const close = async () => void (await Promise.all(clients.map((client) => client.close())));
    try {
      const extended = Object.entries(engines).map(([name, engine]) => [name, withMcp(engine, clients)] as const);
      return { clients, engines: Object.fromEntries(extended), close };
    } catch (error) {
      await close();
      throw error;
    }
  } catch (cause) {
    throw new SettingsError(`${configFile ?? "mcpServers"}: ${thrownText(cause)}`, { cause });
  }
}
