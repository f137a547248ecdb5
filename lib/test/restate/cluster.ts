// Three Restate nodes that keep every entry on two of them. One is killed while turns are in flight; every turn ends.
// Then it starts again, and another one is killed.

import { faultsOf, performedAgain, ranTwice, resting } from "../long/oracles.ts";
import { readLog } from "../long/world.ts";
import { deploy } from "./deployed.ts";
import { stop } from "./programs.ts";
import { patienceMs, report, until } from "./report.ts";

const sessionsPerRound = 40;

/** Returns the violations. */
export async function clusterTest(): Promise<readonly string[]> {
  const began = Date.now();
  const deployed = await deploy(2, 3);
  try {
    const { web, storage, log, restate } = deployed;
    const services = await Promise.all([deployed.startService(0), deployed.startService(1)]);
    await deployed.register();
    const said = new Map<string, string>();
    const ids: string[] = [];
    const inFlight: number[] = [];
    for (const node of restate.nodes.slice(0, 2)) {
      const added = Array.from({ length: sessionsPerRound }, (_, count) => `${node.name}-${count}`);
      ids.push(...added);
      for (const id of added) said.set(`hello ${id}`, id);
      // At the same time, so that many turns are in flight however quick the machine is. The node is killed as soon as
      // one of them has begun.
      const starting = Promise.all(added.map((id) => web.start(`hello ${id}`, { id })));
      const before = readLog(log).length;
      await until("a turn begins", () => readLog(log).length > before, 5);
      const [open = []] = await storage.read([{ table: "open", prefix: [] }]);
      inFlight.push(open.length);
      await node.kill();
      await starting;
      // Turns are also accepted while the node is down.
      const late = `${node.name}-late`;
      ids.push(late);
      said.set(`hello ${late}`, late);
      await web.start(`hello ${late}`, { id: late });
      await resting(storage, Date.now() + patienceMs);
      await node.start();
    }
    for (const service of services) await stop(service);
    const lines = readLog(log);
    const { faults } = await faultsOf(web, storage, ids, said);
    const violations = [...faults, ...performedAgain(lines), ...ranTwice(lines)];
    report(
      `three nodes, replication 2    ${restate.nodes.length} nodes, 2 killed one after the other, ${inFlight.join(" and ")} turns in flight`,
      `  turns                       ${ids.length}, all ended; violations ${violations.length}`,
      `  time                        ${Math.round((Date.now() - began) / 1000)} s`,
    );
    const idle = inFlight.some((count) => count === 0) ? ["no turn was in flight when a node was killed"] : [];
    return [...violations, ...idle];
  } finally {
    await deployed.close();
  }
}
