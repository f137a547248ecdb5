// An image that the model generates, in a durable session: it is stored with the reply, and the next turn sends it back
// with its signature.

import { engine, gemini, replyImages } from "everturn";
import { memoryStorage, runtime } from "everturn/runtime";
import { expect, test } from "vitest";

test("a generated image is stored with the session and sent back in the next turn of another process", async () => {
  const drawn = { inlineData: { mimeType: "image/png", data: "iVBORw0KGgo=" }, thoughtSignature: "c2ln" };
  let sent = "";
  const adapter = gemini({
    apiKey: "unused",
    fetch: async (_, { body }) => {
      sent = String(body);
      return Response.json({ candidates: [{ content: { parts: [drawn] }, finishReason: "STOP" }] });
    },
  });
  const painter = engine({ adapter, model: "gemini-3-pro-image" });
  const host = memoryStorage();
  const first = runtime({ host, engines: { default: painter }, live: false });
  const started = await first.start("Draw a red bicycle.", { id: "s" });
  const { outcome, finalResponse } = await started.result;
  expect(outcome).toEqual({ type: "assistant_message", text: "" });
  expect(finalResponse === null ? [] : replyImages(finalResponse)).toMatchObject([
    { mimeType: "image/png", source: { type: "base64", data: drawn.inlineData.data } },
  ]);
  await first.close();
  const second = runtime({ host, engines: { default: painter }, live: false });
  const replied = await second.reply("s", "Make it blue.");
  expect(await replied.result).toMatchObject({ outcome: { type: "assistant_message" } });
  expect(JSON.parse(sent)).toMatchObject({ contents: [{ role: "user" }, { role: "model", parts: [drawn] }, {}] });
  await second.close();
});
