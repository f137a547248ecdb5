// As tools.config.ts, but a turn whose process died is parked at once: no process may take it over.

import { defineConfig } from "everturn/config";

import { testEngines } from "./test-engines.ts";

export default defineConfig({
  engines: testEngines,
  runtime: { lease: { ttlMs: 3000, renewMs: 1000 }, maxTakeovers: 1 },
});
