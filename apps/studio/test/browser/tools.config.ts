// The configuration of test servers with the engines of test-engines.ts. A dead process loses its turns after three
// seconds.

import { defineConfig } from "everturn/config";

import { testEngines } from "./test-engines.ts";

export default defineConfig({ engines: testEngines, runtime: { lease: { ttlMs: 3000, renewMs: 1000 } } });
