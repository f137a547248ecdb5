// Every failed tool call reaches the model as `{"error": message}`: calls that ran and failed, that were refused, and
// that the kernel did not run.

import type { FakeScript, Message } from "everturn";

import { chat, fail, tool, session as sessions } from "everturn";
import { expect, test } from "vitest";

import { calls, plain, playing, says } from "./runs.ts";
import { sessionsOf } from "./runtime/sessions.ts";

const toolContents = (messages: readonly Message[]) => messages.flatMap((m) => (m.role === "tool" ? [m.content] : []));
const isFailureText = expect.stringMatching(/^\{"error":".+"\}$/);
const fails = plain("fails", () => fail("no luck"));
const throws = plain("throws", () => {
  throw new Error("boom");
});
const gated = tool({
  name: "gated",
  description: "Needs approval.",
  schema: { type: "object" },
  needsApproval: true,
  handler: () => "done",
});

test("calls that ran, calls of unknown tools and calls of a reply that was cut", async () => {
  const run = async (script: FakeScript) => {
    const { engine } = playing([script, says("Done.")], [fails, throws]);
    return toolContents((await chat(engine, "hi", { onUnknownTool: "answer" })).thread.messages);
  };
  expect(await run(calls("fails", "throws", "missing"))).toEqual([
    '{"error":"no luck"}',
    '{"error":"boom"}',
    '{"error":"there is no tool named missing"}',
  ]);
  expect(await run([...calls("fails"), { type: "finish", reason: "length" }])).toEqual([isFailureText]);
});

test("denied calls, in memory and durable", async () => {
  const scripts = [calls("gated"), says("Then not.")];
  const { engine } = playing(scripts, [gated]);
  const { session: waits } = await sessions.start(engine, "hi");
  const denied = await sessions.decide(engine, waits, "c0", { type: "deny", reason: "too dear" });
  const { session } = await sessions.continue(engine, denied);
  expect(toolContents(session.thread.messages)).toEqual(['{"error":"too dear"}']);

  const of = sessionsOf(playing(scripts, [gated]).engine);
  await (
    await of.start("hi", { id: "s" })
  ).result;
  await (
    await of.decide("s", "c0", { type: "deny", reason: "too dear" })
  ).result;
  const stored = (await of.get("s"))?.session.thread.messages ?? [];
  expect(toolContents(stored)).toEqual(['{"error":"too dear"}']);
});
