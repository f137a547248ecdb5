// Values of a wrong type from callers without a compiler: each raises `MisuseError` that names the argument, before anything runs.

import type { ChatOptions } from "everturn/engine";
import type { TurnEvent, TurnOutcome } from "everturn/model";

import { chat, engine, stream } from "everturn";
import { mergeOpts } from "everturn/engine";
import { Collector } from "everturn/kernel";
import { chatResult } from "everturn/model";
import * as sessions from "everturn/session";
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

test("mergeOpts refuses overrides of a wrong type", () => {
  const rows: readonly (readonly [string, readonly string[]])[] = [
    ["null", []],
    ['"x"', []],
    ["[]", []],
    ['{"model":5}', ["model"]],
    ['{"tools":"x"}', ["tools"]],
    ['{"tools":[5]}', ["tools"]],
    ['{"params":"x"}', ["params"]],
    ['{"params":[]}', ["params"]],
    ['{"context":7}', ["context"]],
  ];
  for (const [text, path] of rows) {
    expect(() => mergeOpts(engine(), fromWire(text)), text).toThrow(expect.objectContaining(misuse(path)));
  }
  expect(mergeOpts(engine({ model: "m" }), fromWire('{"model":null,"tools":null,"params":null}')).model).toBe("m");
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
