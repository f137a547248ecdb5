// What every decoder promises besides its events.

import type { Codec, WireContext } from "./codec.ts";

import { readFileSync } from "node:fs";

import { expect, test } from "vitest";

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

test.each(codecs)("$api: the functions of a decoder can be taken out of it", (codec) => {
  const recording = new URL(`../../../../fixtures/wire/${codec.api}/text/stream.txt`, import.meta.url);
  const reader = frameReader();
  const frames = [...reader.push(readFileSync(recording, "utf8")), ...reader.end()];
  const whole = codec.decoder(context);
  const { push, end } = codec.decoder(context);
  expect([...push(frames), ...end()]).toEqual([...whole.push(frames), ...whole.end()]);
});
