// Where summaries stand for messages, in the transcript of a resumed conversation.

import { engine, fake, says } from "everturn";
import { memoryStorage, runtime } from "everturn/runtime";
import { expect, test } from "vitest";

import { colours } from "../terminal/style.ts";
import { frameLines } from "./frame-lines.ts";
import { renderTranscript } from "./transcript.ts";

test("a transcript has all messages, and lines where the model reads a summary", async () => {
  const scripts = [says("Hello."), says("They greeted."), says("Ada."), says("They spoke."), says("Bye.")];
  const agent = engine({ adapter: fake({ scripts }), model: "fake:m", contextPolicy: { window: 32_000 } });
  const sessions = runtime({ host: memoryStorage(), engines: { default: agent } });
  const transcript = async (count: number | "all" = "all"): Promise<readonly string[]> => {
    const view = await sessions.get("s", { messages: count });
    const messages = view?.session.thread.messages ?? [];
    const notes = await frameLines(sessions, "s", (view?.length ?? 0) - messages.length);
    const text = renderTranscript(messages, { width: 80, colours: colours(false), notes });
    return text.split("\n").filter((line) => line !== "");
  };
  await (
    await sessions.start("I am Ada.", { id: "s" })
  ).result;
  expect(await transcript()).toEqual(["› I am Ada.", "Hello."]);
  await sessions.compact("s");
  await (
    await sessions.reply("s", "Who am I?")
  ).result;
  const first = ["› I am Ada.", "Hello."];
  const second = ["› Who am I?", "Ada."];
  expect(await transcript()).toEqual([
    ...first,
    "── the model reads a summary in place of 2 earlier messages",
    ...second,
  ]);
  await sessions.compact("s");
  await (
    await sessions.reply("s", "Bye.")
  ).result;
  const replaced = "── 2 earlier messages were summarized here, and again later";
  const third = ["› Bye.", "Bye."];
  expect(await transcript()).toEqual([
    ...first,
    replaced,
    ...second,
    "── the model reads a summary in place of 4 earlier messages",
    ...third,
  ]);
  await sessions.undoCompaction("s");
  expect(await transcript()).toEqual([
    ...first,
    "── the model reads a summary in place of 2 earlier messages",
    ...second,
    "── the summary of 4 earlier messages was undone",
    ...third,
  ]);
  // The newest messages alone: a line before the first of them is one of theirs.
  expect(await transcript(2)).toEqual(["── the summary of 4 earlier messages was undone", ...third]);
});
