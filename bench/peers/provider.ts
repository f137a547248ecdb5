// The mock provider of the benchmarks: Chat Completions, Responses and Anthropic Messages over SSE, in a process of its
// own, on loopback. It reads HTTP/1.1 from the socket and writes bytes that it built before: every event is one HTTP
// chunk, as most providers send it.
//
// `GET /go` starts the paced streams that wait; `GET /stats` returns the number and the bytes of the requests.

import type { Protocol } from "./scenario.ts";
import type { Socket } from "node:net";

import { createServer } from "node:net";

import { delta, finalDeltas, toolName } from "./scenario.ts";

type Script = {
  readonly opening: readonly string[];
  readonly text: (text: string) => string;
  readonly textEnd: (text: string) => readonly string[];
  readonly call: (id: string, parts: readonly string[]) => readonly string[];
};

const head =
  "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\nkeep-alive: timeout=600\r\ntransfer-encoding: chunked\r\n\r\n";
const lastChunk = "0\r\n\r\n";
const stamp = "0".repeat(16);

function chunk(text: string): string {
  return `${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n`;
}

function named(type: string, fields: object = {}): string {
  return `event: ${type}\ndata: ${JSON.stringify({ type, ...fields })}\n\n`;
}

function outputText(text: string): object {
  return { type: "output_text", text, annotations: [], logprobs: [] };
}

const scripts: { readonly [name in Protocol]: (model: string, round: number) => Script } = {
  chat: (model, round) => {
    const common = { id: `chatcmpl-${round}`, object: "chat.completion.chunk", created: 1_760_000_000, model };
    const event = (value: object) => `data: ${JSON.stringify({ ...common, ...value })}\n\n`;
    const choice = (part: object, finish: string | null = null) =>
      event({ choices: [{ index: 0, delta: part, logprobs: null, finish_reason: finish }] });
    const usage = event({ choices: [], usage: { prompt_tokens: 20, completion_tokens: 10, total_tokens: 30 } });
    const end = (finish: string) => [choice({}, finish), usage, "data: [DONE]\n\n"];
    return {
      opening: [choice({ role: "assistant", content: "", refusal: null })],
      text: (content) => choice({ content }),
      textEnd: () => end("stop"),
      call: (id, parts) => [
        choice({ role: "assistant", content: null }),
        choice({ tool_calls: [{ index: 0, id, type: "function", function: { name: toolName, arguments: "" } }] }),
        ...parts.map((part) => choice({ tool_calls: [{ index: 0, function: { arguments: part } }] })),
        ...end("tool_calls"),
      ],
    };
  },
  responses: (model, round) => {
    let number = 0;
    const event = (type: string, value: object) => named(type, { sequence_number: number++, ...value });
    const response = (status: string, output: readonly object[], usage: object | null) => ({
      response: {
        id: `resp_${round}`,
        object: "response",
        created_at: 1_760_000_000,
        status,
        error: null,
        incomplete_details: null,
        model,
        output,
        parallel_tool_calls: true,
        store: false,
        tools: [],
        usage,
        metadata: {},
      },
    });
    const usage = { input_tokens: 20, input_tokens_details: { cached_tokens: 0 }, output_tokens: 10, total_tokens: 30 };
    const usageWithDetails = { ...usage, output_tokens_details: { reasoning_tokens: 0 } };
    const created = event("response.created", response("in_progress", [], null));
    const item = { id: `msg_${round}`, type: "message", role: "assistant" };
    const at = { item_id: item.id, output_index: 0, content_index: 0 };
    return {
      opening: [
        created,
        event("response.output_item.added", { output_index: 0, item: { ...item, status: "in_progress", content: [] } }),
        event("response.content_part.added", { ...at, part: outputText("") }),
      ],
      text: (text) => event("response.output_text.delta", { ...at, delta: text, logprobs: [] }),
      textEnd: (text) => {
        const done = { ...item, status: "completed", content: [outputText(text)] };
        return [
          event("response.output_text.done", { ...at, text, logprobs: [] }),
          event("response.content_part.done", { ...at, part: outputText(text) }),
          event("response.output_item.done", { output_index: 0, item: done }),
          event("response.completed", response("completed", [done], usageWithDetails)),
        ];
      },
      call: (id, parts) => {
        const call = { id: `fc_${round}`, type: "function_call", call_id: id, name: toolName };
        const text = parts.join("");
        const done = { ...call, status: "completed", arguments: text };
        return [
          created,
          event("response.output_item.added", {
            output_index: 0,
            item: { ...call, status: "in_progress", arguments: "" },
          }),
          ...parts.map((piece) =>
            event("response.function_call_arguments.delta", { item_id: call.id, output_index: 0, delta: piece }),
          ),
          event("response.function_call_arguments.done", { item_id: call.id, output_index: 0, arguments: text }),
          event("response.output_item.done", { output_index: 0, item: done }),
          event("response.completed", response("completed", [done], usageWithDetails)),
        ];
      },
    };
  },
  anthropic: (model, round) => {
    const usage = { input_tokens: 20, cache_creation_input_tokens: 0, cache_read_input_tokens: 0, output_tokens: 1 };
    const message = { id: `msg_${round}`, type: "message", role: "assistant", model, content: [], usage };
    const start = named("message_start", { message: { ...message, stop_reason: null, stop_sequence: null } });
    const block = (content: object) => named("content_block_start", { index: 0, content_block: content });
    const part = (value: object) => named("content_block_delta", { index: 0, delta: value });
    const end = (reason: string) => [
      named("content_block_stop", { index: 0 }),
      named("message_delta", { delta: { stop_reason: reason, stop_sequence: null }, usage: { output_tokens: 10 } }),
      named("message_stop"),
    ];
    return {
      opening: [start, block({ type: "text", text: "" })],
      text: (text) => part({ type: "text_delta", text }),
      textEnd: () => end("end_turn"),
      call: (id, parts) => [
        start,
        block({ type: "tool_use", id, name: toolName, input: {} }),
        ...parts.map((piece) => part({ type: "input_json_delta", partial_json: piece })),
        ...end("tool_use"),
      ],
    };
  },
};

