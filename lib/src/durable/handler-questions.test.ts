// `askAndResume`: a handler asks the user and runs again with the answer, in this process or another one, and in
// memory.

import type { ToolContext } from "everturn";
import type { Runtime } from "everturn/runtime";

import { session as memory, engine, fake, tool, agentTool, askAndResume, askUser, messageText } from "everturn";
import { quickjs } from "everturn/quickjs";
import { expect, test } from "vitest";

import { call, thinker, World, worker } from "../../test/runtime/world.ts";

type Run = Pick<ToolContext, "answer" | "idempotencyKey">;

/** A tool that asks twice and returns both answers. Records each of its runs. */
function asker(replay: "safe" | "never" = "never", onAnswer = () => {}) {
  const runs: Run[] = [];
  const asks = tool({
    name: "ask",
    description: "Asks.",
    schema: { type: "object" },
    replay,
    handler: (_, { answer, idempotencyKey }) => {
      runs.push({ answer, idempotencyKey });
      if (answer === null) return askAndResume("Which city?", { state: { round: 1 }, opts: { hint: "a name" } });
      onAnswer();
      if (typeof answer.state === "object" && answer.state !== null && !("city" in answer.state)) {
        return askAndResume("Which day?", { state: { round: 2, city: answer.text } });
      }
      return { state: answer.state, day: answer.text };
    },
  });
  return { runs, tool: asks };
}

async function toolMessages(sessions: Pick<Runtime, "get">) {
  const view = await sessions.get("s1");
  return view?.session.thread.messages.filter(({ role }) => role === "tool") ?? [];
}

test("runs the handler again in another process, with the answer and the stored state", async () => {
  const world = new World();
  const { runs, tool: asks } = asker();
  const of = world.engine(worker("ask"), { tools: [asks] });
  const first = world.process(of);
  const asked = await (await first.start("go", { id: "s1" })).result;
  expect(asked).toMatchObject({ outcome: { type: "ask_user", question: "Which city?" } });
  const waiting = await first.get("s1");
  expect(waiting?.session.pendingToolCalls).toMatchObject([{ reason: "question", opts: { hint: "a name" } }]);
  const second = world.process(of);
  const again = await (await second.reply("s1", "Rome")).result;
  expect(again).toMatchObject({ outcome: { type: "ask_user", question: "Which day?" } });
  const done = await (await world.process(of).reply("s1", "Monday")).result;
  expect(done.outcome.type).toBe("assistant_message");
  expect(runs.map(({ answer }) => answer)).toEqual([
    null,
    { text: "Rome", state: { round: 1 } },
    { text: "Monday", state: { round: 2, city: "Rome" } },
  ]);
  expect(new Set(runs.map(({ idempotencyKey }) => idempotencyKey)).size).toBe(1);
  expect(await toolMessages(second)).toMatchObject([{ content: '{"state":{"round":2,"city":"Rome"},"day":"Monday"}' }]);
});

test("keeps questions and answers in the conversation, of which the model reads the result alone", async () => {
  const world = new World();
  const model = worker("ask");
  const sessions = world.process(world.engine(model, { tools: [asker().tool] }));
  await (
    await sessions.start("go", { id: "s1" })
  ).result;
  for (const answer of ["Rome", "Monday"]) await (await sessions.reply("s1", answer)).result;
  const { items } = await sessions.messages("s1");
  expect(items.map((message) => [message.role, messageText(message)])).toEqual([
    ["user", "go"],
    ["assistant", ""],
    ["assistant", "Which city?"],
    ["user", "Rome"],
    ["assistant", "Which day?"],
    ["user", "Monday"],
    ["tool", '{"state":{"round":2,"city":"Rome"},"day":"Monday"}'],
    ["assistant", "Done."],
  ]);
  expect(model.asked.at(-1)?.messages.map(({ role }) => role)).toEqual(["user", "assistant", "tool"]);
});

test("answers outcome_unknown if the process dies while a tool that must not run twice handles the answer", async () => {
  const world = new World();
  const { runs, tool: asks } = asker("never", () => dying.kill());
  const of = world.engine(worker("ask"), { tools: [asks] });
  await (
    await world.process(of).start("go", { id: "s1" })
  ).result;
  const dying = world.process(of);
  const { turnId } = await dying.reply("s1", "Rome");
  await dying.died;
  const before = runs.length;
  await world.leaseRunsOut();
  const last = world.process(of);
  await last.recover();
  await last.attach("s1", turnId).result;
  expect(JSON.stringify(await toolMessages(last))).toContain("may or may not have run");
  expect(runs).toHaveLength(before);
});

