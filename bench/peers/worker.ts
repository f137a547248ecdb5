// One contender in one process. Its parent sends commands; each answer is what the command cost this process.

import type { Contender, Protocol } from "./scenario.ts";

import { EventEmitter, once } from "node:events";

import { finalDeltas, toolCalls } from "./scenario.ts";

export type Command =
  | { readonly type: "deltas"; readonly count: number; readonly times: number }
  | { readonly type: "loop"; readonly turns: number; readonly times: number }
  | { readonly type: "paced"; readonly streams: number; readonly count: number; readonly ms: number };

/**
 * `cpu`: milliseconds of CPU for one answer, for one turn of a loop, or microseconds for one delta of a paced stream.
 */
export type Cost = { readonly cpu: number; readonly lag?: number; readonly heap?: number };

const [, , library = "", protocol = "", baseURL = ""] = process.argv;

async function load(name: string, spoken: Protocol): Promise<Contender> {
  switch (name) {
    case "raw":
      return (await import("./raw.ts")).raw(spoken);
    case "everturn":
      return (await import("./everturn.ts")).everturn(spoken);
    default: {
      const file = new URL("libraries.mjs", import.meta.url).href;
      const libraries: { readonly [key: string]: (spoken: Protocol) => Contender } = await import(file);
      const make = libraries[name];
      if (make === undefined) throw new Error(`there is no contender ${name}`);
      return make(spoken);
    }
  }
}

function cpuMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
}

function isProtocol(text: string): text is Protocol {
  return text === "chat" || text === "responses" || text === "anthropic";
}

if (!isProtocol(protocol)) throw new Error(`there is no protocol ${protocol}`);
const contender = await load(library, protocol);

async function answers(count: number, times: number): Promise<void> {
  for (let time = 0; time < times; time += 1) {
    let received = 0;
    await contender.answer(baseURL, `deltas-${count}`, () => (received += 1));
    if (received !== count) throw new Error(`${library}: received ${received} of ${count} deltas`);
  }
}

async function loops(turns: number, times: number): Promise<void> {
  for (let time = 0; time < times; time += 1) {
    toolCalls.count = 0;
    let received = 0;
    await contender.loop(baseURL, `loop-${turns}`, turns + 5, () => (received += 1));
    if (toolCalls.count !== turns || received !== finalDeltas)
      throw new Error(`${library}: ${toolCalls.count} of ${turns} tool calls, ${received} deltas`);
  }
}

/** Many streams at once. All are open before the first delta is sent. */
async function paced(streams: number, count: number, ms: number): Promise<Cost> {
  for (let time = 0; time < 3; time += 1)
    await Promise.all(Array.from({ length: 10 }, () => contender.answer(baseURL, "deltas-200", () => undefined)));
  const heapBefore = await heapBytes();
  const total = streams * count;
  const lags = new Float64Array(total);
  // The first quarter warms up, and the ends of the streams are not part of the CPU time of a delta.
  const [first, last] = [Math.floor(total / 4), Math.floor(total * 0.95)];
  let [opened, received, firstCpu, lastCpu] = [0, 0, 0, 0];
  const events = new EventEmitter();
  const allOpened = once(events, "open");
  const onDelta = (text: string) => {
    if (text === "open") {
      opened += 1;
      if (opened === streams) events.emit("open");
      return;
    }
    lags[received] = Number(process.hrtime.bigint() / 1000n) - Number(text);
    received += 1;
    if (received === first) firstCpu = cpuMs();
    if (received === last) lastCpu = cpuMs();
  };
  const all = Promise.all(
    Array.from({ length: streams }, () => contender.answer(baseURL, `paced-${count}-${ms}`, onDelta)),
  );
  await Promise.race([all, allOpened]);
  const heap = ((await heapBytes()) - heapBefore) / streams / 1024;
  await fetch(new URL("/go", baseURL));
  await all;
  if (received !== total) throw new Error(`${library}: received ${received} of ${total} paced deltas`);
  const sorted = lags.subarray(first).toSorted();
  return {
    cpu: ((lastCpu - firstCpu) / (last - first)) * 1000,
    lag: (sorted[Math.floor(sorted.length * 0.99)] ?? 0) / 1000,
    heap,
  };
}

async function heapBytes(): Promise<number> {
  globalThis.gc?.();
  await new Promise((resolve) => setTimeout(resolve, 100));
  globalThis.gc?.();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

async function measured(warmUp: () => Promise<void>, work: () => Promise<void>, units: number): Promise<Cost> {
  await warmUp();
  const before = cpuMs();
  await work();
  return { cpu: (cpuMs() - before) / units };
}

async function execute(command: Command): Promise<Cost> {
  switch (command.type) {
    case "deltas": {
      const { count, times } = command;
      return measured(
        () => answers(2000, 1),
        () => answers(count, times),
        times,
      );
    }
    case "loop": {
      const { turns, times } = command;
      return measured(
        () => loops(10, 1),
        () => loops(turns, times),
        times * turns,
      );
    }
    case "paced":
      return paced(command.streams, command.count, command.ms);
  }
}

process.on("message", (command: Command) => {
  execute(command).then(
    (cost) => process.send?.({ cost }),
    (error: unknown) => process.send?.({ error: error instanceof Error ? error.stack : String(error) }),
  );
});
process.on("disconnect", () => process.exit(0));
process.send?.({});
