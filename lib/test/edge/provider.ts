// A provider on the loopback for programs in a page and in a worker: streamed Chat Completions with CORS, as some
// providers allow. Its reply depends on the last message.

import type { IncomingMessage, ServerResponse } from "node:http";

import { createServer } from "node:http";

export type Provider = {
  readonly url: string;
  /** The models of the requests so far. */
  readonly asked: () => number;
  /** The number of streams that the client closed before their end. */
  readonly left: () => number;
  readonly close: () => Promise<void>;
};

export const providerKey = "sk-edge-0123456789";

/** A reply as chunks. */
const pieces = {
  call: [
    { role: "assistant", tool_calls: [{ index: 0, id: "call_1", type: "function", function: { name: "weather" } }] },
    { tool_calls: [{ index: 0, function: { arguments: '{"ci' } }] },
    { tool_calls: [{ index: 0, function: { arguments: 'ty":"Zürich"}' } }] },
  ],
  text: [{ role: "assistant", content: "" }, ...["Clear ", "in Zürich: ", "☀️", "."].map((content) => ({ content }))],
  endless: [{ role: "assistant", content: "Once " }],
} as const;

type Reply = keyof typeof pieces;

export async function openProvider(): Promise<Provider> {
  let [asked, left] = [0, 0];
  const server = createServer((request, response) => {
    void serve(request, response).catch((error: unknown) => response.destroy(asError(error)));
  });

  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    response.setHeader("access-control-allow-origin", "*");
    if (request.method === "OPTIONS") {
      const headers = request.headers["access-control-request-headers"] ?? "";
      response.writeHead(204, { "access-control-allow-methods": "POST", "access-control-allow-headers": headers });
      return void response.end();
    }
    if (request.headers.authorization !== `Bearer ${providerKey}`) return void response.writeHead(401).end();
    asked += 1;
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(Buffer.from(chunk));
    const { messages }: { readonly messages: readonly { readonly role: string; readonly content: unknown }[] } =
      JSON.parse(Buffer.concat(chunks).toString("utf8"));
    const last = messages.at(-1);
    const reply: Reply =
      last?.role === "tool" ? "text" : JSON.stringify(last?.content).includes("for ever") ? "endless" : "call";
    response.on("close", () => (left += response.writableEnded ? 0 : 1));
    response.writeHead(200, { "content-type": "text/event-stream" });
    for (const delta of pieces[reply]) await write(response, chunkOf(delta, null));
    if (reply === "endless") return;
    await write(response, chunkOf({}, reply === "call" ? "tool_calls" : "stop"));
    await write(response, { choices: [], usage: { prompt_tokens: 9, completion_tokens: 3, total_tokens: 12 } });
    response.end("data: [DONE]\n\n");
  }

  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("the provider has no port");
  return {
    url: `http://127.0.0.1:${address.port}/v1`,
    asked: () => asked,
    left: () => left,
    close: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

function chunkOf(delta: object, finish: "stop" | "tool_calls" | null): object {
  return { id: "chatcmpl-1", model: "m", choices: [{ index: 0, delta, finish_reason: finish }] };
}

/** One SSE frame, split in the middle, also within a UTF-8 character. */
async function write(response: ServerResponse, data: object): Promise<void> {
  const bytes = Buffer.from(`data: ${JSON.stringify(data)}\n\n`);
  const middle = Math.floor(bytes.length / 2);
  for (const part of [bytes.subarray(0, middle), bytes.subarray(middle)]) {
    await new Promise((resolve) => response.write(part, resolve));
  }
}

function asError(error: unknown): Error {
  return error instanceof Error ? error : new Error(String(error));
}
