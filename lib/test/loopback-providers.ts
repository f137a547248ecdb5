// Model providers on the loopback interface for tests of adapters: a `node:http` server that plays answers in the wire
// format of each provider, and the writers of those formats. Nothing between `fetch` and the events of an adapter is
// replaced.

import type { AdapterErrorReason } from "../src/core/model/internal.ts";
import type { Json, JsonObject, ModelRequest } from "everturn";
import type { AdapterScenario } from "everturn/testing";
import type { IncomingMessage, ServerResponse } from "node:http";

import { createServer } from "node:http";
import { crc32 } from "node:zlib";

import { tool, imagePart, user } from "everturn";

// The server

/** How the server answers a request. */
export type Play =
  | {
      readonly type: "stream";
      readonly text: string | Uint8Array;
      readonly last: "end" | "destroy" | "hang";
      readonly slice?: number;
    }
  | { readonly type: "answer"; readonly status: number; readonly headers?: Headed; readonly body: Body }
  /** Accepts the request and sends nothing. */
  | { readonly type: "silence" }
  /** Accepts the request and closes the connection. */
  | { readonly type: "drop" };
type Headed = { readonly [name: string]: string };
/** An error body that repeats the key of the request, as providers do for an invalid key. */
type Body = string | ((key: string) => Json);

/** The provider of one adapter: the answers it plays, request by request, and the requests it received. */
export type Stage = {
  readonly url: string;
  readonly plays: readonly Play[];
  readonly requests: { readonly path: string; readonly body: JsonObject }[];
  closed: number;
};

/** A server with one stage for each adapter under test. */
export class LoopbackStages {
  /** The keys of all requests. */
  readonly keys = new Set<string>();
  readonly #stages = new Map<string, Stage>();
  readonly #server = createServer((incoming, answer) => void this.#serve(incoming, answer));
  #origin = "";

  async listen(): Promise<void> {
    await new Promise<void>((resolve) => this.#server.listen(0, "127.0.0.1", resolve));
    const address = this.#server.address();
    if (address === null || typeof address === "string") throw new Error("no port");
    this.#origin = `http://127.0.0.1:${address.port}`;
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  /** A provider that plays these answers, and the last one for all further requests. */
  stage(...plays: readonly Play[]): Stage {
    const name = `${this.#stages.size}`;
    const fresh: Stage = { url: `${this.#origin}/${name}/v1`, plays, requests: [], closed: 0 };
    this.#stages.set(name, fresh);
    return fresh;
  }

  async #serve(incoming: IncomingMessage, answer: ServerResponse): Promise<void> {
    const [, name = "", ...path] = (incoming.url ?? "").split("/");
    const stageOfName = this.#stages.get(name);
    // The server has no route to read a response by its id.
    if (incoming.method === "GET") return void answer.writeHead(404).end();
    const body: JsonObject = JSON.parse(await bodyText(incoming));
    const key = apiKeyIn(incoming);
    if (key !== "") this.keys.add(key);
    if (stageOfName === undefined) return void answer.writeHead(404).end();
    const play = stageOfName.plays[Math.min(stageOfName.requests.length, stageOfName.plays.length - 1)];
    stageOfName.requests.push({ path: path.join("/"), body });
    answer.on("close", () => (stageOfName.closed += 1));
    switch (play?.type) {
      case "stream":
        answer.writeHead(200, { "content-type": streamType(play.text) });
        await written(answer, play.text, play.slice ?? play.text.length);
        if (play.last === "end") answer.end();
        if (play.last === "destroy") answer.destroy();
        return;
      case "answer": {
        const text = typeof play.body === "string" ? play.body : JSON.stringify(play.body(key));
        return void answer.writeHead(play.status, { "content-type": "application/json", ...play.headers }).end(text);
      }
      case "drop":
        return void answer.destroy();
      case "silence":
      case undefined:
    }
  }
}

/** Bytes are an event stream of AWS. */
function streamType(text: string | Uint8Array): string {
  return typeof text === "string" ? "text/event-stream" : "application/vnd.amazon.eventstream";
}

/** Writes text in chunks of `slice` bytes, which also cut characters. */
async function written(answer: ServerResponse, text: string | Uint8Array, slice: number): Promise<void> {
  const bytes = Buffer.from(text);
  for (let from = 0; from < bytes.length; from += slice) {
    await new Promise((resolve) => answer.write(bytes.subarray(from, from + slice), resolve));
  }
}

async function bodyText(incoming: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of incoming) chunks.push(Buffer.from(chunk));
  return Buffer.concat(chunks).toString("utf8");
}

