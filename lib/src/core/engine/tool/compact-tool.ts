// A tool with which the model asks for a compaction of its own conversation: before its next step, with what to keep.

import type { Directive } from "./directive.ts";
import type { Tool } from "./tool.ts";

import { compactConversation } from "./directive.ts";
import { tool } from "./tool.ts";

const description =
  "Replaces the older messages of this conversation by a summary before the next step. Call it when a part of the work is done and its details are no longer needed.";

const schema = {
  type: "object",
  properties: {
    keep: { type: "string", description: "What the summary has to keep: names, numbers, decisions, open points." },
  },
} as const;

function requestCompaction({ keep }: { readonly keep?: unknown }): Directive {
  return compactConversation(typeof keep === "string" && keep.trim() !== "" ? keep : null);
}

/**
 * Returns a tool with which the model asks for a compaction before its next step. The summary keeps what the model asks
 * for, besides what the `contextPolicy` of the engine says. In an engine without a context policy a call has no effect.
 *
 * @example
 * ```ts
 * import { compactTool, engine, fake } from "everturn";
 *
 * const agent = engine({
 *   adapter: fake({ script: [{ type: "text", text: "Hello!" }] }),
 *   model: "fake:m",
 *   tools: [compactTool()],
 *   contextPolicy: { window: 32_000 },
 * });
 * agent.tools.map(({ name }) => name); // => ["compact_conversation"]
 * ```
 */
export function compactTool(options: { readonly name?: string } = {}): Tool {
  const { name = "compact_conversation" } = options;
  return tool({ name, description, schema, replay: "safe", handler: requestCompaction });
}
