// The worker of the sandbox: runs cells one after the other, each in an interpreter of its own. It runs as a worker
// thread (Node, Bun, Deno) and as a web worker (browsers). The pool terminates it at the deadline of a cell, so nothing
// here needs to be interruptible.

import type { CellReply, CellRequest } from "./cell-messages.ts";

import { systemClock } from "../../core/clock/clock.ts";
import { Deadline } from "../../core/clock/timer.ts";
import { toCause } from "../../core/model/internal.ts";
import { loadInterpreter } from "./interpreter.ts";
import { runCell } from "./sandbox.ts";

/** After this time without a cell the worker reports that it is idle, in milliseconds. */
const idleMs = 10_000;

type Port = {
  readonly post: (reply: CellReply) => void;
  readonly listen: (receive: (data: CellRequest) => void) => void;
};

/** The port to the pool: that of the worker thread, or the global scope of a web worker. */
function openPort(): Port {
  const thread = typeof process === "undefined" ? null : (process.getBuiltinModule?.("node:worker_threads") ?? null);
  const port = thread?.parentPort ?? null;
  if (port !== null)
    return { post: (reply) => port.postMessage(reply, []), listen: (receive) => port.on("message", receive) };
  return {
    post: (reply) => postMessage(reply),
    listen: (receive) => addEventListener("message", ({ data }: MessageEvent<CellRequest>) => receive(data)),
  };
}

const port = openPort();
const idle = new Deadline(systemClock, () => port.post({ type: "idle" }));

/** The nice value of the thread: about a third of the CPU share of a normal thread, if all cores are busy. */
const niceness = 5;

/**
 * Lowers the priority of this thread, so that cells that compute on all cores do not delay the event loop. Only on
 * Linux, where 0 is the calling thread; elsewhere it is the process.
 */
function lowerPriority(): void {
  if (typeof process === "undefined" || process.platform !== "linux") return;
  try {
    process.getBuiltinModule?.("node:os").setPriority(0, niceness);
  } catch {
    // Not permitted: cells have the priority of the process.
  }
}

lowerPriority();

// Not a top-level `await`: Vite bundles web workers as classic scripts by default, which have none.
async function start(): Promise<void> {
  try {
    const interpreter = await loadInterpreter();
    port.listen(async (request) => {
      idle.clear();
      const result = await runCell(interpreter, request);
      port.post({ type: "result", result });
      idle.set(systemClock.now() + idleMs);
    });
    port.post({ type: "ready" });
  } catch (error) {
    port.post({ type: "not_loaded", message: toCause(error)?.message ?? "" });
  }
}

void start();
