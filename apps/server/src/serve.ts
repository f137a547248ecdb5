// The HTTP server process: a Node server around the handler of `everturn/http`, with access rules, connection limits
// and graceful shutdown.
//
// Access
//   - By default the server listens on the loopback address 127.0.0.1, which other machines cannot reach.
//   - Without authentication (`auth: "none"`) it refuses to listen on any other address.
//   - Without authentication the `Host` header must be on an allowlist of loopback names. This prevents DNS rebinding:
//     a web page whose own domain name resolves to 127.0.0.1 can send requests here, but its requests carry its own
//     domain in `Host`. Requests with a bearer token need no allowlist, because the page does not know the token. CSRF
//     and CORS are checked by the handler (`origins`).
//   - Without authentication, requests with headers of a reverse proxy are refused: the proxy, which may rewrite
//     `Host`, would publish the server.
//   - Tokens are compared in constant time by everturn/http (serve/http/auth.ts).
//
// Limits against slow and stalled clients (slowloris)
//   - headersTimeout and requestTimeout end a request whose head or body does not arrive. Connections are checked every
//     500 ms; with Node's default of 30 seconds a timeout of 30 seconds could take effect after 60.
//   - maxConnections caps sockets at the sum of the request and stream limits. One address gets at most
//     `connectionsPerAddress` of them.
//   - Requests are also limited by address (everturn/http, limits.ts). An IPv6 client has a /64 network, which counts
//     as one address.
//   - A client that does not read a buffered response for `slowReaderMs` is disconnected. Streams have backpressure
//     (send-stream.ts) and their own limit in everturn/http.
//
// Graceful shutdown (`close`), in this order
//   1. `draining` is signalled: the handler rejects new requests with 503 and `connection: close`. Event streams go on.
//   2. The worker loop stops claiming queued turns.
//   3. The runtime releases the leases of open turns, so that another process continues them at once (no lease
//      timeout). A reply that is being received is finished first, within `graceMs`, and its readers receive it here.
//   4. `shutdown` is signalled: event streams end with a comment that asks readers to reconnect.
//   5. The server waits until every response is sent (drain), at most until `graceMs` has passed since the start of the
//      shutdown. An accepted request whose response is lost would be repeated by its client.
//   6. The listening socket and all connections are closed.

import type { RequestEntry } from "./request-log.ts";
import type { Auth, HttpLimits, HttpOptions } from "everturn/http";
import type { Runtime, WorkOptions } from "everturn/runtime";
import type { Server } from "node:http";

import { EventEmitter, once } from "node:events";
import { createServer, IncomingMessage, ServerResponse } from "node:http";
import { setTimeout } from "node:timers/promises";

import { getRequestListener } from "@hono/node-server";
import { RESPONSE_ALREADY_SENT } from "@hono/node-server/utils/response";
import { subscribe, MisuseError } from "everturn";
import { agUi, aiSdkChat, createHandler, defaultHttpLimits, openaiCompletions } from "everturn/http";

import { clientAddresses } from "./client-address.ts";
import { errorResponse, LoginCodes, withLogin } from "./login.ts";
import { RequestLog } from "./request-log.ts";
import { isEventStream, sendStream } from "./send-stream.ts";
import { withPage } from "./static-files.ts";
import { openStudio, withStudio } from "./studio.ts";

/** Options of {@link startServer}: those of the handler, and where the process listens. */
export type ServerOptions = Omit<
  HttpOptions,
  "sessions" | "auth" | "shutdown" | "draining" | "hosts" | "onAuthenticated" | "dialects"
