// A minimal HTTP client: one request on its own socket, and the response as text. It implements only what the servers
// of these tests send, and is cheap, because hundreds of clients share a core with the measured server.

import type { Socket } from "node:net";

import { connect } from "node:net";

export type RawHead = { readonly status: number; readonly headers: ReadonlyMap<string, string> };

/** Whether a response was complete or cut off. */
export type RawEnd = "whole" | "cut";

export type RawHandlers = {
  readonly head: (head: RawHead) => void;
  readonly text: (text: string) => void;
  /** Called once. `error`: the code of a socket error, such as `ECONNREFUSED`; `null`: none. */
  readonly end: (how: RawEnd, error: string | null) => void;
};

type Framing =
  | { readonly type: "head" }
  | { readonly type: "chunked"; left: number }
  | { readonly type: "length"; left: number }
  | { readonly type: "over" };

export class RawStream {
  readonly #socket: Socket;
  readonly #handlers: RawHandlers;
  #framing: Framing = { type: "head" };
  #unread = "";
  #error: string | null = null;

  constructor(port: number, request: string, handlers: RawHandlers) {
    this.#handlers = handlers;
    this.#socket = connect(port, "127.0.0.1");
    this.#socket.setNoDelay(true);
    // These tests send only ASCII.
    this.#socket.setEncoding("latin1");
    this.#socket.write(request);
    this.#socket.on("data", (text: string) => this.#take(text));
    this.#socket.on("error", (error: NodeJS.ErrnoException) => (this.#error = error.code ?? error.message));
    this.#socket.on("close", () => this.#end("cut"));
  }

  /** Closes the connection. */
  close(): void {
    this.#end("whole");
  }

  /** Stops reading (backpressure). */
  pause(): void {
    this.#socket.pause();
  }

  resume(): void {
    this.#socket.resume();
  }

  #take(text: string): void {
    this.#unread = this.#unread === "" ? text : this.#unread + text;
    while (this.#step());
  }

  /** Parses the next part. Returns whether more may be parsed. */
  #step(): boolean {
    const framing = this.#framing;
    switch (framing.type) {
      case "head": {
        const end = this.#unread.indexOf("\r\n\r\n");
        if (end === -1) return false;
        const head = parseHead(this.#unread.slice(0, end));
        this.#unread = this.#unread.slice(end + 4);
        this.#framing = framingOf(head);
        this.#handlers.head(head);
        return true;
      }
      case "length": {
        const text = this.#unread.slice(0, framing.left);
        this.#unread = "";
        framing.left -= text.length;
        if (text !== "") this.#handlers.text(text);
        if (framing.left === 0) this.#end("whole");
        return false;
      }
      case "chunked":
        return this.#chunk(framing);
      case "over":
        return false;
    }
  }

  #chunk(framing: { left: number }): boolean {
    if (framing.left === 0) {
      const end = this.#unread.indexOf("\r\n");
      if (end === -1) return false;
      framing.left = Number.parseInt(this.#unread.slice(0, end), 16);
      this.#unread = this.#unread.slice(end + 2);
      if (framing.left > 0) return true;
      this.#end("whole");
      return false;
    }
    // Part of a chunk is passed on without waiting for the rest.
    if (this.#unread.length < framing.left) {
      framing.left -= this.#unread.length;
      if (this.#unread !== "") this.#handlers.text(this.#unread);
      this.#unread = "";
      return false;
    }
    if (this.#unread.length < framing.left + 2) return false;
    const text = this.#unread.slice(0, framing.left);
    this.#unread = this.#unread.slice(framing.left + 2);
    framing.left = 0;
    this.#handlers.text(text);
    return true;
  }

  #end(how: RawEnd): void {
    if (this.#framing.type === "over") return;
    this.#framing = { type: "over" };
    this.#socket.destroy();
    this.#handlers.end(how, this.#error);
  }
}

function parseHead(text: string): RawHead {
  const [first = "", ...lines] = text.split("\r\n");
  const headers = lines.map((line): readonly [string, string] => {
    const colon = line.indexOf(":");
    return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()];
  });
  return { status: Number(first.split(" ")[1]), headers: new Map(headers) };
}

function framingOf({ status, headers }: RawHead): Framing {
  if (status === 204) return { type: "length", left: 0 };
  if (headers.get("transfer-encoding") === "chunked") return { type: "chunked", left: 0 };
  return { type: "length", left: Number(headers.get("content-length") ?? 0) };
}
