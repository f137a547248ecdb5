// The provider of the comparison: Chat Completions over SSE, one word every 60 ms. It numbers its words by the message
// that it answers, so that a word that is lost, or shown twice, is seen.

import { once } from "node:events";
import { createServer } from "node:http";
import { setTimeout } from "node:timers/promises";

export const wordCount = 60;
const paceMs = 60;

/** Starts it, and returns its base URL. */
export async function startProvider(): Promise<{ readonly url: string; readonly close: () => void }> {
  const server = createServer(async (request, response) => {
    request.resume();
    await once(request, "end");
    response.writeHead(200, { "content-type": "text/event-stream" });
    const send = (delta: object, finish: string | null = null) => {
      const choices = [{ index: 0, delta, finish_reason: finish }];
      const chunk = { id: "c1", object: "chat.completion.chunk", created: 1, model: "mock", choices };
      response.write(`data: ${JSON.stringify(chunk)}\n\n`);
    };
    send({ role: "assistant", content: "" });
    for (let index = 0; index < wordCount && !response.destroyed; index += 1) {
      await setTimeout(paceMs);
      send({ content: `w${index}. ` });
    }
    send({}, "stop");
    response.end("data: [DONE]\n\n");
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  const port = typeof address === "object" ? address?.port : null;
  return { url: `http://127.0.0.1:${port}/v1`, close: () => server.close() };
}
