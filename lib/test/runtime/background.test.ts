// Model calls that continue at the provider after a crash (background mode): the process that takes over reads the
// response instead of sending the request again.

import type { Process } from "./world.ts";
import type { Engine } from "everturn";
import type { Middleware } from "everturn/advanced";

import { agentTool, engine, openai } from "everturn";
import { readReply, replyEvents } from "everturn/middleware";
import { afterEach, beforeEach, describe, expect, test } from "vitest";

import { BackgroundServer } from "../background-server.ts";
import { eventually } from "../eventually.ts";
import { readUntil } from "../readings.ts";
import { call, eventsUntil, says, sessionOf, talk, thinker, World, writes } from "./world.ts";

const pieces = ["The ", "river ", "is ", "long."];
const text = pieces.join("");
/** The response is created, and half of its text is available. */
const half = 4;
let server = new BackgroundServer(pieces);
let world = new World();

beforeEach(async () => {
  server = new BackgroundServer(pieces);
  world = new World();
  await server.listen();
});
afterEach(() => server.close());

const researcher = (): Engine =>
  world.engine(openai({ baseURL: server.url, apiKey: "sk-test", background: true }), { model: "gpt-5.4" });

const posts = (): readonly string[] => server.requests.filter((one) => one.startsWith("POST"));

/** A process that is killed once the id of the response is recorded. */
async function crashed(of = researcher()): Promise<void> {
  const process = world.process(of, { diesAfter: writes("records", "reference/1") });
  await process.start("How long is the river?", { id: "s1" });
  await process.died;
  await world.leaseRunsOut();
}

/** Shuts a process down as a deploy does. */
async function closed(process: Process): Promise<void> {
  const closing = process.close({ graceMs: 0 });
  await world.clock.advance(1);
  await closing;
}

async function resultOf(process: Process) {
  await process.recover();
  return process.attach("s1").result;
}

describe("a crash during a background model call", () => {
  test("the next process streams the response that is still running", async () => {
    server.ready = half;
    await crashed();
    const second = world.process(researcher());
    const result = resultOf(second);
    await eventually(() => expect(server.requests).toHaveLength(3));
    server.finish();
    expect(await result).toMatchObject({ text, usage: { inputTokens: 11, outputTokens: 7 } });
    expect(server.requests).toEqual(["POST /responses", "GET /responses/resp_1", "GET /responses/resp_1?stream=true"]);
    expect((await sessionOf(second)).usage).toMatchObject({ inputTokens: 11, outputTokens: 7 });
    expect(await talk(second)).toEqual(["user How long is the river?", `assistant ${text}`]);
  });

  test("the next process streams the response through its middleware", async () => {
    server.ready = half;
    const shouting: Middleware = {
      name: "shouting",
      async *model({ request }, next) {
        const { outputText } = await readReply(next(request));
        yield replyEvents((outputText ?? "").toUpperCase());
      },
    };
    const agent = () => ({ ...researcher(), middleware: [shouting] });
    await crashed(agent());
    server.finish();
    expect(await resultOf(world.process(agent()))).toMatchObject({
      text: text.toUpperCase(),
      usage: { inputTokens: 11 },
    });
    expect(posts()).toHaveLength(1);
  });

  test("the next process reads the response that has ended meanwhile", async () => {
    server.ready = half;
    await crashed();
    server.finish();
    expect(await resultOf(world.process(researcher()))).toMatchObject({ text, usage: { inputTokens: 11 } });
    expect(server.requests).toEqual(["POST /responses", "GET /responses/resp_1"]);
  });

  test("readers get a reset for the text of the first process", async () => {
    server.ready = half;
    const first = world.process(researcher(), { live: {} });
    const turn = await first.start("How long is the river?", { id: "s1" });
    const { cursor } = await eventsUntil(turn.events, "text_delta");
    first.kill();
    await world.leaseRunsOut();
    server.finish();
    const second = world.process(researcher(), { live: {} });
    const reader = readUntil(second.events("s1", { after: cursor }), ({ event }) => event.type === "chat_completed");
    expect((await resultOf(second)).text).toBe(text);
    const types = (await reader).map(({ event }) => event.type);
    expect(types.filter((type) => type === "step_reset")).toHaveLength(1);
    expect(types.indexOf("step_reset")).toBeLessThan(types.indexOf("message_completed"));
    expect(posts()).toEqual(["POST /responses"]);
  });

  test("before the response id is recorded the request is sent again", async () => {
    server.ready = half;
    const first = world.process(researcher(), { diesBefore: writes("records", "reference/1") });
    await first.start("How long is the river?", { id: "s1" });
    await first.died;
    await world.leaseRunsOut();
    server.ready = Infinity;
    expect((await resultOf(world.process(researcher()))).text).toBe(text);
    expect(posts()).toEqual(["POST /responses", "POST /responses"]);
  });
});

