#!/usr/bin/env node
// The command as it is installed: a name that is there before anything is built.

import { existsSync } from "node:fs";

const main = new URL("../dist/main.js", import.meta.url);
if (existsSync(main)) {
  await import(main.href);
} else {
  process.stderr.write("everturn is not built yet: run `npm run build` in the workspace.\n");
  process.exitCode = 1;
}
