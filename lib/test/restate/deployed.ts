// A deployment for the tests: Postgres, a Restate server of one or several nodes, service processes behind one address,
// and a web process (this one).

import type { PostgresServer } from "../postgres-server.ts";
import type { Http2Proxy } from "./http2-proxy.ts";
import type { ProgramName } from "./programs.ts";
import type { RestateCluster } from "./restate-server.ts";
import type { PostgresStorage } from "everturn/postgres";
import type { RestateRuntime } from "everturn/restate";
import type { ChildProcess } from "node:child_process";

import { writeFileSync } from "node:fs";
import { join } from "node:path";

import { postgresStorage } from "everturn/postgres";
import { registerRestateDeployment, restateRuntime } from "everturn/restate";

import { slowAgent } from "../long/world.ts";
import { startPostgres } from "../postgres-server.ts";
import { startHttp2Proxy } from "./http2-proxy.ts";
import { folder, kill, pause, ready } from "./programs.ts";
import { freePort, startRestateCluster } from "./restate-server.ts";

/** A running deployment. */
export type Deployed = {
  readonly postgres: PostgresServer;
  readonly database: string;
  readonly storage: PostgresStorage;
  readonly restate: RestateCluster;
  readonly proxy: Http2Proxy;
  /** The path of the log of external effects. */
  readonly log: string;
  /** The web process. */
  readonly web: RestateRuntime;
  /**
   * Which requests of the web process are lost: with this probability, and the probability that only the response is
   * lost.
   */
  readonly losses: { request: number; response: number; count: number };
  /** Starts the service process number `index`, with this lease time in milliseconds. Default: that of the runtime. */
  readonly startService: (index: number, leaseMs?: number) => Promise<ChildProcess>;
  readonly close: () => Promise<void>;
};

let deployments = 0;

/** Starts everything except the service processes. `register` has to follow when one of them runs. */
export async function deploy(
  serviceCount: number,
  nodeCount: number,
  program: ProgramName = "service",
  proxyKind?: Http2Proxy["kind"],
): Promise<Deployed & { register: () => Promise<void> }> {
  deployments += 1;
  const log = join(folder, `world-${deployments}.log`);
  writeFileSync(log, "");
  const postgres = await startPostgres();
  const database = await postgres.createDatabase();
  const storage = postgresStorage({ url: database });
  await storage.open();
  const restate = await startRestateCluster(nodeCount);
  const ports = await Promise.all(Array.from({ length: serviceCount }, freePort));
  const proxy = await startHttp2Proxy(ports, proxyKind);
  const losses = { request: 0, response: 0, count: 0 };
  const services = new Set<ChildProcess>();
  const ingresses = restate.nodes.map(({ ingress }) => ingress);
  const [first] = restate.nodes;
  if (first === undefined) throw new Error("there is no node");
  let turn = 0;
  // The nodes are used round robin, as behind a load balancer; a node that cannot be reached is skipped.
  const send: typeof fetch = async (url, init) => {
    if (Math.random() < losses.request) {
      losses.count += 1;
      throw new TypeError("the request was lost on purpose");
    }
    turn += 1;
    for (let attempt = 0; ; attempt += 1) {
      const ingress = ingresses[(turn + attempt) % ingresses.length] ?? "";
      try {
        const response = await fetch(String(url).replace(first.ingress, ingress), init);
        if (Math.random() >= losses.response) return response;
        losses.count += 1;
      } catch (error) {
        if (attempt + 1 < ingresses.length) continue;
        throw error;
      }
      throw new TypeError("the response was lost on purpose");
    }
  };
  const web = restateRuntime({
    host: storage,
    engines: { default: slowAgent(null) },
    restate: { ingress: first.ingress, fetch: send },
  });
  return {
    postgres,
    database,
    storage,
    restate,
    proxy,
    log,
    web,
    losses,
    startService: async (index, leaseMs) => {
      const service = await ready(program, database, log, ports[index] ?? 0, first.ingress, leaseMs ?? "");
      services.add(service);
      service.on("exit", () => services.delete(service));
      return service;
    },
    register: async () => {
      const deployment = { ingress: first.ingress, admin: first.admin, uri: proxy.url, timeoutMs: 60_000 };
      // Until the proxy has checked a process.
      for (const until = Date.now() + 120_000; ; await pause(100)) {
        const error: unknown = await registerRestateDeployment(deployment).then(
          () => null,
          (thrown: unknown) => thrown,
        );
        if (error === null) return;
        if (Date.now() > until) throw error;
      }
    },
    close: async () => {
      for (const service of services) await kill(service);
      await storage.close();
      await proxy.close();
      await restate.close();
      await postgres.close();
    },
  };
}
