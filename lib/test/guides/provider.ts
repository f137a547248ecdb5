// A model provider on the loopback interface. It speaks the streaming protocols of OpenAI (Responses and Chat
// Completions), Anthropic (Messages) and Google (Gemini), so the programs of the guides run with the adapters that a
// user has. It does not understand anything: a program has a list of replies, and each request gets the first unused
// reply whose `when` occurs in the body of the request. It refuses what the real providers refuse (`strictProvider` of
// `everturn/testing`).

import type { JsonObject } from "everturn";
import type { StrictProvider, Violation } from "everturn/testing";
import type { IncomingMessage, ServerResponse } from "node:http";

import { createServer } from "node:http";

import { strictProvider } from "everturn/testing";

/** A reply of the scripted model. */
export type Reply = {
  /** The reply is only used for a request whose body contains this text. */
  readonly when?: string;
  readonly text?: string;
  readonly reasoning?: string;
  readonly calls?: readonly (readonly [name: string, args: JsonObject])[];
  /** Items of the Responses API, sent as they are. */
  readonly items?: readonly JsonObject[];
  readonly usage?: { readonly input: number; readonly output: number; readonly cached?: number };
  /** The embeddings of a request for embeddings. */
  readonly embeddings?: readonly (readonly number[])[];
  /** Answers with this HTTP status and a `retry-after` header instead of a reply. */
  readonly status?: number;
};

type Scripted = {
  readonly replies: readonly Reply[];
  readonly used: Set<Reply>;
  readonly known: readonly string[];
  readonly strict: StrictProvider;
};

export class LoopbackProvider {
  readonly #programs = new Map<string, Scripted>();
  readonly #server = createServer((asked, answer) => void this.#serve(asked, answer));

