// The scenarios, played without delays in one process. The one that kills a process is in
// apps/cli/test/scenarios.test.ts.

import type { Message } from "everturn";
import type { Runtime } from "everturn/runtime";

import { messageText } from "everturn";
import { inspection } from "everturn/http";
import { memoryStorage, runtime } from "everturn/runtime";
import { afterEach, describe, expect, test } from "vitest";

import { Crashes } from "./crash.ts";
import { scenarioEngine } from "./engine.ts";
import { createScenarios } from "./scenarios.ts";

const names = ["parallel-tools", "approval", "question", "child-agents", "long-answer", "retries"];

const open: Runtime[] = [];
afterEach(async () => {
  for (const sessions of open.splice(0)) await sessions.close();
});

/** Starts a scenario and waits for the end of its first turn. */
async function play(name: string) {
  const { engines, over } = createScenarios({ paceMs: 0 });
  const sessions = runtime({ host: memoryStorage(), engines });
  open.push(sessions);
  const { sessionId } = (await over(null)
    .find((scenario) => scenario.name === name)
    ?.start(sessions)) ?? { sessionId: "" };
  const turn = await sessions.attach(sessionId).result;
  const messages = async () => (await sessions.messages(sessionId)).items;
  return { sessions, sessionId, turn, messages };
}

const callsIn = (messages: readonly Message[]): readonly string[] =>
  messages.flatMap((message) => (message.role === "assistant" ? message.toolCalls.map(({ name }) => name) : []));
const lastText = (messages: readonly Message[]): string => messages.slice(-1).map(messageText).join("");

describe("scenarios", () => {
  test("are offered without the crash if no other process can open the database", () => {
    const { over } = createScenarios({ paceMs: 0 });
    expect(over(null).map(({ name }) => name)).toEqual(names);
    expect(over("sessions.db").map(({ name }) => name)).toEqual([...names.slice(0, 3), "crash", ...names.slice(3)]);
  });

  test("have a refund that is approved and never repeated", () => {
    expect(scenarioEngine(0).tools.find(({ name }) => name === "issue_refund")).toMatchObject({
      needsApproval: true,
      replay: "never",
    });
  });

  test("show five tools that run at once", async () => {
    const { turn, messages } = await play("parallel-tools");
    const all = await messages();
    expect([turn.status, callsIn(all).length]).toEqual(["ended", 5]);
    expect(all.filter((message) => message.role === "tool" && message.status === "success")).toHaveLength(5);
    expect(lastText(all)).toContain("**Lisbon** is the best choice");
  });

  test("show a refund that is approved with another amount, or denied", async () => {
    const approved = await play("approval");
    const [call] = (await approved.sessions.get(approved.sessionId))?.session.pendingToolCalls ?? [];
    expect(call).toMatchObject({ name: "issue_refund", reason: "approval" });
    const edited = { ...call?.arguments, amount: 120 };
    const next = await approved.sessions.decide(approved.sessionId, call?.id ?? "", {
      type: "approve",
      arguments: edited,
    });
    await next.result;
    expect(lastText(await approved.messages())).toContain("The refund is paid: 120.00 EUR to the card.");

    const denied = await play("approval");
    const [waiting] = (await denied.sessions.get(denied.sessionId))?.session.pendingToolCalls ?? [];
    await (
      await denied.sessions.decide(denied.sessionId, waiting?.id ?? "", { type: "deny", reason: null })
    ).result;
    expect(lastText(await denied.messages())).toContain("nothing has been paid");
  });

  test("show a question whose answer the next tool uses", async () => {
    const { sessions, sessionId, messages } = await play("question");
    expect((await sessions.get(sessionId))?.session.pendingQuestion).toContain("Which restaurant");
    await (
      await sessions.reply(sessionId, "Kumo Ramen")
    ).result;
    const all = await messages();
    const booking = all.flatMap((message) => (message.role === "assistant" ? message.toolCalls : [])).at(-1);
    expect(booking).toMatchObject({ name: "book_table", arguments: { restaurant: "Kumo Ramen" } });
    expect(lastText(all)).toContain("The table is booked");
  });

  test("show two child agents with tools of their own", async () => {
    const { messages } = await play("child-agents");
    const all = await messages();
    expect(callsIn(all)).toEqual(["research", "research"]);
    expect(all.filter(({ role }) => role === "tool").map(messageText)).toEqual([
      expect.stringContaining("Postgres accepts writes from many machines"),
      expect.stringContaining("SQLite is a file"),
    ]);
  });

  test("show reasoning, a table and code", async () => {
    const { messages } = await play("long-answer");
    const all = await messages();
    expect(JSON.stringify(all.at(-1))).toContain('"type":"reasoning"');
    expect(lastText(all)).toMatch(/\| --- \|[\s\S]*```ts/);
  });

  test("show a provider that is retried twice, and a tool that fails", async () => {
    const { sessions, sessionId, turn, messages } = await play("retries");
    const all = await messages();
    expect([turn.status, callsIn(all)]).toEqual(["ended", ["read_tickets", "read_tickets"]]);
    expect(all.flatMap((message) => (message.role === "tool" ? [message.status] : []))).toEqual(["failure", "success"]);
    const { data } = await inspection(sessions.source).export(sessionId);
    expect(data.rows[0]?.attempt).toBe(3);
  });

  test("answer other messages of the user like the offline model", async () => {
    const { sessions, sessionId, messages } = await play("long-answer");
    await (
      await sessions.reply(sessionId, "Thank you!")
    ).result;
    expect(lastText(await messages())).toBe("You said: Thank you!");
  });
});

test("at most three processes are started at once, and all of them are ended", async () => {
  const crashes = new Crashes();
  const setup = { database: "/dev/null/none.db", sessionId: "s", prompt: "hi", paceMs: 0 };
  const started = [1, 2, 3].map(() => expect(crashes.start(setup)).rejects.toThrow(/ended early/));
  await expect(crashes.start(setup)).rejects.toMatchObject({ reason: "quota_exceeded" });
  await crashes.close();
  await Promise.all(started);
});
