// As tools.config.ts, but one turn runs at a time.

import { defineConfig } from "everturn/config";

import { testEngines } from "./test-engines.ts";

export default defineConfig({
  engines: testEngines,
  runtime: { limits: { engines: { default: { concurrency: 1 } } } },
});
