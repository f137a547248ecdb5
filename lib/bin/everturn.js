#!/usr/bin/env node
// The command as it is installed. The file exists before the package is built, so that npm can link it.

import { existsSync } from "node:fs";

const main = new URL("../dist/cli.js", import.meta.url);
if (existsSync(main)) {
  await import(main.href);
} else {
  process.stderr.write("everturn is not built yet: run `npm run build` in the workspace.\n");
  process.exitCode = 1;
}
