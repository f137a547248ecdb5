// One user message, `user([...])`, is an input of every verb that takes text, and the options follow it.

import type { Engine } from "everturn";

import { chat, engine, fake, fromMessages, generate, says, step, textPart, user, session } from "everturn";
import { createClient } from "everturn/client";
import { createHandler } from "everturn/http";
import { memoryStorage, runtime } from "everturn/runtime";
import { expect, test } from "vitest";

const message = user([textPart("Which river"), textPart(" flows through Rome?")]);
const options = { maxTurns: 1 };

/** Runs a verb with a model that answers twice. Returns the user messages of the last request. */
async function requested(run: (agent: Engine) => Promise<unknown>) {
  const { agent, adapter } = answering();
  await run(agent);
  return adapter.calls.at(-1)?.request.messages.filter(({ role }) => role === "user");
}

function answering() {
  const adapter = fake({ scripts: [[says("The Tiber.")], [says("The Tiber.")]] });
  return { adapter, agent: engine({ adapter, model: "fake:m" }) };
}

test.each([
  ["chat", (agent: Engine) => chat(agent, message, options)],
  ["step", (agent: Engine) => step(agent, message)],
  ["generate", (agent: Engine) => generate(agent, message)],
  ["session.start", (agent: Engine) => session.start(agent, message, options)],
])("%s takes a message", async (_, run) => {
  expect(await requested(run)).toEqual([message]);
});

test("session.reply takes a message", async () => {
  const sent = await requested(async (agent) => {
    const { session: first } = await session.start(agent, "hi");
    await session.reply(agent, first, message, options);
  });
  expect(sent).toEqual([user("hi"), message]);
});

test("start and reply of the runtime take a message and then the options", async () => {
  const sent = await requested(async (agent) => {
    const sessions = runtime({ host: memoryStorage(), engines: { default: agent } });
    await (
      await sessions.start(message, { id: "s", ...options })
    ).result;
    await (
      await sessions.reply("s", message, options)
    ).result;
  });
  expect(sent).toEqual([message, message]);
});

test("start and reply of the client take a message and then the options", async () => {
  const sent = await requested(async (agent) => {
    const sessions = runtime({ host: memoryStorage(), engines: { default: agent } });
    const handler = createHandler({ sessions, auth: [{ token: "a-token-of-the-test" }] });
    const client = createClient({
      url: "http://localhost",
      token: "a-token-of-the-test",
      fetch: (input, init) => handler(new Request(input, init)),
    });
    await (
      await client.start(message, { id: "s" })
    ).result;
    await (
      await client.reply("s", message)
    ).result;
  });
  expect(sent).toMatchObject([{ content: message.content }, { content: message.content }]);
});

test("a message is the same input as a list of it, and its errors name it", async () => {
  const { agent } = answering();
  expect((await chat(agent, { role: "user", content: "hi" })).thread.messages[0]).toEqual(user("hi"));
  expect((await chat(agent, fromMessages([message]))).thread.messages[0]).toEqual(message);
  const wrong: object = { content: 5 };
  await expect(chat(agent, Object.assign({ ...message }, wrong))).rejects.toThrow(/content/);
});
