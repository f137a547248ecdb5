// A stream with a damaged frame, for every API: the reply fails and can be retried. It never continues without the
// content of the frame.

import type { Codec, Frame, WireContext } from "./codec.ts";
import type { ModelEvent } from "everturn/advanced";

import { existsSync, readdirSync, readFileSync } from "node:fs";

import * as fc from "fast-check";
import { describe, expect, test } from "vitest";

import { anthropicMessages } from "./anthropic/codec.ts";
import { noQuirks } from "./codec.ts";
import { geminiGenerateContent } from "./gemini/codec.ts";
import { openaiChat } from "./openai-chat/codec.ts";
import { openaiResponses } from "./openai-responses/codec.ts";
import { frameReader } from "./sse.ts";

const codecs: readonly Codec[] = [openaiResponses, openaiChat, anthropicMessages, geminiGenerateContent];
const context: WireContext = {
  route: { provider: "acme", endpoint: "e", model: "m" },
  rawChunks: false,
  quirks: noQuirks,
};
const fixtures = new URL("../../../../fixtures/wire/", import.meta.url);

function recording(api: string, name: string): string {
  return readFileSync(new URL(`${api}/${name}/stream.txt`, fixtures), "utf8");
}

function framesOf(text: string): readonly Frame[] {
  const reader = frameReader();
  return [...reader.push(text), ...reader.end()];
}

function decode(codec: Codec, frames: readonly Frame[]): readonly ModelEvent[] {
  const decoder = codec.decoder(context);
  return [...decoder.push(frames), ...decoder.end()];
}

function endOf(events: readonly ModelEvent[]): ModelEvent | undefined {
  const ends = events.filter(({ type }) => type === "message_completed" || type === "error");
  expect(ends).toHaveLength(1);
  return ends[0];
}

const interrupted = { type: "error", error: { type: "stream_error", reason: "interrupted", retryable: true } };

describe.each(codecs)("$api", (codec) => {
  const cases = readdirSync(new URL(`${codec.api}/`, fixtures)).filter((name) =>
    existsSync(new URL(`${codec.api}/${name}/stream.txt`, fixtures)),
  );

  test.each(["text", "parallel-tools"])(
    "%s: every frame before the end that is damaged interrupts the reply",
    (name) => {
      const frames = framesOf(recording(codec.api, name));
      for (const [at, frame] of frames.entries()) {
        const isBeforeEnd = decode(codec, frames.slice(0, at)).every(({ type }) => type !== "message_completed");
        if (!isBeforeEnd || frame.data === "[DONE]" || frame.event === "ping") continue;
        const damaged = { ...frame, data: frame.data.slice(0, -2) };
        expect(endOf(decode(codec, frames.with(at, damaged)))).toMatchObject(interrupted);
      }
    },
  );

  test("a stream that is cut inside a frame is interrupted, or complete if its end was read", () => {
    for (const name of cases) {
      const text = recording(codec.api, name);
      const whole = endOf(decode(codec, framesOf(text)));
      fc.assert(
        fc.property(fc.integer({ min: 1, max: text.length - 1 }), (length) => {
          const end = endOf(decode(codec, framesOf(text.slice(0, length))));
          if (end?.type === "message_completed")
            expect(end.message).toEqual(whole?.type === "message_completed" ? whole.message : null);
          else if (whole?.type === "message_completed") expect(end).toMatchObject(interrupted);
        }),
        { numRuns: 40, seed: 4 },
      );
    }
  });

  test("keep-alives and blank frames are no damage", () => {
    const frames = framesOf(recording(codec.api, "text"));
    const idle: readonly Frame[] = [
      { event: null, data: "" },
      { event: "ping", data: "still here" },
      { event: null, data: ": keep-alive" },
    ];
    expect(
      decode(
        codec,
        frames.flatMap((frame) => [...idle, frame]),
      ),
    ).toEqual(decode(codec, frames));
  });
});

test("a call never gets arguments without the digits of a damaged frame", () => {
  const chunk = (delta: object, finish: string | null = null) => ({
    event: null,
    data: JSON.stringify({ choices: [{ index: 0, delta, finish_reason: finish }] }),
  });
  const piece = (text: string, more: object = {}) =>
    chunk({ tool_calls: [{ index: 0, ...more, function: { arguments: text, ...more } }] });
  const pay = { id: "call_1", type: "function", name: "pay" };
  const frames = [piece('{"amount":1', pay), piece("89"), piece("}"), chunk({}, "tool_calls")];
  expect(endOf(decode(openaiChat, frames))).toMatchObject({ message: { toolCalls: [{ arguments: { amount: 189 } }] } });
  const damaged = frames.with(1, { event: null, data: '{"choices":[{"index":0,"delta":{"tool_ca' });
  const events = decode(openaiChat, damaged);
  expect(endOf(events)).toMatchObject(interrupted);
  expect(events.filter(({ type }) => type === "tool_call_completed")).toEqual([]);
});
