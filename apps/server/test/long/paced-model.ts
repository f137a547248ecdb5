// The model of the long tests: it says numbered words at a pace that the user's message asks for, and each word knows when it was said. Between its
// replies it has a tool run that must not run twice. What it does to the world outside is written to a log, if there is one.

import type { Adapter, Engine } from "everturn";
import type { ModelEvent, ModelRequest } from "everturn/model";

import { closeSync, fsyncSync, openSync, readFileSync, writeSync } from "node:fs";

import { engine, tool } from "everturn";
import { assistant, messageText } from "everturn/model";

/** What a turn is to be like. It is what the user says, as JSON. */
export type Pace = {
  /** How many words a reply has, how long each is, and how many milliseconds lie between two. */
  readonly words: number;
  readonly bytes: number;
  readonly everyMs: number;
  /** How many replies there are; the tool is run between them. */
  readonly replies: number;
  /** Nothing is said behind the first word before all are let go on together. */
  readonly gated: boolean;
};

/** Something that was done to the world outside. */
export type Line = {
  readonly what: "model_began" | "tool_began";
  readonly turn: string;
  /** Which effect of the turn: the length of the history that was sent, or the key of the call. */
  readonly effect: string;
};

/** A file of lines, each written as a whole and on the disk before anything follows. */
export class WorldLog {
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

/** Microseconds of a clock that all processes of a machine share. */
export function micros(): number {
  return Math.round(Number(process.hrtime.bigint()) / 1000);
}

export const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

let open: () => void = () => undefined;
const opened = new Promise<void>((resolve) => {
  open = resolve;
});

/** Lets those go on that wait behind their first word. */
export function openGate(): void {
  open();
}

/** Waits as long as it takes until the next word is due. */
export async function wordDue(index: number, { everyMs, gated }: Pace): Promise<void> {
  if (gated && index === 1) await opened;
  await pause(index <= 1 ? Math.random() * everyMs : everyMs);
}

/** A word: its number, and when it was said. */
export function word(index: number, { bytes }: Pick<Pace, "bytes">): string {
  return `${`${index}@${micros()}`.padEnd(bytes - 1, ".")} `;
}

/** The words in a text. */
export const words = /(\d+)@(\d+)\.* /g;

export function pacedAgent(log: WorldLog | null): Engine {
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
  const said = messages.findLast(({ role }) => role === "user");
  return JSON.parse(said === undefined ? "" : messageText(said));
}

function ending(request: ModelRequest, text: string, { replies }: Pace): readonly ModelEvent[] {
  const done = request.messages.filter(({ role }) => role === "assistant").length + 1;
  const goesOn = done < replies;
  const id = `pay-${done}`;
  const call = { id, name: "pay", providerExecuted: false } as const;
  const calls: readonly ModelEvent[] = goesOn
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
      finishReason: goesOn ? "tool_calls" : "stop",
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
