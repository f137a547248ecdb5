// The return value of streaming verbs: an async iterable of events, and the result of the run.
//
// Theory of operation
//   The run starts lazily, with the first event or the result that is requested (R4). Producers (performers and
//   commits) push batches of events with `emit`, the reader takes single events with `next`. Batches are queued as they
//   are, without copying.
//
//   Backpressure: if a reader has more than `highWater` unread events, `emit` returns a promise that resolves when half
//   of them are read. The run awaits it, so a slow reader slows the model stream down. It does not apply when the
//   result was requested (`#isResultRequested`): awaiting the result without reading would deadlock.
//
//   A caller that only asks for the result never reads events. Until it is known whether events are read, up to
//   `highWater` of them are kept; beyond that they are dropped, and a later attempt to iterate throws.
//
// Invariants
//   1. The run is started at most once and its events can be iterated once.
//   2. Leaving the iteration (`return`) stops the run once and waits until its resources are closed (R4).
//   3. A failed run rejects one `next`; after that the iterator is done.
//   4. The filter `wanted` affects what a reader receives and never the result (R3).

import type { TurnEvent } from "../model/internal.ts";

import { invalidArgument } from "../model/internal.ts";

/** Where a run emits its events. */
export type Outlet = {
  /** Emits events. A returned promise is backpressure: it resolves when enough of them have been read. */
  readonly emit: (events: readonly TurnEvent[]) => void | Promise<void>;
};

/** A started run: its result, and a function that ends it early. */
export type Running<Result> = { readonly result: Promise<Result>; readonly stop: () => void };

/** The number of unread events at which the run waits for its reader. */
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
  /** The batch that is being read, and the index of its next event. */
  #batch: readonly TurnEvent[] = [];
  #index = 0;
  /** Batches after `#batch`. The first `#handedOut` of them have been read already. */
  #queue: (readonly TurnEvent[])[] = [];
  #handedOut = 0;
  #unreadEvents = 0;
  /** Calls of `next` that wait for an event. */
  readonly #readers: Reader[] = [];
  /** Producers that wait for the reader (backpressure). */
  #blockedProducers: (() => void)[] = [];
  /** The result was requested: producers no longer wait for the reader. */
  #isResultRequested = false;
  /**
   * `undefined`: the run goes on; `null`: it ended; otherwise it failed, and the error was not reported to a reader
   * yet.
   */
  #ended: { readonly error: unknown } | null | undefined;
  /** Whether events are read. `no`: they were dropped. */
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

  /** The result of the run. Requesting it starts the run; events that are not read are dropped. */
  get result(): Promise<Result> {
    this.#isResultRequested = true;
    this.#release();
    return this.#start().result;
  }

  /** The text of the answer, or of a cancelled run the text that was received. */
  get text(): Promise<string> {
    return this.result.then(this.#textOf);
  }

  /** This stream with another result. Use one of the two streams, because each starts a run. */
  map<Other>(take: (result: Result) => Other): TurnStream<Other> {
    let text = "";
    const begin = (outlet: Outlet): Running<Other> => {
      const { result, stop } = this.#begin(outlet);
      const mapped = result.then((value) => {
        text = this.#textOf(value);
        return take(value);
      });
      return { result: mapped, stop };
    };
    return new TurnStream(begin, () => text, this.#wanted);
  }

  /**
   * Iterates the events. Throws `MisuseError` the second time, and if events were dropped because only the result was
   * requested.
   */
  [Symbol.asyncIterator](): AsyncIterator<TurnEvent, undefined> {
    if (this.#reading !== "undecided") {
      const why =
        this.#reading === "yes"
          ? "it can be iterated only once"
          : "only its result was requested, and its events were dropped";
      throw invalidArgument(`this stream of events cannot be iterated: ${why}`);
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
    const running = this.#begin({ emit: (events) => this.#emit(events) });
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

  /** Rejects for the error of a failed run; the next call finds the stream ended. */
  #rejectOnce(error: unknown): Promise<never> {
    this.#ended = null;
    return Promise.reject(error);
  }

  #take(): TurnEvent | undefined {
    if (this.#index >= this.#batch.length) {
      this.#batch = this.#queue[this.#handedOut] ?? [];
      this.#index = 0;
      this.#handedOut += 1;
      // Read batches are removed now and then, not one by one: `shift` on a long array is linear, so reading would be
      // quadratic.
      if (this.#handedOut > 1024 || this.#handedOut > this.#queue.length) {
        this.#queue = this.#queue.slice(this.#handedOut);
        this.#handedOut = 0;
      }
    }
    const event = this.#batch[this.#index];
    if (event === undefined) return undefined;
    this.#index += 1;
    this.#unreadEvents -= 1;
    if (this.#unreadEvents < highWater / 2) this.#release();
    return event;
  }

  /** Queues events and hands them to waiting readers. Returns a promise if the reader is too slow. */
  #emit(emitted: readonly TurnEvent[]): void | Promise<void> {
    const wanted = this.#wanted;
    const events = wanted === null || emitted.every(wanted) ? emitted : emitted.filter(wanted);
    if (events.length === 0 || this.#reading === "no" || this.#ended !== undefined) return;
    if (this.#reading === "undecided" && this.#unreadEvents + events.length > highWater) return this.#dropEvents();
    this.#queue.push(events);
    this.#unreadEvents += events.length;
    while (this.#readers.length > 0) {
      const event = this.#take();
      if (event === undefined) break;
      this.#readers.shift()?.resolve({ done: false, value: event });
    }
    if (this.#unreadEvents < highWater || this.#reading !== "yes" || this.#isResultRequested) return;
    return new Promise((resolve) => this.#blockedProducers.push(resolve));
  }

  /** Resumes the producers that wait for the reader. */
  #release(): void {
    const producers = this.#blockedProducers;
    this.#blockedProducers = [];
    for (const resume of producers) resume();
  }

  #end(failure: { readonly error: unknown } | null): void {
    this.#ended ??= failure;
    this.#release();
    const [first, ...others] = this.#readers.splice(0);
    if (first === undefined) return;
    // The error of a failed run goes to one reader; the others, and later calls, find the stream ended.
    if (failure === null) first.resolve(done);
    else {
      this.#ended = null;
      first.reject(failure.error);
    }
    for (const reader of others) reader.resolve(done);
  }

  /** Drops the queued events and all later ones. */
  #dropEvents(): void {
    this.#reading = "no";
    this.#queue = [];
    this.#handedOut = 0;
    this.#batch = [];
    this.#unreadEvents = 0;
  }

  /** Stops the run and waits until it has closed its resources. */
  async #leave(): Promise<void> {
    this.#dropEvents();
    this.#release();
    // A run that was never started is started and stopped: its result is a run that was cancelled before its first
    // effect.
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

/** A call of `next` that waits. */
type Reader = {
  readonly resolve: (result: IteratorResult<TurnEvent, undefined>) => void;
  readonly reject: (reason: unknown) => void;
};