function apiKeyIn({ headers }: IncomingMessage): string {
  const { authorization, "x-api-key": anthropicKey, "x-goog-api-key": googleKey } = headers;
  return `${authorization?.replace(/^Bearer /, "") ?? anthropicKey ?? googleKey ?? ""}`;
}

// Replies in each wire format

/** One part of a reply. */
export type Say =
  | { readonly type: "text"; readonly pieces: readonly string[] }
  /** `seal` is the replay data that has to be sent back. */
  | { readonly type: "reasoning"; readonly text: string; readonly seal: string }
  | { readonly type: "call"; readonly id: string; readonly name: string; readonly pieces: readonly string[] };
type Cost = { readonly inputTokens: number; readonly outputTokens: number };
type Fails = Extract<AdapterScenario, { readonly type: "failure" }>;

/** The wire format of a provider. */
export type WireFormat = {
  /** Writes a reply as server-sent events; without usage the stream has no end. */
  readonly write: (says: readonly Say[], cost: Cost | null) => string | Uint8Array;
  readonly refuse: (failure: Fails) => Play;
  /** An error inside a stream, in the provider's format. */
  readonly complain: (message: string) => string | Uint8Array;
};

function event(data: JsonObject): string {
  return `data: ${JSON.stringify(data)}\n\n`;
}

function named(data: JsonObject & { readonly type: string }): string {
  return `event: ${data.type}\n${event(data)}`;
}

function writeResponses(says: readonly Say[], cost: Cost | null): string {
  const output = says.map(responsesItem);
  const steps = says.flatMap((say, output_index) => {
    const item = output[output_index] ?? {};
    const about = { output_index, item_id: `item_${output_index}`, content_index: 0, summary_index: 0 };
    const pieces = say.type === "reasoning" ? [say.text] : say.pieces;
    return [
      named({ type: "response.output_item.added", output_index, item: { ...item, ...begun[say.type] } }),
      ...pieces.map((delta) => named({ type: deltaNames[say.type], ...about, delta })),
      ...(cost === null ? [] : [named({ type: "response.output_item.done", output_index, item })]),
    ];
  });
  const usage = { input_tokens: cost?.inputTokens ?? 0, output_tokens: cost?.outputTokens ?? 0 };
  const response = { id: "resp_1", created_at: 0, model: "conformance", status: "completed", output, usage };
  return [
    named({ type: "response.created", response: { ...response, status: "in_progress", output: [] } }),
    ...steps,
    ...(cost === null ? [] : [named({ type: "response.completed", response })]),
  ].join("");
}

const deltaNames = {
  text: "response.output_text.delta",
  reasoning: "response.reasoning_summary_text.delta",
  call: "response.function_call_arguments.delta",
} as const;
const begun = { text: { content: [] }, reasoning: { summary: [] }, call: { arguments: "" } } as const;

function responsesItem(say: Say, index: number): JsonObject {
  const id = `item_${index}`;
  switch (say.type) {
    case "text": {
      const content = [{ type: "output_text", text: say.pieces.join(""), annotations: [] }];
      return { type: "message", id, role: "assistant", status: "completed", content };
    }
    case "reasoning":
      return {
        type: "reasoning",
        id,
        summary: [{ type: "summary_text", text: say.text }],
        encrypted_content: say.seal,
      };
    case "call": {
      const { id: call_id, name, pieces } = say;
      return { type: "function_call", id, call_id, name, arguments: pieces.join(""), status: "completed" };
    }
  }
}

