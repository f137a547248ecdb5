// Values of a wrong type from callers without a compiler: each raises `MisuseError` that names the argument, before
// anything runs.

import type { ChatOptions, TurnEvent, TurnOutcome } from "everturn";

import { chat, engine, stream, tool, session as sessions } from "everturn";
import { mergeOpts, Collector, chatResult } from "everturn/advanced";
import { expect, test } from "vitest";

import { playing, says } from "./runs.ts";

/** A value as it arrives from JSON, without static types. */
const fromWire = (text: string) => JSON.parse(text);

const misuse = (path: readonly string[]) => ({ name: "MisuseError", path });

test.each(["haltWhen", "onEvent", "prepareStep", "onCheckpoint", "toolExecutor", "toolResultEncoder"])(
  "%s that is not a function is refused before the model is called, as an option of the call or of the engine",
  async (name) => {
    for (const value of ['"x"', "true", "{}", "[]", "1"]) {
      const options: ChatOptions = fromWire(`{"${name}":${value}}`);
      const { engine: of, adapter } = playing([says("Hello.")]);
      await expect(chat(of, "hi", options)).rejects.toMatchObject(misuse([name]));
      expect(() => stream(of, "hi", options)).toThrow(expect.objectContaining(misuse([name])));
      await expect(sessions.start(of, "hi", options)).rejects.toMatchObject(misuse([name]));
      if (name !== "onEvent") {
        await expect(chat({ ...of, options: { ...of.options, ...options } }, "hi")).rejects.toMatchObject(
          misuse([name]),
        );
      }
      expect(adapter.calls).toHaveLength(0);
    }
  },
);

test.each<[string, readonly string[]]>([
  ['{"hooks":5}', ["hooks"]],
  ['{"hooks":[]}', ["hooks"]],
  ['{"hooks":{"beforeTool":5}}', ["hooks", "beforeTool"]],
  ['{"hooks":{"beforTool":null}}', ["hooks", "beforTool"]],
  ['{"tools":5}', ["tools"]],
  ['{"tools":[5]}', ["tools"]],
  ['{"signal":{}}', ["signal"]],
  ['{"instructions":5}', ["instructions"]],
])("the options %s are refused before the model is called", async (text, path) => {
  const options: ChatOptions = fromWire(text);
  const { engine: of, adapter } = playing([says("Hello.")]);
  await expect(chat(of, "hi", options)).rejects.toMatchObject(misuse(path));
  expect(() => stream(of, "hi", options)).toThrow(expect.objectContaining(misuse(path)));
  await expect(sessions.start(of, "hi", options)).rejects.toMatchObject(misuse(path));
  if (path[0] === "hooks") {
    await expect(chat({ ...of, options }, "hi")).rejects.toMatchObject(misuse(path));
  }
  expect(adapter.calls).toHaveLength(0);
});

test.each([
  ["maxOutputTokens", "the option is maxTokens"],
  ["max_tokens", "the option is maxTokens"],
  ["maxSteps", "the option is maxTurns"],
  ["system", "the option is instructions"],
  ["abortSignal", "the option is signal"],
  ["fallback", "it is a field of the engine: engine({ fallback: … })"],
  ["whenBusy", "it is a field of the engine: engine({ whenBusy: … })"],
  ["baseURL", "it belongs to the adapter: openai({ baseURL: … })"],
  ["top_k", "pass settings of a provider in params"],
])("a call says where %s belongs", async (name, place) => {
  const { engine: of } = playing([says("Hello.")]);
  const failed = chat(of, "hi", fromWire(`{"${name}":1}`));
  await expect(failed).rejects.toMatchObject({
    name: "MisuseError",
    message: `"${name}" is not an option of a run; ${place}`,
  });
});

test("a field of an engine whose value is undefined has its default, and functions must be functions", async () => {
  const { engine: of } = playing([says("Hello.")]);
  const { adapter, clock, ...optional } = of;
  const absent = Object.fromEntries(Object.keys(optional).map((field) => [field, undefined]));
  const defaults = engine({ adapter, clock, ...absent });
  expect(defaults).toEqual(engine({ adapter, clock }));
  expect((await chat(defaults, "hi")).finalResponse?.outputText).toBe("Hello.");
  for (const field of ["toolExecutor", "toolResultEncoder", "tools"]) {
    expect(() => engine(fromWire(`{"${field}":"x"}`)), field).toThrow(expect.objectContaining(misuse([field])));
  }
  expect(() => engine(fromWire('{"options":{"whenBusy":"queue"}}'))).toThrow(/it is a field of the engine/);
});

test("a tool with a misspelt field is refused, so that an approval cannot be lost", () => {
  const definition: object = { needsAproval: true };
  const make = () => tool({ name: "pay", description: "Pays.", schema: { type: "object" }, ...definition });
  expect(make).toThrow(expect.objectContaining({ ...misuse(["needsAproval"]), reason: "unknown_field" }));
});

test("mergeOpts refuses what is not an engine", () => {
  for (const text of ["null", '"x"', "[]", "{}"]) {
    expect(() => mergeOpts(fromWire(text), {}), text).toThrow(expect.objectContaining(misuse([])));
  }
});

test("mergeOpts refuses options that are no object", () => {
  for (const text of ["null", '"x"', "[]"]) {
    expect(() => mergeOpts(engine(), fromWire(text)), text).toThrow(expect.objectContaining(misuse([])));
  }
});

test("Collector.add refuses what is not an event, and ignores an event of a newer release", () => {
  const collector = new Collector();
  const rows: readonly (readonly [string, readonly string[]])[] = [
    ["null", []],
    ['"text_delta"', []],
    ["{}", []],
    ["[]", []],
    ['{"type":"text_delta","id":null}', ["delta"]],
    ['{"type":"reasoning_delta","id":null,"delta":5}', ["delta"]],
    ['{"type":"message_completed"}', ["message"]],
    ['{"type":"error","error":null}', ["error"]],
    ['{"type":"step_completed","response":{}}', ["thread"]],
    ['{"type":"chat_completed"}', ["result"]],
  ];
  for (const [text, path] of rows) {
    const event: TurnEvent = fromWire(text);
    expect(() => collector.add(event), text).toThrow(expect.objectContaining(misuse(path)));
  }
  collector.add(fromWire('{"type":"from_a_newer_release"}'));
  collector.add({ type: "text_delta", id: null, delta: "Hi" });
  expect(collector.text).toBe("Hi");
});

test("chatResult refuses what is not an outcome", () => {
  for (const text of ["null", '"completed"', "{}", '{"type":"nothing"}', '{"type":"assistant_message"}']) {
    const outcome: TurnOutcome = fromWire(text);
    expect(() => chatResult(outcome), text).toThrow(expect.objectContaining({ name: "MisuseError" }));
  }
});
