// The input that parts of pending and running calls show: what would run, or runs, after a hook or a person has changed
// it.

import type { JsonObject } from "../../../core/model/internal.ts";

import { expect, test } from "vitest";

import { chatDialects } from "../../../../test/dialects.ts";
import { fake } from "../../../core/adapters/internal.ts";
import { engine, tool } from "../../../core/engine/internal.ts";
import { memoryStorage } from "../../../durable/host/memory/memory.ts";
import { runtime } from "../../../durable/internal.ts";
import { createHandler } from "../../index.ts";

/** A chat whose tool waits for an approval, and then runs until it is released. */
function world(hook: JsonObject | null) {
  let release: () => void = () => undefined;
  const released = new Promise<void>((resolve) => {
    release = resolve;
  });
  const pay = tool({
    name: "pay",
    description: "Pays.",
    schema: { type: "object" },
    needsApproval: true,
    handler: async () => {
      await released;
      return "paid";
    },
  });
  const calls = [{ type: "tool_call", id: "c1", name: "pay", arguments: { euros: 189 } }] as const;
  const adapter = fake({ scripts: [calls, [{ type: "text", text: "Done." }]] });
  const hooks = hook === null ? {} : { beforeTool: () => ({ type: "replace_arguments", arguments: hook }) as const };
  const agent = engine({ adapter, model: "fake:m", tools: [pay], options: { hooks } });
  const sessions = runtime({ host: memoryStorage(), engines: { default: agent } });
  const handler = createHandler({ sessions, dialects: chatDialects, auth: "none" });
  const ask = (path: string, body?: object) =>
    handler(
      new Request(`http://localhost${path}`, {
        ...(body === undefined ? {} : { method: "POST", body: JSON.stringify(body) }),
        headers: { "content-type": "application/json" },
      }),
    );
  const chunksOf = (text: string): readonly JsonObject[] =>
    text
      .split("\n")
      .filter((line) => line.startsWith("data: {"))
      .map((line) => JSON.parse(line.slice("data: ".length)));
  const message = { id: "m1", role: "user", parts: [{ type: "text", text: "Pay it." }] };
  const started = async () => chunksOf(await (await ask("/ui/chat", { id: "chat", messages: [message] })).text());
  const stored = async (): Promise<JsonObject | undefined> => {
    const { messages } = JSON.parse(await (await ask("/ui/chat/chat")).text());
    return messages.at(-1).parts.find((part: JsonObject) => part["toolCallId"] === "c1");
  };
  return { sessions, ask, chunksOf, started, stored, release };
}

test("a running call shows the arguments that a person edited, in the stored chat and in its stream", async () => {
  const { sessions, ask, chunksOf, started, stored, release } = world(null);
  await started();
  expect(await stored()).toMatchObject({ state: "approval-requested", input: { euros: 189 } });
  const turn = await sessions.decide("chat", "c1", { type: "approve", arguments: { euros: 150.5 } });
  expect(await stored()).toMatchObject({ state: "approval-responded", input: { euros: 150.5 } });
  const streaming = (await ask("/ui/chat/chat/stream")).text();
  release();
  await turn.result;
  const inputs = chunksOf(await streaming).filter(({ type }) => type === "tool-input-available");
  expect(inputs.map(({ input }) => input)).toEqual([{ euros: 150.5 }]);
  expect(await stored()).toMatchObject({ state: "output-available", input: { euros: 150.5 } });
  await sessions.close();
});

test("a request for approval shows the arguments that a hook produced", async () => {
  const { sessions, ask, started, stored, release } = world({ euros: 100 });
  const chunks = await started();
  const inputs = chunks.filter(({ type }) => type === "tool-input-available").map(({ input }) => input);
  expect(inputs).toEqual([{ euros: 189 }, { euros: 100 }]);
  expect(chunks.find(({ type }) => type === "tool-approval-request")).toMatchObject({
    approvalDescriptor: { shown: { name: "pay", arguments: { euros: 100 }, parents: [], replay: "never" } },
  });
  const part = await stored();
  expect(part).toMatchObject({ state: "approval-requested", input: { euros: 100 } });
  // The client sends the part back as it is: that is no edit.
  release();
  const { messages } = JSON.parse(await (await ask("/ui/chat/chat")).text());
  const approval = Object(part?.["approval"]);
  const answered = { ...part, state: "approval-responded", approval: { id: approval.id, approved: true } };
  const last = { ...messages.at(-1), parts: [answered] };
  await (await ask("/ui/chat", { id: "chat", messages: [messages[0], last] })).text();
  const [, , result] = (await sessions.messages("chat")).items;
  expect(result).toMatchObject({ role: "tool", ranArguments: { euros: 100 }, content: "paid" });
  await sessions.close();
});