describe("a background response that cannot be read", () => {
  test("is requested again if the provider does not know it", async () => {
    server.ready = half;
    await crashed();
    server.ready = Infinity;
    server.knows = false;
    expect(await resultOf(world.process(researcher()))).toMatchObject({ text, usage: { inputTokens: 11 } });
    expect(server.requests).toEqual(["POST /responses", "GET /responses/resp_1", "POST /responses"]);
  });

  test("is requested again if it failed, even without retries, and its usage is counted", async () => {
    const strict = { ...researcher(), retry: false } as const;
    server.ready = half;
    await crashed(strict);
    server.ready = Infinity;
    server.finish("failed");
    expect(await resultOf(world.process(strict))).toMatchObject({ text, usage: { inputTokens: 22, outputTokens: 14 } });
    expect(server.requests).toEqual(["POST /responses", "GET /responses/resp_1", "POST /responses"]);
  });

  test("is requested only once more, however often processes crash after that", async () => {
    server.ready = half;
    await crashed();
    server.knows = false;
    const second = world.process(researcher(), { diesAfter: writes("records", "reference/2") });
    await second.recover();
    await second.died;
    await world.leaseRunsOut();
    server.knows = true;
    server.finish();
    expect((await resultOf(world.process(researcher()))).text).toBe(text);
    expect(server.requests).toEqual([
      "POST /responses",
      "GET /responses/resp_1",
      "POST /responses",
      "GET /responses/resp_2",
    ]);
  });

  test("is requested again by an engine with another provider", async () => {
    server.ready = half;
    await crashed();
    const other = thinker(() => says("It is long."));
    expect((await resultOf(world.process(world.engine(other, { model: "gpt-5.4" })))).text).toBe("It is long.");
    expect(server.requests).toEqual(["POST /responses"]);
  });
});

describe("the end of a run with a background response", () => {
  test("a cancel cancels the response", async () => {
    server.ready = half;
    const process = world.process(researcher());
    const turn = await process.start("How long is the river?", { id: "s1" });
    await eventsUntil(turn.events, "text_delta");
    expect(await process.cancel("s1")).toBe("cancelled");
    await eventually(() => expect(posts()).toEqual(["POST /responses", "POST /responses/resp_1/cancel"]));
  });

  test("a cancel after a crash cancels the remaining response", async () => {
    server.ready = half;
    await crashed();
    expect(await world.process(researcher()).cancel("s1")).toBe("cancelled");
    await eventually(() => expect(server.requests).toEqual(["POST /responses", "POST /responses/resp_1/cancel"]));
  });

  test("a graceful shutdown leaves the response to the next process", async () => {
    server.ready = half;
    const first = world.process(researcher());
    const turn = await first.start("How long is the river?", { id: "s1" });
    await eventsUntil(turn.events, "text_delta");
    await closed(first);
    server.finish();
    expect((await resultOf(world.process(researcher()))).text).toBe(text);
    expect(posts()).toEqual(["POST /responses"]);
  });

  test("a graceful shutdown also leaves the response of a nested turn", async () => {
    const agent = (): Engine => {
      const ask = agentTool({ name: "ask", description: "Asks the researcher.", engine: researcher() });
      const lead = thinker(({ messages }) =>
        messages.some(({ role }) => role === "tool") ? says("Done.") : [call("ask", { task: "How long?" })],
      );
      return engine({ adapter: lead, model: "fake:m", clock: world.clock, tools: [ask] });
    };
    server.ready = half;
    const first = world.process(agent());
    await first.start("Find out.", { id: "s1" });
    await eventually(() => expect(world.writes.some(writes("records", "reference/1"))).toBe(true));
    await closed(first);
    server.finish();
    expect((await resultOf(world.process(agent()))).text).toBe("Done.");
    expect(posts()).toEqual(["POST /responses"]);
  });
});