const replies = new Map<string, Buffer>();

/** The bytes of a whole response; `round`: the tool results in the request. */
function replyOf(protocol: Protocol, model: string, round: number): Buffer {
  const key = `${protocol} ${model} ${round}`;
  const known = replies.get(key);
  if (known !== undefined) return known;
  const [kind, count = 0] = parts(model);
  const script = scripts[protocol](model, round);
  const text = (length: number) => {
    const deltas = Array.from({ length }, (_, index) => delta(index));
    return [...script.opening, ...deltas.map((part) => script.text(part)), ...script.textEnd(deltas.join(""))];
  };
  const events = (() => {
    if (kind === "deltas") return text(count);
    if (round >= count) return text(finalDeltas);
    return script.call(`call_${round}_`, ['{"a":', ` ${round}`, ', "b":', " 1}"]);
  })();
  const bytes = Buffer.from([head, ...events.map(chunk), lastChunk].join(""));
  replies.set(key, bytes);
  return bytes;
}

function parts(model: string): readonly [string, ...number[]] {
  const [kind = "", ...numbers] = model.split("-");
  return [kind, ...numbers.map(Number)];
}

/** The rounds of the loop that the request contains: the id of the newest call names its round. */
function roundOf(body: Buffer): number {
  const at = body.lastIndexOf('"call_');
  return at < 0 ? 0 : Number.parseInt(body.toString("latin1", at + 6, at + 16), 10) + 1;
}

type Paced = {
  readonly socket: Socket;
  readonly delta: Buffer;
  readonly tail: Buffer;
  left: number;
  readonly ms: number;
};

