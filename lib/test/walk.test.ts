// `npm run walk`, as a user starts it: it finds its inputs in the sources, and measures the path of a message.

import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";

import { expect, test } from "vitest";

const root = join(import.meta.dirname, "../..");

test("npm run walk prints the path of a message and the counts of the repository", async () => {
  const { stdout } = await promisify(execFile)("npm", ["run", "--silent", "walk", "--", "--json"], {
    cwd: root,
    maxBuffer: 1 << 26,
  });
  const { totals, counts, stops } = JSON.parse(stdout);
  expect(totals.files).toBeGreaterThan(0);
  expect(totals.planRun).toBe(1);
  expect(totals.reads).toBe(1);
  // Each layer between the handler and the storage that only forwards is a stop more.
  expect(totals.stops).toBeLessThanOrEqual(14);
  expect([stops[0].file, stops.at(-1).file]).toEqual(["serve/http/router.ts", "durable/drive/growing-lease.ts"]);
  expect(counts.floors.map(({ name }: { readonly name: string }) => name)).toEqual(
    expect.arrayContaining(["lib/src/testing", "apps/server", "apps/cli", "apps/studio", "tools"]),
  );
});
