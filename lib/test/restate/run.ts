// The tests with a real Restate server, which is installed on first use. Service processes and servers are killed;
// every turn has to end, and no recorded effect may be performed again.
//
//   npm run test:restate                       all parts
//   npm run test:restate -- kills 40           one part: handlers, handover, upgrade, spread, paused, cluster, example,
//                                              kills N, crash N (every n-th point)
//
// What the parts measured is printed once more at the end. All files and processes are removed at the end, also after a
// failure.

import { availableParallelism, loadavg } from "node:os";

import { clusterTest } from "./cluster.ts";
import { crashMatrixOnRestate } from "./crash-matrix.ts";
import { exampleTest } from "./example.ts";
import { handoverTest } from "./handover.ts";
import { killTest } from "./kills.ts";
import { ownHandlersTest } from "./own-handlers.ts";
import { pausedTest } from "./paused.ts";
import { buildPrograms } from "./programs.ts";
import { reported } from "./report.ts";
import { spreadTest } from "./spread.ts";
import { upgradeTest } from "./upgrade.ts";

const [, , only = "all", number] = process.argv;
const numberOr = (byDefault: number) => (number === undefined ? byDefault : Number(number));
const parts: { readonly [name: string]: () => Promise<readonly string[]> } = {
  handlers: ownHandlersTest,
  handover: handoverTest,
  upgrade: upgradeTest,
  spread: spreadTest,
  paused: pausedTest,
  cluster: clusterTest,
  example: exampleTest,
  kills: () => killTest(numberOr(40)),
  crash: () => crashMatrixOnRestate(numberOr(2)),
};
/** A part that takes longer than this has failed: a turn that never ends must not keep the others from being tested. */
const partLimitMs = 3_600_000;

const results: string[] = [];

/** Runs a part. An error of it does not keep the others from running. */
async function run(name: string, part: () => Promise<readonly string[]>): Promise<void> {
  const began = Date.now();
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<readonly string[]>((resolve) => {
    timer = setTimeout(resolve, partLimitMs, [`it did not end within ${partLimitMs / 1000} seconds`]);
  });
  const violations = await Promise.race([part(), late]).catch((error: unknown) => {
    console.error(error);
    return [String(error)];
  });
  clearTimeout(timer);
  for (const violation of violations.slice(0, 40)) console.error(`WRONG: ${name}: ${violation}`);
  const seconds = Math.round((Date.now() - began) / 1000);
  results.push(`${name.padEnd(10)} ${String(seconds).padStart(5)} s   ${violations.length} violations`);
  if (violations.length > 0) process.exitCode = 1;
}

try {
  await buildPrograms(["service", "own-service", "versioned-service", "worker", "reader"]);
  const names = Object.keys(parts).filter((name) => only === "all" || only === name);
  if (names.length === 0) throw new Error(`there is no part ${only}; the parts are ${Object.keys(parts).join(", ")}`);
  for (const name of names) await run(name, parts[name] ?? (async () => []));
  const [load = 0] = loadavg();
  const isGreen = process.exitCode === undefined;
  console.log(
    [
      "",
      `Summary: ${isGreen ? "all parts passed" : "FAILED"}. Node ${process.version}, ${availableParallelism()} cores, load ${load.toFixed(1)} at the end`,
      "",
      ...reported(),
      "",
      ...results,
    ].join("\n"),
  );
} catch (error) {
  console.error(error);
  process.exitCode = 1;
}
process.exit();
