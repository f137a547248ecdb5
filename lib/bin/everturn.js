#!/usr/bin/env node
// The command as it is installed. The file exists before the package is built, so that npm can link it. It uses nothing that an old Node lacks, so that an
// unsupported version is named in place of an error of the language or the library.

import { existsSync } from "node:fs";

const main = new URL("../dist/cli.js", import.meta.url);
const [major, minor] = process.versions.node.split(".").map(Number);
if (major < 20 || (major === 20 && minor < 19)) {
  fail(`everturn needs Node 20.19 or later; this is ${process.versions.node}.`);
} else if (existsSync(main)) {
  await import(main.href);
} else {
  fail("everturn is not built yet: run `npm run build` in the workspace.");
}

function fail(message) {
  process.stderr.write(`${message}\n`);
  process.exitCode = 1;
}