> & {
  readonly sessions: Runtime;
  /** Dialects beside those that are always served. Default: none. */
  readonly dialects?: NonNullable<HttpOptions["dialects"]>;
  /**
   * Engines by model name, for OpenAI's chat completions at `/v1`. Default: not served. The AI SDK's chat and AG-UI
   * always are.
   */
  readonly openai?: Parameters<typeof openaiCompletions>[0];
  /** The address to listen on. Default: 127.0.0.1. An address that is not loopback requires `auth`. */
  readonly host?: string;
  /** The TCP port. Default: 0, any free port. */
  readonly port?: number;
  readonly auth: Auth;
  /**
   * How many queued or abandoned turns this process drives at the same time. Default: 1,000. `false`: it claims none
   * and leaves them to other processes; turns that it accepts are still driven here.
   */
  readonly work?: number | false;
  /**
   * The largest number of connections from one address. Further ones are closed at once. Default: half of all
   * connections (`limits.requests` plus `limits.streams`), and at least 64. Behind a proxy all connections come from
   * one address: set it to the number of all connections, and set `address`.
   */
  readonly connectionsPerAddress?: number;
  /**
   * A folder whose files are served without authentication, before the routes of the API, with the modules of the
   * package at `/everturn/`. Default: none.
   */
  readonly staticFolder?: string;
  /**
   * Whether the studio is served at `/studio/`, without authentication: the page contains no secret, and the API that
   * it calls needs the token. Default: false.
   */
  readonly studio?: boolean;
  /**
   * The bearer token, one of those of `auth`, that `POST /login` returns for a one-time code of `createLoginCode`.
   * Default: there is no such route.
   */
  readonly loginToken?: string;
  /**
   * Receives an entry for every request, when its response is complete or its connection is closed. Default: no request
   * log.
   */
  readonly onRequest?: (entry: RequestEntry) => void;
  /**
   * Proxies whose `X-Forwarded-For` names the client: addresses, networks (`10.0.0.0/8`), or `loopback`. Default: none,
   * the header is ignored.
   */
  readonly trustedProxies?: readonly string[];
};

type FetchCallback = Parameters<typeof getRequestListener>[0];

/** A server that accepts connections. */
export type RunningServer = {
  /** The base URL, without a trailing slash. */
  readonly url: string;
  readonly port: number;
  /** The URL of the studio; `null`: it is not served, or was not built. */
  readonly studioUrl: string | null;
  /**
   * Shuts down gracefully (see the header). `graceMs`: the time for open turns and responses, in milliseconds. Default:
   * 10,000. Idempotent.
   */
  readonly close: (options?: { readonly graceMs?: number }) => Promise<void>;
};

/** Loopback names, for the allowlist of `Host` headers. */
const loopbackNames = ["127.0.0.1", "localhost", "[::1]"] as const;

/** Headers that reverse proxies add to the requests that they forward. */
const forwardingHeaders = [
  "forwarded",
  "x-forwarded-for",
  "x-forwarded-host",
  "x-forwarded-proto",
  "x-real-ip",
  "via",
] as const;

/**
 * The time limit for the head of a request, in milliseconds, unless that for bodies is shorter. Node ends a connection
 * that exceeds it with status 408, also one on which nothing was sent.
 */
const headersTimeoutMs = 15_000;

/** How often Node checks these time limits, in milliseconds. */
const connectionCheckMs = 500;

/**
 * Connections that the kernel queues before they are accepted. Clients beyond it retransmit their SYN, after one second
 * at the earliest.
 */
const backlog = 4096;

/**
 * Serves a runtime over HTTP until it is closed. Throws `MisuseError` for an address that is not loopback without
 * authentication.
 */
