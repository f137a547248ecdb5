// Somebody who begins a turn and reads it to its end, whatever happens on the way: who is sent away comes again, and who is cut off comes back with
// the id of the last event.

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
  /** `start`: begins the session. `watch`: looks on. `bare`: asks the bare loop, which has no sessions. */
  readonly as: "start" | "watch" | "bare";
  /** Stops reading once it has heard something, until it is told to go on. */
  readonly stalls: boolean;
};

export type WatcherCounts = {
  /** Answers that came: streams, and those that said to come again later. */
  streams: number;
  busy: number;
  /** How streams ended that were not at the end of the turn: with a word of farewell, or without. */
  goodbyes: number;
  cuts: number;
  resets: number;
};

/** How often somebody comes again, and after how long it gives up. */
const againMs = 50;
const patienceMs = 60_000;

export class Watcher {
  readonly plan: WatcherPlan;
  readonly readings = new Readings();
  readonly faults: string[] = [];
  readonly counts: WatcherCounts = { streams: 0, busy: 0, goodbyes: 0, cuts: 0, resets: 0 };
  readonly hears: Promise<void>;
  readonly #heard: (age: number) => void;
  #hears: () => void = () => undefined;
  #stream: RawStream | null = null;
  #state: "not_begun" | "reading" | "stalled" | "over" = "not_begun";
  /** It is done once. */
  #mayStall: boolean;
  #cursor: string | null = null;
  #turn: string | null = null;
  #unread = "";
  #busyMs = againMs;
  #saidGoodbye = false;
  /** What the turn came to, by its last frame. */
  text: string | null = null;

  /** `heard` is told the age of each word, in microseconds. */
  constructor(plan: WatcherPlan, heard: (age: number) => void) {
    this.plan = plan;
    this.#mayStall = plan.stalls;
    this.#heard = heard;
    this.hears = new Promise((resolve) => {
      this.#hears = resolve;
    });
  }

  /** Reads until there is nothing left to read. */
  async run(): Promise<void> {
    const until = Date.now() + patienceMs;
    while (this.#state !== "over") {
      const how = await this.#once();
      if (this.#isOver()) break;
      if (Date.now() > until) {
        this.#fault(`gave up after ${patienceMs} ms, the last time because of ${how}`);
        break;
      }
      await pause(how === "busy" ? this.#busyMs : againMs);
    }
    this.#hears();
  }

  /** Goes on reading. */
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

  /** One request. */
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
      this.#busyMs = 1000 * Number(headers.get("retry-after") ?? 0) || againMs;
    } else if (status !== 404 || this.plan.as !== "watch") {
      this.#fault(`was answered ${status}`);
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
      if (frame.includes("stops")) this.#saidGoodbye = true;
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
        this.#fault(`was told of ${frame}`);
        this.#state = "over";
    }
  }

  #event(event: RuntimeEvent): void {
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
    for (const [, , said] of event.event.delta.matchAll(words)) this.#heard(now - Number(said));
    this.#hears();
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
    // What happens in a session goes on behind its turn.
    this.#stream?.close();
  }

  /** Everything that was to be said has been heard, each word once and in order. */
  #check(): void {
    const { as, pace } = this.plan;
    const replies = as === "bare" ? [this.readings.open] : this.readings.replies;
    if (replies.length !== pace.replies) this.#fault(`heard ${replies.length} replies of ${pace.replies}`);
    for (const reply of replies) {
      const numbers = [...reply.matchAll(words)].map(([, index]) => Number(index));
      const isWhole = numbers.length === pace.words && numbers.every((number, index) => number === index);
      if (!isWhole) this.#fault(`heard ${numbers.length} words of ${pace.words}`);
    }
    if (this.text !== null && this.text !== replies.at(-1)) this.#fault("the last frame says something else");
  }

  #fault(what: string): void {
    if (this.faults.length < 5) this.faults.push(`${this.plan.session}: ${what}`);
  }
}
