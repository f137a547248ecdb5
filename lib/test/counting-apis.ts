// The APIs of Anthropic, OpenAI (Responses) and Gemini on the loopback interface, with the endpoints that count the
// tokens of a request. Both endpoints of an API count by the same rule: characters of the prompt, divided by
// `charactersPerToken`. So the usage of a reply is what the count said.
//
// They refuse what the documented APIs refuse: a model call by the rules of everturn/testing, a prompt that is longer
// than the window, and a count with a field that the counting endpoint does not have.

import type { Adapter, JsonObject } from "everturn";
import type { ProviderApi, ProviderStep } from "everturn/testing";
import type { IncomingMessage, ServerResponse } from "node:http";

import { createServer } from "node:http";

import { anthropic, gemini, openai } from "everturn";

import { refusalOf, violations } from "../src/testing/provider-rules/violations.ts";
import { scriptedReply } from "../src/testing/script-replies.ts";

/** An API that can count tokens. */
export type CountingApi = Exclude<ProviderApi, "openai-chat">;

type ApiRow = {
  readonly model: string;
  readonly adapter: (origin: string, apiKey: string) => Adapter;
  /** The path of the endpoint that counts. */
  readonly counts: RegExp;
  /** The fields of a count. */
  readonly fields: readonly string[];
  /** The request that a count is about. */
  readonly counted: (body: JsonObject) => JsonObject;
  readonly unknownField: (name: string) => JsonObject;
  readonly tooLong: (tokens: number, window: number) => JsonObject;
  readonly answer: (tokens: number) => JsonObject;
};

const anthropicError = (message: string): JsonObject => ({
  type: "error",
  error: { type: "invalid_request_error", message },
});
const openaiError = (message: string, code: string, param: string): JsonObject => ({
  error: { message, type: "invalid_request_error", param, code },
});
const geminiError = (message: string): JsonObject => ({ error: { code: 400, message, status: "INVALID_ARGUMENT" } });

const rows: { readonly [Api in CountingApi]: ApiRow } = {
  // https://platform.claude.com/docs/en/api/messages-count-tokens
  "anthropic-messages": {
    model: "claude-sonnet-4-6",
    adapter: (origin, apiKey) => anthropic({ apiKey, baseURL: `${origin}/v1` }),
    counts: /^\/v1\/messages\/count_tokens$/,
    fields: [
      "messages",
      "model",
      "system",
      "thinking",
      "tool_choice",
      "tools",
      "output_config",
      "cache_control",
      "context_management",
      "mcp_servers",
    ],
    counted: (body) => body,
    unknownField: (name) => anthropicError(`${name}: Extra inputs are not permitted`),
    tooLong: (tokens, window) => anthropicError(`prompt is too long: ${tokens} tokens > ${window} maximum`),
    answer: (tokens) => ({ input_tokens: tokens }),
  },
  // https://developers.openai.com/api/reference/resources/responses/subresources/input_tokens
  "openai-responses": {
    model: "gpt-5.4",
    adapter: (origin, apiKey) => openai({ apiKey, baseURL: `${origin}/v1` }),
    counts: /^\/v1\/responses\/input_tokens$/,
    fields: [
      "conversation",
      "input",
      "instructions",
      "model",
      "parallel_tool_calls",
      "previous_response_id",
      "reasoning",
      "text",
      "tool_choice",
      "tools",
      "truncation",
    ],
    counted: (body) => body,
    unknownField: (name) => openaiError(`Unknown parameter: '${name}'.`, "unknown_parameter", name),
    tooLong: () =>
      openaiError("Your input exceeds the context window of this model.", "context_length_exceeded", "input"),
    answer: (tokens) => ({ object: "response.input_tokens", input_tokens: tokens }),
  },
  // https://ai.google.dev/api/tokens
  gemini: {
    model: "gemini-3.5-flash",
    adapter: (origin, apiKey) => gemini({ apiKey, baseURL: `${origin}/v1beta` }),
    counts: /^\/v1beta\/models\/[^:/]+:countTokens$/,
    fields: ["contents", "generateContentRequest"],
    counted: ({ generateContentRequest }) => (isObject(generateContentRequest) ? generateContentRequest : {}),
    unknownField: (name) => geminiError(`Invalid JSON payload received. Unknown name "${name}": Cannot find field.`),
    tooLong: (tokens, window) =>
      geminiError(`The input token count (${tokens}) exceeds the maximum number of tokens allowed (${window}).`),
    answer: (tokens) => ({ totalTokens: tokens }),
  },
};

