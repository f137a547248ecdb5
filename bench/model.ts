// The cost of parsing, validating and serializing, compared with JSON.parse and JSON.stringify of the same data.

import { Buffer } from "node:buffer";

import {
  assistant,
  fromJson,
  fromMessages,
  imageFromBinary,
  imageToBinary,
  parse,
  newSession,
  textPart,
  toJson,
  toolResult,
  user,
} from "everturn";
import { toolCall } from "everturn/advanced";

import { compare, print } from "./measure.ts";

/** A session of many messages: questions, calls with arguments, results, answers in parts. */
function longSession(turns: number) {
  const messages = Array.from({ length: turns }, (_, turn) => [
    user(`What is the weather in city ${turn}?`),
    assistant("", {
      toolCalls: [toolCall({ id: `c${turn}`, name: "weather", arguments: { city: `city ${turn}`, days: [1, 2, 3] } })],
      finishReason: "tool_calls",
    }),
    toolResult(`c${turn}`, { celsius: turn, wind: { speed: 3, direction: "NW" } }),
    assistant([textPart("It is "), textPart(`${turn} degrees.`)], { finishReason: "stop" }),
  ]).flat();
  return newSession({ id: "bench", thread: fromMessages(messages) });
}

export function benchModel(): void {
  const value = longSession(1000);
  const text = toJson("session", value);
  const raw: unknown = JSON.parse(text).data;

  print(
    `reading a session of ${value.thread.messages.length} messages (${Math.round(text.length / 1024)} KiB)`,
    compare([
      { name: "JSON.parse alone", run: () => JSON.parse(text) },
      { name: "fromJson: parse, check every field", run: () => fromJson(text, { as: "session" }) },
      { name: "parse: check every field alone", run: () => parse("session", raw) },
    ]),
  );

  print(
    "writing it",
    compare([
      { name: "JSON.stringify alone", run: () => JSON.stringify(value) },
      { name: "toJson: check every field, stringify", run: () => toJson("session", value) },
    ]),
  );

  const bytes = new Uint8Array(1024 * 1024).map((_, index) => (index * 2654435761) >>> 24);
  const picture = imageFromBinary(bytes, "image/png");
  const encoded = Buffer.from(bytes).toString("base64");
  print(
    "bytes of 1 MiB to base64",
    compare([
      { name: "Buffer", run: () => Buffer.from(bytes).toString("base64") },
      { name: "imageFromBinary", run: () => imageFromBinary(bytes, "image/png") },
    ]),
  );
  print(
    "and back",
    compare([
      { name: "Buffer", run: () => Buffer.from(encoded, "base64") },
      { name: "imageToBinary", run: () => imageToBinary(picture) },
    ]),
  );
}
