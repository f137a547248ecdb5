// Long turns for tests: an engine whose turn takes a given number of model calls, a turn to recover, and the heap in
// use.

import type { Engine } from "everturn";
import type { ModelEvent } from "everturn/advanced";
import type { HostStorage } from "everturn/runtime";

import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

import { engine, tool, assistant } from "everturn";
import { memoryStorage, runtime } from "everturn/runtime";

/**
 * Each model call but the last one calls a tool, which returns a short text. What the model replies depends on the
 * request alone, so a turn that was recovered continues where it stopped. `atCall` is awaited before the reply to model
 * call `n`, counted from 1.
 */
export function loopingEngine(steps: number, atCall: (n: number) => void | Promise<void> = () => undefined): Engine {
  const note = tool({
    name: "note",
    description: "Keeps a note.",
    schema: { type: "object" },
    replay: "safe",
    handler: () => "kept",
  });
  return engine({
    adapter: {
      provider: "looping",
      stream: ({ messages }) => ({
        async *[Symbol.asyncIterator]() {
          // A user message, then a reply and a result for each step.
          const n = (messages.length - 1) / 2 + 1;
          await atCall(n);
          yield replyEvents(n, n >= steps);
        },
      }),
    },
    model: "looping:m",
    tools: [note],
    options: { maxTurns: steps },
  });
}

function replyEvents(n: number, isLast: boolean): readonly ModelEvent[] {
  const call = { id: `call-${n}`, name: "note", arguments: { n }, rawArguments: `{"n":${n}}` };
  const called: ModelEvent = {
    type: "tool_call_completed",
    ...call,
    provider: null,
    metadata: {},
    providerExecuted: false,
  };
  const said: ModelEvent = { type: "text_delta", id: null, delta: "done" };
  return [
    { type: "message_started", message: assistant("") },
    isLast ? said : called,
    {
      type: "message_completed",
      message: assistant(isLast ? "done" : ""),
      finishReason: isLast ? "stop" : "tool_calls",
      rawFinishReason: null,
      requestId: null,
      responseId: null,
      model: "m",
      route: null,
      output: null,
      metadata: {},
    },
  ];
}

/**
 * A storage with an open turn that has completed `steps` steps, as a process leaves it that stops during the next model
 * call. The session is `s`.
 */
export async function interruptedTurn(steps: number): Promise<HostStorage> {
  const storage = memoryStorage();
  await new Promise<void>((stopped) => {
    const engine = loopingEngine(steps + 2, (n) => {
      if (n <= steps) return;
      stopped(sessions.close({ graceMs: 0 }));
      return new Promise(() => undefined);
    });
    const sessions = runtime({ host: storage, engines: { default: engine } });
    void sessions.start("go", { id: "s" });
  });
  return storage;
}

setFlagsFromString("--expose-gc");
const collectGarbage: () => void = runInNewContext("gc");

/** Bytes of the heap in use after a full garbage collection. */
export function heapInUse(): number {
  collectGarbage();
  return process.memoryUsage().heapUsed;
}

/**
 * Bytes of the heap in use once garbage collection frees no more: timers of earlier work, which run between two
 * collections, can release what that work retained.
 */
export async function settledHeap(): Promise<number> {
  const [small, passes] = [10_000, 5];
  let least = heapInUse();
  for (let unchanged = 0; unchanged < passes;) {
    await new Promise((resolve) => setTimeout(resolve, 5));
    const heap = heapInUse();
    unchanged = least - heap < small ? unchanged + 1 : 0;
    least = Math.min(least, heap);
  }
  return least;
}
