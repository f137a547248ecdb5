// What a reader of each dialect sees of a compaction: while it happens, and when the conversation is read again.

import type { ContextPolicy } from "everturn";

import { engine, fake, says } from "everturn";
import { createHandler } from "everturn/http";
import { memoryStorage, runtime } from "everturn/runtime";
import { expect, test } from "vitest";

import { allDialects } from "../../../test/dialects.ts";
import { sharedSessions } from "../../../test/shared-sessions.ts";

const secret = "a-token-of-the-test";

type Chunk = { readonly type?: string; readonly [name: string]: unknown };

/** A server whose model has said hello, writes this summary when it is asked, and then knows. */
function serverOf(summary: string, policy: ContextPolicy = { window: 100_000 }) {
  const agent = engine({
    adapter: fake({ scripts: [says("Hello, Ada."), says(summary), says("You are Ada."), says("Bye.")] }),
    model: "fake:m",
    contextPolicy: policy,
  });
  const engines = { default: agent };
  const sessions = runtime({ host: memoryStorage(), engines });
  const dialects = allDialects(engines);
  const handler = createHandler({ sessions, dialects, ...sharedSessions, auth: [{ token: secret, name: "ada" }] });
  const call = async (path: string, body?: object): Promise<string> => {
    const headers = { authorization: `Bearer ${secret}`, "content-type": "application/json" };
    const init = body === undefined ? { headers } : { method: "POST", headers, body: JSON.stringify(body) };
    const response = await handler(new Request(`http://localhost${path}`, init));
    expect(response.status).toBe(200);
    return response.text();
  };
  return { sessions, call };
}

/** The JSON of the `data` lines of server-sent events. */
const dataOf = (text: string): readonly Chunk[] =>
  text.split("\n").flatMap((line) => (line.startsWith("data: {") ? [JSON.parse(line.slice("data: ".length))] : []));

const frame = "It was Ada who said hello.";

/** The indexes of the chunks with this text, as the reader receives them. */
const textIndexes = (chunks: readonly Chunk[], text: string): readonly number[] =>
  chunks.flatMap((chunk, index) => (JSON.stringify(chunk).includes(text) ? [index] : []));

test("events: a compaction has a beginning and an end before the reply, live and when the turn is read again", async () => {
  const { sessions, call } = serverOf(frame);
  await (
    await sessions.start("I am Ada.", { id: "s" })
  ).result;
  await sessions.compact("s");
  const turn = await sessions.reply("s", "Who am I?");
  await turn.result;
  const read = async (): Promise<readonly Chunk[]> => dataOf(await call("/sessions/s/events?follow=false"));
  const events = await read();
  const types = events.map((event) => JSON.stringify(event).match(/compaction_started|compaction_ended/)?.[0] ?? null);
  const [started, ended] = [types.indexOf("compaction_started"), types.indexOf("compaction_ended")];
  expect(types.filter((type) => type !== null)).toEqual(["compaction_started", "compaction_ended"]);
  expect(JSON.stringify(events[ended])).toContain('"status":"summarized"');
  const [frameId] = (await sessions.frames("s")).items.map(({ id }) => id);
  expect(frameId).toBeDefined();
  for (const at of [started, ended]) expect(JSON.stringify(events[at])).toContain(`"frameId":"${frameId}"`);
  const answer = textIndexes(events, "You are Ada.");
  expect(Math.min(...answer)).toBeGreaterThan(ended);
  // These events have no summary: a reader gets it with the frame.
  for (const at of [started, ended]) expect(textIndexes(events, frame)).not.toContain(at);
  expect(await call("/sessions/s/frames")).toContain(frame);
  expect(await read()).toEqual(events);
});

