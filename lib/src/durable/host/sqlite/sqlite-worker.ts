// The worker thread of the path form: opens the database and answers requests (`worker-messages.ts`). It ends after a
// `close` request. `RequestQueue` decides the order; this file has the port, the handle and the polling for other
// writers.

import type { LoadedDriver, OwnHandle } from "./driver.ts";
import type { OpenDatabase } from "./request-queue.ts";
import type { ThreadReply, ThreadRequest, ThreadOptions } from "./worker-messages.ts";

import { existsSync } from "node:fs";
import { closeSync, openSync } from "node:fs";
import { MessagePort, parentPort, receiveMessageOnPort, workerData } from "node:worker_threads";

import { systemClock } from "../../../core/clock/clock.ts";
import { RuntimeError } from "../../../core/model/internal.ts";
import { SqliteConnection } from "./connection.ts";
import { loadDriver } from "./driver.ts";
import { OtherWriters } from "./other-writers.ts";
import { lockSliceMs, RequestQueue } from "./request-queue.ts";
import { schemaVersion } from "./schema.ts";
import { sentError } from "./worker-messages.ts";

if (parentPort === null) throw new Error("this module runs in a worker thread");
const port = parentPort;
const options: ThreadOptions = workerData;
const { path, storage, busyMs } = options;
const clock = systemClock;

// Loaded before the first message is received, so that a request is handled in one synchronous block. A failure to load
// is reported to every request.
const driver: LoadedDriver | { readonly failed: unknown } = await loadDriver(options.driver).catch(
  (failed: unknown) => ({ failed }),
);
let open: (OpenDatabase & { readonly handle: OwnHandle }) | null = null;

/** The open database. Opens it on the first call, and again after a failure. */
function database(): OpenDatabase {
  if (open !== null) return open;
  if ("failed" in driver) throw driver.failed;
  // SQLite would create the file.
  if (options.readOnly && path !== ":memory:" && !existsSync(path)) throw missingFile(path);
  if (path !== ":memory:" && !options.readOnly) createPrivately(path);
  const handle = driver.open(path);
  try {
    const { tablePrefix, synchronous, readOnly, search } = options;
    const busyTimeoutMs = Math.min(busyMs, lockSliceMs);
    const connection = new SqliteConnection(handle, {
      storage,
      tablePrefix,
      synchronous,
      busyTimeoutMs,
      clock,
      readOnly,
      search,
    });
    open = { connection, driver: driver.name, schemaVersion, handle };
    return open;
  } catch (error) {
    handle.close();
    throw error;
  }
}

function missingFile(file: string): RuntimeError {
  return new RuntimeError("storage_failed", { message: `there is no file ${file}`, metadata: { storage } });
}

/**
 * Creates the file with mode 0600 if it does not exist, so that other users cannot read it at any time. SQLite accepts
 * an empty file as an empty database, and gives its WAL and shared-memory files the same mode. `wx` does not follow a
 * symbolic link. An error recurs when SQLite opens the file, and is reported there.
 */
function createPrivately(file: string): void {
  try {
    closeSync(openSync(file, "wx", 0o600));
  } catch {
    // The file exists, or cannot be created.
  }
}

/** `PRAGMA data_version`; `null`: the database is not open, and the request that opens it reports errors. */
function version(): number | null {
  try {
    return open?.connection.dataVersion() ?? null;
  } catch {
    return null;
  }
}

function post(reply: ThreadReply): void {
  port.postMessage(reply);
}

const queue = new RequestQueue({
  storage,
  busyMs,
  clock,
  database,
  receive,
  reply: (outcomes, transactions) => post({ type: "outcomes", outcomes, transactions }),
});
const others = new OtherWriters({ pollMs: options.pollMs, clock }, version, () => post({ type: "changed" }));
let endWatch: () => void = () => undefined;

function watch(): () => void {
  try {
    database();
  } catch {
    // The next request opens the database, or reports the error.
  }
  return others.watch();
}

function close(): void {
  endWatch();
  try {
    open?.connection.release();
    open?.handle.close();
    post({ type: "closed", error: null });
  } catch (error) {
    post({ type: "closed", error: sentError(error, options) });
  }
  if (port instanceof MessagePort) port.close();
  else endDenoWorker();
}

/** In Deno, `parentPort` has no `close`; a worker ends itself by its global function of that name. */
function endDenoWorker(): void {
  const end: unknown = Reflect.get(globalThis, "close");
  if (typeof end === "function") end();
}

function handle(request: ThreadRequest): void {
  if (request.type === "close") close();
  else if (request.type === "watch") {
    endWatch();
    endWatch = request.on ? watch() : () => undefined;
  } else queue.add(request);
}

/**
 * Adds all messages that have arrived to the queue, without returning to the event loop. The next transaction then
 * contains all writes among them (group commit, `request-queue.ts`). Deno's `parentPort` is not a MessagePort, so a
 * transaction has the writes of one message there.
 */
function receive(): void {
  if (!(port instanceof MessagePort)) return;
  for (;;) {
    const received: { readonly message: ThreadRequest } | undefined = receiveMessageOnPort(port);
    if (received === undefined) return;
    handle(received.message);
  }
}

port.on("message", (request: ThreadRequest) => {
  handle(request);
  queue.run();
});
