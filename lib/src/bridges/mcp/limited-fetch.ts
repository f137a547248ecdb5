// Bounds the memory that a response of a server can take. The SDK reads a response, and an event of a stream,
// completely before it is parsed; without a limit a server could end this process with one endless message. The SDK has
// such a limit for stdio servers.

type Fetch = (url: string | URL, init?: RequestInit) => Promise<Response>;

/** The longest message of an HTTP server, in bytes. */
const maxMessageBytes = 32 * 1024 * 1024;

/**
 * The function with a limit on the body of a response, or, for a stream of events, on each event. A longer one fails
 * the read.
 */
export function limitedFetch(fetch: Fetch, maxBytes = maxMessageBytes): Fetch {
  return async (url, init) => {
    const response = await fetch(url, init);
    if (response.body === null) return response;
    const isStream = response.headers.get("content-type")?.includes("text/event-stream") === true;
    const { status, statusText, headers } = response;
    const body = response.body.pipeThrough(limitOf(maxBytes, isStream));
    return new Response(body, { status, statusText, headers });
  };
}

function limitOf(maxBytes: number, isStream: boolean): TransformStream<Uint8Array, Uint8Array> {
  let length = 0;
  let lineLength = 0;
  return new TransformStream<Uint8Array, Uint8Array>({
    transform(chunk, controller) {
      length += chunk.byteLength;
      let start = 0;
      for (let end = isStream ? chunk.indexOf(0x0a) : -1; end !== -1; end = chunk.indexOf(0x0a, start)) {
        const isBlank = lineLength + contentLength(chunk.subarray(start, end)) === 0;
        lineLength = 0;
        start = end + 1;
        // A blank line ends an event.
        if (isBlank) length = chunk.byteLength - start;
      }
      lineLength += contentLength(chunk.subarray(start));
      if (length <= maxBytes) controller.enqueue(chunk);
      else controller.error(new Error(`the server sent a message of more than ${maxBytes} bytes`));
    },
  });
}

/** The length of a line without the carriage return of its end. */
function contentLength(line: Uint8Array): number {
  return line.at(-1) === 0x0d ? line.byteLength - 1 : line.byteLength;
}
