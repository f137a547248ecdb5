// How the transport (transport.ts) reaches the network: one interface, and two implementations of it.
//
//   fetchClient        any function with the signature of `fetch`. The portable one, and the one for a `fetch` that the
//                      program passes or has put in place of the global one
//   dispatcherClient   on Node: the dispatcher of the platform's own `fetch`, without the `Response` and the web stream
//                      around it
//
// Theory of operation of `dispatcherClient`
//   Node's `fetch` is undici. It sends every request through the global dispatcher, the value of
//   `Symbol.for("undici.globalDispatcher.1")` on `globalThis`. That symbol is also the contract between Node and the
//   package `undici`: `setGlobalDispatcher` of the package replaces its value and so affects the platform's `fetch`.
//   `dispatch` takes a request and a handler with `onConnect`, `onHeaders`, `onData`, `onComplete` and `onError`. So
//   connections, keep-alive, TLS, proxies (`NODE_USE_ENV_PROXY`, `ProxyAgent`), mocks (`MockAgent`) and the diagnostics
//   channels are those of `fetch`. The web stream of a response costs more than the request itself
//   (docs/decisions/0067).
//
//   It is not used, and `fetch` is called, wherever one of its conditions does not hold: the program passes a `fetch`;
//   the global `fetch` is not the one of Node (replaced by the program or a framework, another platform); there is no
//   dispatcher yet, which is so before the first use of `fetch` in a process.
//
// Invariants
//   1. Both clients reject before the headers, and `read` rejects after them, when the signal is aborted or the
//      connection breaks.
//   2. Neither follows a redirect.
//   3. Backpressure: when more than `highWater` bytes are unread, the socket is paused.
//   4. `cancel` closes the connection, unless the body is complete: then the connection is used again.
//   5. The bytes of a body are decoded: the dispatcher asks for no content coding, but a server may use one.

/**
 * The part of `fetch` that the transport uses. An implementation should honour `init.signal` and `redirect: "manual"`.
 */
export type FetchLike = (url: string, init: RequestInit) => Promise<Response>;

/** A request, as the transport sends it. */
export type HttpRequest = {
  readonly method: "GET" | "POST";
  readonly url: string;
  readonly headers: { readonly [name: string]: string };
  /** `null`: a request without a body. */
  readonly body: string | null;
  readonly signal: AbortSignal;
};

/** The headers of a response. Names are in lower case. */
export type ResponseHeaders = Iterable<readonly [string, string]> & {
  readonly get: (name: string) => string | null;
};

/** The body of a response. Reads of `fetch` and of the dispatcher return all bytes that have arrived. */
export type BodyReader = {
  readonly read: () => Promise<{ readonly done: boolean; readonly value?: Uint8Array | undefined }>;
  readonly cancel: () => Promise<unknown>;
};

/** A response whose headers have arrived. `body` is single use; `null`: there is none. */
export type HttpResponse = {
  readonly status: number;
  readonly headers: ResponseHeaders;
  readonly body: () => BodyReader | null;
};

/** Sends a request. Resolves when the headers of the response have arrived. */
export type HttpClient = (request: HttpRequest) => Promise<HttpResponse>;

/** The client for the option `fetch` of an adapter; `undefined`: the one of the platform. */
export function httpClient(ownFetch: FetchLike | undefined): HttpClient {
  if (ownFetch !== undefined) return fetchClient(ownFetch);
  return (request) => {
    const dispatcher = platformDispatcher();
    return dispatcher === null ? viaFetch(fetch, request) : viaDispatcher(dispatcher, request);
  };
}

/** Sends requests with a function like `fetch`. */
export function fetchClient(send: FetchLike): HttpClient {
  return (request) => viaFetch(send, request);
}

async function viaFetch(send: FetchLike, { url, method, headers, body, signal }: HttpRequest): Promise<HttpResponse> {
  const response = await send(url, { method, headers: { ...headers }, body, signal, redirect: "manual" });
  return {
    status: response.status,
    headers: response.headers,
    body: () => response.body?.getReader() ?? null,
  };
}

