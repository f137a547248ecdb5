// What other libraries need for the turn of `durable-worker.ts`: N calls of the tool `note` by a scripted model, each
// step stored before the next one starts. They are installed into the folder of a run and are no dependencies of this
// workspace, so this file is not type-checked.

import { DBOS } from "@dbos-inc/dbos-sdk";
import { BaseChatModel } from "@langchain/core/language_models/chat_models";
import { AIMessage } from "@langchain/core/messages";
import { createAgent, tool } from "langchain";
import { z } from "zod";

const prompt = "Write the notes.";

/** `createAgent` with a checkpointer that stores each checkpoint before the next node runs. */
export async function langGraph({ storage, place, instructions, noteOf }) {
  let left = 0;
  class Script extends BaseChatModel {
    _llmType() {
      return "script";
    }
    bindTools() {
      return this;
    }
    async _generate() {
      left -= 1;
      const toolCalls = left < 0 ? [] : [{ id: `call_${left}`, name: "note", args: { step: left }, type: "tool_call" }];
      const usage = { input_tokens: 10, output_tokens: 5, total_tokens: 15 };
      const message = new AIMessage({ content: left < 0 ? "Done." : "", tool_calls: toolCalls, usage_metadata: usage });
      return { generations: [{ text: "", message }] };
    }
  }
  const note = tool(({ step }) => noteOf(step), {
    name: "note",
    description: "Writes a note.",
    schema: z.object({ step: z.number().int() }),
  });
  const checkpointer = await saver(storage, place);
  const agent = createAgent({ model: new Script({}), tools: [note], systemPrompt: instructions, checkpointer });
  return async (session, steps) => {
    left = steps;
    const config = { configurable: { thread_id: session }, durability: "sync", recursionLimit: 1_000_000 };
    const { messages } = await agent.invoke({ messages: [{ role: "user", content: prompt }] }, config);
    if (messages.length !== 2 * steps + 2) throw new Error(`LangGraph: ${messages.length} messages of ${steps} steps`);
  };
}

async function saver(storage, place) {
  if (storage === "Postgres") {
    const { PostgresSaver } = await import("@langchain/langgraph-checkpoint-postgres");
    const checkpointer = PostgresSaver.fromConnString(place);
    await checkpointer.setup();
    return checkpointer;
  }
  const { SqliteSaver } = await import("@langchain/langgraph-checkpoint-sqlite");
  const checkpointer = SqliteSaver.fromConnString(place);
  // Without FULL a commit in WAL mode is not on the disk when it returns.
  checkpointer.db.pragma("journal_mode = WAL");
  checkpointer.db.pragma("synchronous = FULL");
  return checkpointer;
}

/** A workflow by hand: a step for the reply of the model and a step for the tool. */
export async function dbos({ place, instructions, noteOf }) {
  const workflow = DBOS.registerWorkflow(
    async (steps) => {
      const messages = [
        { role: "system", content: instructions },
        { role: "user", content: prompt },
      ];
      for (let left = steps - 1; ; left -= 1) {
        const calls = left < 0 ? [] : [{ id: `call_${left}`, name: "note", arguments: { step: left } }];
        const reply = { role: "assistant", content: left < 0 ? "Done." : "", calls, usage: { input: 10, output: 5 } };
        messages.push(await DBOS.runStep(async () => reply, { name: "model" }));
        if (left < 0) return messages.length;
        const content = await DBOS.runStep(async () => noteOf(left), { name: "note" });
        messages.push({ role: "tool", id: calls[0].id, content });
      }
    },
    { name: "notes" },
  );
  DBOS.setConfig({ name: "bench", systemDatabaseUrl: place, logLevel: "error" });
  await DBOS.launch();
  return async (session, steps) => {
    const handle = await DBOS.startWorkflow(workflow, { workflowID: session })(steps);
    const count = await handle.getResult();
    if (count !== 2 * steps + 3) throw new Error(`DBOS: ${count} messages of ${steps} steps`);
  };
}
