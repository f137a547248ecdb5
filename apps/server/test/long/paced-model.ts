// The model of the long tests: streams numbered words with timestamps at the pace that the user message sets. Between
// its replies it calls a tool that must not run twice. Model calls and tool runs are written to a side-effect log.

import type { Adapter, Engine, ModelRequest } from "everturn";
import type { ModelEvent } from "everturn/advanced";

import { closeSync, fsyncSync, openSync, readFileSync, writeSync } from "node:fs";

import { engine, tool, assistant, messageText } from "everturn";

/** The shape of a turn. It is the user message, as JSON. */
export type Pace = {
  /** Words of a reply. */
  readonly words: number;
  /** Length of a word. */
  readonly bytes: number;
  /** Delay between two words, in milliseconds. */
  readonly everyMs: number;
  /** Number of replies; the tool is called between them. */
  readonly replies: number;
  /** Whether the model waits after the first word until `openGate`. */
  readonly gated: boolean;
};

/** One side effect. */
export type Line = {
  readonly what: "model_began" | "tool_began";
  readonly turn: string;
  /** The effect within the turn: the number of messages sent, or the idempotency key of the call. */
  readonly effect: string;
};

/** Appends lines to a file; each is synced to the disk before the side effect. */
export class SideEffectLog {
  readonly #file: number;

  constructor(path: string) {
    this.#file = openSync(path, "a");
  }

  add(line: Line): void {
    writeSync(this.#file, `${JSON.stringify(line)}\n`);
    fsyncSync(this.#file);
  }

  close(): void {
    closeSync(this.#file);
  }
}

export function readLog(path: string): readonly Line[] {
  const lines = readFileSync(path, "utf8").split("\n");
  return lines.filter((line) => line !== "").map((line): Line => JSON.parse(line));
}

/** Microseconds of the monotonic clock, which all processes of a machine share. */
export function micros(): number {
  return Math.round(Number(process.hrtime.bigint()) / 1000);
}

export const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

let open: () => void = () => undefined;
const opened = new Promise<void>((resolve) => {
  open = resolve;
});

/** Releases the gated replies. */
export function openGate(): void {
  open();
}

/** Waits until the next word is due. */
export async function wordDue(index: number, { everyMs, gated }: Pace): Promise<void> {
  if (gated && index === 1) await opened;
  await pause(index <= 1 ? Math.random() * everyMs : everyMs);
}

/** A word: its number and the time at which it was sent. */
export function word(index: number, { bytes }: Pick<Pace, "bytes">): string {
  return `${`${index}@${micros()}`.padEnd(bytes - 1, ".")} `;
}

/** Matches the words in a text. */
export const words = /(\d+)@(\d+)\.* /g;

export function pacedAgent(log: SideEffectLog | null): Engine {
  const pay = tool({
    name: "pay",
    description: "Pays.",
    schema: { type: "object" },
    replay: "never",
    handler: async (_, { idempotencyKey, requestId }) => {
      log?.add({ what: "tool_began", turn: requestId, effect: idempotencyKey });
      return "paid";
    },
  });
  const adapter: Adapter = {
    provider: "paced",
    stream: (request, { requestId, signal }) => ({
      async *[Symbol.asyncIterator](): AsyncGenerator<readonly ModelEvent[]> {
        const pace = paceOf(request);
        log?.add({ what: "model_began", turn: requestId, effect: `${request.messages.length}` });
        yield [{ type: "message_started", message: assistant("") }];
        let text = "";
        for (let index = 0; index < pace.words; index += 1) {
          await wordDue(index, pace);
          signal.throwIfAborted();
          const delta = word(index, pace);
          text += delta;
          yield [{ type: "text_delta", id: null, delta }];
        }
        yield ending(request, text, pace);
      },
    }),
  };
  return engine({ adapter, model: "paced:m", tools: [pay], options: { maxTurns: 100 } });
}

function paceOf({ messages }: ModelRequest): Pace {
  const userMessage = messages.findLast(({ role }) => role === "user");
  return JSON.parse(userMessage === undefined ? "" : messageText(userMessage));
}

function ending(request: ModelRequest, text: string, { replies }: Pace): readonly ModelEvent[] {
  const done = request.messages.filter(({ role }) => role === "assistant").length + 1;
  const continues = done < replies;
  const id = `pay-${done}`;
  const call = { id, name: "pay", providerExecuted: false } as const;
  const calls: readonly ModelEvent[] = continues
    ? [
        { type: "tool_call_started", ...call },
        { type: "tool_call_completed", ...call, arguments: {}, rawArguments: "{}", provider: null, metadata: {} },
      ]
    : [];
  return [
    ...calls,
    {
      type: "message_completed",
      message: assistant(text),
      finishReason: continues ? "tool_calls" : "stop",
      rawFinishReason: null,
      requestId: null,
      responseId: null,
      model: "m",
      route: { provider: "paced", endpoint: "paced", model: "m" },
      output: null,
      metadata: {},
    },
  ];
}