  async listen(): Promise<void> {
    await new Promise<void>((resolve) => this.#server.listen(0, "127.0.0.1", resolve));
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  /**
   * Adds the replies of a program and returns the address that stands for all providers. Requests that violate only
   * `known` rules are reported and answered all the same.
   */
  address(program: string, replies: readonly Reply[], known: readonly string[] = []): string {
    const used = new Set<Reply>();
    const reply = async (url: string, { body }: RequestInit) => answerOf(replies, used, url, String(body));
    this.#programs.set(program, { replies, used, known, strict: strictProvider({ reply }) });
    const address = this.#server.address();
    if (address === null || typeof address === "string") throw new Error("the provider does not listen on a port");
    return `http://127.0.0.1:${address.port}/${program}`;
  }

  /** The replies that the program did not request. */
  unused(program: string): readonly Reply[] {
    const { replies = [], used } = this.#programs.get(program) ?? {};
    return replies.filter((reply) => used?.has(reply) !== true);
  }

  /** The rules of the providers that the requests of the program violated. */
  refusals(program: string): readonly Violation[] {
    return this.#programs.get(program)?.strict.refusals ?? [];
  }

  async #serve(asked: IncomingMessage, answer: ServerResponse): Promise<void> {
    const [, program = "", ...path] = (asked.url ?? "").split("/");
    const scripted = this.#programs.get(program);
    const body = await bodyOf(asked);
    const url = `http://127.0.0.1/${path.join("/")}`;
    const headers = Object.entries(asked.headers).flatMap(([name, value]): readonly [string, string][] =>
      typeof value === "string" ? [[name, value]] : [],
    );
    const response =
      scripted === undefined ? null : await responseOf(scripted, url, { method: asked.method ?? "GET", headers, body });
    answer.writeHead(response?.status ?? 404, Object.fromEntries(response?.headers ?? []));
    answer.end(await response?.text());
  }
}

/** Answers a request, or refuses it as the real provider does. */
async function responseOf(
  { replies, used, known, strict }: Scripted,
  url: string,
  init: RequestInit & { readonly body: string },
): Promise<Response> {
  const next = () => answerOf(replies, used, url, init.body);
  if (url.endsWith("/embeddings")) return next();
  const response = await strict.fetch(url, init);
  const found = strict.requests.at(-1)?.violations ?? [];
  return found.length > 0 && found.every(({ rule }) => known.includes(rule)) ? next() : response;
}

/** Answers an accepted request with the next reply of the script. */
function answerOf(replies: readonly Reply[], used: Set<Reply>, url: string, body: string): Response {
  const reply = replies.find((each) => !used.has(each) && body.includes(each.when ?? ""));
  if (reply === undefined)
    return Response.json({ error: { message: `the script has no reply for ${url}: ${body}` } }, { status: 500 });
  used.add(reply);
  if (reply.status !== undefined) {
    const error = { message: "The scripted provider refuses this request." };
    return Response.json({ error }, { status: reply.status, headers: { "retry-after": "0.01" } });
  }
  if (reply.embeddings !== undefined) {
    const data = reply.embeddings.map((embedding, index) => ({ object: "embedding", index, embedding }));
    const tokens = replyTokens(reply).input;
    return Response.json({ object: "list", data, usage: { prompt_tokens: tokens, total_tokens: tokens } });
  }
  const stream = streamOf(new URL(url).pathname, reply, used.size);
  return new Response(stream, { headers: { "content-type": "text/event-stream" } });
}

function streamOf(path: string, reply: Reply, number: number): string {
  if (path.endsWith("/messages")) return anthropicStream(reply, number);
  if (path.endsWith("/chat/completions")) return chatStream(reply, number);
  if (path.includes(":streamGenerateContent")) return geminiStream(reply);
  return responsesStream(reply, number);
}

function responsesStream(reply: Reply, number: number): string {
  const { input, output, cached = 0 } = replyTokens(reply);
  const reasoning = reply.reasoning === undefined ? [] : [reasoningItem(reply.reasoning, number)];
  const message =
    reply.text === undefined
      ? []
      : [
          {
            type: "message",
            id: `msg_${number}`,
            role: "assistant",
            status: "completed",
            content: [{ type: "output_text", text: reply.text, annotations: [] }],
          },
        ];
  const calls = (reply.calls ?? []).map(([name, args], index) => ({
    type: "function_call",
    id: `fc_${number}_${index}`,
    call_id: `call_${number}_${index}`,
    name,
    arguments: JSON.stringify(args),
    status: "completed",
  }));
  const items: readonly JsonObject[] = [...reasoning, ...message, ...calls, ...(reply.items ?? [])];
  const usage = {
    input_tokens: input,
    input_tokens_details: { cached_tokens: cached },
    output_tokens: output,
    output_tokens_details: { reasoning_tokens: 0 },
    total_tokens: input + output,
  };
  const response = { id: `resp_${number}`, object: "response", status: "completed", output: items, usage };
  return [
    named({ type: "response.created", response: { ...response, status: "in_progress", output: [], usage: null } }),
    ...items.flatMap((item, output_index) => responsesItem(item, output_index, reply)),
    named({ type: "response.completed", response }),
  ].join("");
}

function reasoningItem(text: string, number: number): JsonObject {
  return { type: "reasoning", id: `rs_${number}`, summary: [{ type: "summary_text", text }] };
}

function responsesItem(
  item: JsonObject,
  output_index: number,
  { text = "", reasoning = "" }: Reply,
): readonly string[] {
  const item_id = item["id"] ?? "";
  const added = (begun: JsonObject) => named({ type: "response.output_item.added", output_index, item: begun });
  const done = named({ type: "response.output_item.done", output_index, item });
  if (item["type"] === "message") {
    const deltas = pieces(text).map((delta) =>
      named({ type: "response.output_text.delta", output_index, item_id, content_index: 0, delta }),
    );
    return [added({ ...item, status: "in_progress", content: [] }), ...deltas, done];
  }
  if (item["type"] === "reasoning") {
    const deltas = pieces(reasoning).map((delta) =>
      named({ type: "response.reasoning_summary_text.delta", output_index, item_id, summary_index: 0, delta }),
    );
    return [added({ ...item, summary: [] }), ...deltas, done];
  }
  const delta = item["arguments"] ?? "";
  const type = "response.function_call_arguments.delta";
  return [added({ ...item, arguments: "" }), named({ type, output_index, item_id, delta }), done];
}

function anthropicStream(reply: Reply, number: number): string {
  const { input, output, cached = 0 } = replyTokens(reply);
  const usage = { input_tokens: input - cached, cache_read_input_tokens: cached, output_tokens: 1 };
  const message = { id: `msg_${number}`, type: "message", role: "assistant", content: [], usage };
  const blocks: (readonly [JsonObject, readonly JsonObject[]])[] = [];
  if (reply.reasoning !== undefined) {
    const deltas = pieces(reply.reasoning).map((thinking) => ({ type: "thinking_delta", thinking }));
    blocks.push([
      { type: "thinking", thinking: "", signature: "" },
      [...deltas, { type: "signature_delta", signature: "c2lnbmF0dXJl" }],
    ]);
  }
  if (reply.text !== undefined) {
    blocks.push([{ type: "text", text: "" }, pieces(reply.text).map((text) => ({ type: "text_delta", text }))]);
  }
  for (const [index, [name, args]] of (reply.calls ?? []).entries()) {
    const id = `toolu_${number}_${index}`;
    const partial_json = JSON.stringify(args);
    blocks.push([{ type: "tool_use", id, name, input: {} }, [{ type: "input_json_delta", partial_json }]]);
  }
  const stop_reason = reply.calls === undefined ? "end_turn" : "tool_use";
  return [
    named({ type: "message_start", message }),
    ...blocks.flatMap(([content_block, deltas], index) => [
      named({ type: "content_block_start", index, content_block }),
      ...deltas.map((delta) => named({ type: "content_block_delta", index, delta })),
      named({ type: "content_block_stop", index }),
    ]),
    named({ type: "message_delta", delta: { stop_reason, stop_sequence: null }, usage: { output_tokens: output } }),
    named({ type: "message_stop" }),
  ].join("");
}

function geminiStream(reply: Reply): string {
  const { input, output, cached = 0 } = replyTokens(reply);
  const parts: readonly JsonObject[] = [
    ...pieces(reply.reasoning ?? "").map((text) => ({ text, thought: true })),
    ...pieces(reply.text ?? "").map((text) => ({ text })),
    // Only the first call of a reply has a signature.
    ...(reply.calls ?? []).map(([name, args], index) => ({
      functionCall: { name, args },
      ...(index === 0 ? { thoughtSignature: "c2lnbmF0dXJl" } : {}),
    })),
  ];
  const usageMetadata = {
    promptTokenCount: input,
    cachedContentTokenCount: cached,
    candidatesTokenCount: output,
    totalTokenCount: input + output,
  };
  return parts
    .map((part, index) => {
      const isLast = index === parts.length - 1;
      const candidate = {
        content: { role: "model", parts: [part] },
        index: 0,
        ...(isLast ? { finishReason: "STOP" } : {}),
      };
      return data({ candidates: [candidate], ...(isLast ? { usageMetadata } : {}) });
    })
    .join("");
}

function chatStream(reply: Reply, number: number): string {
  const { input, output } = replyTokens(reply);
  const chunk = (delta: JsonObject, finish_reason: string | null) =>
    data({ id: `chatcmpl_${number}`, object: "chat.completion.chunk", choices: [{ index: 0, delta, finish_reason }] });
  const calls = (reply.calls ?? []).map(([name, args], index) =>
    chunk(
      {
        tool_calls: [
          {
            index,
            id: `call_${number}_${index}`,
            type: "function",
            function: { name, arguments: JSON.stringify(args) },
          },
        ],
      },
      null,
    ),
  );
  const usage = { prompt_tokens: input, completion_tokens: output, total_tokens: input + output };
  return [
    ...pieces(reply.text ?? "").map((content) => chunk({ role: "assistant", content }, null)),
    ...calls,
    chunk({}, calls.length > 0 ? "tool_calls" : "stop"),
    data({ id: `chatcmpl_${number}`, object: "chat.completion.chunk", choices: [], usage }),
    "data: [DONE]\n\n",
  ].join("");
}

function replyTokens({ usage, text = "" }: Reply) {
  return usage ?? { input: 20, output: Math.max(1, pieces(text).length) };
}

/** The text in pieces of one word, as models stream it. */
function pieces(text: string): readonly string[] {
  return text.match(/\S+\s*/g) ?? [];
}

function named(event: JsonObject & { readonly type: string }): string {
  return `event: ${event.type}\n${data(event)}`;
}

function data(value: JsonObject): string {
  return `data: ${JSON.stringify(value)}\n\n`;
}

async function bodyOf(asked: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of asked) chunks.push(Buffer.from(chunk));
  return Buffer.concat(chunks).toString("utf8");
}
