// The guard of `npm run bench` and `npm run bench:peers`: prints each ratio that is more than 15 % above the one in
// `recorded.json`. A ratio compares two contenders of one run, so it is comparable between runs and, roughly, between
// machines. `--record` replaces the recorded ratios of the names that were measured.

import { readFileSync, writeFileSync } from "node:fs";

export type Ratios = { readonly [name: string]: number };

const file = new URL("recorded.json", import.meta.url);
const tolerance = 1.15;

export function compareWithRecorded(ratios: Ratios): void {
  const recorded = read();
  const worse = Object.entries(ratios).flatMap(([name, ratio]) => {
    const before = recorded[name];
    return before === undefined || ratio <= before * tolerance ? [] : [{ name, ratio, before }];
  });
  console.log(worse.length === 0 ? "\nno ratio is more than 15 % above the recorded one" : "\nworse than recorded");
  for (const { name, ratio, before } of worse)
    console.log(`  ${name.padEnd(70)} × ${ratio.toFixed(2)}, recorded × ${before.toFixed(2)}`);
}

export function record(ratios: Ratios): void {
  const rounded = Object.entries(ratios).map(([name, ratio]) => [name, Math.round(ratio * 100) / 100] as const);
  writeFileSync(file, `${JSON.stringify({ ...read(), ...Object.fromEntries(rounded) }, null, 2)}\n`);
}

function read(): Ratios {
  const ratios: Ratios = JSON.parse(readFileSync(file, "utf8"));
  return ratios;
}