/** The dispatchers of undici 6 and 7, which Node 20 to 24 contain. */
type Dispatcher = {
  readonly dispatch: (
    request: {
      readonly origin: string;
      readonly path: string;
      readonly method: string;
      readonly headers: { readonly [name: string]: string };
      readonly body: string | null;
    },
    handler: DispatchHandler,
  ) => unknown;
};

/** What a dispatcher calls. `onHeaders` and `onData` return whether it should go on reading from the socket. */
type DispatchHandler = {
  readonly onConnect: (abort: (reason: unknown) => void) => void;
  readonly onHeaders: (status: number, headers: readonly Uint8Array[], resume: () => void) => boolean;
  readonly onData: (chunk: Uint8Array) => boolean;
  readonly onComplete: () => void;
  readonly onError: (error: unknown) => void;
};

const dispatcherKey = Symbol.for("undici.globalDispatcher.1");

/** The last global `fetch` that was seen, and whether it is the one of Node. */
let seenFetch: unknown = null;
let isNodeFetch = false;

/** The dispatcher of the platform's `fetch`; `null`: `fetch` must be called. */
function platformDispatcher(): Dispatcher | null {
  const platform: { readonly fetch?: unknown; readonly [dispatcherKey]?: unknown } = globalThis;
  if (platform.fetch !== seenFetch) {
    seenFetch = platform.fetch;
    // The source text of the function of Node 20 to 24. Any other `fetch` is called.
    isNodeFetch =
      typeof seenFetch === "function" && Function.prototype.toString.call(seenFetch).includes(nodeFetchSource);
  }
  const dispatcher = platform[dispatcherKey];
  return isNodeFetch && isDispatcher(dispatcher) ? dispatcher : null;
}

const nodeFetchSource = "require('internal/deps/undici/undici')";

function isDispatcher(value: unknown): value is Dispatcher {
  return typeof value === "object" && value !== null && "dispatch" in value && typeof value.dispatch === "function";
}

/** The headers that `fetch` adds and that servers may expect. */
const addedHeaders = { "accept-encoding": "identity", "user-agent": "node" };

function viaDispatcher(dispatcher: Dispatcher, request: HttpRequest): Promise<HttpResponse> {
  const { method, url, body, signal } = request;
  const { origin, pathname, search } = new URL(url);
  return new Promise((resolve, reject) => {
    const handler = new ResponseHandler(signal, resolve, reject);
    const headers = { ...addedHeaders, ...request.headers };
    dispatcher.dispatch({ origin, path: `${pathname}${search}`, method, headers, body }, handler);
  });
}

/** Unread bytes at which the socket is paused. */
const highWater = 65_536;

const complete = { done: true } as const;

