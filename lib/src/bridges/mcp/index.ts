// Entry point `everturn/mcp`: tools, resources and prompts of MCP servers, and engines and sessions as an MCP server.
// Needs the packages `@modelcontextprotocol/client` and `@modelcontextprotocol/server`, which are loaded on first use.

export type {
  McpAnnotations,
  McpClient,
  McpElicitation,
  McpElicitationResult,
  McpOptions,
  McpPrompt,
  McpResource,
  McpResourceContent,
  McpResourceTemplate,
  McpServer,
  McpToolInfo,
  SessionsOfCaller,
} from "./types.ts";

export type { McpServerEntry, McpServersOptions } from "./servers.ts";
export { connectMcpServers } from "./servers.ts";
export { connectMcp, mcpClient, withMcp } from "./client.ts";
export type { McpAgent, McpHandler, McpHandlerOptions, McpServeOptions } from "./serve.ts";
export { mcpHandler, serveMcpStdio } from "./serve.ts";
