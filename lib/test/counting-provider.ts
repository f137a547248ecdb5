// A model provider on the loopback interface that counts tokens and has a context window: four bytes of the body are
// one token, and a request with more tokens than the window is answered with 400 (`context_length_exceeded`). It speaks
// the Chat Completions API. It also measures its prompt cache: the tokens of the messages that a request has in common
// with an earlier request of the same conversation, from the first one on. By default it remembers one request.

import type { IncomingMessage, ServerResponse } from "node:http";

import { createServer } from "node:http";

type WireMessage = { readonly role: string; readonly content?: unknown; readonly tool_calls?: unknown };
type Body = {
  readonly model: string;
  readonly messages: readonly WireMessage[];
  readonly tools?: readonly unknown[];
  readonly stream?: boolean;
};

/** A request as the provider received it. */
export type CountedRequest = {
  readonly messages: readonly string[];
  readonly tokens: number;
  readonly cached: number;
  readonly status: number;
  readonly model: string;
  /** The request asks for a summary. */
  readonly isSummary: boolean;
};

/** What the provider answers: a text, or one call. */
export type CountedReply = { readonly text: string } | { readonly call: string; readonly arguments: object };

export type CountingOptions = {
  /** The window in tokens. */
  readonly window: number;
  /** The reply to a request. `messages`: as sent, parsed. */
  readonly reply: (messages: readonly WireMessage[], index: number) => CountedReply;
  /** The summary that a summary request gets. */
  readonly summary: (messages: readonly WireMessage[], index: number) => string;
  /** Whether the last message of a request asks for a summary, by its text. Default: whether Everturn does. */
  readonly asksForSummary?: (text: string) => boolean;
  /** How many earlier requests the prompt cache remembers. Default: 1. */
  readonly remembered?: number;
};

const tokensOf = (value: unknown): number => Math.ceil(Buffer.byteLength(JSON.stringify(value) ?? "") / 4);

/** The provider. */
export class CountingProvider {
  readonly requests: CountedRequest[] = [];
  readonly #options: CountingOptions;
  readonly #server = createServer((incoming, answer) => void this.#serve(incoming, answer));
  /** The requests that the prompt cache remembers, newest first. */
  #remembered: readonly (readonly string[])[] = [];
  baseURL = "";

  constructor(options: CountingOptions) {
    this.#options = options;
  }

  async listen(): Promise<void> {
    await new Promise<void>((resolve) => this.#server.listen(0, "127.0.0.1", resolve));
    const address = this.#server.address();
    if (address === null || typeof address === "string") throw new Error("no port");
    this.baseURL = `http://127.0.0.1:${address.port}/v1`;
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  async #serve(incoming: IncomingMessage, answer: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of incoming) chunks.push(Buffer.from(chunk));
    const body: Body = JSON.parse(Buffer.concat(chunks).toString("utf8"));
    const messages = body.messages.map((message) => JSON.stringify(message));
    const tokens = tokensOf(body.messages) + tokensOf(body.tools ?? []);
    const shared = this.#remembered.map((before) => {
      const end = messages.findIndex((message, index) => message !== before[index]);
      return end === -1 ? messages.length : end;
    });
    const prefix = body.messages.slice(0, Math.max(0, ...shared));
    const cached = prefix.length === 0 ? 0 : Math.min(tokens, tokensOf(prefix) + tokensOf(body.tools ?? []));
    const last = body.messages.at(-1);
    const { asksForSummary = (text: string) => text.includes("replaced by a summary") } = this.#options;
    const isSummary = last?.role === "user" && asksForSummary(JSON.stringify(last.content));
    const status = tokens > this.#options.window ? 400 : 200;
    const index = this.requests.length;
    this.requests.push({ messages, tokens, cached, status, model: body.model, isSummary });
    if (status === 400) {
      const message = `This model's maximum context length is ${this.#options.window} tokens, the request has ${tokens}.`;
      answer.writeHead(400, { "content-type": "application/json" });
      answer.end(
        JSON.stringify({ error: { message, type: "invalid_request_error", code: "context_length_exceeded" } }),
      );
      return;
    }
    this.#remembered = [messages, ...this.#remembered].slice(0, this.#options.remembered ?? 1);
    const reply: CountedReply = isSummary
      ? { text: this.#options.summary(body.messages, index) }
      : this.#options.reply(body.messages, index);
    const call = "call" in reply ? reply : null;
    const delta =
      call === null
        ? { role: "assistant", content: "text" in reply ? reply.text : "" }
        : {
            role: "assistant",
            tool_calls: [
              {
                index: 0,
                id: `call_${index}`,
                type: "function",
                function: { name: call.call, arguments: JSON.stringify(call.arguments) },
              },
            ],
          };
    const output = tokensOf(delta);
    const usage = {
      prompt_tokens: tokens,
      completion_tokens: output,
      total_tokens: tokens + output,
      prompt_tokens_details: { cached_tokens: cached },
    };
    if (body.stream !== true) {
      const finish = call === null ? "stop" : "tool_calls";
      const choices = [{ index: 0, message: { content: null, ...delta }, finish_reason: finish }];
      answer.writeHead(200, { "content-type": "application/json" });
      answer.end(
        JSON.stringify({ id: `reply_${index}`, object: "chat.completion", model: "counting", choices, usage }),
      );
      return;
    }
    const frames = [
      { choices: [{ index: 0, delta }] },
      { choices: [{ index: 0, delta: {}, finish_reason: call === null ? "stop" : "tool_calls" }] },
      { choices: [], usage },
    ];
    answer.writeHead(200, { "content-type": "text/event-stream" });
    for (const frame of frames) {
      answer.write(`data: ${JSON.stringify({ id: `reply_${index}`, model: "counting", ...frame })}\n\n`);
    }
    answer.end("data: [DONE]\n\n");
  }
}
