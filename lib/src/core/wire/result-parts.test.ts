import type { Codec, WireContext } from "./codec.ts";
import type { Message } from "everturn";
import type { ProviderApi } from "everturn/testing";

import { assistant, filePart, textPart, toolResult, user } from "everturn";
import { request } from "everturn/advanced";
import { violations } from "everturn/testing";
import { describe, expect, test } from "vitest";

import { anthropicMessages } from "./anthropic/codec.ts";
import { noQuirks } from "./codec.ts";
import { geminiGenerateContent } from "./gemini/codec.ts";
import { warningsOf } from "./omission.ts";
import { openaiChat } from "./openai-chat/codec.ts";
import { openaiResponses } from "./openai-responses/codec.ts";

type UserPart = ReturnType<typeof filePart> | ReturnType<typeof textPart>;

const inline = (mimeType: string) => filePart({ type: "base64", data: "AAAA" }, { mimeType });
const uploaded = filePart({ type: "provider_file", provider: "elsewhere", id: "f" }, { mimeType: "application/pdf" });
const callOf = (id: string) => assistant("", { toolCalls: [{ id, name: "record", arguments: {} }] });
const resultOf = (part: UserPart): readonly Message[] => [
  user("a"),
  callOf("c"),
  toolResult("c", [textPart("done"), part]),
];

function encode(codec: Codec, provider: string, messages: readonly Message[], quirks = noQuirks) {
  const model = provider === "gemini" ? "gemini-3-flash" : "m";
  const context: WireContext = { route: { provider, endpoint: "e", model }, rawChunks: false, quirks };
  return codec.encode(request(messages, { maxTokens: 100 }), context);
}

const apis: readonly (readonly [
  ProviderApi,
  Codec,
  { readonly provider: string; readonly unsent: readonly UserPart[]; readonly sent: readonly UserPart[] },
])[] = [
  [
    "openai-responses",
    openaiResponses,
    { provider: "openai", unsent: [inline("audio/ogg"), uploaded], sent: [inline("audio/wav")] },
  ],
  [
    "openai-chat",
    openaiChat,
    {
      provider: "openai",
      unsent: [inline("audio/ogg"), uploaded, filePart({ type: "url", url: "https://a.example/b" })],
      sent: [inline("audio/mpeg"), inline("application/pdf")],
    },
  ],
  [
    "anthropic-messages",
    anthropicMessages,
    {
      provider: "anthropic",
      unsent: [inline("audio/wav"), inline("application/zip"), uploaded],
      sent: [inline("application/pdf")],
    },
  ],
  [
    "gemini",
    geminiGenerateContent,
    {
      provider: "gemini",
      unsent: [uploaded],
      sent: [inline("audio/wav"), inline("image/gif"), inline("image/png"), inline("application/pdf")],
    },
  ],
];

describe.each(apis)("media in tool results of %s", (api, codec, { provider, unsent, sent }) => {
  test("that the API does not accept is a note for the model, with a warning, and ends no turn", () => {
    for (const part of unsent) {
      const { body, omissions } = encode(codec, provider, resultOf(part));
      expect(JSON.stringify(body)).toContain("which this API does not read]");
      expect(JSON.stringify(body)).toContain("done");
      expect(warningsOf(omissions)).toMatchObject([{ reason: "unsupported", path: "messages[2].content[1]" }]);
      expect(violations(api, { body, url: "models/gemini-3-flash:generateContent" })).toEqual([]);
      // The program wrote a user message itself: it learns before anything is sent.
      expect(() => encode(codec, provider, [user([part])])).toThrow();
    }
  });

  test("that the API accepts is sent in the form that it documents", () => {
    for (const part of sent) {
      const { body, omissions } = encode(codec, provider, resultOf(part));
      expect(JSON.stringify(body)).toContain("AAAA");
      expect(omissions).toEqual([]);
      expect(violations(api, { body, url: "models/gemini-3-flash:generateContent" })).toEqual([]);
    }
  });
});

test("Chat Completions: formats other than WAV and MP3 are sent to servers that read them, and rejected by name elsewhere", () => {
  const quirks = { audioFormats: ["wav", "ogg"] };
  const { body } = encode(openaiChat, "openrouter", [user([inline("audio/ogg; codecs=opus")])], quirks);
  expect(body["messages"]).toMatchObject([{ content: [{ input_audio: { data: "AAAA", format: "ogg" } }] }]);
  expect(() => encode(openaiChat, "openai", [user([inline("audio/ogg")])])).toThrow(
    "openai: Chat Completions does not accept audio of the type audio/ogg; the server reads wav, mp3 (quirks.audioFormats)",
  );
});
