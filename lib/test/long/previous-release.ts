// The package of the previous release, for tests in which two releases share a database. It is built from a recorded
// commit and kept in the temporary folder of the system.

import { execFile } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";

import { root } from "../../../tools/package/entry-files.ts";
import { pack } from "../../../tools/package/packed.ts";

const run = promisify(execFile);

/**
 * The commit of the previous release. Version 0.1.0 is not published yet: until then, the last commit that writes
 * another format than this release (`storedFormats`): 4. Change it with each release.
 */
export const previousCommit = "8ed3e129";

/** The path of its tarball; `null`: the history of this checkout does not contain the commit. */
export async function previousTarball(): Promise<string | null> {
  const kept = join(tmpdir(), `everturn-${previousCommit}.tgz`);
  if (existsSync(kept)) return kept;
  const isKnown = await run("git", ["cat-file", "-e", `${previousCommit}^{commit}`], { cwd: root }).then(
    () => true,
    () => false,
  );
  if (!isKnown) return null;
  const folder = mkdtempSync(join(tmpdir(), "everturn-previous-"));
  try {
    const [archive, sources] = [join(folder, "sources.tar"), join(folder, "sources")];
    mkdirSync(sources);
    await run("git", ["archive", "--output", archive, previousCommit], { cwd: root });
    await run("tar", ["-xf", archive, "-C", sources]);
    const install = (...more: readonly string[]) =>
      run("npm", ["ci", "--no-audit", "--no-fund", ...more], { cwd: sources, maxBuffer: 64 * 1_048_576 });
    await install("--offline").catch(() => install());
    const { path } = await pack(folder, join(sources, "lib"));
    renameSync(path, kept);
    return kept;
  } finally {
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  }
}
