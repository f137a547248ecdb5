import { defineConfig } from "vitest/config";

// "source" makes `everturn` and its subpaths resolve to TypeScript, so tests need no build.
const conditions = ["source", "module", "node", "development|production"];

export default defineConfig({
  resolve: { conditions },
  ssr: { resolve: { conditions } },
  test: {
    include: ["lib/src/**/*.test.ts", "lib/test/**/*.test.ts", "apps/*/{src,test}/**/*.test.ts"],
    testTimeout: 30_000,
    // All cores. The default leaves one idle, which is half of a machine with two.
    maxWorkers: "100%",
    // These packages resolve their imports to TypeScript under the condition "source". Node does not load TypeScript, so Vite transforms them.
    server: { deps: { inline: [/\/node_modules\/(?:ai|@ai-sdk|eventsource-parser)\//] } },
  },
});
