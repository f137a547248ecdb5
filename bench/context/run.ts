// `npm run bench:context`: tokens of a long conversation, of which the prompt cache has a part, with the context policy
// of Everturn, with the oldest messages cut off, and with the compaction of deepagents. All have the same script and the
// same provider on the loopback interface, whose window is 32,000 tokens. Writes `bench/LONG-CONVERSATIONS.md`.
//
// deepagents is installed with its own Node into a folder of the system's temporary folder.
//
//   --turns 200      of the conversation, the same for all
//   --no-install     the folder of the last run is used       --no-write   only prints

import type { Measured, Reported } from "./script.ts";

import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { cpSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { parseArgs } from "node:util";

import { converse } from "./everturn.ts";
import { cutAt, instructions, measured, scriptOf, startProvider, window } from "./script.ts";

const { values: options } = parseArgs({
  options: {
    turns: { type: "string", default: "200" },
    "no-install": { type: "boolean", default: false },
    "no-write": { type: "boolean", default: false },
  },
});

/** Versions that npm does not find by itself: the newest ones of some of these need others that do not exist. */
const versions = {
  "@langchain/core": "1.2.13",
  "@langchain/langgraph": "1.4.13",
  "@langchain/langgraph-checkpoint": "1.1.5",
  "@langchain/langgraph-sdk": "1.10.0",
  "@langchain/openai": "1.6.0",
  deepagents: "1.14.1",
  langchain: "1.5.14",
  langsmith: "0.9.0",
  node: "24.21.0",
  zod: "4.6.7",
};

type Contender = {
  readonly name: string;
  /** Whether the last message of a request asks for a summary. */
  readonly asksForSummary: (text: string) => boolean;
  readonly run: (baseURL: string) => Promise<Reported>;
};

const folder = join(tmpdir(), "everturn-bench-context");
const script = scriptOf(Number(options.turns));

const ofEverturn = (asked: string): boolean => asked.includes("replaced by a summary");
const ofPeer = (asked: string): boolean => asked.includes("You are a conversation summarizer");

const contenders: readonly Contender[] = [
  {
    name: "Everturn, `contextPolicy: { window: 32_000 }`",
    asksForSummary: ofEverturn,
    run: (baseURL) => converse(script, baseURL, { window }),
  },
  {
    name: `Everturn, keeping as much as deepagents: \`maxToolResult: ${cutAt}, keepRecent: ${window / 10}\``,
    asksForSummary: ofEverturn,
    run: (baseURL) => converse(script, baseURL, { window, maxToolResult: cutAt, keepRecent: window / 10 }),
  },
  {
    name: `the oldest messages cut off, results cut at ${cutAt.toLocaleString("en")} characters`,
    asksForSummary: () => false,
    run: (baseURL) => converse(script, baseURL, null),
  },
  { name: "deepagents, `createDeepAgent`", asksForSummary: ofPeer, run: (baseURL) => peer("whole", baseURL) },
  {
    name: `deepagents, only its summaries, results cut at ${cutAt.toLocaleString("en")} characters`,
    asksForSummary: ofPeer,
    run: (baseURL) => peer("middleware", baseURL),
  },
];

function install(): void {
  mkdirSync(folder, { recursive: true });
  writeFileSync(
    join(folder, "package.json"),
    JSON.stringify({ private: true, type: "module", dependencies: versions }),
  );
  const quiet = ["--no-audit", "--no-fund", "--no-package-lock", "--loglevel=error"];
  // The ranges of peer dependencies of these packages contradict each other.
  execFileSync("npm", ["install", "--legacy-peer-deps", ...quiet], { cwd: folder, stdio: "inherit" });
}

/** Runs the script with deepagents in a process of its own. */
async function peer(how: "whole" | "middleware", baseURL: string): Promise<Reported> {
  const program = join(folder, "deepagents.mjs");
  cpSync(join(import.meta.dirname, "deepagents.mjs"), program);
  const input = JSON.stringify({ script, baseURL, how, window, instructions, cutAt });
  const node = join(folder, "node_modules/node/bin/node");
  const env = { PATH: process.env["PATH"], LANGSMITH_TRACING: "false" };
  const child = spawn(node, [program, input], { env, stdio: ["ignore", "pipe", "inherit"] });
  const [output, [code]] = await Promise.all([text(child.stdout), once(child, "exit")]);
  if (code !== 0) throw new Error(`deepagents (${how}) ended with ${String(code)}`);
  const reported: Reported = JSON.parse(output.slice(output.lastIndexOf('{"failed"')));
  return reported;
}

function versionIn(path: string): string {
  const manifest: { readonly version: string } = JSON.parse(readFileSync(path, "utf8"));
  return manifest.version;
}

function installedVersions(): string {
  const own = versionIn(join(import.meta.dirname, "../../lib/package.json"));
  const others = Object.keys(versions).map(
    (name) => `${name} ${versionIn(join(folder, "node_modules", name, "package.json"))}`,
  );
  return [`everturn ${own}`, ...others].join(", ");
}

const thousands = (tokens: number): string => Math.round(tokens).toLocaleString("en");

function row({ name }: Contender, of: Measured): string {
  const uncached = of.input - of.cached;
  const cells = [
    name,
    thousands(of.input),
    thousands(of.cached),
    thousands(uncached),
    thousands(uncached / script.length),
    String(of.requests),
    String(of.summaries),
    String(of.refused),
    String(of.failed),
    `${of.kept} of ${of.facts}`,
    `${of.paidOnce} of ${of.payments}`,
    String(of.unpaired),
  ];
  return `| ${cells.join(" | ")} |`;
}

if (!options["no-install"]) install();
const rows: string[] = [];
for (const contender of contenders) {
  const provider = await startProvider(contender.asksForSummary);
  const result = measured(script, provider, await contender.run(provider.baseURL));
  await provider.close();
  rows.push(row(contender, result));
  console.error(`${contender.name}: ${JSON.stringify(result)}`);
}

const report = `# Results of \`npm run bench:context\`

${new Date().toISOString().slice(0, 10)}. One conversation of ${script.length} turns, the same for all. Each turn asks a question whose answer needs a tool; its result has 1,000 to 7,000 characters, in every twentieth turn 200,000. Every twenty-fifth turn is a payment that waits for an approval. The provider on the loopback interface answers from a script, has a window of 32,000 tokens, answers 400 above it, counts four bytes as a token, and finds the longest prefix of its last eight prompts in its cache. Its summaries repeat all facts that it can see: the code word of the first message, and the invoices that were paid.

Versions: ${installedVersions()}.

| | input tokens | cached | not cached | not cached, a turn | requests | summaries | refused (400) | failed turns | facts in the last request | paid once | requests with an unpaired call |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
${rows.join("\n")}

\`createDeepAgent\` has instructions and tools of its own (files, a list of tasks, subagents), which are part of each of its requests; it moves long results to files. The second line of deepagents has its middleware for summaries alone, with the instructions and tools of the script. Its model says that its window has 32,000 input tokens, and all other settings are its defaults: it summarizes at 85 % of that, and keeps 10 %.
`;
console.log(report);
if (!options["no-write"]) writeFileSync(new URL("../LONG-CONVERSATIONS.md", import.meta.url), report);
