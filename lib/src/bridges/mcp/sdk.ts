// Loads the MCP SDK, two optional peer dependencies: one for clients, one for servers. A static import would fail with
// Node's ERR_MODULE_NOT_FOUND when `everturn/mcp` is imported; loaded here, the error names the package to install.

import { EngineError } from "../../core/model/internal.ts";

/** The client package. Rejects with `EngineError` (`invalid_engine`) if it cannot be loaded. */
export function loadClient() {
  return loaded("@modelcontextprotocol/client", () => import("@modelcontextprotocol/client"));
}

/** The stdio transport of the client package, which needs Node. */
export function loadClientStdio() {
  return loaded("@modelcontextprotocol/client", () => import("@modelcontextprotocol/client/stdio"));
}

/** The server package. */
export function loadServer() {
  return loaded("@modelcontextprotocol/server", () => import("@modelcontextprotocol/server"));
}

/** The stdio transport of the server package, which needs Node. */
export function loadServerStdio() {
  return loaded("@modelcontextprotocol/server", () => import("@modelcontextprotocol/server/stdio"));
}

async function loaded<T>(name: string, load: () => Promise<T>): Promise<T> {
  try {
    return await load();
  } catch (cause) {
    throw new EngineError("invalid_engine", {
      message: `the package ${name} cannot be loaded; run: npm install ${name}`,
      cause,
    });
  }
}
