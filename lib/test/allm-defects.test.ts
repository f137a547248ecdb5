// Known defects of ALLM (G1 to G33), each as the corrected behaviour. Defects that are tested beside their code are not repeated here.

import { chat, engine, fail, fake, generate, halt, stream, subscribe, tool } from "everturn";
import { Collector } from "everturn/kernel";
import { fromJson, messageText, orThrow, request, toJson, user } from "everturn/model";
import * as sessions from "everturn/session";
import { transcript } from "everturn/testing";
import { expect, test } from "vitest";

import { calls, plain, playing, says } from "./runs.ts";

const ok = plain("ok", () => "fine");

test("G1: the model of the call takes precedence over those of the request and the engine", async () => {
  const { engine: of, adapter } = playing([says("A")], [], { model: "engine" });
  await generate(of, request([user("hi")], { model: "request" }), { model: "call" });
  expect(adapter.calls[0]?.request.model).toBe("call");
});

test("G3: settings of the engine reach the request of every verb", async () => {
  const { engine: of, adapter } = playing([says("A"), says("B")], [], {
    params: { temperature: 0.3, maxTokens: 2000 },
  });
  await generate(of, "hi");
  await sessions.start(of, "hi");
  for (const { request: asked } of adapter.calls) expect(asked).toMatchObject({ temperature: 0.3, maxTokens: 2000 });
});

test("G6: an unknown tool ends a streamed run like an awaited one, without another model call", async () => {
  const { engine: of, adapter } = playing([calls("missing"), says("never")], [ok]);
  expect((await transcript(stream(of, "hi"))).at(-1)).toBe("chat_completed error");
  expect(adapter.remaining).toBe(1);
});

test("G7: a reply with an unknown finish reason ends the run", async () => {
  const { engine: of, adapter } = playing([
    [
      { type: "text", text: "A" },
      { type: "finish", reason: "other" },
    ],
    says("never"),
  ]);
  expect(await chat(of, "hi")).toMatchObject({ haltedReason: "completed", outcome: { type: "other" } });
  expect(adapter.remaining).toBe(1);
});

test("G8: two tools that halt in one reply are both answered", async () => {
  const { engine: of } = playing([calls("stop", "stop")], [plain("stop", () => halt("enough", "x"))]);
  const events = stream(of, "hi");
  await transcript(events);
  expect((await events.result).thread.messages.slice(2)).toMatchObject([{ toolCallId: "c0" }, { toolCallId: "c1" }]);
});

test("G10: a preflight failure of a later step is an error event and the end of the run, also in a stream", async () => {
  const { engine: of } = playing([calls("ok"), [{ type: "preflight_error", reason: "authentication_failed" }]], [ok]);
  expect((await transcript(stream(of, "hi"))).slice(-3)).toEqual([
    "error authentication_failed",
    "step_completed error",
    "chat_completed error",
  ]);
});

test("G12: tool_execution_started is emitted while the tool runs", async () => {
  const order: string[] = [];
  const slow = plain("slow", async () => {
    await new Promise((resolve) => setTimeout(resolve, 5));
    order.push("ended");
  });
  for await (const { type } of stream(playing([calls("slow"), says("ok")], [slow]).engine, "hi")) {
    if (type === "tool_execution_started") order.push("started");
  }
  expect(order).toEqual(["started", "ended"]);
});

test("G15: a handler gets the request id, streamed or not", async () => {
  const seen: string[] = [];
  const looks = tool({
    name: "looks",
    description: "Looks.",
    schema: { type: "object" },
    handler: (_, { requestId }) => void seen.push(requestId),
  });
  await chat(playing([calls("looks"), says("ok")], [looks]).engine, "hi", { requestId: "a" });
  await transcript(stream(playing([calls("looks"), says("ok")], [looks]).engine, "hi", { requestId: "b" }));
  expect(seen).toEqual(["a", "b"]);
});