/** Receives one response from a dispatcher and is the reader of its body. */
class ResponseHandler implements DispatchHandler, BodyReader {
  readonly #signal: AbortSignal;
  readonly #resolve: (response: HttpResponse) => void;
  readonly #reject: (reason: unknown) => void;
  #abort: ((reason: unknown) => void) | null = null;
  #resume: (() => void) | null = null;
  #chunks: Uint8Array[] = [];
  #unreadBytes = 0;
  #isPaused = false;
  #end: { readonly type: "complete" } | { readonly type: "failed"; readonly error: unknown } | null = null;
  /** The pending `read`. */
  #reader: {
    readonly resolve: (read: { readonly done: boolean; readonly value?: Uint8Array }) => void;
    readonly reject: (reason: unknown) => void;
  } | null = null;

  constructor(signal: AbortSignal, resolve: (response: HttpResponse) => void, reject: (reason: unknown) => void) {
    this.#signal = signal;
    this.#resolve = resolve;
    this.#reject = reject;
    signal.addEventListener("abort", this.#onAbort, { once: true });
  }

  /** Called once for each attempt to send, also for one that waits for a connection. */
  readonly onConnect = (abort: (reason: unknown) => void): void => {
    this.#abort = abort;
    if (this.#signal.aborted) abort(this.#signal.reason);
  };

  readonly onHeaders = (status: number, headers: readonly Uint8Array[], resume: () => void): boolean => {
    // An informational response; the final one follows.
    if (status < 200) return true;
    this.#resume = resume;
    const received = receivedHeaders(headers);
    this.#resolve({ status, headers: received, body: () => decoded(this, received.get("content-encoding")) });
    return true;
  };

  readonly onData = (chunk: Uint8Array): boolean => {
    if (this.#reader !== null) {
      this.#reader.resolve({ done: false, value: chunk });
      this.#reader = null;
      return true;
    }
    this.#chunks.push(chunk);
    this.#unreadBytes += chunk.byteLength;
    this.#isPaused = this.#unreadBytes > highWater;
    return !this.#isPaused;
  };

  readonly onComplete = (): void => this.#ended({ type: "complete" });

  readonly onError = (error: unknown): void => this.#ended({ type: "failed", error });

  read(): Promise<{ readonly done: boolean; readonly value?: Uint8Array }> {
    if (this.#chunks.length > 0) {
      const value = joined(this.#chunks, this.#unreadBytes);
      this.#chunks = [];
      this.#unreadBytes = 0;
      if (this.#isPaused) {
        this.#isPaused = false;
        this.#resume?.();
      }
      return Promise.resolve({ done: false, value });
    }
    if (this.#end !== null)
      return this.#end.type === "complete" ? Promise.resolve(complete) : Promise.reject(this.#end.error);
    return new Promise((resolve, reject) => (this.#reader = { resolve, reject }));
  }

  async cancel(): Promise<void> {
    if (this.#end === null) this.#abort?.(new Error("the response is not read to its end"));
  }

  #ended(end: { readonly type: "complete" } | { readonly type: "failed"; readonly error: unknown }): void {
    this.#signal.removeEventListener("abort", this.#onAbort);
    this.#end = end;
    // Ignored if the headers have arrived: the promise is settled then.
    if (end.type === "failed") this.#reject(end.error);
    if (end.type === "failed") this.#reader?.reject(end.error);
    else this.#reader?.resolve(complete);
    this.#reader = null;
  }

  readonly #onAbort = (): void => {
    // Before `onConnect` the request waits for a connection, and nothing has been sent.
    if (this.#abort === null) this.#reject(this.#signal.reason);
    else this.#abort(this.#signal.reason);
  };
}

function joined(chunks: readonly Uint8Array[], length: number): Uint8Array {
  const [first] = chunks;
  if (first !== undefined && chunks.length === 1) return first;
  const bytes = new Uint8Array(length);
  let position = 0;
  for (const chunk of chunks) {
    bytes.set(chunk, position);
    position += chunk.byteLength;
  }
  return bytes;
}

/**
 * The headers of a response from names and values that alternate. Values of equal names are joined, as in `Headers`.
 */
function receivedHeaders(raw: readonly Uint8Array[]): ResponseHeaders {
  const values = new Map<string, string>();
  for (let index = 0; index + 1 < raw.length; index += 2) {
    const name = latin1(raw[index]).toLowerCase();
    const value = latin1(raw[index + 1]);
    const before = values.get(name);
    values.set(name, before === undefined ? value : `${before}, ${value}`);
  }
  return {
    get: (name) => values.get(name) ?? null,
    [Symbol.iterator]: () => [...values].sort(([left], [right]) => (left < right ? -1 : 1))[Symbol.iterator](),
  };
}

/** Header fields are octets. The bytes are a `Buffer`, but this file knows no platform types. */
function latin1(bytes: Uint8Array | undefined): string {
  return bytes === undefined ? "" : String.fromCharCode(...bytes);
}

type Coding = "gzip" | "deflate";

const codings: ReadonlyMap<string, Coding> = new Map([
  ["gzip", "gzip"],
  ["x-gzip", "gzip"],
  ["deflate", "deflate"],
]);

/** The body without its content coding. Throws where the platform does not know the coding. */
function decoded(body: BodyReader, encoding: string | null): BodyReader {
  if (encoding === null || encoding === "identity" || encoding === "") return body;
  const coding = codings.get(encoding.toLowerCase());
  if (coding === undefined) throw new TypeError(`the server sent the unknown content coding ${encoding}`);
  const coded = new ReadableStream<Uint8Array<ArrayBuffer>>({
    pull: async (controller) => {
      const { value } = await body.read();
      if (value === undefined) controller.close();
      else controller.enqueue(new Uint8Array(value));
    },
    cancel: () => body.cancel().then(() => undefined),
  });
  return coded.pipeThrough(new DecompressionStream(coding)).getReader();
}
