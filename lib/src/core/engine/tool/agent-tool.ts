// A tool that runs another engine. The turn of the inner agent runs inside the tool call, is cancelled by the signal of
// the call, and its usage is added to the outer turn.

import type { CallerContext, ChatResult, ToolMessage } from "../../model/internal.ts";
import type { Engine } from "../engine.ts";
import type { ChatOptions } from "../run-options.ts";
import type { Tool } from "./tool.ts";

import { textOfReply } from "../../model/internal.ts";
import { resolveTools } from "../engine.ts";
import { fail } from "./directive.ts";
import { tool } from "./tool.ts";

/** The argument of {@link agentTool}. */
type AgentToolDefinition<Inner extends CallerContext = CallerContext> = {
  readonly name: string;
  readonly description: string;
  readonly engine: Engine<Inner>;
  /** Options of the inner turns. */
  readonly options?: ChatOptions<Inner>;
  /** The time limit of one inner turn, in milliseconds. Default: the `toolTimeout` of the outer run. */
  readonly timeoutMs?: number;
  /** Converts the answer of the inner agent to what the outer model sees. Default: the text itself. */
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
  const runner = tool({
    name,
    description,
    schema: {
      type: "object",
      properties: { task: { type: "string" } },
      required: ["task"],
      additionalProperties: false,
    },
    replay: "safe",
    handler: async ({ task }, { runChild, signal }) => {
      const result = await runChild(engine, String(task), options ?? {});
      // A turn that was cancelled with its call has no result: the call is cancelled as well.
      if (result.haltedReason === "cancelled") signal.throwIfAborted();
      return toolResult(name, result);
    },
    toModel: (text) => (toModel === undefined ? String(text) : toModel(String(text))),
    ...(timeoutMs === undefined ? {} : { timeoutMs }),
  });
  return { ...runner, agent: () => resolveTools(engine, options ?? {}) };
}

/**
 * Returns the text of the inner agent's answer. A turn that failed, was cancelled, or stopped without any text fails
 * the call; a turn that a limit stopped after some text returns that text.
 */
function toolResult(name: string, { finalResponse, haltedReason, metadata }: ChatResult): unknown {
  const text = textOfReply(finalResponse);
  const isAnswer = haltedReason === "completed" || text !== "";
  if (isAnswer && haltedReason !== "error" && haltedReason !== "cancelled") return text;
  return fail(metadata.error?.message ?? `${name} ended without an answer: ${haltedReason}`);
}
