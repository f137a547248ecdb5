// Tests of the agent with a scripted model: no network, no API key, the same result every time.

import assert from "node:assert/strict";
import { test } from "node:test";

import { engine, fake } from "everturn";
import { memoryStorage, runtime } from "everturn/runtime";

import { agent } from "../src/agent.ts";

test("books a table after a person has approved it", async () => {
  const adapter = fake({
    scripts: [
      [{ type: "tool_call", name: "book_table", arguments: { name: "Grace", guests: 4, time: "19:30" } }],
      [{ type: "text", text: "Your table is booked." }],
    ],
  });
  const scripted = engine({ ...agent, adapter, model: "fake:model" });
  const sessions = runtime({ host: memoryStorage(), engines: { default: scripted } });

  const first = await (await sessions.start("A table for four at half past seven, for Grace.", { id: "s1" })).result;
  assert.equal(first.haltedReason, "approval");
  const [call] = first.session.pendingToolCalls;
  assert.equal(call?.name, "book_table");

  const second = await (await sessions.decide("s1", call?.id ?? "", { type: "approve", by: "test" })).result;
  assert.equal(second.text, "Your table is booked.");
  const { items } = await sessions.messages("s1");
  const result = items.find(({ role }) => role === "tool");
  assert.match(String(result?.content), /a table for 4 at 19:30, for Grace/);
  adapter.assertUsedUp();
  await sessions.close();
});
