// A reply with the finish reason `tool_calls` that has no calls ends the turn. Every verb reports the same end.

import type { FakeScript } from "everturn";

import { chat, generate, step, fromMessages, newSession, user, session as sessions } from "everturn";
import { expect, test } from "vitest";

import { playing } from "./runs.ts";
import { sessionsOf } from "./runtime/sessions.ts";

const script: FakeScript = [
  { type: "text", text: "Done." },
  { type: "finish", reason: "tool_calls" },
];
const engineOf = () => playing([script]).engine;
const asked = () => newSession({ thread: fromMessages([user("hi")]) });
const completed = { haltedReason: "completed", outcome: { type: "other" } };

test("generate, step and chat: the step is done and the run is completed", async () => {
  expect(await generate(engineOf(), "hi")).toMatchObject({ finishReason: "tool_calls", toolCalls: [] });
  for (const mode of ["auto", "manual"] as const) {
    const stepped = await step(engineOf(), "hi", { mode });
    expect(stepped).toMatchObject({ done: true, pendingToolCalls: [], metadata: {} });
    const result = await chat(engineOf(), "hi", { mode });
    expect(result).toMatchObject({ ...completed, steps: [{ done: true }], pendingToolCalls: [] });
    expect([stepped.metadata, result.steps[0]?.metadata]).toEqual([{}, {}]);
  }
});

test("verbs of sessions: the status is completed after every one of them", async () => {
  const results = [
    await sessions.start(engineOf(), "hi"),
    await sessions.reply(engineOf(), newSession(), "hi"),
    await sessions.continue(engineOf(), asked()),
  ];
  for (const { session, result } of results) {
    expect(result).toMatchObject({ ...completed, steps: [{ done: true }] });
    expect(session).toMatchObject({ status: "completed", lastRun: completed });
  }
  const { session, result } = await sessions.step(engineOf(), asked());
  expect(result.done).toBe(true);
  expect(session).toMatchObject({ status: "completed", lastRun: completed });
});

test("durable verbs: the status is completed after every one of them", async () => {
  const storedEnd = async (
    run: (of: ReturnType<typeof sessionsOf>) => Promise<{ readonly result: Promise<unknown> }>,
  ) => {
    const of = sessionsOf(playing([script, script]).engine);
    await (
      await run(of)
    ).result;
    return (await of.get("s"))?.session;
  };
  const ends = [
    await storedEnd((of) => of.start("hi", { id: "s" })),
    await storedEnd(async (of) => {
      await (
        await of.start("hi", { id: "s" })
      ).result;
      return of.reply("s", "more");
    }),
    await storedEnd(async (of) => {
      await (
        await of.start("hi", { id: "s" })
      ).result;
      return of.step("s");
    }),
  ];
  for (const session of ends) expect(session).toMatchObject({ status: "completed", lastRun: completed });
});