/** Chat Completions. Servers differ in the field that holds reasoning. */
function chatWriter(reasoning: (text: string, seal: string) => JsonObject): WireFormat["write"] {
  return (says, cost) => {
    const chunk = (delta: JsonObject, finish_reason: string | null = null): string =>
      event({ id: "chatcmpl-1", model: "conformance", choices: [{ index: 0, delta, finish_reason }] });
    const calls = says.filter(({ type }) => type === "call");
    const deltas = says.flatMap((say): readonly JsonObject[] => {
      switch (say.type) {
        case "text":
          return say.pieces.map((content) => ({ content }));
        case "reasoning":
          return [reasoning(say.text, say.seal)];
        case "call": {
          const index = calls.indexOf(say);
          const { id, name, pieces } = say;
          const first = { index, id, type: "function", function: { name, arguments: "" } };
          return [
            { tool_calls: [first] },
            ...pieces.map((piece) => ({ tool_calls: [{ index, function: { arguments: piece } }] })),
          ];
        }
      }
    });
    const usage = { prompt_tokens: cost?.inputTokens ?? 0, completion_tokens: cost?.outputTokens ?? 0 };
    return [
      chunk({ role: "assistant", content: "" }),
      ...deltas.map((delta) => chunk(delta)),
      ...(cost === null
        ? []
        : [chunk({}, calls.length > 0 ? "tool_calls" : "stop"), event({ choices: [], usage }), "data: [DONE]\n\n"]),
    ].join("");
  };
}

function writeMessages(says: readonly Say[], cost: Cost | null): string {
  const usage = { input_tokens: cost?.inputTokens ?? 0, output_tokens: 1 };
  const message = { id: "msg_1", type: "message", role: "assistant", model: "conformance", content: [], usage };
  const blocks = says.flatMap((say, index) => {
    const delta = (fields: JsonObject): string => named({ type: "content_block_delta", index, delta: fields });
    const { block, deltas } = messagesBlock(say);
    return [
      named({ type: "content_block_start", index, content_block: block }),
      ...deltas.map(delta),
      ...(cost === null ? [] : [named({ type: "content_block_stop", index })]),
    ];
  });
  const stop_reason = says.some(({ type }) => type === "call") ? "tool_use" : "end_turn";
  return [
    named({ type: "message_start", message }),
    named({ type: "ping" }),
    ...blocks,
    ...(cost === null
      ? []
      : [
          named({ type: "message_delta", delta: { stop_reason }, usage: { output_tokens: cost.outputTokens } }),
          named({ type: "message_stop" }),
        ]),
  ].join("");
}

function messagesBlock(say: Say): { readonly block: JsonObject; readonly deltas: readonly JsonObject[] } {
  switch (say.type) {
    case "text": {
      const deltas = say.pieces.map((text) => ({ type: "text_delta", text }));
      return { block: { type: "text", text: "" }, deltas };
    }
    case "reasoning": {
      const { text, seal } = say;
      const deltas = [
        { type: "thinking_delta", thinking: text },
        { type: "signature_delta", signature: seal },
      ];
      return { block: { type: "thinking", thinking: "", signature: "" }, deltas };
    }
    case "call": {
      const deltas = say.pieces.map((partial_json) => ({ type: "input_json_delta", partial_json }));
      return { block: { type: "tool_use", id: say.id, name: say.name, input: {} }, deltas };
    }
  }
}

function writeGemini(says: readonly Say[], cost: Cost | null): string {
  const about = { modelVersion: "conformance", responseId: "r-1" };
  const chunk = (part: JsonObject): string =>
    event({ candidates: [{ index: 0, content: { role: "model", parts: [part] } }], ...about });
  const parts = says.flatMap((say, at): readonly JsonObject[] => {
    switch (say.type) {
      case "text":
        return say.pieces.map((text) => ({ text }));
      case "reasoning":
        return [{ text: say.text, thought: true }];
      case "call": {
        // The signature is on the first part after the thoughts.
        const before = says[at - 1];
        const [first = {}, ...rest] = geminiCall(say);
        return [before?.type === "reasoning" ? { ...first, thoughtSignature: before.seal } : first, ...rest];
      }
    }
  });
  const usageMetadata = { promptTokenCount: cost?.inputTokens ?? 0, candidatesTokenCount: cost?.outputTokens ?? 0 };
  const end = { candidates: [{ index: 0, content: { role: "model", parts: [{ text: "" }] }, finishReason: "STOP" }] };
  return [...parts.map(chunk), ...(cost === null ? [] : [event({ ...end, usageMetadata, ...about })])].join("");
}