test("works on a session value in memory", async () => {
  const { runs, tool: asks } = asker("safe");
  const adapter = fake({
    scripts: [[{ type: "tool_call", id: "c1", name: "ask", arguments: {} }], [{ type: "text", text: "done" }]],
  });
  const of = engine({ adapter, model: "fake:m", tools: [asks] });
  const { session: asked } = await memory.start(of, "go");
  expect(asked).toMatchObject({ status: "awaiting_user", pendingQuestion: "Which city?" });
  const { session: again } = await memory.reply(of, asked, "Rome");
  expect(again).toMatchObject({ status: "awaiting_user", pendingQuestion: "Which day?" });
  const { session: done } = await memory.reply(of, again, "Monday");
  expect(done.status).toBe("completed");
  expect(runs).toHaveLength(3);
});

test("a question to a person that passes its deadline is answered with a text that says so", async () => {
  const world = new World();
  const { runs, tool: asks } = asker();
  const of = world.engine(worker("ask"), { tools: [asks] });
  const sessions = world.process(of);
  const waits = { question: { afterMs: 1_000 } };
  await (
    await sessions.start("go", { id: "s1", waits })
  ).result;
  const stop = new AbortController();
  const working = sessions.work({ signal: stop.signal });
  await world.clock.advance(3_000);
  stop.abort();
  await working;
  expect(runs[1]?.answer?.text).toBe("(no answer arrived before the deadline)");
});

test("works for calls of a code cell and of an agent inside a tool", async () => {
  const world = new World();
  const cellText = "```javascript\nfinish(await tools.ask({}));\n```";
  const { tool: asksInCell } = asker();
  const cells = world.engine(
    thinker(() => [{ type: "text", text: cellText }]),
    { tools: [asksInCell], protocol: { type: "code", executor: quickjs() } },
  );
  const { runs, tool: asksInside } = asker();
  const inner = world.engine(worker("ask"), { tools: [asksInside] });
  const agent = agentTool({ name: "agent", description: "Works.", engine: inner });
  const outer = world.engine(
    thinker(({ messages }) =>
      messages.some(({ role }) => role === "tool") ? [{ type: "text", text: "Done." }] : [call("agent", { task: "x" })],
    ),
    { tools: [agent] },
  );
  for (const of of [cells, outer]) {
    const id = of === cells ? "cell" : "agent";
    await (
      await world.process(of).start("go", { id })
    ).result;
    await (
      await world.process(of).reply(id, "Rome")
    ).result;
    const { outcome } = await (await world.process(of).reply(id, "Monday")).result;
    const day = { state: { round: 2, city: "Rome" }, day: "Monday" };
    if (of === cells) expect(outcome).toEqual({ type: "final_value", value: day });
    else expect(outcome.type).toBe("assistant_message");
    const messages = (await world.process(of).get(id))?.session.thread.messages ?? [];
    const people = messages.filter((message) => message.role === "user" || "askUser" in message.metadata);
    expect(people.map(messageText)).toEqual(["go", "Which city?", "Rome", "Which day?", "Monday"]);
  }
  expect(runs.at(-1)?.answer).toEqual({ text: "Monday", state: { round: 2, city: "Rome" } });
});

test("keeps the answer to a question of a tool that code called, which the code reads", async () => {
  const world = new World();
  const cellText = "```javascript\nfinish(await tools.choose({}));\n```";
  const choose = tool({
    name: "choose",
    description: "Asks.",
    schema: { type: "object" },
    handler: () => askUser("Which colour?"),
  });
  const of = world.engine(
    thinker(() => [{ type: "text", text: cellText }]),
    { tools: [choose], protocol: { type: "code", executor: quickjs() } },
  );
  const sessions = world.process(of);
  await (
    await sessions.start("go", { id: "s1" })
  ).result;
  const { outcome } = await (await sessions.reply("s1", "Blue")).result;
  expect(outcome).toEqual({ type: "final_value", value: "Blue" });
  const { items } = await sessions.messages("s1");
  const people = items.filter((message) => message.role === "user" || "askUser" in message.metadata);
  expect(people.map(messageText)).toEqual(["go", "Which colour?", "Blue"]);
});
