// A process that Restate calls: an HTTP/2 server with the services of this folder, which keeps the sweeper running.

import type { Closeable } from "../../core/model/internal.ts";
import type { RestateIngress } from "./ingress.ts";
import type { RestateServiceOptions } from "./service-context.ts";
import type { RestateService } from "./services.ts";
import type { ServerHttp2Session } from "node:http2";

import { startInterval } from "../../core/clock/timer.ts";
import { systemClock } from "../../core/engine/internal.ts";
import { closeable } from "../../core/model/internal.ts";
import { startRestateSweeper } from "./ingress.ts";
import { loadSdk } from "./sdk.ts";
import { restateServices } from "./services.ts";

/** Options of {@link serveRestate}: those of {@link restateServices}, and where the process listens. */
type RestateServerOptions = RestateServiceOptions & {
  /** The address to listen on. Restate has to reach it. Default: 127.0.0.1. */
  readonly host?: string;
  /** The TCP port. Default: 0, any free port. */
  readonly port?: number;
  /** Services of your own that the process serves too. Default: none. */
  readonly services?: readonly RestateService[];
  /**
   * Public keys of the Restate servers that may call this process (`publickeyv1_…`). Requests without a valid signature
   * are rejected. Default: none, which is for networks that only Restate can reach.
   */
  readonly identityKeys?: readonly string[];
  /**
   * The Restate server, to keep the sweeper running. Default: none; then call {@link startRestateSweeper} regularly.
   */
  readonly restate?: RestateIngress;
  /** Receives the log lines of the SDK. Default: the SDK writes them to the console. */
  readonly onLog?: (level: string, message: string) => void;
};

/** A process that Restate can call. */
export type RestateServer = Closeable & {
  /** The TCP port. */
  readonly port: number;
  /** The URL of this process. */
  readonly url: string;
  /**
   * Hands running turns over, so that other processes continue them, waits for the invocations, at most `graceMs`
   * milliseconds (default 10,000), and stops listening. The runtime accepts no turns afterwards.
   */
  readonly close: (options?: { readonly graceMs?: number }) => Promise<void>;
};

/** How often the sweeper is asked to start, in milliseconds. */
const startSweeperMs = 60_000;

/**
 * Serves the sessions to Restate over HTTP/2. Register the address of the process, or of a proxy in front of several
 * processes, with {@link registerRestateDeployment}.
 */
export async function serveRestate(options: RestateServerOptions): Promise<RestateServer> {
  const { host = "127.0.0.1", port = 0, sessions, services = [], identityKeys = [], restate = null, onLog } = options;
  const { clock = systemClock } = options;
  const own = await restateServices(options);
  // Loaded here: web processes import this entry point too, also on platforms without this module.
  const { createServer } = await import("node:http2");
  const sdk = await loadSdk();
  const endpoint = sdk.createEndpointHandler({
    services: [...own, ...services],
    ...(identityKeys.length === 0 ? {} : { identityKeys: [...identityKeys] }),
    ...(onLog === undefined
      ? {}
      : { logger: (meta, ...parts: unknown[]) => onLog(meta.level, parts.map(String).join(" ")) }),
  });
  const server = createServer(endpoint);
  const connections = new Set<ServerHttp2Session>();
  server.on("session", (session) => {
    connections.add(session);
    session.once("close", () => connections.delete(session));
    // A connection that breaks ends its requests, which hand their sessions over.
    session.on("error", () => undefined);
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, host, resolve);
  });
  const address = server.address();
  const bound = typeof address === "object" && address !== null ? address.port : port;
  const startSweeper = (): void => {
    // Fails until the deployment is registered, and while Restate cannot be reached.
    if (restate !== null) void startRestateSweeper(restate).catch(() => undefined);
  };
  startSweeper();
  const stopAsking = startInterval(clock, startSweeperMs, startSweeper);
  let closing: Promise<void> | null = null;
  const close = async (graceMs: number): Promise<void> => {
    stopAsking();
    // New connections go to other processes; open invocations end with `handed_over`.
    const closed = new Promise<void>((resolve) => void server.close(() => resolve()));
    await sessions.close({ graceMs });
    for (const session of connections) session.close();
    const timer = new AbortController();
    await Promise.race([closed, clock.sleep(graceMs, timer.signal).catch(() => undefined)]);
    timer.abort();
    for (const session of connections) session.destroy();
    await closed;
  };
  return closeable({
    port: bound,
    url: `http://${host.includes(":") ? `[${host}]` : host}:${bound}`,
    close: ({ graceMs = 10_000 } = {}) => (closing ??= close(graceMs)),
  } satisfies Omit<RestateServer, keyof Closeable>);
}
