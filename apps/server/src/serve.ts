// The process around the handler: a socket, who may reach it, and how it stops.

import type { Auth, HttpLimits, HttpOptions } from "everturn/http";
import type { Runtime } from "everturn/runtime";
import type { Server } from "node:http";

import { once } from "node:events";
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
  const stopping = new AbortController();
  const handler = createHandler({
    ...rest,
    sessions,
    auth,
    shutdown: stopping.signal,
    // Without a key, the only thing between a page somebody looks at and this server is the name it is asked for by.
    ...(auth === "none" ? { hosts: loopback } : {}),
  });
  const limits = { ...defaultHttpLimits, ...rest.limits };
  const server = createServer(
    getRequestListener(streaming(handler, limits.slowReaderMs), { overrideGlobalObjects: false }),
  );
  bound(server, limits);
  server.listen({ port, host: host.replace(/^\[(.*)\]$/, "$1"), backlog });
  await once(server, "listening");
  const working = work === false ? null : sessions.work({ concurrency: work, signal: stopping.signal });
  const address = server.address();
  const taken = typeof address === "object" && address !== null ? address.port : port;
  const name = host === "0.0.0.0" || host === "::" ? "localhost" : host.includes(":") ? `[${host}]` : host;
  let closing: Promise<void> | null = null;
  return {
    url: `http://${name}:${taken}`,
    port: taken,
    close: ({ graceMs = 10_000 } = {}) => (closing ??= close(server, sessions, working, stopping, graceMs)),
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
  server.maxRequestsPerSocket = 0;
}

async function close(
  server: Server,
  sessions: Runtime,
  working: Promise<void> | null,
  stopping: AbortController,
  graceMs: number,
): Promise<void> {
  const until = Date.now() + graceMs;
  stopping.abort();
  const closed = once(server, "close");
  server.close();
  server.closeIdleConnections();
  await working;
  // What has been accepted goes on in another process, or in this one when it is back.
  await sessions.close({ graceMs });
  // Whoever is being answered gets the answer: what was accepted and not heard of would be said again.
  for (let isOver = false; !isOver && Date.now() < until;) {
    server.closeIdleConnections();
    isOver = await Promise.race([closed.then(() => true), setTimeout(20, false)]);
  }
  server.closeAllConnections();
  await closed;
}
