#!/usr/bin/env node
// `npm create everturn [folder]`: runs `everturn init` of the package everturn, which this one depends on.

import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { pathToFileURL } from "node:url";

const require = createRequire(import.meta.url);
const manifest = require.resolve("everturn/package.json");
process.argv.splice(2, 0, "init");
await import(pathToFileURL(join(dirname(manifest), require(manifest).bin.everturn)).href);
