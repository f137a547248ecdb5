// A user message without text, image or file is a validation error in every verb and every adapter, before anything is
// sent or stored.

import type { Adapter, Message } from "everturn";

import {
  anthropic,
  askUser,
  chat,
  fake,
  gemini,
  generate,
  openai,
  openaiCompatible,
  step,
  fromMessages,
  imagePart,
  newSession,
  textPart,
  user,
  session as sessions,
} from "everturn";
import { request, validateMessage } from "everturn/advanced";
import { expect, test } from "vitest";

import { systemClock } from "../src/core/engine/internal.ts";
import { calls, plain, playing, says } from "./runs.ts";
import { sessionsOf } from "./runtime/sessions.ts";

const isEmpty = { name: "ValidationError", failure: { issues: [{ code: "empty" }] } };
const blanks = ["", " \n\t", "\u00a0"];

test("validateMessage refuses blank text, an empty list and blank parts, and accepts an image", () => {
  for (const content of [...blanks, [], [textPart(" ")], [textPart(""), textPart("\n")]]) {
    expect(validateMessage(user(content))).toMatchObject({ ok: false, failure: { reason: "invalid_message" } });
  }
  const picture = imagePart({ source: { type: "url", url: "https://example.com/a.png" } });
  for (const content of ["x", [textPart(" "), picture], [picture]]) {
    expect(validateMessage(user(content)).ok).toBe(true);
  }
});

test.each(blanks)("generate, step and chat refuse %j and call no adapter", async (text) => {
  const { engine, adapter } = playing([says("Hello.")]);
  const inputs: readonly (string | readonly Message[])[] = [text, [user("hi"), user(text)]];
  for (const input of inputs) {
    await expect(generate(engine, input)).rejects.toMatchObject(isEmpty);
    await expect(step(engine, input)).rejects.toMatchObject(isEmpty);
    await expect(chat(engine, input)).rejects.toMatchObject(isEmpty);
  }
  await expect(generate(engine, request([user(text)]))).rejects.toMatchObject(isEmpty);
  const steering = { onCheckpoint: () => ({ messages: [user(text)] }) };
  await expect(chat(engine, "hi", steering)).rejects.toMatchObject(isEmpty);
  expect(adapter.calls).toHaveLength(1);
});

test.each(blanks)("verbs of sessions refuse %j, also as the answer to a question", async (text) => {
  const asks = plain("asks", () => askUser("Which?", { answerAs: "tool_result" }));
  const { engine, adapter } = playing([calls("asks")], [asks]);
  const idle = newSession({ thread: fromMessages([user("hi")]) });
  await expect(sessions.start(engine, text)).rejects.toMatchObject(isEmpty);
  await expect(sessions.reply(engine, idle, text)).rejects.toMatchObject(isEmpty);
  await expect(sessions.continue(engine, idle, user(text))).rejects.toMatchObject(isEmpty);
  const asked = newSession({ thread: fromMessages([user(text)]) });
  await expect(sessions.step(engine, asked)).rejects.toMatchObject(isEmpty);
  expect(adapter.calls).toHaveLength(0);
  const { session: waits } = await sessions.start(engine, "hi");
  await expect(sessions.reply(engine, waits, text)).rejects.toMatchObject(isEmpty);
});

test.each(blanks)("durable verbs refuse %j and store nothing", async (text) => {
  const { engine, adapter } = playing([says("Hello.")]);
  const of = sessionsOf(engine);
  await expect(of.start(text, { id: "s" })).rejects.toMatchObject(isEmpty);
  await expect(of.start([user(text)], { id: "s" })).rejects.toMatchObject(isEmpty);
  expect(await of.get("s")).toBeNull();
  await (
    await of.start("hi", { id: "s" })
  ).result;
  const before = await of.get("s");
  await expect(of.reply("s", text)).rejects.toMatchObject(isEmpty);
  await expect(of.send("s", text)).rejects.toMatchObject(isEmpty);
  await expect(of.continue("s", user(text))).rejects.toMatchObject(isEmpty);
  await expect(of.steer("s", text)).rejects.toMatchObject(isEmpty);
  await expect(of.steer("s", { type: "transient", message: user(text) })).rejects.toMatchObject(isEmpty);
  expect(await of.get("s")).toEqual(before);
  expect(adapter.calls).toHaveLength(1);
});

test("every adapter refuses blank user text and sends nothing", async () => {
  let sent = 0;
  const options = {
    apiKey: "key",
    fetch: async () => {
      sent += 1;
      return new Response("{}");
    },
  };
  const adapters: readonly Adapter[] = [
    openai(options),
    openai({ ...options, api: "chat" }),
    anthropic(options),
    gemini(options),
    openaiCompatible({ ...options, baseURL: "http://127.0.0.1:1/v1" }),
    fake({ script: says("Hello.") }),
  ];
  const call = { requestId: "r", options: {}, apiKey: null, rawChunks: false, attempt: 1, clock: systemClock };
  for (const adapter of adapters) {
    for (const text of blanks) {
      const events = adapter.stream(request([user("hi"), user(text)], { model: "m" }), {
        ...call,
        signal: new AbortController().signal,
      });
      await expect(events[Symbol.asyncIterator]().next(), adapter.provider).rejects.toMatchObject(isEmpty);
    }
  }
  expect(sent).toBe(0);
});
