// A model that a test controls: each call waits until the test emits text, ends the reply, or fails it.

import type { Adapter, ModelRequest } from "everturn";
import type { ModelEvent } from "everturn/advanced";

import { assistant } from "everturn";
import { adapterFailure } from "everturn/advanced";

/** One model call, controlled by the test. */
export type HandCall = {
  readonly request: ModelRequest;
  /** Aborted when the caller stops reading. */
  readonly signal: AbortSignal;
  /** Emits text. Resolves when the reader has taken it. */
  readonly say: (text: string) => Promise<void>;
  /** Emits reasoning text. */
  readonly think: (text: string) => Promise<void>;
  /** Ends the reply. */
  readonly finish: () => void;
  /** Ends the reply with a tool call. */
  readonly callTool: (name: string) => void;
  /** Fails the reply with `provider_unavailable`, as an overloaded provider does. */
  readonly fail: () => void;
};

export type HandModel = Adapter & {
  /** Resolves with the n-th call, counted from 1, once it is made. */
  readonly call: (n: number) => Promise<HandCall>;
  readonly calls: number;
};

/** Events that wait to be read. `taken` is called when the reader has taken them. */
type QueuedEvents = { readonly events: readonly ModelEvent[]; readonly last: boolean; readonly taken: () => void };

export function handModel(): HandModel {
  const calls: HandCall[] = [];
  const waiting = new Map<number, ((call: HandCall) => void)[]>();
  return {
    provider: "hand",
    get calls() {
      return calls.length;
    },
    call: (n) => {
      const call = calls[n - 1];
      if (call !== undefined) return Promise.resolve(call);
      return new Promise((resolve) => waiting.set(n, [...(waiting.get(n) ?? []), resolve]));
    },
    stream: (request, { signal }) => ({
      async *[Symbol.asyncIterator]() {
        const queue = new ReplyQueue(request, signal);
        calls.push(queue.call);
        for (const resolve of waiting.get(calls.length) ?? []) resolve(queue.call);
        try {
          yield [{ type: "message_started", message: assistant("") }];
          for (;;) {
            const { events, last, taken } = await queue.next();
            yield events;
            taken();
            if (last) return;
          }
        } finally {
          queue.close();
        }
      },
    }),
  };
}

/** The events of one reply, queued by the test and read by the adapter's stream. */
class ReplyQueue {
  readonly call: HandCall;
  readonly #queued: QueuedEvents[] = [];
  #wake: (() => void) | null = null;
  #text = "";
  #calls = 0;

  constructor(request: ModelRequest, signal: AbortSignal) {
    signal.addEventListener("abort", this.#onAbort, { once: true });
    this.call = {
      request,
      signal,
      say: (text) => {
        this.#text += text;
        return this.#push([{ type: "text_delta", id: null, delta: text }], false);
      },
      think: (text) => this.#push([{ type: "reasoning_delta", id: "thought", delta: text }], false),
      finish: () => void this.#push([this.#end("stop")], true),
      callTool: (name) => {
        const call = { id: `c${this.#calls}`, name, arguments: {}, rawArguments: "{}", provider: null, metadata: {} };
        this.#calls += 1;
        const started = { type: "tool_call_started", id: call.id, name, providerExecuted: false } as const;
        const completed = { type: "tool_call_completed", ...call, providerExecuted: false } as const;
        void this.#push([started, completed, this.#end("tool_calls")], true);
      },
      fail: () =>
        void this.#push([{ type: "error", error: adapterFailure("provider_unavailable", { provider: "hand" }) }], true),
    };
  }

  /** Removes the abort listener: all calls of a turn get the same signal. */
  close(): void {
    this.call.signal.removeEventListener("abort", this.#onAbort);
  }

  readonly #onAbort = (): void => this.#wake?.();

  async next(): Promise<QueuedEvents> {
    for (;;) {
      this.call.signal.throwIfAborted();
      const queued = this.#queued.shift();
      if (queued !== undefined) return queued;
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }

  #push(events: readonly ModelEvent[], last: boolean): Promise<void> {
    return new Promise((taken) => {
      this.#queued.push({ events, last, taken });
      this.#wake?.();
    });
  }

  #end(finishReason: "stop" | "tool_calls"): ModelEvent {
    return {
      type: "message_completed",
      message: assistant(this.#text),
      finishReason,
      rawFinishReason: null,
      requestId: null,
      responseId: null,
      model: "m",
      route: { provider: "hand", endpoint: "hand", model: "m" },
      output: null,
      metadata: {},
    };
  }
}
