// What the tools of agents and of sessions share.

import type { CallToolResult, ServerContext } from "@modelcontextprotocol/server";

/** Reports progress to a client that asked for it; other clients get none. */
export function progressOf({ mcpReq }: ServerContext): (message: string) => Promise<void> {
  const { ["_meta"]: meta } = mcpReq;
  const progressToken = meta?.progressToken;
  let progress = 0;
  return async (message) => {
    if (progressToken === undefined) return;
    progress += 1;
    await mcpReq.notify({ method: "notifications/progress", params: { progressToken, progress, message } });
  };
}

/** A result that reports an error to the model of the client. */
export function failed(text: string): CallToolResult {
  return { isError: true, content: [{ type: "text", text }] };
}
