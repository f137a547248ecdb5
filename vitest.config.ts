import { defineConfig } from "vitest/config";

// "source" makes `everturn` and its subpaths resolve to TypeScript, so tests need no build.
const conditions = ["source", "module", "node", "development|production"];

export default defineConfig({
  resolve: { conditions },
  ssr: { resolve: { conditions } },
  test: {
    include: ["lib/src/**/*.test.ts", "lib/test/**/*.test.ts", "apps/*/{src,test}/**/*.test.ts"],
    testTimeout: 30_000,
    // All cores: by default one is left idle, which on a machine of two is half of it.
    maxWorkers: "100%",
    // What these find under "source" is TypeScript too, which Node does not load by itself.
    server: { deps: { inline: [/\/node_modules\/(?:ai|@ai-sdk|eventsource-parser)\//] } },
  },
});
