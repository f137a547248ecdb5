// Forks at a call: the call of an old step waits again, and is run with other arguments or gets another result.

import type { Adapter } from "everturn";

import { engine, fake, messageText, tool } from "everturn";
import { memoryStorage, runtime } from "everturn/runtime";
import { expect, test } from "vitest";

/** A session that has looked up two cities in one step, and then answered. */
async function lookedUp() {
  const asked: string[] = [];
  const weather = tool({
    name: "weather",
    description: "The weather of a city.",
    schema: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
    handler: ({ city }) => {
      asked.push(String(city));
      return `sunny in ${String(city)}`;
    },
  });
  const adapter: Adapter = {
    provider: "fake",
    stream: (request, call) => {
      const answers = request.messages.filter(({ role }) => role === "tool").map((message) => messageText(message));
      const script =
        answers.length === 0
          ? ["Oslo", "Rome"].map((city, index) => ({
              type: "tool_call" as const,
              id: `c${index}`,
              name: "weather",
              arguments: { city },
            }))
          : [{ type: "text" as const, text: answers.join(", ") }];
      return fake({ script }).stream(request, call);
    },
  };
  const agent = engine({ adapter, model: "fake:m", tools: [weather] });
  const sessions = runtime({ host: memoryStorage(), engines: { default: agent } });
  const turn = await sessions.start("The weather?", { id: "s1" });
  expect((await turn.result).text).toBe("sunny in Oslo, sunny in Rome");
  await (
    await sessions.reply("s1", "Thank you.")
  ).result;
  return { sessions, asked };
}

test("a call of an old step runs again with other arguments, and the answers beside it are kept", async () => {
  const { sessions, asked } = await lookedUp();
  await sessions.fork("s1", { id: "s2", at: 2, redo: "c0" });
  const view = await sessions.get("s2");
  expect(view?.session).toMatchObject({
    status: "awaiting_tools",
    pendingToolCalls: [{ id: "c0", reason: "outcome_unknown", arguments: { city: "Oslo" }, decision: null }],
  });
  expect(view?.forkedFrom).toEqual({ sessionId: "s1", at: 2 });
  const turn = await sessions.decide("s2", "c0", { type: "approve", arguments: { city: "Bergen" } });
  expect((await turn.result).text).toContain("sunny in Bergen");
  expect((await turn.result).text).toContain("sunny in Rome");
  expect(asked).toEqual(["Oslo", "Rome", "Bergen"]);
});

test("a call of an old step gets another result, and its tool is not run", async () => {
  const { sessions, asked } = await lookedUp();
  await sessions.fork("s1", { id: "s2", at: 2, redo: "c1" });
  const turn = await sessions.submitToolResults("s2", [["c1", "rain in Rome"]]);
  expect((await turn?.result)?.text).toBe("sunny in Oslo, rain in Rome");
  expect(asked).toEqual(["Oslo", "Rome"]);
});

test("a call that the last copied message does not make is refused", async () => {
  const { sessions } = await lookedUp();
  await expect(sessions.fork("s1", { at: 2, redo: "c9" })).rejects.toMatchObject({ path: ["redo"] });
  await expect(sessions.fork("s1", { at: 1, redo: "c0" })).rejects.toMatchObject({ path: ["redo"] });
});
