import { frameReader } from "everturn/advanced";
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";

import { FrameTooLong } from "./sse.ts";

const framesOf = (text: string) => {
  const reader = frameReader();
  return [...reader.push(text), ...reader.end()];
};

describe("[allm 106] server-sent events", () => {
  test.each([
    ["line feeds", "data: a\n\ndata: b\n\n"],
    ["carriage returns", "data: a\r\rdata: b\r\r"],
    ["both", "data: a\r\n\r\ndata: b\r\n\r\n"],
    ["a mixture", "data: a\r\n\ndata: b\n\r"],
    ["no blank line at the end", "data: a\n\ndata: b"],
  ])("accepts lines that end with %s", (_, text) => {
    expect(framesOf(text)).toEqual([
      { event: null, data: "a" },
      { event: null, data: "b" },
    ]);
  });

  test("drops comments and one space after the colon, and joins data lines", () => {
    expect(framesOf(": hello\nevent: tick\nid: 7\nretry: 3\ndata:  two\ndata:lines\n\n")).toEqual([
      { event: "tick", data: " two\nlines" },
    ]);
    expect(framesOf("event: nothing\n\n\n\n")).toEqual([]);
    expect(framesOf("data\n\n")).toEqual([{ event: null, data: "" }]);
    expect(framesOf("data: [DONE]\n\n")).toEqual([{ event: null, data: "[DONE]" }]);
  });

  test("W2, G26: cuts between chunks change no frame, also between CR and LF", () => {
    const text = fc
      .array(fc.constantFrom("data: a", "data: ü", "event: x", ": c", "\n", "\r\n", "\r", "\n\n", "\r\n\r\n", "[DONE]"))
      .map((pieces) => pieces.join(""));
    fc.assert(
      fc.property(text, fc.array(fc.nat(200)), (streamText, cuts) => {
        const at = [...new Set([0, ...cuts.map((cut) => cut % (streamText.length + 1)), streamText.length])].sort(
          (a, b) => a - b,
        );
        const reader = frameReader();
        const frames = at.slice(1).flatMap((end, index) => reader.push(streamText.slice(at[index], end)));
        expect([...frames, ...reader.end()]).toEqual(framesOf(streamText));
      }),
      { numRuns: 500 },
    );
  });

  test("refuses a line or an event above the limit", () => {
    const reader = frameReader(100);
    expect(() => Array.from({ length: 20 }, () => reader.push("xxxxxxxxxx"))).toThrow(FrameTooLong);
    expect(() => Array.from({ length: 20 }, () => frameReader(100).push("data: xxxxxxxx\n".repeat(20)))).toThrow(
      FrameTooLong,
    );
  });
});

describe("what servers send under text/event-stream besides events", () => {
  const framesOf = (text: string, cut: number) => {
    const reader = frameReader();
    return [...reader.push(text.slice(0, cut)), ...reader.push(text.slice(cut)), ...reader.end()];
  };

  test("a plain JSON body is one frame, in whatever pieces it arrives", () => {
    const body = JSON.stringify({ error: { message: "no credit", code: 402 } }, null, 2);
    for (const text of [body, `\n${body}\n`, body.replaceAll("\n", "\r\n")])
      for (let cut = 0; cut <= text.length; cut += 7)
        expect(framesOf(text, cut)).toEqual([{ event: null, data: text.trim() }]);
    expect(() => frameReader(20).push(body)).toThrow(FrameTooLong);
  });

  test("the rest of a damaged line is a frame, so that the reply does not end without its content", () => {
    const lines = ['dta: {"a":1}', 'a: {"a":1}', 'daount":1}', 'da{"a":[', 'd"', '"}]}'];
    for (const line of lines)
      expect(framesOf(`data: {"a":0}\n\n${line}\n\ndata: [DONE]\n\n`, 17)).toEqual([
        { event: null, data: '{"a":0}' },
        { event: null, data: line },
        { event: null, data: "[DONE]" },
      ]);
    // Other fields are ignored, as the specification requires.
    for (const line of ['meta: {"a":1}', "timestamp: 17", "ping", ": comment", "x-trace-id: a"])
      expect(framesOf(`data: {"a":0}\n${line}\n\n`, 9)).toEqual([{ event: null, data: '{"a":0}' }]);
  });

  test("a field named error is an error event (llama.cpp)", () => {
    const text = 'data: {"a":1}\n\nerror: {"code":400,"message":"too long"}\n\ndata: [DONE]\n\n';
    for (let cut = 0; cut <= text.length; cut += 5)
      expect(framesOf(text, cut)).toEqual([
        { event: null, data: '{"a":1}' },
        { event: "error", data: '{"code":400,"message":"too long"}' },
        { event: null, data: "[DONE]" },
      ]);
  });
});
