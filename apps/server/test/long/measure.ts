// The control messages of a server under test: measure its cost, and open the gate of its streams.

import { openGate } from "./paced-model.ts";

/** Memory in bytes, CPU time in microseconds, and the number of open connections. */
export type Measured = {
  readonly rss: number;
  readonly heap: number;
  readonly cpu: number;
  readonly connections: number;
};

type ServerRequest =
  | { readonly type: "measure" }
  /** Runs the garbage collector first, which blocks the process for a moment. */
  | { readonly type: "measure_collected" }
  | { readonly type: "open_gate" };

export function serveControlMessages(): void {
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
