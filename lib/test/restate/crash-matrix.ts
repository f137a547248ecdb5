// The crash matrix with a real Restate server: at each crash point the process is killed while Restate drives its turn.
// Its connections end, Restate repeats the invocation, and the next process continues.

import type { RuntimeOptions } from "everturn/runtime";
import type { CrashHost, CrashReport } from "everturn/testing";
import type { Http2ServerRequest, Http2ServerResponse, ServerHttp2Session } from "node:http2";
import type { AddressInfo } from "node:net";

import { once } from "node:events";
import { createServer } from "node:http2";

import { createEndpointHandler } from "@restatedev/restate-sdk";
import { registerRestateDeployment, restateRuntime, restateServices } from "everturn/restate";
import { memoryStorage } from "everturn/runtime";
import { crashMatrix, crashScenarios } from "everturn/testing";

import { report } from "./report.ts";
import { startRestate } from "./restate-server.ts";

/** A scenario with many equal steps, of which fewer are killed. */
const longScenario = "a turn of many steps";

async function open(): Promise<CrashHost> {
  return { host: memoryStorage(), reopen: null, close: async () => undefined };
}

/** Runs every scenario and kills at every n-th crash point. Returns the violations. */
export async function crashMatrixOnRestate(every: number): Promise<readonly string[]> {
  const server = await startRestate();
  const address = await startAddress();
  const restate = { ingress: server.ingress };
  let isRegistered = false;
  const build = async (options: RuntimeOptions, process: { readonly stopped: Promise<unknown> }) => {
    const sessions = restateRuntime({ ...options, restate });
    const services = await restateServices({ sessions, sweepMs: 500 });
    const handler = createEndpointHandler({ services: [...services], logger: () => undefined });
    address.serve(handler);
    void process.stopped.then(() => address.endProcess(handler));
    if (!isRegistered) await registerRestateDeployment({ ...restate, admin: server.admin, uri: address.url });
    isRegistered = true;
    return sessions;
  };
  const reports: CrashReport[] = [];
  try {
    for (const scenario of crashScenarios) {
      const density = scenario.name === longScenario ? 8 * every : every;
      reports.push(await crashMatrix(scenario, { open, build, every: density }));
    }
  } finally {
    await address.close();
    await server.close();
  }
  const violations = reports.flatMap(({ scenario, broken }) =>
    broken.map(({ killedAt, what }) => {
      const points = killedAt.map(({ number, kind, what: at }) => `${number} ${kind} ${at}`).join(", ");
      return `${scenario}: killed at ${points}: ${what}`;
    }),
  );
  const sum = (name: "points" | "kills") => reports.reduce((before, report) => before + report[name], 0);
  report(
    `crash matrix: ${reports.length} scenarios, ${sum("points")} points, ${sum("kills")} killed, ${violations.length} violations`,
  );
  return violations;
}

type Handler = (request: Http2ServerRequest, response: Http2ServerResponse) => void;

/** An address at which one process after another answers. */
async function startAddress() {
  let current: Handler | null = null;
  const connections = new Set<ServerHttp2Session>();
  const server = createServer((request, response) => {
    if (current !== null) return current(request, response);
    response.writeHead(503).end();
  });
  server.on("session", (session) => {
    connections.add(session);
    session.once("close", () => connections.delete(session));
    session.on("error", () => undefined);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port }: AddressInfo | { readonly port: number } = Object(server.address());
  const disconnect = () => connections.forEach((session) => session.destroy());
  return {
    url: `http://127.0.0.1:${port}`,
    /** The process that answers from now on. The connections of the process before it end. */
    serve: (handler: Handler) => {
      disconnect();
      current = handler;
    },
    /** Ends the connections of a process that was killed. */
    endProcess: (handler: Handler) => {
      if (current !== handler) return;
      current = null;
      disconnect();
    },
    close: async () => {
      const closed = once(server, "close");
      server.close();
      disconnect();
      await closed;
    },
  };
}