/**
 * A complete call, or its leaves as `partialArgs`. The API cannot send broken JSON; the nearest is a string in place of
 * `args`.
 */
function geminiCall({ id, name, pieces }: Extract<Say, { readonly type: "call" }>): readonly JsonObject[] {
  const text = pieces.join("");
  const args = parsed(text);
  if (pieces.length === 1 || args === null) return [{ functionCall: { id, name, args: args ?? text } }];
  const leaves = Object.entries(args).flatMap(([key, value]) => leavesOf(`$.${key}`, value));
  return [
    { functionCall: { id, name, willContinue: true } },
    ...leaves.map((leaf) => ({ functionCall: { partialArgs: [leaf], willContinue: true } })),
    { functionCall: {} },
  ];
}

function leavesOf(jsonPath: string, value: Json): readonly JsonObject[] {
  if (Array.isArray(value)) return value.flatMap((item: Json, index) => leavesOf(`${jsonPath}[${index}]`, item));
  if (typeof value !== "string") return [{ jsonPath, numberValue: value }];
  return [
    { jsonPath, stringValue: value.slice(0, 2), willContinue: true },
    { jsonPath, stringValue: value.slice(2) },
  ];
}

function parsed(text: string): JsonObject | null {
  try {
    const value: JsonObject = JSON.parse(text);
    return value;
  } catch {
    return null;
  }
}

/** Errors in each provider's format: a code or a status, and a message. */
type Refusals = { readonly [Reason in AdapterErrorReason]?: readonly [code: string, message: string] };

const openaiRefusals: Refusals = {
  authentication_failed: ["invalid_api_key", "Incorrect API key provided: KEY. You can find your API key at …"],
  rate_limited: [
    "rate_limit_exceeded",
    "Rate limit reached for gpt-5 in organization org-1 on requests per min (RPM).",
  ],
  invalid_request: ["invalid_value", "Invalid value: 'robot'. Supported values are: 'assistant' and 'user'."],
  context_length_exceeded: ["context_length_exceeded", "Your input exceeds the context window of this model."],
  content_filter: ["content_policy_violation", "Your request was rejected as a result of our safety system."],
  provider_unavailable: ["server_error", "The server is overloaded or not ready yet."],
  unsupported_feature: [
    "unsupported_parameter",
    "Unsupported parameter: 'temperature' is not supported with this model.",
  ],
};
const anthropicRefusals: Refusals = {
  authentication_failed: ["authentication_error", "invalid x-api-key: KEY"],
  rate_limited: ["rate_limit_error", "This request would exceed your organization's rate limit of 50 requests."],
  invalid_request: ["invalid_request_error", "messages: at least one message is required"],
  context_length_exceeded: ["invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum"],
  content_filter: ["invalid_request_error", "Output blocked by content filtering policy"],
  provider_unavailable: ["api_error", "Internal server error"],
  unsupported_feature: ["invalid_request_error", "'claude-haiku-4-5' does not support the effort parameter."],
};
const geminiRefusals: Refusals = {
  authentication_failed: ["UNAUTHENTICATED", "API key not valid: KEY. Please pass a valid API key."],
  rate_limited: ["RESOURCE_EXHAUSTED", "You have reached a rate limit. Please retry in 2s."],
  invalid_request: ["INVALID_ARGUMENT", "Please ensure that function call turn comes immediately after a user turn."],
  context_length_exceeded: [
    "INVALID_ARGUMENT",
    "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
  ],
  content_filter: [
    "INVALID_ARGUMENT",
    "The prompt could not be submitted. It contains sensitive words that violate Google's Responsible AI practices.",
  ],
  provider_unavailable: ["UNAVAILABLE", "The model is overloaded. Please try again later."],
  unsupported_feature: ["INVALID_ARGUMENT", "Function calling is not enabled for models/gemma-3-4b-it"],
};

