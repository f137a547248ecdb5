// The conversation of the script with Everturn: with a context policy, or with the oldest messages cut off.

import type { Reported, ScriptTurn } from "./script.ts";
import type { ContextPolicy, Engine } from "everturn";

import { engine, openaiCompatible, tool } from "everturn";
import { memoryStorage, runtime } from "everturn/runtime";

import { trimming } from "../../lib/test/naive-trimming.ts";
import { cutAt, instructions, resultOf, window } from "./script.ts";

/** `contextPolicy` `null`: the oldest messages are cut off. */
export async function converse(
  script: readonly ScriptTurn[],
  baseURL: string,
  contextPolicy: ContextPolicy | null,
): Promise<Reported> {
  let size = 0;
  const paid: { [invoice: string]: number } = {};
  const lookup = tool({
    name: "lookup",
    description: "Looks something up.",
    schema: { type: "object", properties: { of: { type: "string" } } },
    handler: () => resultOf(size),
  });
  const pay = tool({
    name: "pay",
    description: "Pays an invoice.",
    schema: { type: "object", properties: { invoice: { type: "number" } }, required: ["invoice"] },
    needsApproval: true,
    handler: ({ invoice }) => {
      paid[String(invoice)] = (paid[String(invoice)] ?? 0) + 1;
      return `paid invoice ${String(invoice)}`;
    },
  });
  const common = {
    adapter: openaiCompatible({ baseURL }),
    model: "counting",
    instructions,
    tools: [lookup, pay],
    retry: false,
  } as const;
  const agent: Engine =
    contextPolicy === null
      ? engine({ ...common, middleware: [trimming(window)], options: { maxToolResultLength: cutAt } })
      : engine({ ...common, contextPolicy, options: { maxToolResultLength: 1_000_000 } });
  const sessions = runtime({ host: memoryStorage(), engines: { default: agent } });
  let failed = 0;
  for (const [index, turn] of script.entries()) {
    size = turn.size;
    const handle = index === 0 ? await sessions.start(turn.text, { id: "s" }) : await sessions.reply("s", turn.text);
    let { session } = await handle.result;
    for (const { id } of session.pendingToolCalls) {
      ({ session } = await (await sessions.decide("s", id, { type: "approve" })).result);
    }
    if (session.status === "completed") continue;
    failed += 1;
    await sessions.recover("s");
  }
  await sessions.close();
  return { failed, paid };
}
