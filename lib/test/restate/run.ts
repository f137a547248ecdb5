// The tests with a real Restate server, which is installed on first use. Service processes and servers are killed; every turn has to end, and no recorded effect may
// be performed again.
//
//   npm run test:restate                       all parts
//   npm run test:restate -- kills 40           one part: crash N (every n-th point), kills N, spread, cluster,
//                                              upgrade, paused, example
//
// All files and processes are removed at the end, also after a failure.

import { clusterTest } from "./cluster.ts";
import { crashMatrixOnRestate } from "./crash-matrix.ts";
import { exampleTest } from "./example.ts";
import { killTest } from "./kills.ts";
import { pausedTest } from "./paused.ts";
import { buildPrograms } from "./programs.ts";
import { spreadTest } from "./spread.ts";
import { upgradeTest } from "./upgrade.ts";

const [, , only = "all", number] = process.argv;
const numberOr = (byDefault: number) => (number === undefined ? byDefault : Number(number));
const parts: { readonly [name: string]: () => Promise<readonly string[]> } = {
  upgrade: upgradeTest,
  spread: spreadTest,
  paused: pausedTest,
  cluster: clusterTest,
  example: exampleTest,
  kills: () => killTest(numberOr(40)),
  crash: () => crashMatrixOnRestate(numberOr(2)),
};

try {
  await buildPrograms(["service", "versioned-service", "worker", "reader"]);
  for (const [name, part] of Object.entries(parts)) {
    if (only !== "all" && only !== name) continue;
    const violations = await part();
    for (const violation of violations.slice(0, 40)) console.error(`WRONG: ${name}: ${violation}`);
    if (violations.length > 0) process.exitCode = 1;
  }
} catch (error) {
  console.error(error);
  process.exitCode = 1;
}
process.exit();