test.each([
  ["a summary", frame, "summarized"],
  ["a summariser that returns nothing", " ", "failed"],
])("/ui/chat with %s: data chunks say so live, and the loaded conversation is whole", async (_, summary, status) => {
  const { sessions, call } = serverOf(summary);
  const said = (id: string, text: string) => ({ id, role: "user", parts: [{ type: "text", text }] });
  await call("/ui/chat", { id: "s", trigger: "submit-message", messages: [said("m1", "I am Ada.")] });
  await sessions.compact("s");
  const chunks = dataOf(
    await call("/ui/chat", { id: "s", trigger: "submit-message", messages: [said("m2", "Who am I?")] }),
  );
  const compactions = chunks.filter(({ type }) => type === "data-compaction");
  expect(compactions).toMatchObject([
    { transient: true, data: { status: "running", from: 0 } },
    { transient: true, data: { status, from: 0 } },
  ]);
  expect(new Set(compactions.map(({ id }) => id)).size).toBe(1);
  const last = chunks.findLastIndex(({ type }) => type === "data-compaction");
  expect(Math.min(...textIndexes(chunks, "You are Ada."))).toBeGreaterThan(last);
  expect(textIndexes(chunks, frame)).toEqual([]);
  const loaded = await call("/ui/chat/s");
  for (const text of ["I am Ada.", "Hello, Ada.", "Who am I?", "You are Ada."]) expect(loaded).toContain(text);
  expect(loaded).not.toContain("compaction");
  expect(loaded).not.toContain(frame);
});

test("/ag-ui: custom events say so before the reply, and the next run does not repeat them", async () => {
  const { sessions, call } = serverOf(frame);
  const run = async (runId: string, content: string): Promise<readonly Chunk[]> => {
    const messages = [{ id: `m-${runId}`, role: "user", content }];
    const rest = { state: {}, tools: [], context: [], forwardedProps: {} };
    return dataOf(await call("/ag-ui", { threadId: "s", runId, messages, ...rest }));
  };
  await run("r1", "I am Ada.");
  await sessions.compact("s");
  const events = await run("r2", "Who am I?");
  const custom = events.filter(({ type, name }) => type === "CUSTOM" && name === "compaction");
  expect(custom.map(({ value }) => value)).toMatchObject([
    { status: "running", from: 0 },
    { status: "summarized", from: 0 },
  ]);
  const last = events.findLastIndex(({ name }) => name === "compaction");
  expect(Math.min(...textIndexes(events, "You are Ada."))).toBeGreaterThan(last);
  expect(textIndexes(events, frame)).toEqual([]);
  expect((await run("r3", "Thanks.")).filter(({ name }) => name === "compaction")).toEqual([]);
  expect((await sessions.get("s"))?.session.thread.messages).toHaveLength(6);
});

test.each([true, false])(
  "/v1/chat/completions (stream: %s): only the reply is seen, and the summary is paid",
  async (stream) => {
    const policy = { window: 2_000, reserve: 200, keepRecent: 100, prune: false } as const;
    const usage = { inputTokens: 10, outputTokens: 1 };
    const agent = engine({
      adapter: fake({ scripts: [says(frame), says("You are Ada.")], usage }),
      model: "fake:m",
      contextPolicy: policy,
    });
    const sessions = runtime({ host: memoryStorage(), engines: { default: agent } });
    const handler = createHandler({
      sessions,
      dialects: allDialects({ default: agent }),
      ...sharedSessions,
      auth: [{ token: secret, name: "ada" }],
    });
    const messages = Array.from({ length: 8 }, (_, index) => ({
      role: index % 2 === 0 ? "user" : "assistant",
      content: "word ".repeat(150),
    }));
    const body = { model: "default", stream, stream_options: stream ? { include_usage: true } : undefined };
    const response = await handler(
      new Request("http://localhost/v1/chat/completions", {
        method: "POST",
        headers: { authorization: `Bearer ${secret}`, "content-type": "application/json" },
        body: JSON.stringify({ ...body, messages: [...messages, { role: "user", content: "Who am I?" }] }),
      }),
    );
    const text = await response.text();
    expect([response.status, response.status === 200 ? "" : text]).toEqual([200, ""]);
    const chunks: readonly Chunk[] = stream ? dataOf(text) : [JSON.parse(text)];
    const content = JSON.stringify(chunks);
    expect(content).not.toContain(frame);
    expect(content).not.toContain("compaction");
    expect(content).toMatch(stream ? /You/ : /You are Ada\./);
    expect(chunks.at(-1)?.["usage"]).toMatchObject({ prompt_tokens: 20, completion_tokens: 2 });
  },
);
