// The tests in a browser say that they are skipped on a machine without Chromium, and do not fail.

import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";

import { expect, test } from "vitest";

test("skips the tests in a browser if there is no Chromium", async () => {
  const run = join(import.meta.dirname, "browser/run.ts");
  const { stdout } = await promisify(execFile)(process.execPath, ["--import", "tsx", "--conditions=source", run], {
    env: { PATH: import.meta.dirname, HOME: import.meta.dirname },
    cwd: import.meta.dirname,
  });
  expect(stdout).toContain("The tests of the studio were skipped: there is no Chromium");
});
