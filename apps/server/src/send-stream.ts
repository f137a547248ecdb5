// Writes a response to its socket with backpressure: the next chunk is read from the body only when the socket has
// room. A body of one chunk, as most bodies are, is sent with its length; a larger one with chunked transfer coding,
// because it is rendered as its client reads it.
//
// Every end releases both sides: a client that disconnects cancels the body, a body that fails destroys the connection.
// Neither is logged, because both are ordinary events of a public server.

import type { ServerResponse } from "node:http";

import { once } from "node:events";

/** Sends a body to its end. If the stream fails or the client disconnects, the connection is closed. Never rejects. */
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
  const headers = Object.fromEntries(response.headers);
  try {
    let chunks: readonly Uint8Array[] = [];
    if (isEventStream(response)) {
      outgoing.writeHead(response.status, headers);
      // Sent before the first chunk: an event stream may have no event for a long time, and its client waits for the
      // headers.
      outgoing.flushHeaders();
    } else {
      const first = await reader.read();
      const second = first.done ? first : await reader.read();
      if (second.done) {
        const bytes = first.value ?? new Uint8Array();
        outgoing.writeHead(response.status, { ...headers, "content-length": `${bytes.byteLength}` });
        outgoing.end(bytes);
        return;
      }
      outgoing.writeHead(response.status, headers);
      chunks = [first.value ?? new Uint8Array(), second.value];
    }
    for (;;) {
      for (const chunk of chunks) if (!outgoing.write(chunk)) await waitForDrain(outgoing);
      const { done, value } = await reader.read();
      if (done) break;
      chunks = [value];
    }
    outgoing.end();
  } catch {
    cancel();
    outgoing.destroy();
  }
}

export function isEventStream({ headers }: Response): boolean {
  return headers.get("content-type")?.startsWith("text/event-stream") === true;
}

/**
 * Waits for `drain`. Rejects if the connection closes first: `once` alone would wait for ever, because a closed socket
 * emits no `drain`.
 */
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
