// A server as the documentation of the AI SDK wires a chat: `streamText` and `toUIMessageStreamResponse`. Arguments:
// the port, the URL of the provider.

import { createOpenAI } from "@ai-sdk/openai";
import { serve } from "@hono/node-server";
import { convertToModelMessages, streamText } from "ai";

const [port = "", baseURL = ""] = process.argv.slice(2);
const model = createOpenAI({ baseURL, apiKey: "k" }).chat("m");

async function answer(request: Request): Promise<Response> {
  if (request.method !== "POST") return new Response(null, { status: 204 });
  const { messages } = JSON.parse(await request.text());
  return streamText({ model, messages: await convertToModelMessages(messages) }).toUIMessageStreamResponse();
}

const server = serve({ fetch: answer, port: Number(port), hostname: "127.0.0.1" }, () => process.send?.("ready"));
process.once("SIGTERM", () => {
  server.close();
  process.disconnect();
});
