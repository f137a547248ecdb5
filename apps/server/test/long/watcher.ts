// A client that starts a turn and reads its events to the end. It retries when it is rejected (429, 503), and
// reconnects with `Last-Event-ID` when its stream is cut off.

import type { Pace } from "./paced-model.ts";
import type { RawEnd, RawHead } from "./raw-stream.ts";
import type { RuntimeEvent } from "everturn/runtime";

import { Readings } from "../../../../lib/test/readings.ts";
import { micros, pause, words } from "./paced-model.ts";
import { RawStream } from "./raw-stream.ts";

export type WatcherPlan = {
  readonly port: number;
  readonly session: string;
  readonly pace: Pace;
  /** `start`: starts the session. `watch`: only reads it. `bare`: reads from the bare loop, which has no sessions. */
  readonly as: "start" | "watch" | "bare";
  /** Stops reading after the first delta, until `wake`. */
  readonly stalls: boolean;
};

export type WatcherCounts = {
  /** Responses with a stream. */
  streams: number;
  /** Responses 429 and 503. */
  busy: number;
  /** Streams that ended before the turn, with the comment of a graceful shutdown. */
  goodbyes: number;
  /** Streams that ended before the turn, without it. */
  cuts: number;
  resets: number;
};

/**
 * The delay before a reconnect, and after which time without a frame a client gives up, in milliseconds. All turns
 * together take as long as the machine needs.
 */
const reconnectMs = 50;
const timeoutMs = 60_000;

export class Watcher {
  readonly plan: WatcherPlan;
  readonly readings = new Readings();
  readonly faults: string[] = [];
  readonly counts: WatcherCounts = { streams: 0, busy: 0, goodbyes: 0, cuts: 0, resets: 0 };
  readonly firstDelta: Promise<void>;
  readonly #onWord: (age: number) => void;
  #firstDelta: () => void = () => undefined;
  #stream: RawStream | null = null;
  #state: "not_begun" | "reading" | "stalled" | "over" = "not_begun";
  /** A client stalls at most once. */
  #mayStall: boolean;
  #cursor: string | null = null;
  #turn: string | null = null;
  #unread = "";
  #busyMs = reconnectMs;
  #saidGoodbye = false;
  /** When the newest event arrived, by the clock of this process. */
  #heardAt = 0;
  /** The text of the turn in the `end` frame. */
  text: string | null = null;

  /** `onWord` is called with the age of each word, in microseconds. */
  constructor(plan: WatcherPlan, onWord: (age: number) => void) {
    this.plan = plan;
    this.#mayStall = plan.stalls;
    this.#onWord = onWord;
    this.firstDelta = new Promise((resolve) => {
      this.#firstDelta = resolve;
    });
  }

  /** Reads until the turn has ended or nothing has arrived for the time limit. */
  async run(): Promise<void> {
    this.#heardAt = Date.now();
    while (this.#state !== "over") {
      const how = await this.#once();
      if (this.#isOver()) break;
      if (Date.now() > this.#heardAt + timeoutMs) {
        this.#fault(`gave up after ${timeoutMs} ms without a frame; the last request ended with ${how}`);
        break;
      }
      await pause(how === "busy" ? this.#busyMs : reconnectMs);
    }
    this.#firstDelta();
  }

  /** Resumes reading. */
  wake(): void {
    if (this.#state === "stalled") this.#state = "reading";
    this.#stream?.resume();
  }

  get isStalled(): boolean {
    return this.#state === "stalled";
  }

  #isOver(): boolean {
    return this.#state === "over";
  }

  /** Sends one request and reads its response. */
  #once(): Promise<string> {
    return new Promise((resolve) => {
      let status = 0;
      this.#unread = "";
      this.#saidGoodbye = false;
      this.#stream = new RawStream(this.plan.port, this.#request(), {
        head: (head) => {
          status = head.status;
          this.#head(head);
        },
        text: (text) => {
          if (status === 200) this.#take(text);
        },
        end: (how, error) => resolve(this.#ended(status, how, error)),
      });
    });
  }

