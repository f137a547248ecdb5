import { availableParallelism } from "node:os";

import { configDefaults, defineConfig } from "vitest/config";

// "source" makes `everturn` and its subpaths resolve to TypeScript. Only programs that tests start as processes run the
// built packages. Vite's condition "module" is left out: it names files for bundlers, and Node cannot load those of
// OpenTelemetry.
const conditions = ["source", "node", "development|production"];

/** `main` of these packages is CommonJS, which Vite cannot transform. */
const alias = [{ find: /^(@smithy\/(?:eventstream-codec|util-utf8))$/, replacement: "$1/dist-es/index.js" }];

/**
 * Test files that measure or change the whole process: its heap, its resident memory, its loaded modules, its timers.
 * Each gets a process of its own.
 */
const isolated = [
  "lib/src/core/clock/clock.test.ts",
  "lib/test/long-turns.test.ts",
  "lib/test/edge/module-load.test.ts",
  "lib/src/bridges/quickjs/quickjs.test.ts",
];

export default defineConfig({
  // The clients of tools/test/clients have a copy of React of their own.
  resolve: { conditions, alias, dedupe: ["react", "react-dom"] },
  ssr: { resolve: { conditions } },
  test: {
    // Far above what a test takes: on a busy machine some take ten times as long as on an idle one.
    testTimeout: 120_000,
    // Some hooks run the compiler over all sources, which takes seconds on an idle machine and more than the default of
    // 10 on a busy one.
    hookTimeout: 60_000,
    // The default of one second is too short on a busy machine.
    expect: { poll: { timeout: 60_000 } },
    // `npm run test:mutations` bundles the package itself, once for many runs.
    globalSetup: process.env["EVERTURN_TEST_SETUP"] === "none" ? [] : ["tools/test/build.ts"],
    env: { EVERTURN_BUILT_WORKER: "1" },
    // `npm run coverage`. Code that only processes of their own run (the command, workers, browsers) counts as not
    // covered.
    coverage: {
      provider: "v8",
      include: ["lib/src/**/*.{ts,tsx}", "apps/{cli,server}/src/**/*.ts"],
      exclude: ["**/*.test.ts", "**/*.types.ts"],
      reporter: ["text-summary", "json-summary"],
      reportOnFailure: true,
    },
    // More processes than cores, because many tests wait: for timeouts, for sockets, for processes that they start.
    maxWorkers: availableParallelism() * 2,
    // Test files share processes, and with them the modules that an earlier file has loaded. A process for each file,
    // which loads the library again, takes 0.6 s of CPU time more for each of 250 files. A test therefore restores what
    // it changes in the process (environment variables, timers, listeners) and closes what it opens.
    isolate: false,
    // These packages resolve their imports to TypeScript under the condition "source", or to modules without file
    // extensions under the condition "module". Node loads neither, so Vite transforms them.
    server: {
      deps: {
        inline: [
          /\/node_modules\/(?:ai|ai-6|@ai-sdk(?:-\d)?|@modelcontextprotocol|eventsource|eventsource-parser|@smithy)\//,
        ],
      },
    },
    projects: [
      {
        extends: true,
        test: {
          name: "all",
          include: ["lib/src/**/*.test.ts", "lib/test/**/*.test.ts", "apps/*/{src,test}/**/*.test.ts"],
          exclude: [...configDefaults.exclude, ...isolated],
        },
      },
      { extends: true, test: { name: "isolated", include: isolated, isolate: true } },
      {
        // The tests of the AI SDK's chat with version 6 of its client. The types are those of version 7.
        extends: true,
        resolve: { alias: [{ find: /^ai$/, replacement: "ai-6" }] },
        test: {
          name: "ai-sdk-6",
          // After the other projects: a process is shared by files of one project, and ends when the next file in the
          // queue is of another.
          sequence: { groupOrder: 1 },
          include: [
            "lib/src/serve/dialects/ai-sdk-chat/*.test.ts",
            "lib/src/serve/client/chat-transport.test.ts",
            "lib/src/bridges/ai-sdk/{tools,language-model}.test.ts",
          ],
          env: { AI_SDK_VERSION: "6", EVERTURN_BUILT_WORKER: "1" },
        },
      },
    ],
  },
});
