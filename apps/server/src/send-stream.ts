// Writes an answer that is a stream to its socket: at the pace of whoever reads, and without a word on standard error when they leave or are let go.

import type { ServerResponse } from "node:http";

import { once } from "node:events";

/** Sends a stream to its end. When it fails, or whoever reads is gone, the connection is closed. */
export async function sendStream(
  answer: Response,
  body: ReadableStream<Uint8Array>,
  to: ServerResponse,
): Promise<void> {
  const reader = body.getReader();
  const leave = () => void reader.cancel().catch(() => undefined);
  // Whoever left before the answer began is not heard leaving any more.
  if (to.destroyed) return leave();
  to.once("close", leave);
  // Also while it waits for somebody who takes nothing any more.
  reader.closed.catch(() => to.destroy());
  to.writeHead(answer.status, Object.fromEntries(answer.headers));
  to.flushHeaders();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      if (!to.write(value)) await room(to);
    }
    to.end();
  } catch {
    leave();
    to.destroy();
  }
}

/** Waits until there is room again. Rejects when there never will be. */
async function room(to: ServerResponse): Promise<void> {
  if (to.destroyed) throw new Error("nobody is there any more");
  const left = new AbortController();
  const leave = () => left.abort();
  to.once("close", leave);
  try {
    await once(to, "drain", { signal: left.signal });
  } finally {
    to.off("close", leave);
  }
}
