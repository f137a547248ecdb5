// Turns as events of AG-UI, where a real client cannot cause them.

import type { RuntimeEvent } from "everturn/runtime";

import { engine, fake, halt, tool } from "everturn";
import { memoryStorage, runtime } from "everturn/runtime";
import { expect, test } from "vitest";

import { readAll } from "../../../../test/readings.ts";
import { AgUiTranslator } from "./translator.ts";

const look = tool({ name: "look", description: "Looks.", schema: { type: "object" }, handler: () => "seen" });
const stop = tool({ name: "stop", description: "Stops.", schema: { type: "object" }, handler: () => halt("done") });

async function eventsOf(name: string): Promise<readonly RuntimeEvent[]> {
  const script = [{ type: "reasoning", text: "Hm." } as const, { type: "tool_call", id: "a", name } as const];
  const adapter = fake({ scripts: [script, [{ type: "text", text: "Done." }]] });
  const sessions = runtime({
    host: memoryStorage(),
    engines: { default: engine({ adapter, model: "fake:m", tools: [look, stop] }) },
  });
  const events = await readAll((await sessions.start("Go", { id: "s" })).events);
  await sessions.close();
  return events;
}

const translator = () => new AgUiTranslator({ threadId: "s", runId: "r", turnId: "t", messages: [] });

test("a restart of the step takes back its complete reply and the results of its calls", async () => {
  const events = await eventsOf("look");
  const results = events.findIndex(({ event }) => event.type === "tool_result_encoded");
  const step = events.slice(0, results + 1);
  const reset = { type: "step_reset", reason: "restart", withdrawn: [], effectId: null, attempt: null } as const;
  const { cursor, turnId } = events[0] ?? { cursor: "", turnId: "" };
  const restart: RuntimeEvent = { cursor, turnId, sequence: 9, delta: null, event: reset };
  const translate = translator();
  const sent = [...step, restart, ...step].flatMap(translate.add);
  const at = sent.findIndex(({ type }) => type === "MESSAGES_SNAPSHOT");
  expect(sent[at]).toEqual({
    type: "MESSAGES_SNAPSHOT",
    messages: [{ id: "t/1/0/reasoning", role: "reasoning", content: "" }],
  });
  // The repeated call has its id again.
  const once = step.flatMap(translator().add);
  expect(sent.slice(at + 1)).toEqual(once.filter(({ type }) => type !== "STEP_STARTED"));
});

test("a call that halts the turn has its result", async () => {
  const sent = (await eventsOf("stop")).flatMap(translator().add);
  expect(sent.filter(({ type }) => type === "TOOL_CALL_RESULT")).toMatchObject([{ toolCallId: "a", content: "null" }]);
});