/** The answer for a failure. Failures without a status are those of the connection. */
function refusal(
  { reason, status, retryAfterMs, requestId }: Fails,
  refusals: Refusals,
  idHeader: string,
  shape: (code: string, message: string, waits: string | null) => JsonObject,
): Play {
  if (reason === "timeout") return { type: "silence" };
  if (reason === "network_error") return { type: "drop" };
  if (status === null) return { type: "answer", status: 200, body: "<html>It works!</html>" };
  const [code = "", message = ""] = refusals[reason] ?? [];
  const seconds = retryAfterMs === null ? null : `${retryAfterMs / 1000}`;
  return {
    type: "answer",
    status,
    headers: {
      ...(requestId === null ? {} : { [idHeader]: requestId }),
      ...(seconds === null || idHeader === "x-goog-request-id" ? {} : { "retry-after": seconds }),
    },
    body: (key) => shape(code, message.replace("KEY", key), seconds),
  };
}

function refuseOpenai(failure: Fails): Play {
  return refusal(failure, openaiRefusals, "x-request-id", (code, message) => ({
    error: { message, type: "invalid_request_error", param: null, code },
  }));
}

function complainOpenai(message: string): string {
  return event({ error: { message, type: "server_error", code: null } });
}

function writeBedrock(says: readonly Say[], cost: Cost | null): Uint8Array {
  const blocks = says.flatMap((say, contentBlockIndex) => {
    const delta = (fields: JsonObject) => awsEvent("contentBlockDelta", { contentBlockIndex, delta: fields });
    const stop = cost === null ? [] : [awsEvent("contentBlockStop", { contentBlockIndex })];
    switch (say.type) {
      case "text":
        return [...say.pieces.map((text) => delta({ text })), ...stop];
      case "reasoning": {
        const deltas = [{ text: say.text }, { signature: say.seal }];
        return [...deltas.map((reasoningContent) => delta({ reasoningContent })), ...stop];
      }
      case "call": {
        const start = { toolUse: { toolUseId: say.id, name: say.name } };
        const inputs = say.pieces.map((input) => delta({ toolUse: { input } }));
        return [awsEvent("contentBlockStart", { contentBlockIndex, start }), ...inputs, ...stop];
      }
    }
  });
  const stopReason = says.some(({ type }) => type === "call") ? "tool_use" : "end_turn";
  const usage = { inputTokens: cost?.inputTokens ?? 0, outputTokens: cost?.outputTokens ?? 0, totalTokens: 0 };
  return Buffer.concat([
    awsEvent("messageStart", { role: "assistant" }),
    ...blocks,
    ...(cost === null ? [] : [awsEvent("messageStop", { stopReason }), awsEvent("metadata", { usage })]),
  ]);
}

/**
 * One message of an AWS event stream: lengths, their checksum, headers, payload, checksum of all (CRC-32, big-endian).
 */
function awsEvent(type: string, payload: JsonObject, messageType = "event"): Buffer {
  const typeHeader = messageType === "event" ? ":event-type" : ":exception-type";
  const headers = Buffer.concat(
    [
      [typeHeader, type],
      [":content-type", "application/json"],
      [":message-type", messageType],
    ].map(([name = "", value = ""]) => {
      const length = Buffer.alloc(2);
      length.writeUInt16BE(Buffer.byteLength(value));
      const stringType = 7;
      return Buffer.concat([
        Buffer.from([name.length]),
        Buffer.from(name),
        Buffer.from([stringType]),
        length,
        Buffer.from(value),
      ]);
    }),
  );
  const body = Buffer.from(JSON.stringify(payload));
  const prelude = Buffer.alloc(8);
  prelude.writeUInt32BE(16 + headers.length + body.length, 0);
  prelude.writeUInt32BE(headers.length, 4);
  const start = Buffer.concat([prelude, checksum(prelude), headers, body]);
  return Buffer.concat([start, checksum(start)]);
}

function checksum(bytes: Buffer): Buffer {
  const sum = Buffer.alloc(4);
  sum.writeUInt32BE(crc32(bytes));
  return sum;
}