test("G18: a session can be stored after any run, with hints of a question and lists of issues", async () => {
  const bad = playing([says("no json")]);
  const { session } = await sessions.start(bad.engine, "hi", { output: { type: "object", required: ["x"] } });
  expect(session.status).toBe("error");
  expect(orThrow(fromJson(toJson("session", session), { as: "session" }))).toEqual(session);
});

test("G24: text_completed replaces the text of its own block only", () => {
  const collector = new Collector();
  const whole = { phase: null, provider: null };
  collector.add({ type: "text_delta", id: "a", delta: "one " });
  collector.add({ type: "text_completed", id: "a", text: "one ", ...whole });
  collector.add({ type: "text_delta", id: "b", delta: "tw" });
  collector.add({ type: "text_completed", id: "b", text: "two", ...whole });
  expect(collector.text).toBe("one two");
});

test("G27: the reply keeps reasoning, model name and route", async () => {
  const { engine: of } = playing([
    [
      { type: "reasoning", text: "hm" },
      { type: "text", text: "A" },
    ],
  ]);
  const { finalResponse, thread } = await chat(of, "hi");
  expect(finalResponse).toMatchObject({ model: "fake:m", route: { provider: "fake", model: "fake:m" } });
  expect(thread.messages[1]?.content).toMatchObject([
    { type: "reasoning", text: "hm" },
    { type: "text", text: "A" },
  ]);
});

test("G29: the span of a stream lasts until the stream ends", async () => {
  const types: string[] = [];
  const stop = subscribe((event) => {
    if ("name" in event && event.name === "chat") types.push(event.type);
  });
  for await (const { type } of stream(playing([says("A")]).engine, "hi")) types.push(type);
  stop();
  expect([types[0], types.at(-1)]).toEqual(["start", "stop"]);
  expect(types.indexOf("text_delta")).toBeLessThan(types.indexOf("stop"));
});

test("G30: a run can be cancelled by a signal and limited by a budget", async () => {
  const controller = new AbortController();
  const stops = plain("stops", () => controller.abort("enough"));
  const { engine: of } = playing([calls("stops"), says("never")], [stops]);
  expect((await chat(of, "hi", { signal: controller.signal })).haltedReason).toBe("cancelled");
  const loops = playing([calls("ok"), calls("ok"), calls("ok")], [ok]);
  expect((await chat(loops.engine, "hi", { budgets: { steps: 2 } })).haltedReason).toBe("budget");
});

test("G32: tool options of a call can be set on the engine", async () => {
  const bad = plain("bad", () => fail("no"));
  const { engine: of } = playing([calls("bad")], [bad], { options: { onToolError: "halt" } });
  expect((await chat(of, "hi")).haltedReason).toBe("tool_error");
  const manual = playing([calls("ok")], [ok], { options: { mode: "manual" } });
  expect((await chat(manual.engine, "hi")).haltedReason).toBe("manual_tool_calls");
});

test("G33: fake scripts are strict: an error ends the stream, and adapters do not share a position", async () => {
  const script = [{ type: "text", text: "A" }] as const;
  const [one, two] = [fake({ script }), fake({ script })];
  expect((await generate(engine({ adapter: one }), "hi")).finishReason).toBe("stop");
  expect((await generate(engine({ adapter: two }), "hi")).outputText).toBe("A");
  const failed = fake({
    script: [
      { type: "error", reason: "invalid_request" },
      { type: "text", text: "never" },
    ],
  });
  expect((await generate(engine({ adapter: failed }), "hi")).outputText).toBe("");
});

test("the thread keeps the text of a reply that failed", async () => {
  const { engine: of } = playing([
    [
      { type: "text", text: "Hel" },
      { type: "error", reason: "invalid_request" },
    ],
  ]);
  expect((await chat(of, "hi")).thread.messages.map(messageText)).toEqual(["hi", "Hel"]);
});
