// A forced tool choice applies to the first reply after a user message: without that, a model that has to call a tool
// never answers.

import type { FakeScript } from "everturn";
import type { ToolChoice } from "everturn/advanced";

import { askUser, chat, engine, fake, generate, step, tool, assistant, toolResult, user, session } from "everturn";
import { toolCall } from "everturn/advanced";
import { memoryStorage, runtime } from "everturn/runtime";
import { describe, expect, test } from "vitest";

import { calls, plain, playing, says } from "./runs.ts";

const named = { type: "tool", name: "look" } as const;
const forced: readonly ToolChoice[] = ["required", named];

function choices(adapter: { readonly calls: readonly { readonly request: { readonly toolChoice: unknown } }[] }) {
  return adapter.calls.map(({ request }) => request.toolChoice);
}

const look = () => plain("look", () => "Sunny.");
const ask = tool({ name: "look", description: "Asks.", schema: {}, handler: () => askUser("Where?") });
const gated = () =>
  tool({ name: "look", description: "Looks.", schema: {}, needsApproval: true, handler: () => "Sunny." });

describe.each(forced)("toolChoice %j", (toolChoice) => {
  test("forces the first reply of a run, and no later one", async () => {
    const { adapter, engine: agent } = playing([calls("look"), calls("look"), says("Done.")], [look()]);
    const result = await chat(agent, "The weather?", { toolChoice });
    expect(result.haltedReason).toBe("completed");
    expect(choices(adapter)).toEqual([toolChoice, "auto", "auto"]);
  });

  test("forces the first reply after each user message of a session", async () => {
    const { adapter, engine: agent } = playing([calls("look"), says("A."), calls("look"), says("B.")], [look()]);
    const first = await session.start(agent, "Here?", { toolChoice });
    await session.reply(agent, first.session, "There?", { toolChoice });
    expect(choices(adapter)).toEqual([toolChoice, "auto", toolChoice, "auto"]);
  });

  test("is not forced again after an approval", async () => {
    const { adapter, engine: agent } = playing([calls("look"), says("Done.")], [gated()], { params: { toolChoice } });
    const first = await session.start(agent, "The weather?");
    const [pending] = first.session.pendingToolCalls;
    const decided = await session.decide(agent, first.session, pending?.id ?? "", { type: "approve" });
    await session.continue(agent, decided);
    expect(choices(adapter)).toEqual([toolChoice, "auto"]);
  });

  test("is not forced again after an answered question", async () => {
    const { adapter, engine: agent } = playing([calls("look"), says("Done.")], [ask], { params: { toolChoice } });
    const first = await session.start(agent, "The weather?");
    const second = await session.reply(agent, first.session, "In Rome.");
    expect(second.result.haltedReason).toBe("completed");
    expect(choices(adapter)).toEqual([toolChoice, "auto"]);
  });

  test("is not forced again in a durable turn that another process continues", async () => {
    const host = memoryStorage();
    const processWith = (script: FakeScript) => {
      const adapter = fake({ scripts: [script] });
      const agent = engine({ adapter, model: "fake:m", tools: [gated()], params: { toolChoice } });
      return { adapter, sessions: runtime({ host, engines: { default: agent } }) };
    };
    const one = processWith(calls("look"));
    const turn = await one.sessions.start("The weather?", { id: "s" });
    const { session: waiting } = await turn.result;
    const two = processWith(says("Done."));
    const [pending] = waiting.pendingToolCalls;
    const decided = await two.sessions.decide("s", pending?.id ?? "", { type: "approve" });
    await decided.result;
    expect([...choices(one.adapter), ...choices(two.adapter)]).toEqual([toolChoice, "auto"]);
  });

  test("can be set again by prepareStep, for one reply", async () => {
    const scripts = [calls("look"), calls("look"), says("Done.")];
    const { adapter, engine: agent } = playing(scripts, [look()]);
    await chat(agent, "The weather?", {
      toolChoice,
      prepareStep: ({ step: at }) => (at === 1 ? { params: { toolChoice } } : null),
    });
    expect(choices(adapter)).toEqual([toolChoice, toolChoice, "auto"]);
  });

  test("applies to a call of generate as it is given, and to the steps of a manual loop as to those of chat", async () => {
    const thread = [
      user("The weather?"),
      assistant("", { toolCalls: [toolCall({ id: "c0", name: "look", arguments: {} })] }),
      toolResult("c0", "Sunny."),
    ];
    const { adapter, engine: agent } = playing([calls("look"), says("Done."), calls("look")], [look()]);
    await generate(agent, thread, { toolChoice });
    await step(agent, thread, { toolChoice });
    await step(agent, [...thread, assistant("Sunny."), user("And tomorrow?")], { toolChoice });
    expect(choices(adapter)).toEqual([toolChoice, "auto", toolChoice]);
  });
});

test("toolChoice none applies to every reply", async () => {
  const { adapter, engine: agent } = playing([says("A."), says("B.")], [look()], { params: { toolChoice: "none" } });
  const first = await session.start(agent, "Hi.");
  await session.reply(agent, first.session, "Hi again.");
  expect(choices(adapter)).toEqual(["none", "none"]);
});