/** The APIs, and a model of each. */
export const countingApis = (["anthropic-messages", "openai-responses", "gemini"] as const).map((api) => {
  return { api, model: rows[api].model };
});

const isObject = (value: unknown): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** The fields of all three APIs that are part of the prompt. */
const promptFields = ["system", "instructions", "systemInstruction", "messages", "input", "contents", "tools"];

type Answer = { readonly status: number; readonly body: JsonObject | string };

type Options = {
  readonly window: number;
  /** Default: 4, as the estimate of the library for English text. */
  readonly charactersPerToken?: number;
  /** The reply to a request. Default: a text. */
  readonly reply?: (prompt: string, index: number) => readonly ProviderStep[];
  /** Answers a count in place of the endpoint; `null`: it does not. */
  readonly count?: (tokens: number) => Answer | "hang" | null;
};

/** What the server received. */
export type CountedCall = {
  readonly type: "count" | "call";
  readonly prompt: string;
  readonly tokens: number;
  readonly status: number;
};

/** One of the APIs on a port of the loopback interface. */
export class CountingServer {
  readonly received: CountedCall[] = [];
  readonly #row: ApiRow;
  readonly #api: CountingApi;
  readonly #options: Options;
  readonly #server = createServer((incoming, answer) => void this.#serve(incoming, answer));
  #origin = "";

  private constructor(api: CountingApi, options: Options) {
    this.#api = api;
    this.#row = rows[api];
    this.#options = options;
  }

  static async listen(api: CountingApi, options: Options): Promise<CountingServer> {
    const counting = new CountingServer(api, options);
    await new Promise<void>((resolve) => counting.#server.listen(0, "127.0.0.1", resolve));
    const address = counting.#server.address();
    if (address === null || typeof address === "string") throw new Error("no port");
    counting.#origin = `http://127.0.0.1:${address.port}`;
    return counting;
  }

  get adapter(): Adapter {
    return this.#row.adapter(this.#origin, "key-0123456789");
  }

  get counts(): readonly CountedCall[] {
    return this.received.filter(({ type }) => type === "count");
  }

  get calls(): readonly CountedCall[] {
    return this.received.filter(({ type }) => type === "call");
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  async #serve(incoming: IncomingMessage, answer: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of incoming) chunks.push(Buffer.from(chunk));
    const body: JsonObject = JSON.parse(Buffer.concat(chunks).toString("utf8"));
    const [path = ""] = (incoming.url ?? "").split("?");
    const isCount = this.#row.counts.test(path);
    const request = isCount ? this.#row.counted(body) : body;
    const prompt = JSON.stringify(promptFields.map((name) => request[name] ?? null));
    const tokens = Math.ceil(prompt.length / (this.#options.charactersPerToken ?? 4));
    const headers = Object.fromEntries(Object.entries(incoming.headers).map(([name, value]) => [name, String(value)]));
    const result = isCount ? this.#count(body, tokens) : this.#call(path, request, headers, prompt, tokens);
    const status = result === "hang" ? 0 : result.status;
    this.received.push({ type: isCount ? "count" : "call", prompt, tokens, status });
    if (result === "hang") return;
    answer.writeHead(status, { "content-type": "application/json" });
    answer.end(typeof result.body === "string" ? result.body : JSON.stringify(result.body));
  }

  #count(body: JsonObject, tokens: number): Answer | "hang" {
    const unknown = Object.keys(body).find((name) => !this.#row.fields.includes(name));
    if (unknown !== undefined) return { status: 400, body: this.#row.unknownField(unknown) };
    return this.#options.count?.(tokens) ?? { status: 200, body: this.#row.answer(tokens) };
  }

  #call(
    path: string,
    body: JsonObject,
    headers: { readonly [name: string]: string },
    prompt: string,
    tokens: number,
  ): Answer {
    const [refused] = violations(this.#api, { body, headers, url: path });
    if (refused !== undefined) return refusalOf(this.#api, refused);
    const { window } = this.#options;
    if (tokens > window) return { status: 400, body: this.#row.tooLong(tokens, window) };
    const index = this.calls.length;
    const steps = this.#options.reply?.(prompt, index) ?? [{ type: "text", text: "Seen." }];
    const usage: ProviderStep = { type: "usage", usage: { inputTokens: tokens, outputTokens: 5 } };
    return { status: 200, body: scriptedReply(this.#api, [...steps, usage], index + 1) };
  }
}
