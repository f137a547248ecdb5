// Entry point `everturn/mcp`: tools, resources and prompts of MCP servers, and engines and sessions as an MCP server.
// Needs the packages `@modelcontextprotocol/client` and `@modelcontextprotocol/server`, which are loaded on first use.

export type { McpClient, McpElicitationResult, McpOptions, McpServer, McpToolInfo } from "./types.ts";

export type { McpServerEntry } from "./servers.ts";
export { connectMcpServers } from "./servers.ts";
export { connectMcp, mcpClient, withMcp } from "./client.ts";
export type { McpHandler, McpHandlerOptions } from "./serve.ts";
export { mcpHandler, serveMcpStdio } from "./serve.ts";
