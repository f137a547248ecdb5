// A loopback server with the background mode of OpenAI's Responses API. Its responses continue without a connection:
// they can be streamed with numbered events, read by their ids, and cancelled.

import type { Json, JsonObject } from "everturn";
import type { IncomingMessage, ServerResponse } from "node:http";

import { createServer } from "node:http";

/** One response: its final status, and the number of events that are available now. */
type Work = { readonly id: string; status: "completed" | "failed" | "cancelled"; ready: number };

export class BackgroundServer {
  /** Method and path of every request, in order. */
  readonly requests: string[] = [];
  /** The bodies of requests that started a response. */
  readonly bodies: JsonObject[] = [];
  /** Each connection is cut after the event with this number; one item for each connection. */
  cuts: number[] = [];
  /** The numbers of events that the next connection sends damaged: without their last characters. */
  damaged: readonly number[] = [];
  /** The number of events that a new response has at once; the others follow with `finish`. */
  ready = Infinity;
  /** Whether responses can be streamed again. */
  streams = true;
  /** Whether responses can be found. */
  knows = true;
  /** Error statuses for the next GET requests. */
  refusals: number[] = [];
  /** Whether events have numbers and `starting_after` is supported. */
  numbers = true;
  readonly #pieces: readonly string[];
  readonly #works = new Map<string, Work>();
  readonly #waiting = new Set<() => void>();
  readonly #server = createServer((asked, answer) => void this.#serve(asked, answer));

  constructor(pieces: readonly string[]) {
    this.#pieces = pieces;
  }

  async listen(): Promise<void> {
    await new Promise<void>((resolve) => this.#server.listen(0, "127.0.0.1", resolve));
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  get url(): string {
    const address = this.#server.address();
    if (address === null || typeof address === "string") throw new Error("no port");
    return `http://127.0.0.1:${address.port}/v1`;
  }

  /** Ends all responses with this status. */
  finish(status: Work["status"] = "completed"): void {
    for (const work of this.#works.values()) Object.assign(work, { status, ready: Infinity });
    for (const wake of this.#waiting) wake();
  }

  async #serve(asked: IncomingMessage, answer: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of asked) chunks.push(Buffer.from(chunk));
    const { pathname, searchParams } = new URL(asked.url ?? "", "http://loopback");
    const path = pathname.replace("/v1", "");
    const query = ["stream", "starting_after"].filter((name) => searchParams.has(name));
    const shown = query.map((name) => `${name}=${searchParams.get(name) ?? ""}`).join("&");
    this.requests.push(`${asked.method} ${path}${shown === "" ? "" : `?${shown}`}`);
    if (path === "/responses") {
      const body: JsonObject = JSON.parse(Buffer.concat(chunks).toString("utf8"));
      this.bodies.push(body);
      const work: Work = { id: `resp_${this.bodies.length}`, status: "completed", ready: this.ready };
      this.#works.set(work.id, work);
      return body["stream"] === false ? this.#tell(work, answer) : this.#stream(work, 0, answer);
    }
    const [, , id = "", verb] = path.split("/");
    const work = this.#works.get(id);
    const refusal = asked.method === "GET" ? this.refusals.shift() : undefined;
    if (refusal !== undefined) return refuse(answer, refusal, "Try again later.");
    if (work === undefined || !this.knows) return refuse(answer, 404, `Response with id '${id}' not found.`);
    if (verb === "cancel") {
      Object.assign(work, { status: "cancelled", ready: Infinity });
      return this.#tell(work, answer);
    }
    if (searchParams.get("stream") !== "true") return this.#tell(work, answer);
    if (!this.streams) return refuse(answer, 400, "This response can no longer be streamed.");
    const after = searchParams.get("starting_after");
    return this.#stream(work, after === null ? 0 : Number(after) + 1, answer);
  }

  /** Sends the current state of the response. */
  #tell(work: Work, answer: ServerResponse): void {
    const isDone = work.ready >= this.#eventsOf(work).length;
    json(answer, 200, this.#responseOf(work, isDone ? work.status : "in_progress"));
  }

  async #stream(work: Work, from: number, answer: ServerResponse): Promise<void> {
    answer.writeHead(200, { "content-type": "text/event-stream" });
    answer.flushHeaders();
    const cut = this.cuts.shift() ?? Infinity;
    const damaged = this.damaged;
    this.damaged = [];
    for (let at = from; at < this.#eventsOf(work).length; at += 1) {
      while (at >= work.ready && !answer.closed) {
        await new Promise<void>((resolve) => {
          this.#waiting.add(resolve);
          answer.on("close", resolve);
        });
      }
      if (answer.closed) return;
      const event = this.#eventsOf(work)[at] ?? {};
      const whole = JSON.stringify(this.numbers ? { ...event, sequence_number: at } : event);
      const data = damaged.includes(at) ? whole.slice(0, -3) : whole;
      await new Promise((resolve) => answer.write(`event: ${String(event["type"])}\ndata: ${data}\n\n`, resolve));
      if (at >= cut) return void answer.destroy();
    }
    answer.end();
  }

  #eventsOf(work: Work): readonly JsonObject[] {
    const about = { output_index: 0, item_id: "msg_1", content_index: 0 };
    const [item = {}] = this.#output();
    return [
      { type: "response.created", response: this.#responseOf(work, "queued") },
      { type: "response.output_item.added", output_index: 0, item: { ...item, status: "in_progress", content: [] } },
      ...this.#pieces.map((delta) => ({ type: "response.output_text.delta", ...about, delta })),
      { type: `response.${work.status}`, response: this.#responseOf(work, work.status) },
    ];
  }

  #responseOf({ id }: Work, status: string): JsonObject {
    const usage = { input_tokens: 11, output_tokens: 7, total_tokens: 18 };
    const error = status === "failed" ? { code: "server_error", message: "The model failed." } : null;
    const isDone = status === "completed";
    const output = isDone ? this.#output() : [];
    const spent = isDone || status === "failed" ? usage : null;
    return { id, object: "response", background: true, model: "gpt-5.4", status, error, output, usage: spent };
  }

  #output(): readonly JsonObject[] {
    const content: Json = [{ type: "output_text", text: this.#pieces.join(""), annotations: [] }];
    return [{ type: "message", id: "msg_1", role: "assistant", status: "completed", content }];
  }
}

function json(answer: ServerResponse, status: number, body: JsonObject): void {
  answer.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
}

function refuse(answer: ServerResponse, status: number, message: string): void {
  json(answer, status, { error: { message, type: "invalid_request_error", code: null } });
}
