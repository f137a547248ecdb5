// An agent as a tool of another: its turn runs inside the call, with the signal of the call and its cost counted there.

import type { CallerContext, ChatResult, ToolMessage } from "../../model/internal.ts";
import type { Engine } from "../engine.ts";
import type { ChatOptions } from "../run-options.ts";
import type { Tool } from "./tool.ts";

import { replyText } from "../../model/internal.ts";
import { fail } from "./directive.ts";
import { tool } from "./tool.ts";

type AgentToolDefinition<Inner extends CallerContext = CallerContext> = {
  readonly name: string;
  readonly description: string;
  readonly engine: Engine<Inner>;
  /** For its turns. */
  readonly options?: ChatOptions<Inner>;
  readonly timeoutMs?: number;
  /** What the model gets to see of what the agent said. */
  readonly toModel?: (text: string) => ToolMessage["content"];
};

/**
 * A tool that runs another engine on a task and returns its answer. Its replay policy is `safe`: after a crash the
 * durable runtime replays its turn, and the policies of the agent's own tools apply (Q10).
 *
 * @example
 * ```ts
 * import { agentTool, chat, engine, fake } from "everturn";
 *
 * const poet = engine({ adapter: fake({ script: [{ type: "text", text: "Roses are red." }] }) });
 * const write = agentTool({ name: "write", description: "Writes a poem.", engine: poet });
 * const calls = [{ type: "tool_call", name: "write", arguments: { task: "on roses" } }] as const;
 * const boss = engine({ adapter: fake({ scripts: [calls, [{ type: "text", text: "Done." }]] }), tools: [write] });
 * (await chat(boss, "A poem, please.")).thread.messages[2]?.content; // => "Roses are red."
 * ```
 */
export function agentTool<Inner extends CallerContext>(definition: AgentToolDefinition<Inner>): Tool {
  const { name, description, engine, options, timeoutMs, toModel } = definition;
  return tool({
    name,
    description,
    schema: {
      type: "object",
      properties: { task: { type: "string" } },
      required: ["task"],
      additionalProperties: false,
    },
    replay: "safe",
    handler: async ({ task }, { runChild }) => said(name, await runChild(engine, String(task), options ?? {})),
    toModel: (text) => (toModel === undefined ? String(text) : toModel(String(text))),
    ...(timeoutMs === undefined ? {} : { timeoutMs }),
  });
}

function said(name: string, { finalResponse, haltedReason, metadata }: ChatResult): unknown {
  const text = finalResponse === null ? "" : (replyText(finalResponse) ?? "");
  const isAnswer = haltedReason === "completed" || text !== "";
  if (isAnswer && haltedReason !== "error" && haltedReason !== "cancelled") return text;
  return fail(metadata.error?.message ?? `${name} stopped: ${haltedReason}`);
}