export async function startServer(options: ServerOptions): Promise<RunningServer> {
  const {
    sessions,
    host = "127.0.0.1",
    port = 0,
    auth,
    work = 1000,
    onRequest,
    connectionsPerAddress,
    staticFolder,
    studio = false,
    loginToken,
    openai,
    dialects = [],
    trustedProxies = [],
    ...handlerOptions
  } = options;
  if (auth === "none" && !isLoopback(host)) {
    throw new MisuseError("invalid_argument", `other machines can reach ${host}: set a token, or listen on 127.0.0.1`, {
      path: ["host"],
    });
  }
  const address = host.replace(/^\[(.*)\]$/, "$1");
  const name = address === "0.0.0.0" || address === "::" ? "localhost" : hostInUrl(address);
  const stopping = new AbortController();
  const handedOver = new AbortController();
  const log = new RequestLog(onRequest ?? null);
  const addresses = new WeakMap<Request, string>();
  // DNS rebinding: without a token, the `Host` allowlist is the only protection against a web page open on this
  // machine.
  const hosts = auth === "none" ? [...loopbackNames, name] : null;
  const api = createHandler({
    address: (request) => addresses.get(request) ?? null,
    // The request log has a line for each request.
    onRefused: () => undefined,
    ...handlerOptions,
    onAuthenticated: (request, caller) => log.authenticated(request, caller),
    sessions,
    auth,
    dialects: [aiSdkChat(), agUi(), ...dialects, ...(openai === undefined ? [] : [openaiCompletions(openai)])],
    draining: stopping.signal,
    shutdown: handedOver.signal,
    ...(hosts === null ? {} : { hosts }),
  });
  const page = studio ? openStudio() : null;
  const pages = page === null ? api : withStudio(api, page, hosts);
  const served = staticFolder === undefined ? pages : withPage(pages, { folder: staticFolder, hosts });
  // Set when the port is known: codes are valid for one port.
  let codes: LoginCodes | null = null;
  const handler = auth === "none" ? withoutProxies(served) : withLogin(served, () => codes);
  const addressOf = clientAddresses(trustedProxies);
  const limits = { ...defaultHttpLimits, ...handlerOptions.limits };
  const withAddress = (request: Request, incoming: object) => {
    if (!(incoming instanceof IncomingMessage)) return;
    const client = addressOf(incoming.socket.remoteAddress ?? "", request.headers.get("x-forwarded-for"));
    addresses.set(request, networkOf(client));
  };
  const server = createServer(
    { connectionsCheckingInterval: connectionCheckMs },
    getRequestListener(withStreaming(handler, limits.slowReaderMs, log, withAddress), { overrideGlobalObjects: false }),
  );
  // Before the listener that executes requests: the duration counts from the arrival of the request.
  server.prependListener("request", (incoming, outgoing) => log.received(incoming, outgoing));
  const allConnections = limits.requests + limits.streams;
  setConnectionLimits(server, limits, connectionsPerAddress ?? Math.max(64, Math.ceil(allConnections / 2)));
  const drained = trackResponses(server);
  server.listen({ port, host: address, backlog });
  await once(server, "listening");
  reportToolErrors(handlerOptions.onError, stopping.signal);
  const workOptions = { signal: stopping.signal, ...workerErrors(handlerOptions.onError) };
  const working = work === false ? null : sessions.work({ concurrency: work, ...workOptions });
  const socketAddress = server.address();
  const boundPort = typeof socketAddress === "object" && socketAddress !== null ? socketAddress.port : port;
  if (loginToken !== undefined) codes = new LoginCodes(loginToken, boundPort, Date.now());
  // `localhost` may resolve to an IPv4 and an IPv6 address, and another process may listen at the one that is not bound
  // here.
  const isAmbiguous = address === "localhost" && typeof socketAddress === "object" && socketAddress !== null;
  const url = `http://${isAmbiguous ? hostInUrl(socketAddress.address) : name}:${boundPort}`;
  let closing: Promise<void> | null = null;
  return {
    url,
    port: boundPort,
    studioUrl: page !== null ? `${url}/studio/` : null,
    close: ({ graceMs = 10_000 } = {}) =>
      (closing ??= close({ server, drained, sessions, working, stopping, handedOver }, graceMs)),
  };
}

/** An address as the host of a URL: IPv6 addresses have brackets. */
export function hostInUrl(address: string): string {
  return address.includes(":") ? `[${address.replaceAll(/[[\]]/g, "")}]` : address;
}

/** Reports exceptions of tools to `onError`, with the id of the call, which callers read in place of the text. */
function reportToolErrors(onError: ServerOptions["onError"], until: AbortSignal): void {
  if (onError === undefined) return;
  const stop = subscribe((event) => {
    if (event.type !== "exception" || event.name !== "tool") return;
    const { tool, toolCallId } = event.metadata;
    const error = new Error(`the tool ${String(tool)} failed (error of call ${String(toolCallId)}): ${event.error}`);
    try {
      onError(error, null);
    } catch {
      // Telemetry removes a listener that throws, and later errors would not be reported.
    }
  });
  until.addEventListener("abort", stop, { once: true });
}

/** Reports the errors after which the worker tries again to `onError`. Without it they are lines on the console. */
function workerErrors(onError: ServerOptions["onError"]): Pick<WorkOptions, "onError"> {
  if (onError === undefined) return {};
  return {
    onError: (cause, count) => {
      const what = cause instanceof Error ? cause.message : String(cause);
      const message = `the worker could not do all of its work, and tries again (error ${count}): ${what}`;
      onError(new Error(message, { cause }), null);
    },
  };
}

/** A handler that refuses requests which a reverse proxy has forwarded. */
function withoutProxies(handler: (request: Request) => Promise<Response>): (request: Request) => Promise<Response> {
  return async (request) => {
    const header = forwardingHeaders.find((name) => request.headers.has(name));
    if (header === undefined) return handler(request);
    return errorResponse(
      403,
      "forbidden",
      `the request was forwarded by a proxy (header ${header}), and this server has no token: set one (EVERTURN_TOKEN), or call the server directly`,
    );
  };
}

