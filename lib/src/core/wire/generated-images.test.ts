// Images and other files that a model generates: parts of the assistant message, streamed and whole, and what the next
// request sends of them.

import type { Codec, WireContext } from "./codec.ts";
import type { AssistantMessage, Json, JsonObject, Message } from "everturn";
import type { ModelEvent } from "everturn/advanced";

import { assistant, filePart, imageFromBase64, imagePart, textPart, user } from "everturn";
import { request } from "everturn/advanced";
import { describe, expect, test } from "vitest";

import { anthropicMessages } from "./anthropic/codec.ts";
import { noQuirks } from "./codec.ts";
import { geminiGenerateContent as gemini } from "./gemini/codec.ts";
import { openaiChat } from "./openai-chat/codec.ts";
import { openaiResponses } from "./openai-responses/codec.ts";
import { frameReader } from "./sse.ts";

const png = "iVBORw0KGgo=";

function contextOf(provider: string, model: string): WireContext {
  const route = { provider, endpoint: "https://api.example.com/v1", model };
  return { route, rawChunks: false, quirks: noQuirks };
}

function messageIn(events: readonly ModelEvent[]): AssistantMessage {
  const completed = events.find((event) => event.type === "message_completed");
  if (completed?.type !== "message_completed") throw new Error(JSON.stringify(events));
  return completed.message;
}

function streamed(codec: Codec, context: WireContext, ...chunks: readonly Json[]): AssistantMessage {
  const decoder = codec.decoder(context);
  const reader = frameReader();
  const frames = chunks.flatMap((chunk) => reader.push(`data: ${JSON.stringify(chunk)}\n\n`));
  return messageIn([...decoder.push(frames), ...decoder.end()]);
}

function sent(codec: Codec, context: WireContext, reply: Message) {
  const { body, omissions } = codec.encode(request([user("Draw."), reply, user("Again.")]), context);
  return { body, omissions };
}

const image = imageFromBase64(png, "image/png");

describe("gemini", () => {
  const context = contextOf("gemini", "gemini-3-pro-image");
  const drawn = { inlineData: { mimeType: "image/png", data: png }, thoughtSignature: "c2ln" };
  const spoken = { inlineData: { mimeType: "audio/L16;rate=24000", data: "AAAA" } };
  const draft = { inlineData: { mimeType: "image/png", data: "ZHJhZnQ=" }, thought: true };
  const parts = [draft, { text: "Here:" }, drawn, spoken];
  const chunk = (list: readonly JsonObject[], more: JsonObject = {}) => ({
    candidates: [{ content: { role: "model", parts: list }, index: 0, ...more }],
  });
  const whole = messageIn(gemini.decodeReply(chunk(parts, { finishReason: "STOP" }), context));

  test("inlineData is an image part, or a file part for other types", () => {
    const provider = { ...context.route, data: { thoughtSignature: "c2ln" } };
    expect(whole.content).toEqual([
      imagePart(imageFromBase64("ZHJhZnQ=", "image/png"), {
        provider: { ...context.route, data: { thought: true } },
        metadata: { thought: true },
      }),
      textPart("Here:"),
      imagePart(image, { provider }),
      filePart({ type: "base64", data: "AAAA" }, { mimeType: "audio/L16;rate=24000" }),
    ]);
    const chunks = parts.map((part) => chunk([part]));
    expect(streamed(gemini, context, ...chunks, chunk([], { finishReason: "STOP" }))).toEqual(whole);
  });

  test("is sent back with its signature; a draft without a signature is not", () => {
    const { body, omissions } = sent(gemini, context, whole);
    expect(body["contents"]).toMatchObject([{}, { role: "model", parts: [{ text: "Here:" }, drawn, spoken] }, {}]);
    expect(JSON.stringify(body)).not.toContain("ZHJhZnQ=");
    expect(omissions).toEqual([]);
  });

  test("is sent without the signature to another model, and not at all if it was pruned", () => {
    const { body } = sent(gemini, contextOf("gemini", "gemini-2.5-flash"), whole);
    expect(JSON.stringify(body)).toContain(png);
    expect(JSON.stringify(body)).not.toContain("c2ln");
    const pruned = assistant([textPart("Here:"), imagePart(image, { pruneState: { type: "cleared" } })]);
    expect(JSON.stringify(sent(gemini, context, pruned).body)).not.toContain(png);
  });
});

