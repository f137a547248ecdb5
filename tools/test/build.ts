// Bundles the code of the package before the tests run (`globalSetup` of vitest.config.ts): tests that start the command or a program as a process run
// the bundle, as users do, which starts much faster than its sources. Types are checked by `npm run check`.

import { execFileSync } from "node:child_process";
import { join } from "node:path";

const root = join(import.meta.dirname, "../..");

export function setup(): void {
  const command = [join(root, "node_modules/tsx/dist/cli.mjs"), join(root, "tools/package/build.ts"), "--code"];
  execFileSync(process.execPath, command, { cwd: root, stdio: "inherit" });
}
