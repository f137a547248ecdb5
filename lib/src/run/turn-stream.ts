// What streaming verbs return: events as they happen, and what they came to. Nothing happens before somebody asks for the first event or
// for the result. Leaving early ends the run, once; who reads slowly slows it down.

import type { TurnEvent } from "../model/internal.ts";

import { MisuseError } from "../model/internal.ts";

/** What a run is started with: where to say things, and how to hear that nobody listens any more. */
export type Outlet = {
  /** Says events. A promise that comes back resolves when they have been read. */
  readonly say: (events: readonly TurnEvent[]) => void | Promise<void>;
};

export type Running<Result> = { readonly result: Promise<Result>; readonly stop: () => void };

/** How many events may wait for a slow reader before the run waits for it. */
const highWater = 256;

const done: IteratorResult<TurnEvent, undefined> = { done: true, value: undefined };

/**
 * The events of a run and its result. The run starts when the first event or the result is requested. A slow
 * reader slows the run down (backpressure); leaving the iteration early cancels it.
 */
export class TurnStream<Result = unknown> implements AsyncIterable<TurnEvent> {
  readonly #begin: (outlet: Outlet) => Running<Result>;
  readonly #textOf: (result: Result) => string;
  readonly #wanted: ((event: TurnEvent) => boolean) | null;
  #running: Running<Result> | null = null;
  /** Events that nobody has read: a batch being handed out, and those behind it. */
  #batch: readonly TurnEvent[] = [];
  #index = 0;
  #queue: (readonly TurnEvent[])[] = [];
  #handedOut = 0;
  #waitingEvents = 0;
  readonly #readers: Reader[] = [];
  /** Whoever says more than anybody reads waits here. */
  #speakers: (() => void)[] = [];
  /** Somebody wants the result, read or not: nobody waits for the reader any more. */
  #hurried = false;
  #ended: { readonly error: unknown } | null | undefined;
  /** Whether anybody reads events. Until that is known a few are kept; once it is clear that nobody does, none are. */
  #reading: "undecided" | "yes" | "no" = "undecided";

  constructor(
    begin: (outlet: Outlet) => Running<Result>,
    textOf: (result: Result) => string,
    wanted: ((event: TurnEvent) => boolean) | null = null,
  ) {
    this.#begin = begin;
    this.#textOf = textOf;
    this.#wanted = wanted;
  }

  /** What the run came to. Asking for it starts the run; where nobody reads the events, they are let go. */
  get result(): Promise<Result> {
    this.#hurried = true;
    this.#release();
    return this.#start().result;
  }

  /** The text of the answer. */
  get text(): Promise<string> {
    return this.result.then(this.#textOf);
  }

  /** The same stream with something else made of its result. Read one of the two. */
  map<Other>(take: (result: Result) => Other): TurnStream<Other> {
    let text = "";
    const begin = (outlet: Outlet): Running<Other> => {
      const { result, stop } = this.#begin(outlet);
      const taken = result.then((value) => {
        text = this.#textOf(value);
        return take(value);
      });
      return { result: taken, stop };
    };
    return new TurnStream(begin, () => text, this.#wanted);
  }

  [Symbol.asyncIterator](): AsyncIterator<TurnEvent, undefined> {
    if (this.#reading !== "undecided") {
      const why =
        this.#reading === "yes" ? "it can be read once" : "only its result was asked for, and its events were let go";
      throw new MisuseError("invalid_argument", `this stream of events cannot be read: ${why}`);
    }
    this.#reading = "yes";
    return {
      next: () => this.#next(),
      return: async () => {
        await this.#leave();
        return done;
      },
    };
  }

  #start(): Running<Result> {
    if (this.#running !== null) return this.#running;
    const running = this.#begin({ say: (events) => this.#say(events) });
    this.#running = running;
    running.result.then(
      () => this.#end(null),
      (error: unknown) => this.#end({ error }),
    );
    return running;
  }

  #next(): Promise<IteratorResult<TurnEvent, undefined>> {
    const event = this.#take();
    if (event !== undefined) return Promise.resolve({ done: false, value: event });
    if (this.#ended !== undefined)
      return this.#ended === null ? Promise.resolve(done) : this.#rejectOnce(this.#ended.error);
    const waiting = new Promise<IteratorResult<TurnEvent, undefined>>((resolve, reject) => {
      this.#readers.push({ resolve, reject });
    });
    this.#start();
    return waiting;
  }

  /** A failed run tells its reader once; after that the stream is over. */
  #rejectOnce(error: unknown): Promise<never> {
    this.#ended = null;
    return Promise.reject(error);
  }

  #take(): TurnEvent | undefined {
    if (this.#index >= this.#batch.length) {
      this.#batch = this.#queue[this.#handedOut] ?? [];
      this.#index = 0;
      this.#handedOut += 1;
      // What has been handed out is let go now and then, not each time: taking from the front of a long list moves the rest.
      if (this.#handedOut > 1024 || this.#handedOut > this.#queue.length) {
        this.#queue = this.#queue.slice(this.#handedOut);
        this.#handedOut = 0;
      }
    }
    const event = this.#batch[this.#index];
    if (event === undefined) return undefined;
    this.#index += 1;
    this.#waitingEvents -= 1;
    if (this.#waitingEvents < highWater / 2) this.#release();
    return event;
  }

  #say(said: readonly TurnEvent[]): void | Promise<void> {
    const wanted = this.#wanted;
    const events = wanted === null || said.every(wanted) ? said : said.filter(wanted);
    if (events.length === 0 || this.#reading === "no" || this.#ended !== undefined) return;
    if (this.#reading === "undecided" && this.#waitingEvents + events.length > highWater) return this.#letGo();
    this.#queue.push(events);
    this.#waitingEvents += events.length;
    while (this.#readers.length > 0) {
      const event = this.#take();
      if (event === undefined) break;
      this.#readers.shift()?.resolve({ done: false, value: event });
    }
    if (this.#waitingEvents < highWater || this.#reading !== "yes" || this.#hurried) return;
    return new Promise((resolve) => this.#speakers.push(resolve));
  }

  #release(): void {
    const speakers = this.#speakers;
    this.#speakers = [];
    for (const speak of speakers) speak();
  }

  #end(failure: { readonly error: unknown } | null): void {
    this.#ended ??= failure;
    this.#release();
    const [first, ...others] = this.#readers.splice(0);
    if (first === undefined) return;
    // A failed run tells one reader, once; for the others, and after that, the stream is over.
    if (failure === null) first.resolve(done);
    else {
      this.#ended = null;
      first.reject(failure.error);
    }
    for (const reader of others) reader.resolve(done);
  }

  #letGo(): void {
    this.#reading = "no";
    this.#queue = [];
    this.#handedOut = 0;
    this.#batch = [];
    this.#waitingEvents = 0;
  }

  /** Lets the run go, and waits until it has closed what it had open. */
  async #leave(): Promise<void> {
    this.#letGo();
    this.#release();
    // Also one that nobody has read from: what it came to is then a run that was cancelled before it began.
    const running = this.#start();
    running.stop();
    await running.result.then(
      () => undefined,
      () => undefined,
    );
    this.#ended = null;
    for (const reader of this.#readers.splice(0)) reader.resolve(done);
  }
}

type Reader = {
  readonly resolve: (result: IteratorResult<TurnEvent, undefined>) => void;
  readonly reject: (reason: unknown) => void;
};
