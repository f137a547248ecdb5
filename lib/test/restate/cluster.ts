// Three Restate nodes that keep every entry on two of them. One is killed while turns are in flight; every turn ends. Then it starts again, and another one is killed.

import { faultsOf, performedAgain, ranTwice, resting } from "../long/oracles.ts";
import { readLog } from "../long/world.ts";
import { deploy } from "./deployed.ts";
import { pause, stop } from "./programs.ts";

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
      for (let count = 0; count < sessionsPerRound; count += 1) {
        const id = `${node.name}-${count}`;
        ids.push(id);
        said.set(`hello ${id}`, id);
        await web.start(`hello ${id}`, { id });
      }
      await pause(300);
      const [open = []] = await storage.read([{ table: "open", prefix: [] }]);
      inFlight.push(open.length);
      await node.kill();
      // Turns are also accepted while the node is down.
      const late = `${node.name}-late`;
      ids.push(late);
      said.set(`hello ${late}`, late);
      await web.start(`hello ${late}`, { id: late });
      await resting(storage, Date.now() + 120_000);
      await node.start();
    }
    for (const service of services) await stop(service);
    const lines = readLog(log);
    const { faults } = await faultsOf(web, storage, ids, said);
    const violations = [...faults, ...performedAgain(lines), ...ranTwice(lines)];
    console.log(
      [
        `three nodes, replication 2    ${restate.nodes.length} nodes, 2 killed one after the other, ${inFlight.join(" and ")} turns in flight`,
        `  turns                       ${ids.length}, all ended; violations ${violations.length}`,
        `  time                        ${Math.round((Date.now() - began) / 1000)} s`,
      ].join("\n"),
    );
    const idle = inFlight.some((count) => count === 0) ? ["no turn was in flight when a node was killed"] : [];
    return [...violations, ...idle];
  } finally {
    await deployed.close();
  }
}
