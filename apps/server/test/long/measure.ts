// What a server of these tests is asked by whoever started it: what it has cost so far, and to let its streams go on.

import { openGate } from "./paced-model.ts";

/** Memory in bytes, time in microseconds, and how many connections are open. */
export type Measured = {
  readonly rss: number;
  readonly heap: number;
  readonly cpu: number;
  readonly connections: number;
};

type ServerRequest =
  | { readonly type: "measure" }
  /** What is no longer needed is collected first, which holds everything up for a moment. */
  | { readonly type: "measure_collected" }
  | { readonly type: "open_gate" };

export function answerAsked(): void {
  process.on("message", ({ id, ask }: { readonly id: number; readonly ask: ServerRequest }) => {
    process.send?.({ id, answer: answer(ask) });
  });
}

function answer({ type }: ServerRequest): Measured | null {
  switch (type) {
    case "open_gate":
      openGate();
      return null;
    case "measure_collected":
      globalThis.gc?.();
      return measure();
    case "measure":
      return measure();
  }
}

function measure(): Measured {
  const { user, system } = process.cpuUsage();
  const { rss, heapUsed } = process.memoryUsage();
  const connections = process.getActiveResourcesInfo().filter((name) => name === "TCPSocketWrap").length;
  return { rss, heap: heapUsed, cpu: user + system, connections };
}
