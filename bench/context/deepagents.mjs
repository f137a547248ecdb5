// The conversation of the script with deepagents, in a process of its own. It is installed into the folder of a run and
// is no dependency of this workspace, so this file is not type-checked. Reads its input as JSON from the first argument,
// and prints what it reports as JSON.
//
//   whole        `createDeepAgent` as its documentation shows it: long results are moved to files, old messages are
//                summarized. The model says how long its context window is.
//   middleware   its middleware for summaries in an agent of LangChain with the same tools, and results that are cut

import { Command, MemorySaver } from "@langchain/langgraph";
import { ChatOpenAI } from "@langchain/openai";
import { createDeepAgent, createSummarizationMiddleware, StateBackend } from "deepagents";
import { createAgent, humanInTheLoopMiddleware, tool } from "langchain";
import { z } from "zod";

const { script, baseURL, how, window, instructions, cutAt } = JSON.parse(process.argv[2]);

class Model extends ChatOpenAI {
  get profile() {
    return { maxInputTokens: window };
  }
}

let size = 0;
const paid = {};
const cut = (text) =>
  how === "whole" || text.length <= cutAt ? text : `${text.slice(0, cutAt / 2)}…${text.slice(-cutAt / 2)}`;
const lookup = tool(() => cut("result ".repeat(Math.ceil(size / 7))), {
  name: "lookup",
  description: "Looks something up.",
  schema: z.object({ of: z.string().optional() }),
});
const pay = tool(
  ({ invoice }) => {
    paid[invoice] = (paid[invoice] ?? 0) + 1;
    return `paid invoice ${invoice}`;
  },
  { name: "pay", description: "Pays an invoice.", schema: z.object({ invoice: z.number() }) },
);

const model = new Model({
  model: "counting",
  apiKey: "k",
  // A streamed reply makes it download a tokenizer.
  streaming: false,
  useResponsesApi: false,
  maxRetries: 0,
  configuration: { baseURL },
});
const checkpointer = new MemorySaver();
const common = { model, tools: [lookup, pay], systemPrompt: instructions, checkpointer };
const agent =
  how === "whole"
    ? createDeepAgent({ ...common, interruptOn: { pay: true } })
    : createAgent({
        ...common,
        middleware: [
          createSummarizationMiddleware({ model, backend: (config) => new StateBackend(config) }),
          humanInTheLoopMiddleware({ interruptOn: { pay: true } }),
        ],
      });
const config = { configurable: { thread_id: "s" }, recursionLimit: 60 };

/** The storage in memory keeps the whole state of every step, which no machine has room for. */
function forgetOldCheckpoints() {
  for (const thread of Object.values(checkpointer.storage)) {
    for (const [namespace, checkpoints] of Object.entries(thread)) {
      const newest = Object.keys(checkpoints).toSorted().at(-1);
      thread[namespace] = newest === undefined ? {} : { [newest]: checkpoints[newest] };
    }
  }
}

/** The calls that wait for an approval. */
function interruptsOf(state) {
  return state["__interrupt__"] ?? [];
}

let failed = 0;
const errors = {};
for (const turn of script) {
  size = turn.size;
  try {
    let state = await agent.invoke({ messages: [{ role: "user", content: turn.text }] }, config);
    for (let waits = interruptsOf(state); waits.length > 0; waits = interruptsOf(state)) {
      const decisions = waits.flatMap(({ value }) => value.actionRequests.map(() => ({ type: "approve" })));
      state = await agent.invoke(new Command({ resume: { decisions } }), config);
    }
  } catch (error) {
    failed += 1;
    const text = String(error).slice(0, 200);
    errors[text] = (errors[text] ?? 0) + 1;
  }
  forgetOldCheckpoints();
}
process.stderr.write(failed === 0 ? "" : `${JSON.stringify(errors, null, 1)}\n`);
process.stdout.write(JSON.stringify({ failed, paid }));