/**
 * Returns whether a host is a loopback address or `localhost`. The whole text must match: `127.0.0.1.example.com` is an
 * ordinary domain name.
 */
export function isLoopback(host: string): boolean {
  return /^(?:localhost|127(?:\.\d{1,3}){3}|\[?::1\]?)$/i.test(host);
}

/**
 * Wraps the handler for Node. Bodies are written by `sendStream`, which applies backpressure. A client that reads
 * nothing of a response for `slowReaderMs` is disconnected; the handler does so for event streams.
 */
function withStreaming(
  handler: (request: Request) => Promise<Response>,
  slowReaderMs: number,
  log: RequestLog,
  withAddress: (request: Request, incoming: object) => void,
): FetchCallback {
  return async (request, env) => {
    log.parsed(request, env.incoming);
    withAddress(request, env.incoming);
    const response = await handler(request);
    const { body } = response;
    if (!isEventStream(response)) env.outgoing.setTimeout(slowReaderMs);
    if (body === null || !(env.outgoing instanceof ServerResponse)) return response;
    void sendStream(response, body, env.outgoing);
    return RESPONSE_ALREADY_SENT;
  };
}

/** Sets the timeouts and the numbers of connections. */
function setConnectionLimits(
  server: Server,
  { requests, streams, bodyMs }: Pick<HttpLimits, "requests" | "streams" | "bodyMs">,
  perAddress: number,
): void {
  server.headersTimeout = Math.min(headersTimeoutMs, bodyMs);
  // For bodies that the handler does not read; those that it reads have the limit `bodyMs` there.
  server.requestTimeout = server.headersTimeout + bodyMs;
  server.maxConnections = requests + streams;
  const connections = new Map<string, number>();
  server.on("connection", (socket) => {
    const network = networkOf(socket.remoteAddress ?? "");
    const count = (connections.get(network) ?? 0) + 1;
    if (count > perAddress) return void socket.destroy();
    connections.set(network, count);
    socket.once("close", () => {
      const remaining = (connections.get(network) ?? 1) - 1;
      if (remaining === 0) connections.delete(network);
      else connections.set(network, remaining);
    });
  });
}

/**
 * The network that counts as one address: an IPv4 address, also in its IPv6 form, or the /64 prefix of an IPv6 address.
 */
export function networkOf(address: string): string {
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address)?.[1];
  if (mapped !== undefined || !address.includes(":")) return mapped ?? address;
  const [head = "", tail = ""] = address.split("%")[0]?.split("::") ?? [];
  const [first, last] = [groupsOf(head), groupsOf(tail)];
  // `::` stands for groups of zeros; an address without it has eight groups.
  const zeros = Array.from({ length: Math.max(0, 8 - first.length - last.length) }, () => "0");
  return `${[...first, ...zeros, ...last].slice(0, 4).join(":")}::/64`;
}

/** The groups of a part of an IPv6 address. */
function groupsOf(text: string): readonly string[] {
  return text === "" ? [] : text.split(":");
}

/** Resolves when no response is open. */
type Drained = () => Promise<void>;

/**
 * Tracks open responses. `server.close()` alone does not drain: Node counts a connection as idle as soon as the last
 * bytes of a response are passed to the socket, before they are sent, and `closeAllConnections` would cut them off.
 */
function trackResponses(server: Server): Drained {
  const open = new Set<ServerResponse>();
  const events = new EventEmitter();
  server.on("request", (_, response) => {
    open.add(response);
    response.once("close", () => {
      open.delete(response);
      if (open.size === 0) events.emit("drained");
    });
  });
  return async () => void (open.size > 0 && (await once(events, "drained")));
}

type Running = {
  readonly server: Server;
  readonly drained: Drained;
  readonly sessions: Runtime;
  readonly working: Promise<void> | null;
  readonly stopping: AbortController;
  readonly handedOver: AbortController;
};

/** Graceful shutdown. The steps are numbered in the header. */
async function close(
  { server, drained, sessions, working, stopping, handedOver }: Running,
  graceMs: number,
): Promise<void> {
  const until = Date.now() + graceMs;
  stopping.abort();
  await working;
  // Open turns continue in another process, or in this one after its restart.
  await sessions.close({ graceMs });
  handedOver.abort();
  // Drain: new requests are rejected meanwhile.
  await Promise.race([drained(), setTimeout(Math.max(0, until - Date.now()), undefined, { ref: false })]);
  const closed = once(server, "close");
  server.close();
  server.closeAllConnections();
  await closed;
}
