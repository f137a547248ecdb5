// Writes a streaming response to its socket with backpressure: the next chunk is read from the body only when the socket has room.
//
// Every end releases both sides: a client that disconnects cancels the body, a body that fails destroys the connection. Neither is logged,
// because both are ordinary events of a public server.

import type { ServerResponse } from "node:http";

import { once } from "node:events";

/** Sends a stream to its end. If the stream fails or the client disconnects, the connection is closed. Never rejects. */
export async function sendStream(
  response: Response,
  body: ReadableStream<Uint8Array>,
  outgoing: ServerResponse,
): Promise<void> {
  const reader = body.getReader();
  const cancel = () => void reader.cancel().catch(() => undefined);
  // A response that is already destroyed emits no further `close`.
  if (outgoing.destroyed) return cancel();
  outgoing.once("close", cancel);
  // Also while `waitForDrain` is pending: a body that fails then must not wait for a client that has stopped reading.
  reader.closed.catch(() => outgoing.destroy());
  outgoing.writeHead(response.status, Object.fromEntries(response.headers));
  // Sent before the first chunk: an event stream may have no event for a long time, and its client waits for the headers.
  outgoing.flushHeaders();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      if (!outgoing.write(value)) await waitForDrain(outgoing);
    }
    outgoing.end();
  } catch {
    cancel();
    outgoing.destroy();
  }
}

/** Waits for `drain`. Rejects if the connection closes first: `once` alone would wait for ever, because a closed socket emits no `drain`. */
async function waitForDrain(outgoing: ServerResponse): Promise<void> {
  if (outgoing.destroyed) throw new Error("the connection is closed");
  const closed = new AbortController();
  const onClose = () => closed.abort();
  outgoing.once("close", onClose);
  try {
    await once(outgoing, "drain", { signal: closed.signal });
  } finally {
    outgoing.off("close", onClose);
  }
}