/** The formats of the providers' APIs. */
export const wireFormats = {
  responses: {
    write: writeResponses,
    refuse: refuseOpenai,
    complain: (message) => named({ type: "error", code: "server_error", message, param: null }),
  },
  chat: {
    write: chatWriter((text, seal) => ({ reasoning_content: `${text} ${seal}` })),
    refuse: refuseOpenai,
    complain: complainOpenai,
  },
  openrouter: {
    write: chatWriter((text, seal) => ({
      reasoning: text,
      reasoning_details: [
        { type: "reasoning.text", text, index: 0 },
        { type: "reasoning.encrypted", data: seal, index: 1 },
      ],
    })),
    refuse: refuseOpenai,
    complain: complainOpenai,
  },
  anthropic: {
    write: writeMessages,
    refuse: (failure) =>
      refusal(failure, anthropicRefusals, "request-id", (type, message) => ({
        type: "error",
        error: { type, message },
      })),
    complain: (message) => named({ type: "error", error: { type: "api_error", message } }),
  },
  gemini: {
    write: writeGemini,
    refuse: (failure) =>
      refusal(failure, geminiRefusals, "x-goog-request-id", (status, message, seconds) => ({
        error: {
          code: failure.status,
          message,
          status,
          details:
            seconds === null
              ? []
              : [{ "@type": "type.googleapis.com/google.rpc.RetryInfo", retryDelay: `${seconds}s` }],
        },
      })),
    complain: (message) => event({ error: { code: 500, message, status: "INTERNAL" } }),
  },
  bedrock: {
    write: writeBedrock,
    refuse: (failure) =>
      refusal(failure, anthropicRefusals, "x-amzn-requestid", (type, message) => ({ message, type })),
    complain: (message) => awsEvent("internalServerException", { message }, "exception"),
  },
} as const satisfies { readonly [name: string]: WireFormat };

// The scenarios of the adapter suite

/** The answer of a provider that plays a scenario of the adapter suite. */
export function playOf(scenario: AdapterScenario, { write, refuse }: WireFormat): Play {
  const reference = { inputTokens: 11, outputTokens: 7 };
  switch (scenario.type) {
    case "text": {
      const says: Say = { type: "text", pieces: scenario.texts };
      return { type: "stream", text: write([says], scenario.usage ?? reference), last: "end" };
    }
    case "tool_calls": {
      const says = scenario.calls.map(({ id, name, arguments: args }): Say => {
        const pieces = [JSON.stringify(args)];
        return { type: "call", id, name, pieces };
      });
      return { type: "stream", text: write(says, reference), last: "end" };
    }
    case "streamed_arguments": {
      const { id, name, pieces } = scenario;
      return { type: "stream", text: write([{ type: "call", id, name, pieces }], reference), last: "end" };
    }
    case "failure":
      return refuse(scenario);
    case "preflight":
      return { type: "silence" };
    case "interrupted":
      return {
        type: "stream",
        text: write([{ type: "text", pieces: scenario.texts }], null),
        last: "destroy",
      };
    case "stalled":
      return { type: "stream", text: write([{ type: "text", pieces: scenario.texts }], null), last: "hang" };
  }
}

/** The request with content that no adapter can send. */
export function spoiled(incoming: ModelRequest, reason: string): ModelRequest {
  if (reason === "missing_key") return incoming;
  const source =
    reason === "invalid_request"
      ? ({ type: "base64", data: "AAAA" } as const)
      : ({ type: "file", path: "/tmp/cat.png" } as const);
  return { ...incoming, messages: [user([imagePart({ source })])] };
}

// A tool loop with reasoning

/** The tool of the loop. */
export const weather = tool({
  name: "weather",
  description: "The weather in a city.",
  schema: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
  handler: ({ city }) => `Sol i ${String(city)}.`,
});
/** The tokens that each reply reports. */
export const replyUsage = { inputTokens: 20, outputTokens: 10 };
/** The signatures of the reasoning. */
export const seals = ["seal-one", "seal-two"];

const thinking = (seal: string, city: string): readonly Say[] => [
  { type: "reasoning", text: `Først ${city}.`, seal },
  { type: "call", id: `call_${seal}`, name: "weather", pieces: ['{"city":', `"${city}"}`] },
];

/** Three replies: reasoning and a call, reasoning and a call, an answer. The chunks cut events and characters. */
export function toolLoop({ write }: Pick<WireFormat, "write">): readonly Play[] {
  const says: readonly (readonly Say[])[] = [
    thinking("seal-one", "Tromsø"),
    thinking("seal-two", "Ålesund"),
    [{ type: "text", pieces: ["Sol i Tromsø", " og Ålesund ☀"] }],
  ];
  return says.map((parts) => ({ type: "stream", text: write(parts, replyUsage), last: "end", slice: 7 }));
}
