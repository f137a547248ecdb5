// The path of one message through the library: from `reply` to the first `text_delta` that the caller's iterator
// receives. The session has had a turn before, so that work that happens once in a process is not counted.

import type { CalledFunction, CallCounter } from "./call-counter.ts";
import type { StorageQuery as Query } from "everturn/advanced";
import type { HostStorage } from "everturn/runtime";

/** A phase of the path: the calls until the next read, write or request begins. */
export type Phase = {
  /** The read, write or request that the phase follows. */
  readonly after: string;
  readonly called: readonly CalledFunction[];
};

export type MessagePath = {
  readonly phases: readonly Phase[];
  readonly reads: readonly StorageCall[];
  readonly writes: readonly StorageCall[];
};

/** One call of the storage and its tables. */
export type StorageCall = readonly string[];

/** Measures the path. Loads the library dynamically, because the counter has to be started first. */
export async function walkMessage(counter: CallCounter): Promise<MessagePath> {
  const { engine, openai } = await import("everturn");
  const { memoryStorage } = await import("everturn/runtime");
  const { runtime } = await import("everturn/runtime");

  countRandomBytes();
  const recorder = new Recorder(counter);
  const gate = newGate();
  let holds = false;
  const fetch = async (): Promise<Response> => {
    recorder.mark("request to the model");
    return new Response(
      replyStream(holds ? gate.opened : Promise.resolve(), () => recorder.mark("first bytes")),
      {
        headers: { "content-type": "text/event-stream" },
      },
    );
  };
  const adapter = openai({ apiKey: "not-a-key", fetch });
  const agent = engine({ adapter, model: "gpt-5", instructions: "Be brief." });
  const sessions = runtime({ host: recorder.storage(memoryStorage()), engines: { default: agent } });
  await (
    await sessions.start("What is two plus two?", { id: "walk" })
  ).result;

  holds = true;
  recorder.begin();
  const turn = await sessions.reply("walk", "And once more?");
  for await (const { event } of turn.events) if (event.type === "text_delta") break;
  const path = recorder.end();
  gate.open();
  await turn.result;
  await sessions.close();
  return path;
}

/** Collects the calls at each mark, from `begin` to `end`. */
class Recorder {
  readonly #counter: CallCounter;
  readonly #phases: Phase[] = [];
  readonly #reads: StorageCall[] = [];
  readonly #writes: StorageCall[] = [];
  #after: string | null = null;

  constructor(counter: CallCounter) {
    this.#counter = counter;
  }

  begin(): void {
    this.#counter.take();
    this.#after = "reply() is called";
  }

  mark(what: string): void {
    if (this.#after === null) return;
    this.#phases.push({ after: this.#after, called: this.#counter.take() });
    this.#after = what;
  }

  end(): MessagePath {
    this.mark("");
    this.#after = null;
    return { phases: this.#phases, reads: this.#reads, writes: this.#writes };
  }

  /** Wraps the storage and records its calls. The functions of the storage are counted like all others. */
  storage(real: HostStorage): HostStorage {
    return {
      ...real,
      read: (queries) => {
        const named = queries.map(describeQuery);
        this.#record(this.#reads, `read ${named.join(", ")}`, named);
        return real.read(queries);
      },
      write: (batch) => {
        const put = tablesOf(batch.puts).map((table) => `put ${table}`);
        const removed = tablesOf(batch.removals).map((table) => `remove ${table}`);
        this.#record(this.#writes, `write of ${batch.puts.length} rows`, [...put, ...removed]);
        return real.write(batch);
      },
    };
  }

  #record(into: StorageCall[], what: string, named: StorageCall): void {
    if (this.#after === null) return;
    this.mark(what);
    into.push(named);
  }
}

/**
 * Makes random bytes count up. Ids of turns are made of them and are keys of rows, and how many keys a search compares
 * depends on their order; with counted ids every run counts the same calls.
 */
function countRandomBytes(): void {
  let drawn = 0;
  Object.defineProperty(crypto, "getRandomValues", {
    value: (bytes: Uint8Array): Uint8Array => {
      drawn += 1;
      return bytes.fill(0).fill(drawn, 0, 1);
    },
  });
}

function describeQuery({ table, limit }: Query): string {
  return limit === undefined ? table : `${table} (limit ${limit})`;
}

function tablesOf(rows: readonly { readonly table: string }[]): readonly string[] {
  return [...new Set(rows.map(({ table }) => table))];
}

type Gate = { readonly opened: Promise<void>; readonly open: () => void };

function newGate(): Gate {
  const waiting: (() => void)[] = [];
  const opened = new Promise<void>((resolve) => void waiting.push(resolve));
  return { opened, open: () => waiting.forEach((go) => go()) };
}

/**
 * A reply of the Responses API as server-sent events: up to its first text delta at once, the rest when `mayGoOn`
 * resolves.
 */
function replyStream(mayGoOn: Promise<void>, sending: () => void): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder();
  const bytes = (events: readonly ResponseEvent[]) =>
    encoder.encode(events.map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`).join(""));
  const beginning = replyEvents.findIndex(({ type }) => type === "response.output_text.delta") + 1;
  return new ReadableStream({
    start: async (controller) => {
      sending();
      controller.enqueue(bytes(replyEvents.slice(0, beginning)));
      await mayGoOn;
      controller.enqueue(bytes(replyEvents.slice(beginning)));
      controller.close();
    },
  });
}

type ResponseEvent = { readonly type: string; readonly [field: string]: unknown };

const place = { output_index: 0, item_id: "msg_1", content_index: 0 };
const whole = { type: "output_text", text: "Four, once more.", annotations: [] };
const message = { id: "msg_1", type: "message", role: "assistant" };
const answer = { id: "resp_1", object: "response", created_at: 1_790_000_000, model: "gpt-5" };
const spent = {
  input_tokens: 21,
  input_tokens_details: { cached_tokens: 0 },
  output_tokens: 7,
  output_tokens_details: { reasoning_tokens: 0 },
  total_tokens: 28,
};

const replyEvents: readonly ResponseEvent[] = [
  { type: "response.created", response: { ...answer, status: "in_progress", output: [], usage: null } },
  { type: "response.output_item.added", output_index: 0, item: { ...message, status: "in_progress", content: [] } },
  { type: "response.content_part.added", ...place, part: { ...whole, text: "" } },
  { type: "response.output_text.delta", ...place, delta: "Four, " },
  { type: "response.output_text.delta", ...place, delta: "once more." },
  { type: "response.output_text.done", ...place, text: whole.text },
  { type: "response.content_part.done", ...place, part: whole },
  { type: "response.output_item.done", output_index: 0, item: { ...message, status: "completed", content: [whole] } },
  {
    type: "response.completed",
    response: {
      ...answer,
      status: "completed",
      output: [{ ...message, status: "completed", content: [whole] }],
      usage: spent,
    },
  },
];
