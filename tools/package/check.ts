// `npm run check:package`: packs the package and checks the tarball with publint, the compiler and the budgets.

import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { publint } from "publint";
import { formatMessage } from "publint/utils";

import { describe, isWithin, measure } from "./budgets.ts";
import { root } from "./entry-files.ts";
import { pack, unpack } from "./packed.ts";

const folder = mkdtempSync(join(tmpdir(), "everturn-package-"));
try {
  const tarball = await pack(folder);
  const packageFolder = await unpack(tarball, join(folder, "project"));
  const { messages, pkg } = await publint({ pkgDir: packageFolder, pack: false, strict: true });
  for (const message of messages) report(false, `publint: ${formatMessage(message, pkg) ?? message.code}`);
  if (messages.length === 0) report(true, "publint: no findings");
  compile();
  for (const measurement of await measure(tarball, join(folder, "project")))
    report(isWithin(measurement), describe(measurement));
} finally {
  rmSync(folder, { recursive: true, force: true });
}

/** Compiles the declaration files that the build has written. */
function compile(): void {
  const tsc = join(root, "node_modules/typescript/bin/tsc");
  execFileSync(process.execPath, [tsc, "-p", "tsconfig.package.json"], { cwd: root, stdio: "inherit" });
  report(true, "the declaration files compile with strict, without skipLibCheck");
}

function report(ok: boolean, text: string): void {
  console.log(`${ok ? "ok    " : "FAILS "}${text}`);
  if (!ok) process.exitCode = 1;
}
