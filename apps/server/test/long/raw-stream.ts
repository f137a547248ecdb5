// A request on a socket of its own, and its answer as text. It knows as much of HTTP as the servers of these tests speak, and costs little: hundreds
// of them share a core with the server that is measured.

import type { Socket } from "node:net";

import { connect } from "node:net";

export type RawHead = { readonly status: number; readonly headers: ReadonlyMap<string, string> };

/** How an answer ended: as a whole, or before that. */
export type RawEnd = "whole" | "cut";

export type RawHandlers = {
  readonly head: (head: RawHead) => void;
  readonly text: (text: string) => void;
  /** Once. `error` says why, if that is known: `ECONNREFUSED` where nobody listens. */
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
    // All that is said in these tests is ASCII.
    this.#socket.setEncoding("latin1");
    this.#socket.write(request);
    this.#socket.on("data", (text: string) => this.#take(text));
    this.#socket.on("error", (error: NodeJS.ErrnoException) => (this.#error = error.code ?? error.message));
    this.#socket.on("close", () => this.#end("cut"));
  }

  /** Leaves. */
  close(): void {
    this.#end("whole");
  }

  /** Stops reading, or goes on. */
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

  /** Reads on; whether there may be more to read. */
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
    // A chunk that has not come as a whole may still have something to say.
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
