// `npm run test:long`: the long tests, one part after another. A part that fails does not stop the others. At the end
// it prints the result and the time of each part, and the command that repeats those that failed.
//
//   npm run test:long                           all parts
//   npm run test:long -- studio simulator       or some of them
//   npm run test:long -- --list                 prints the parts

import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";

type Part = {
  /** What it tests. */
  readonly about: string;
  /** Commands in the order in which they run. Tools are found in `node_modules/.bin`. */
  readonly commands: readonly (readonly string[])[];
};

const source = ["tsx", "--conditions=source"];

const parts: { readonly [name: string]: Part } = {
  crashes: {
    about:
      "the crash matrices at every crash point of every storage: agents, models of the AI SDK, limits, spans, middleware",
    commands: [
      [
        "vitest",
        "run",
        "lib/src/durable/crash-matrix.test.ts",
        "lib/src/bridges/ai-sdk/crash-matrix.test.ts",
        "lib/src/durable/limits.test.ts",
        "lib/src/bridges/otel/instrument.test.ts",
        "lib/test/runtime/middleware-crashes.test.ts",
      ],
    ],
  },
  access: {
    about: "who may do what: every route with every key, and random requests; `npm test` tries a part of both",
    commands: [["vitest", "run", "lib/src/serve/http/access-matrix.test.ts", "lib/src/serve/http/access-fuzz.test.ts"]],
  },
  floors: {
    about: "the laws and the crash matrix in a copy without the floors `serve` and `bridges` and without the apps",
    commands: [[...source, "lib/test/long/lower-floors.ts"]],
  },
  conversation: {
    about: "a conversation of 2,000 turns with a context policy, against a provider with a window of 32,000 tokens",
    commands: [[...source, "lib/test/long/long-conversation.ts"]],
  },
  edge: { about: "the core in a browser and in workerd", commands: [["npm", "run", "test:edge"]] },
  types: { about: "the packed types with every supported TypeScript", commands: [["npm", "run", "test:types"]] },
  template: {
    about: "the project of `everturn init`: its page with hostile calls, and packed, installed and used in a browser",
    commands: [
      [...source, "apps/cli/test/long/template-page.ts"],
      [...source, "apps/cli/test/long/template.ts"],
    ],
  },
  ...Object.fromEntries(
    ["react", "hono", "next"].map((template) => [
      `template-${template}`,
      {
        about: `the project of \`everturn init --template ${template}\` in a browser, while its server is stopped or killed`,
        commands: [[...source, "apps/cli/test/long/template-pages.ts", template]],
      },
    ]),
  ),
  page: {
    about: "a page in React while its server is stopped or killed in the middle of a reply, in a browser",
    commands: [[...source, "apps/cli/test/long/chat-page.ts"]],
  },
  server: {
    about: "a thousand live streams, stalled readers, killed and stopped servers, and attacks by one tenant",
    commands: [[...source, "apps/server/test/long/run.ts"]],
  },
  sqlite: { about: "workers over one SQLite file, killed 200 times", commands: [[...source, "lib/test/long/run.ts"]] },
  postgres: {
    about: "workers over Postgres, killed while connections end, the server is killed, and a standby is promoted",
    commands: [
      [...source, "lib/test/long/run.ts", "200", "postgres", "4"],
      [...source, "lib/test/long/run.ts", "60", "postgres", "2"],
      [...source, "lib/test/long/run.ts", "40", "postgres", "2", "failover"],
    ],
  },
  storages: {
    about: "the tests of faults, which `npm test` runs in memory, on SQLite and on Postgres",
    commands: [[...source, "lib/test/long/storages.ts"]],
  },
  roll: {
    about:
      "a rolling upgrade: workers of the previous packed release and of this one on SQLite and on Postgres, killed meanwhile",
    commands: [
      [...source, "lib/test/long/roll.ts", "sqlite", "40"],
      [...source, "lib/test/long/roll.ts", "postgres", "40"],
    ],
  },
  hostile: {
    about: "fuzzed requests, hostile cells of code, and hostile replies of a provider",
    commands: [
      [...source, "lib/test/long/fuzz-http.ts", "12000"],
      [...source, "lib/test/long/hostile-cells.ts"],
      [...source, "lib/test/long/hostile-replies.ts"],
    ],
  },
  heap: {
    about: "a turn of 5,000 steps in a bounded heap",
    commands: [
      ["node", "--max-old-space-size=230", "--import", "tsx", "--conditions=source", "lib/test/long/long-turn.ts"],
    ],
  },
  simulator: {
    about: "seeds of the simulator on memory, SQLite and Postgres, and the mutations that it must find",
    commands: [[...source, "lib/test/simulator/run.ts"]],
  },
  mcp: {
    about: "every tool of the MCP reference server, and questions of MCP servers across killed processes",
    commands: [[...source, "lib/test/long/mcp.ts"]],
  },
  studio: { about: "the studio in a real Chromium", commands: [["npm", "run", "test:studio"]] },
  restate: { about: "turns that a real Restate server drives", commands: [["npm", "run", "test:restate"]] },
  recorded: { about: "the codecs, compared with recorded replies", commands: [["npm", "run", "test:recorded"]] },
};

const root = join(import.meta.dirname, "../..");
const env = {
  ...process.env,
  EVERTURN_CRASH_POINTS: "all",
  EVERTURN_ACCESS: "all",
  PATH: `${join(root, "node_modules/.bin")}:${process.env["PATH"] ?? ""}`,
};

/** Runs a command with the output of this process. Returns whether it succeeded. */
async function succeeds([program = "", ...args]: readonly string[]): Promise<boolean> {
  const child = spawn(program, args, { cwd: root, env, stdio: "inherit" });
  const end = (signal: NodeJS.Signals) => child.kill(signal);
  process.on("SIGINT", end).on("SIGTERM", end);
  const [code] = await once(child, "exit");
  process.off("SIGINT", end).off("SIGTERM", end);
  return code === 0;
}

async function run(part: Part): Promise<boolean> {
  for (const command of part.commands) if (!(await succeeds(command))) return false;
  return true;
}

async function runAll(selected: readonly (readonly [name: string, part: Part])[]): Promise<void> {
  const rows: { readonly name: string; readonly passed: boolean; readonly seconds: number }[] = [];
  for (const [name, part] of selected) {
    console.log(`\n== ${name}: ${part.about}\n`);
    const began = performance.now();
    const passed = await run(part);
    rows.push({ name, passed, seconds: Math.round((performance.now() - began) / 1000) });
  }
  console.log("\n== long tests\n");
  for (const { name, passed, seconds } of rows) {
    console.log(`${name.padEnd(16)}${passed ? "passed" : "FAILED"}${String(seconds).padStart(7)} s`);
  }
  const failed = rows.flatMap(({ name, passed }) => (passed ? [] : [name]));
  if (failed.length === 0) return;
  console.log(`\nAgain: npm run test:long -- ${failed.join(" ")}`);
  process.exitCode = 1;
}

const given = process.argv.slice(2);
const unknown = given.filter((name) => name !== "--list" && !(name in parts));
if (unknown.length > 0) {
  console.error(`There is no part ${unknown.join(", ")}. The parts are ${Object.keys(parts).join(", ")}.`);
  process.exitCode = 2;
} else if (given.includes("--list")) {
  for (const [name, { about }] of Object.entries(parts)) console.log(`${name.padEnd(16)}${about}`);
} else {
  await runAll(Object.entries(parts).filter(([name]) => given.length === 0 || given.includes(name)));
}