  #request(): string {
    const { as, session, pace } = this.plan;
    const head = "host: 127.0.0.1\r\naccept: text/event-stream\r\n";
    if (as === "bare") return `GET /?${encodeURIComponent(JSON.stringify(pace))} HTTP/1.1\r\n${head}\r\n`;
    const last = this.#cursor === null ? "" : `last-event-id: ${this.#cursor}\r\n`;
    if (as === "watch" && this.#turn === null) return `GET /sessions/${session}/events HTTP/1.1\r\n${head}${last}\r\n`;
    if (this.#turn !== null) {
      return `GET /sessions/${session}/turns/${this.#turn}/events HTTP/1.1\r\n${head}${last}\r\n`;
    }
    const body = JSON.stringify({ input: JSON.stringify(pace), id: session });
    const about = `content-type: application/json\r\ncontent-length: ${body.length}\r\nidempotency-key: ${session}\r\n`;
    return `POST /sessions HTTP/1.1\r\n${head}${about}\r\n${body}`;
  }

  #head({ status, headers }: RawHead): void {
    if (status === 200) {
      this.counts.streams += 1;
      this.#turn ??= headers.get("everturn-turn") ?? null;
      if (this.#state === "not_begun") this.#state = "reading";
    } else if (status === 204) {
      this.#state = "over";
    } else if (status === 429 || status === 503) {
      this.counts.busy += 1;
      this.#busyMs = 1000 * Number(headers.get("retry-after") ?? 0) || reconnectMs;
    } else if (status !== 404 || this.plan.as !== "watch") {
      this.#fault(`got status ${status}`);
    }
  }

  #ended(status: number, how: RawEnd, error: string | null): string {
    if (status === 429 || status === 503) return "busy";
    if (status !== 200) return error ?? `status ${status}`;
    if (!this.#isOver()) this.counts[this.#saidGoodbye ? "goodbyes" : "cuts"] += 1;
    return how;
  }

  #take(text: string): void {
    const all = this.#unread === "" ? text : this.#unread + text;
    let from = 0;
    for (let end = all.indexOf("\n\n"); end !== -1; end = all.indexOf("\n\n", from)) {
      this.#frame(all.slice(from, end));
      from = end + 2;
    }
    this.#unread = all.slice(from);
  }

  #frame(frame: string): void {
    if (frame.startsWith(":")) {
      // The comment that everturn/http writes before it ends a stream at shutdown.
      if (frame.includes("server shutting down")) this.#saidGoodbye = true;
      return;
    }
    const fields = new Map<string, string>();
    for (const line of frame.split("\n")) {
      const colon = line.indexOf(":");
      fields.set(line.slice(0, colon), line.slice(colon + 2));
    }
    const data = fields.get("data") ?? "";
    switch (fields.get("event")) {
      case undefined:
        this.#event({ ...JSON.parse(data), cursor: fields.get("id") ?? "" });
        return;
      case "end":
        this.#end(data);
        return;
      default:
        this.#fault(`got an unexpected frame ${frame}`);
        this.#state = "over";
    }
  }

  #event(event: RuntimeEvent): void {
    this.#heardAt = Date.now();
    this.#cursor = event.cursor;
    this.#turn ??= this.plan.as === "watch" ? event.turnId : null;
    try {
      this.readings.take(event);
    } catch (error) {
      this.#fault(error instanceof Error ? error.message : "?");
    }
    this.counts.resets = this.readings.resets;
    if (event.event.type === "chat_completed" && this.plan.as === "watch") this.#end(null);
    if (event.event.type !== "text_delta") return;
    const now = micros();
    for (const [, , sentAt] of event.event.delta.matchAll(words)) this.#onWord(now - Number(sentAt));
    this.#firstDelta();
    if (this.#mayStall) {
      this.#mayStall = false;
      this.#state = "stalled";
      this.#stream?.pause();
    }
  }

  #end(data: string | null): void {
    if (data !== null && this.plan.as !== "bare") {
      const { text }: { readonly text: string } = JSON.parse(data);
      this.text = text;
    }
    this.#state = "over";
    this.#check();
    // The event stream of a session does not end with the turn.
    this.#stream?.close();
  }

  /** Checks that every word of every reply was received exactly once and in order. */
  #check(): void {
    const { as, pace } = this.plan;
    const replies = as === "bare" ? [this.readings.open] : this.readings.replies;
    if (replies.length !== pace.replies) this.#fault(`received ${replies.length} replies of ${pace.replies}`);
    for (const reply of replies) {
      const numbers = [...reply.matchAll(words)].map(([, index]) => Number(index));
      const isComplete = numbers.length === pace.words && numbers.every((number, index) => number === index);
      if (!isComplete) this.#fault(`received ${numbers.length} words of ${pace.words}`);
    }
    if (this.text !== null && this.text !== replies.at(-1))
      this.#fault("the end frame has another text than the last reply");
  }

  #fault(what: string): void {
    if (this.faults.length < 5) this.faults.push(`${this.plan.session}: ${what}`);
  }
}