let waiting: Paced[] = [];

function openPaced(socket: Socket, protocol: Protocol, model: string): void {
  const [, left = 0, ms = 0] = parts(model);
  const script = scripts[protocol](model, 0);
  socket.write([head, ...script.opening.map(chunk), chunk(script.text("open"))].join(""));
  const tail = Buffer.from([...script.textEnd("paced").map(chunk), lastChunk].join(""));
  waiting.push({ socket, delta: Buffer.from(chunk(script.text(stamp))), tail, left, ms });
}

/** The streams start at different milliseconds of their interval. */
function startPaced(streams: readonly Paced[]): void {
  const ms = streams[0]?.ms ?? 1;
  const slots = Array.from({ length: ms }, (_, slot) => streams.filter((_stream, index) => index % ms === slot));
  const start = performance.now();
  let tick = 0;
  let open = streams.length;
  const timer = setInterval(() => {
    for (const due = performance.now() - start; tick <= due && open > 0; tick += 1) {
      for (const stream of slots[tick % ms] ?? []) {
        if (stream.left === 0) continue;
        const bytes = Buffer.from(stream.delta);
        bytes.write(String(process.hrtime.bigint() / 1000n).padStart(16, "0"), bytes.indexOf(stamp), "latin1");
        stream.socket.write(bytes);
        stream.left -= 1;
        if (stream.left > 0) continue;
        stream.socket.write(stream.tail);
        open -= 1;
      }
    }
    if (open === 0) clearInterval(timer);
  }, 1);
}

const statistics = { requests: 0, bytes: 0 };

function sendJson(socket: Socket, value: object): void {
  const text = JSON.stringify(value);
  socket.write(`HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${text.length}\r\n\r\n${text}`);
}

function respond(socket: Socket, requestLine: string, body: Buffer): void {
  const path = /^\S+ ([^\s?]*)/.exec(requestLine)?.[1] ?? "";
  if (path === "/stats") return sendJson(socket, statistics);
  if (path === "/go") {
    startPaced(waiting);
    waiting = [];
    return sendJson(socket, {});
  }
  statistics.requests += 1;
  statistics.bytes += body.length;
  const protocol = path.endsWith("/messages") ? "anthropic" : path.endsWith("/responses") ? "responses" : "chat";
  const at = body.indexOf('"model":"') + 9;
  const model = body.toString("latin1", at, body.indexOf('"', at));
  if (model.startsWith("paced")) openPaced(socket, protocol, model);
  else socket.write(replyOf(protocol, model, model.startsWith("loop") ? roundOf(body) : 0));
}

const server = createServer({ noDelay: true }, (socket) => {
  let chunks: Buffer[] = [];
  let received = 0;
  /** The bytes of the request that is being received; 0: its head is not complete. */
  let needed = 0;
  socket.on("error", () => socket.destroy());
  socket.on("data", (data: Buffer) => {
    chunks.push(data);
    received += data.length;
    while (received > 0 && received >= needed) {
      const buffer = chunks.length === 1 ? (chunks[0] ?? data) : Buffer.concat(chunks);
      chunks = [buffer];
      const headEnd = buffer.indexOf("\r\n\r\n") + 4;
      if (headEnd < 4) return;
      const headers = buffer.toString("latin1", 0, headEnd);
      needed = headEnd + Number(/content-length: *(\d+)/i.exec(headers)?.[1] ?? 0);
      if (received < needed) return;
      respond(socket, headers, buffer.subarray(headEnd, needed));
      chunks = received === needed ? [] : [buffer.subarray(needed)];
      received -= needed;
      needed = 0;
    }
  });
});
server.listen({ host: "127.0.0.1", port: 0, backlog: 4096 }, () => {
  const address = server.address();
  if (address !== null && typeof address === "object") process.send?.({ port: address.port });
});
process.on("disconnect", () => process.exit(0));