describe("openai-responses", () => {
  const context = contextOf("openai", "gpt-5.4");
  const item = {
    id: "ig_1",
    type: "image_generation_call",
    status: "completed",
    output_format: "webp",
    revised_prompt: "A red bicycle.",
    result: png,
  };
  const response = (...output: readonly JsonObject[]) => ({ id: "resp_1", status: "completed", output });
  const whole = messageIn(openaiResponses.decodeReply(response(item), context));

  test("image_generation_call is an image part after its call", () => {
    const { result: _, ...data } = item;
    const [call, result, part] = Array.isArray(whole.content) ? whole.content : [];
    expect(call).toMatchObject({ type: "tool_call", providerExecuted: { name: "image_generation" } });
    expect(result).toMatchObject({ type: "tool_result", toolCallId: "ig_1", content: "completed", provider: null });
    expect(part).toEqual(
      imagePart(
        { ...imageFromBase64(png, "image/webp"), revisedPrompt: "A red bicycle." },
        { provider: { ...context.route, data } },
      ),
    );
    const partial = { type: "response.image_generation_call.partial_image", item_id: "ig_1", output_index: 0 };
    const streamedMessage = streamed(
      openaiResponses,
      context,
      { type: "response.created", response: { id: "resp_1", status: "in_progress", output: [] } },
      { type: "response.output_item.added", output_index: 0, item: { ...item, status: "generating", result: null } },
      { ...partial, partial_image_index: 0, partial_image_b64: "cGFydGlhbA==" },
      { type: "response.output_item.done", output_index: 0, item },
      { type: "response.completed", response: response(item) },
    );
    expect(streamedMessage).toEqual(whole);
  });

  test("is sent back as the item it was", () => {
    const { body, omissions } = sent(openaiResponses, context, whole);
    expect(body["input"]).toEqual([expect.anything(), item, expect.anything()]);
    expect(omissions).toEqual([]);
  });

  test("of another provider is reported", () => {
    const { body, omissions } = sent(openaiResponses, contextOf("azure", "gpt-5.4"), whole);
    expect(JSON.stringify(body)).not.toContain(png);
    expect(omissions).toContainEqual(
      expect.objectContaining({
        path: "messages[1].content[2]",
        reason: "unsupported",
        message: expect.stringContaining("messages[1].content[2] is not sent"),
      }),
    );
  });

  test("that failed is a call without an image", () => {
    const failed = { id: "ig_1", type: "image_generation_call", status: "failed", result: null };
    const message = messageIn(openaiResponses.decodeReply(response(failed), context));
    expect(message.content).toMatchObject([{ type: "tool_call" }]);
    expect(sent(openaiResponses, context, message).body["input"]).toEqual([
      expect.anything(),
      failed,
      expect.anything(),
    ]);
  });
});

describe("openai-chat", () => {
  const context = contextOf("openrouter", "google/gemini-3-pro-image");
  const entry = (url: string) => ({ type: "image_url", image_url: { url }, index: 0 });
  const images = [entry(`data:image/png;base64,${png}`), entry("https://example.com/a.png")];
  const whole = messageIn(
    openaiChat.decodeReply(
      { choices: [{ index: 0, message: { role: "assistant", content: "Here:", images }, finish_reason: "stop" }] },
      context,
    ),
  );

  test("images of messages and deltas are image parts", () => {
    expect(whole.content).toEqual([
      textPart("Here:"),
      imagePart(image),
      imagePart({ source: { type: "url", url: "https://example.com/a.png" } }),
    ]);
    const deltas = [{ content: "Here:" }, { images: images.slice(0, 1) }, { content: "", images: images.slice(1) }];
    const streamedMessage = streamed(
      openaiChat,
      context,
      ...deltas.map((delta) => ({ choices: [{ index: 0, delta }] })),
      { choices: [{ index: 0, delta: {}, finish_reason: "stop" }] },
    );
    expect(streamedMessage).toEqual(whole);
  });

  test.each([
    ["Chat Completions", openaiChat, context],
    ["the Messages API", anthropicMessages, contextOf("anthropic", "claude-sonnet-4-5")],
  ] as const)("are reported by %s", (_, codec, target) => {
    const { body, omissions } = sent(codec, target, whole);
    expect(JSON.stringify(body)).not.toContain(png);
    expect(omissions.map(({ path, message }) => [path, message !== undefined])).toEqual([
      ["messages[1].content[1]", true],
      ["messages[1].content[2]", true],
    ]);
  });
});
