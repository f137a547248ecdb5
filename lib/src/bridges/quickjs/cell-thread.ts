// Starts a worker on the platform at hand: a worker thread (Node, Bun, Deno) or a web worker (browsers).

import type { CellReply, CellRequest } from "./cell-messages.ts";
import type * as workerThreadsModule from "node:worker_threads";

/** A worker as the pool sees it. */
export type CellThread = {
  readonly run: (request: CellRequest) => void;
  /** Ends the worker, whatever it executes. Resolves when it has ended. */
  readonly terminate: () => Promise<void>;
  /** Whether the worker keeps the process alive. */
  readonly hold: (busy: boolean) => void;
};

/** The end of a worker that was not terminated. `outOfMemory`: the platform ended it because its heap was full. */
export type ThreadEnd = { readonly outOfMemory: boolean; readonly message: string };

/** What a worker reports. */
export type ThreadListener = {
  readonly replied: (reply: CellReply) => void;
  readonly ended: (end: ThreadEnd) => void;
};

type WorkerThreads = Pick<typeof workerThreadsModule, "Worker">;

type WebWorker = {
  readonly postMessage: (message: CellRequest, transfer: []) => void;
  readonly terminate: () => void;
  readonly addEventListener: {
    (type: "message", listener: (event: { readonly data: CellReply }) => void): void;
    (type: "error", listener: (event: { readonly message: string }) => void): void;
  };
};

// The global of browsers. The types of Node do not declare it.
declare const Worker: new (url: URL, options: { readonly type: "module"; readonly name: string }) => WebWorker;

// The heap of a worker thread, in MB. Memory of the interpreter is not part of it: it holds copies of JSON texts, whose
// length the sandbox limits.
const heapMb = 256;

// A preset stack size, so that the depth at which source code is too deeply nested does not depend on the platform's
// default.
const stackMb = 4;

/**
 * Starts a worker. `url`: the worker's file; `null`: the file beside this one. Throws if the platform has no workers.
 * The worker thread has no access to environment variables, and modules that the process preloads are not loaded into
 * it.
 */
export function startThread(url: URL | null, listener: ThreadListener): CellThread {
  const threads = workerThreads();
  if (threads !== null) return startWorkerThread(threads, url ?? threadFile(), listener);
  if (typeof Worker === "undefined") throw new Error("this platform has no workers");
  return startWebWorker(url, listener);
}

/** Node's worker threads; `null` on other platforms. An import of `node:worker_threads` would fail to load there. */
function workerThreads(): WorkerThreads | null {
  if (typeof process === "undefined") return null;
  return process.getBuiltinModule?.("node:worker_threads") ?? null;
}

/**
 * The file of the worker thread. If the sources run without a build, it is a file that registers a TypeScript loader
 * first; with `EVERTURN_BUILT_WORKER=1` it is the built worker, which starts five times as fast. The tests set it: they
 * build the packages first.
 */
function threadFile(): URL {
  const here = import.meta.url;
  // The names are not literals inside `new URL`, because bundlers would add the files to the bundle of a browser.
  const files = {
    built: "./cell-worker.js",
    source: "./cell-worker-source.mjs",
    dist: "../../../dist/",
  };
  if (!here.endsWith(".ts")) return new URL(files.built, here);
  if (process.env["EVERTURN_BUILT_WORKER"] === "1") return new URL(`${files.dist}${files.built}`, here);
  return new URL(files.source, here);
}

function startWorkerThread({ Worker }: WorkerThreads, url: URL, listener: ThreadListener): CellThread {
  const worker = new Worker(url, {
    name: "everturn-quickjs",
    execArgv: [],
    env: {},
    resourceLimits: { maxOldGenerationSizeMb: heapMb, stackSizeMb: stackMb },
  });
  worker.on("message", listener.replied);
  worker.on("error", (error: Error & { readonly code?: string }) => {
    listener.ended({ outOfMemory: error.code === "ERR_WORKER_OUT_OF_MEMORY", message: error.message });
  });
  worker.on("exit", (code) =>
    listener.ended({ outOfMemory: false, message: `the worker ended with exit code ${code}` }),
  );
  return {
    run: (request) => worker.postMessage(request, []),
    terminate: async () => void (await worker.terminate()),
    hold: (busy) => (busy ? worker.ref() : worker.unref()),
  };
}

function startWebWorker(url: URL | null, listener: ThreadListener): CellThread {
  // Bundlers for browsers recognise `new Worker(new URL(…))` with literals, and add the worker and its imports to the
  // bundle.
  const worker =
    url === null
      ? new Worker(new URL("./cell-worker.js", import.meta.url), { type: "module", name: "everturn-quickjs" })
      : new Worker(url, { type: "module", name: "everturn-quickjs" });
  worker.addEventListener("message", ({ data }) => listener.replied(data));
  worker.addEventListener("error", ({ message }) => listener.ended({ outOfMemory: false, message }));
  return {
    run: (request) => worker.postMessage(request, []),
    terminate: async () => worker.terminate(),
    hold: () => undefined,
  };
}
