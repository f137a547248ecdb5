// The process around the handler: a socket, who may reach it, and how it stops.

import type { Auth, HttpLimits, HttpOptions } from "everturn/http";
import type { Runtime } from "everturn/runtime";
import type { Server } from "node:http";

import { EventEmitter, once } from "node:events";
import { createServer, ServerResponse } from "node:http";
import { setTimeout } from "node:timers/promises";

import { getRequestListener } from "@hono/node-server";
import { RESPONSE_ALREADY_SENT } from "@hono/node-server/utils/response";
import { createHandler, defaultHttpLimits } from "everturn/http";
import { MisuseError } from "everturn/model";

import { sendStream } from "./send-stream.ts";

export type ServerOptions = Omit<HttpOptions, "sessions" | "auth" | "shutdown" | "hosts"> & {
  readonly sessions: Runtime;
  /** Where to listen; this machine only where it is not said. Elsewhere needs keys. */
  readonly host?: string;
  /** 0: any port that is free. */
  readonly port?: number;
  readonly auth: Auth;
  /** Turns that nobody drives are picked up here, until so many are driven; `false`: they are left to others. 1,000 where it is not said. */
  readonly work?: number | false;
};

type FetchCallback = Parameters<typeof getRequestListener>[0];

export type RunningServer = {
  readonly url: string;
  readonly port: number;
  /** Takes nothing new, ends streams, hands turns over, and closes. */
  readonly close: (options?: { readonly graceMs?: number }) => Promise<void>;
};

/** The names this machine has for itself. */
const loopback = ["127.0.0.1", "localhost", "[::1]"] as const;

/** A request whose head or body does not come in this time is ended. */
const headMs = 15_000;
const bodyMs = 30_000;

/** Connections that may wait to be taken. Of those beyond, each tries again by itself, after a second at the earliest. */
const backlog = 4096;

/** Serves a runtime over HTTP until it is closed. Beyond this machine it does so only for those who have a key. */
export async function startServer(options: ServerOptions): Promise<RunningServer> {
  const { sessions, host = "127.0.0.1", port = 0, auth, work = 1000, ...rest } = options;
  if (auth === "none" && !isLoopback(host)) {
    throw new MisuseError(
      "invalid_argument",
      `${host} can be reached from elsewhere: give the server a token, or let it listen on 127.0.0.1`,
      { path: ["host"] },
    );
  }
  const address = host.replace(/^\[(.*)\]$/, "$1");
  const name =
    address === "0.0.0.0" || address === "::" ? "localhost" : address.includes(":") ? `[${address}]` : address;
  const stopping = new AbortController();
  const handler = createHandler({
    ...rest,
    sessions,
    auth,
    shutdown: stopping.signal,
    // Without a key, the only thing between a page somebody looks at and this server is the name it is asked for by.
    ...(auth === "none" ? { hosts: [...loopback, name] } : {}),
  });
  const limits = { ...defaultHttpLimits, ...rest.limits };
  const server = createServer(
    getRequestListener(streaming(handler, limits.slowReaderMs), { overrideGlobalObjects: false }),
  );
  bound(server, limits);
  const allSent = openAnswers(server);
  server.listen({ port, host: address, backlog });
  await once(server, "listening");
  const working = work === false ? null : sessions.work({ concurrency: work, signal: stopping.signal });
  const socket = server.address();
  const taken = typeof socket === "object" && socket !== null ? socket.port : port;
  let closing: Promise<void> | null = null;
  return {
    url: `http://${name}:${taken}`,
    port: taken,
    close: ({ graceMs = 10_000 } = {}) =>
      (closing ??= close({ server, allSent, sessions, working, stopping }, graceMs)),
  };
}

export function isLoopback(host: string): boolean {
  return /^(?:localhost|127(?:\.\d{1,3}){3}|\[?::1\]?)$/i.test(host);
}

/** The same, with streams of events sent from here. Whoever takes nothing of another answer for too long is let go too: it waits in memory meanwhile. */
function streaming(handler: (request: Request) => Promise<Response>, slowReaderMs: number): FetchCallback {
  return async (request, env) => {
    const answer = await handler(request);
    const { body, headers } = answer;
    const isStream = headers.get("content-type")?.startsWith("text/event-stream") === true;
    if (!isStream) env.outgoing.setTimeout(slowReaderMs);
    if (body === null || !isStream || !(env.outgoing instanceof ServerResponse)) return answer;
    void sendStream(answer, body, env.outgoing);
    return RESPONSE_ALREADY_SENT;
  };
}

/** What a connection may take. */
function bound(server: Server, { requests, streams }: Pick<HttpLimits, "requests" | "streams">): void {
  server.headersTimeout = headMs;
  server.requestTimeout = bodyMs;
  server.maxConnections = requests + streams;
}

/** Waits until every answer has left this process, all of it. Node takes a connection for idle when the last of an answer is handed to it. */
type AllSent = () => Promise<void>;

function openAnswers(server: Server): AllSent {
  const open = new Set<ServerResponse>();
  const waiting = new EventEmitter();
  server.on("request", (_, answer) => {
    open.add(answer);
    answer.once("close", () => {
      open.delete(answer);
      if (open.size === 0) waiting.emit("sent");
    });
  });
  return async () => void (open.size > 0 && (await once(waiting, "sent")));
}

type Running = {
  readonly server: Server;
  readonly allSent: AllSent;
  readonly sessions: Runtime;
  readonly working: Promise<void> | null;
  readonly stopping: AbortController;
};

async function close({ server, allSent, sessions, working, stopping }: Running, graceMs: number): Promise<void> {
  const until = Date.now() + graceMs;
  stopping.abort();
  await working;
  // What has been accepted goes on in another process, or in this one when it is back.
  await sessions.close({ graceMs });
  // Whoever is being answered gets the answer: what was accepted and not heard of would be said again. Whoever asks now is told to ask elsewhere.
  await Promise.race([allSent(), setTimeout(Math.max(0, until - Date.now()), undefined, { ref: false })]);
  const closed = once(server, "close");
  server.close();
  server.closeAllConnections();
  await closed;
}
