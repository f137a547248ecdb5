// A long UI message that is sent again: in batches, and without a copy in memory for each client.

import type { Runtime } from "everturn/runtime";

import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

import { engine, tool } from "everturn";
import { createHandler } from "everturn/http";
import { memoryStorage, runtime } from "everturn/runtime";
import { expect, test } from "vitest";

import { chatDialects } from "../../../../test/dialects.ts";
import { handModel } from "../../../../test/hand-model.ts";
import { sharedSessions } from "../../../../test/shared-sessions.ts";
import { loadUiChat, resumeUiChat } from "./chat.ts";
import { replayChunks } from "./replay.ts";

const token = "a-secret-bearer-token";

/**
 * A session `long` whose open turn continues a message of `steps` steps, each with a text and a result of `length`
 * characters.
 */
async function continued(steps: number, length: number): Promise<{ sessions: Runtime; finish: () => Promise<void> }> {
  const model = handModel();
  const look = tool({
    name: "look",
    description: "Looks.",
    schema: { type: "object" },
    handler: () => "r".repeat(length),
  });
  const pay = tool({
    name: "pay",
    description: "Pays.",
    schema: { type: "object" },
    needsApproval: true,
    handler: () => "paid",
  });
  const sessions = runtime({
    host: memoryStorage(),
    engines: { default: engine({ adapter: model, model: "hand:m", tools: [look, pay], options: { maxTurns: 1000 } }) },
  });
  const earlier = await sessions.start("An earlier question", { id: "long" });
  (await model.call(1)).finish();
  await earlier.result;
  const turn = await sessions.reply("long", "Go");
  for (let step = 0; step < steps; step += 1) {
    const call = await model.call(step + 2);
    await call.say(`Step ${step}.`);
    if (step === 3) await sessions.steer("long", "Look closely");
    call.callTool(step === steps - 1 ? "pay" : "look");
  }
  const [pending] = (await turn.result).session.pendingToolCalls;
  await sessions.decide("long", pending?.id ?? "", { type: "approve" });
  const last = await model.call(steps + 2);
  return {
    sessions,
    finish: async () => {
      await last.say("Done.");
      last.finish();
    },
  };
}

test("is sent in batches, which together are the whole message", async () => {
  const { sessions, finish } = await continued(40, 10_000);
  const stored = (await loadUiChat(sessions, "long")).messages.at(-1);
  const stream = await resumeUiChat(sessions, "long");
  if (stream === null || stored === undefined) throw new Error("a turn is open");
  await finish();
  const batches = [];
  for await (const batch of stream.chunks) batches.push(batch);
  const expected = replayChunks(stored);
  expect(batches.flat().slice(1, expected.length + 1)).toEqual(expected);
  expect(batches[0]).toMatchObject([{ type: "start", messageId: stored.id }]);
  expect(batches.map((batch) => JSON.stringify(batch).length).filter((length) => length > 100_000)).toEqual([]);
  expect(expected.filter(({ type }) => type === "data-steering-message")).toHaveLength(1);
});

test("costs no copy for each client that does not read it", async () => {
  const { sessions, finish } = await continued(40, 30_000);
  const handler = createHandler({ sessions, dialects: chatDialects, ...sharedSessions, auth: [{ token }] });
  setFlagsFromString("--expose-gc");
  const collectGarbage: () => void = runInNewContext("gc");
  const request = () =>
    handler(new Request("http://localhost/ui/chat/long/stream", { headers: { authorization: `Bearer ${token}` } }));
  await (await request()).body?.cancel();
  collectGarbage();
  const before = process.memoryUsage().heapUsed;
  const responses = await Promise.all(Array.from({ length: 30 }, request));
  collectGarbage();
  // 30 copies have 36,000,000 characters.
  expect(process.memoryUsage().heapUsed - before).toBeLessThan(12_000_000);
  expect(responses.map(({ status }) => status)).toEqual(Array.from({ length: 30 }, () => 200));
  await finish();
  const [first, ...others] = responses;
  const text = await first?.text();
  expect(text).toContain("Step 39.");
  expect(text).toContain("[DONE]");
  for (const response of others) await response.body?.cancel();
});
