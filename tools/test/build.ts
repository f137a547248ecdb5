// Prepares a test run (`globalSetup` of vitest.config.ts). It installs the client libraries that tests use. It bundles
// the code of the package: tests that start the command or a program as a process run the bundle, as users do, which
// starts much faster than its sources. `npm run check` checks the types.

import { execFileSync } from "node:child_process";
import { join } from "node:path";

import { installClients } from "./clients.ts";

const root = join(import.meta.dirname, "../..");

export function setup(): void {
  installClients();
  const command = [join(root, "node_modules/tsx/dist/cli.mjs"), join(root, "tools/package/build.ts"), "--code"];
  execFileSync(process.execPath, command, { cwd: root, stdio: "inherit" });
}
