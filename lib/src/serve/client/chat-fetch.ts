// A `fetch` for the AI SDK's chat transport that makes `stop()` cancel the turn.
//
// Theory of operation
//   `stop()` of the SDK aborts the request. The server cannot tell that from a lost connection, after which the turn
//   must continue. So an abort is translated: this `fetch` posts to `<api>/<chat>/stop`, and then closes the
//   connection.
//
// Invariants
//   1. A request that was sent is not aborted before its response has begun. The server may have accepted the turn, and
//      a turn that is accepted after the `stop` request would not be cancelled. The caller is rejected at once; the
//      `stop` request follows the response.
//   2. The next request of the chat waits for the response to `stop`, because the server rejects a message while a turn
//      is running.
//   3. A failed `stop` request is not reported: the SDK has ended its request and has no reader for an error. The turn
//      then continues, as after a disconnect.

/**
 * Returns a `fetch` for `DefaultChatTransport` of the AI SDK with which `stop()` cancels the open turn. Without it
 * `stop()` only closes the connection, and the turn continues. `fetch` sends the requests; default: the global one at
 * the time of the request.
 *
 * @example
 * ```ts
 * import { chatFetch } from "everturn/client";
 *
 * const transportOptions = { api: "/ui/chat", fetch: chatFetch() };
 * typeof transportOptions.fetch; // => "function"
 * ```
 */
export function chatFetch({
  fetch: givenFetch,
}: { readonly fetch?: typeof globalThis.fetch } = {}): typeof globalThis.fetch {
  const send: typeof globalThis.fetch = (input, init) => (givenFetch ?? globalThis.fetch)(input, init);
  /** Resolves when the newest `stop` request of a chat was answered, by the URL of that request. */
  const stops = new Map<string, Promise<void>>();

  async function stop(url: string, turnId: string, init: RequestInit): Promise<void> {
    const headers = new Headers(init.headers);
    headers.set("content-type", "application/json");
    const body = JSON.stringify({ turnId: decodeURIComponent(turnId) });
    const { credentials } = init;
    try {
      await send(url, { method: "POST", headers, body, ...(credentials === undefined ? {} : { credentials }) });
    } catch {
      // The server cannot be reached (invariant 3).
    }
  }

  return async (input, init = {}) => {
    const signal = init.signal ?? null;
    const stopUrl = stopUrlOf(input, init);
    if (signal === null || stopUrl === null) return send(input, init);
    await stops.get(stopUrl);
    signal.throwIfAborted();
    const connection = new AbortController();
    const responding = send(input, { ...init, signal: connection.signal });
    const stopAndClose = async (): Promise<void> => {
      const response = await responding.catch(() => null);
      const turnId = response?.headers.get("everturn-turn") ?? null;
      if (turnId !== null) await stop(stopUrl, turnId, init);
      connection.abort(signal.reason);
    };
    return new Promise((resolve, reject) => {
      const onAbort = () => {
        reject(signal.reason);
        const stopping = stopAndClose().finally(() => {
          if (stops.get(stopUrl) === stopping) stops.delete(stopUrl);
        });
        stops.set(stopUrl, stopping);
      };
      signal.addEventListener("abort", onAbort, { once: true });
      responding.then(resolve, reject);
    });
  };
}

/**
 * The URL that stops the turn of a request: `<api>/<chat>/stop`; `null` if the request is not one of the chat
 * transport.
 */
function stopUrlOf(
  input: Parameters<typeof globalThis.fetch>[0],
  { method = "GET", body }: RequestInit,
): string | null {
  if (typeof input !== "string" && !(input instanceof URL)) return null;
  const [path = "", ...query] = String(input).split("?");
  const suffix = query.length === 0 ? "" : `?${query.join("?")}`;
  if (method === "GET") return path.endsWith("/stream") ? `${path.slice(0, -"stream".length)}stop${suffix}` : null;
  const chatId = typeof body === "string" ? chatIdIn(body) : null;
  return chatId === null ? null : `${path}/${encodeURIComponent(chatId)}/stop${suffix}`;
}

/** The chat id in the JSON body of a post. */
function chatIdIn(body: string): string | null {
  try {
    const parsed: unknown = JSON.parse(body);
    const id = typeof parsed === "object" && parsed !== null && "id" in parsed ? parsed.id : null;
    return typeof id === "string" ? id : null;
  } catch {
    return null;
  }
}
