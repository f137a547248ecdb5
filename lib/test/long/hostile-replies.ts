// Attacks through replies of a provider, schemas of callers, tools that throw, deleted sessions and stored texts, on
// one process with a SQLite file. Reports for each attack the peak memory of the process, and the response times of
// another tenant meanwhile.
//
//   tsx --conditions=source lib/test/long/hostile-replies.ts
//
//   delays      a provider asks for a retry after 317 years
//   usage       replies without usage, or with a negative one, under a budget of tokens
//   calls       replies with 100,000 tool calls, and with 1,000 slow ones
//   schemas     schemas of `output` that are costly to validate, with answers of 5,000 parts
//   exceptions  tools and hooks that throw texts with secrets
//   deletion    sessions with a secret, which are deleted: no file of the database contains it
//   terminals   texts with escape sequences, shown by the command in every mode; modes of files, and symbolic links

import type { Adapter, FakeScript } from "everturn";

import { execFileSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { engine, fake, tool } from "everturn";
import { createHandler } from "everturn/http";
import { runtime } from "everturn/runtime";
import { sqliteStorage } from "everturn/sqlite";

import { allDialects } from "../dialects.ts";
import { sharedSessions } from "../shared-sessions.ts";

const limits = { p99Ms: 250, timesCalm: 20, growthMb: 800 };
const folder = mkdtempSync(join(tmpdir(), "everturn-hostile-"));
const path = join(folder, "sessions.db");
const secret = "s3cret-6f1d0b7e-of-a-tool";
const problems: string[] = [];
/** Attacks that miss the goal of p99. Their limit grows on a busy machine, so they are reported besides. */
const missed: string[] = [];

/** The reply to a user message that names it; a text follows tool results. */
const replies: { readonly [name: string]: FakeScript } = {
  hello: [{ type: "text", text: "Hello." }],
  delays: [{ type: "error", reason: "rate_limited", retryAfterMs: 1e13 }],
  absent: [{ type: "tool_call", name: "count" }],
  negative: [
    { type: "usage", usage: { inputTokens: -1e9, outputTokens: -1e9, totalTokens: -2e9, totalCost: -5 } },
    { type: "tool_call", name: "count" },
  ],
  many: Array.from({ length: 100_000 }, () => ({ type: "tool_call", name: "slow" }) as const),
  slow: Array.from({ length: 1000 }, () => ({ type: "tool_call", name: "slow" }) as const),
  schemas: [{ type: "text", text: JSON.stringify(Array.from({ length: 5000 }, () => "x")) }],
  exceptions: [{ type: "tool_call", name: "broken" }],
  secret: [{ type: "text", text: `${secret} `.repeat(10_000) }],
  terminals: [{ type: "text", text: "\u001B]0;title\u0007\u001B[2J\u009B31m\u202Egpj.exe\u2066\r\b\u{E0041}" }],
};

const adapter: Adapter = {
  provider: "fake",
  stream: (request, call) => {
    const last = request.messages.findLast(({ role }) => role === "user")?.content;
    const name = typeof last === "string" ? last : "";
    const isAnswered = request.messages.at(-1)?.role === "tool" && name !== "absent" && name !== "negative";
    const script = isAnswered ? [{ type: "text", text: "Done." } as const] : (replies[name] ?? replies["hello"]);
    return fake({ script: script ?? [] }).stream(request, call);
  },
};

let [running, mostRunning, counted] = [0, 0, 0];
const tools = [
  tool({
    name: "slow",
    description: "Takes some time.",
    schema: { type: "object" },
    handler: async () => {
      running += 1;
      mostRunning = Math.max(mostRunning, running);
      await new Promise((resolve) => setTimeout(resolve, 2));
      running -= 1;
      return 1;
    },
  }),
  tool({ name: "count", description: "Counts.", schema: { type: "object" }, handler: () => (counted += 1) }),
  tool({
    name: "broken",
    description: "Throws.",
    schema: { type: "object" },
    handler: () => Promise.reject(new Error(`connect ECONNREFUSED ${secret}`)),
  }),
];
const fields = { adapter, model: "fake:m", tools };
const host = sqliteStorage({ path });
const sessions = runtime({
  host,
  engines: {
    default: engine({
      ...fields,
      retry: { maxAttempts: 3, baseDelayMs: 10, maxDelayMs: 500 },
      options: { maxTurns: 50, budgets: { tokens: 1000 } },
    }),
    // A hook that throws.
    hooked: engine({ ...fields, options: { prepareStep: () => Promise.reject(new Error(`at ${secret}`)) } }),
  },
});
const tokens = { attacker: "the-token-of-the-attacker", innocent: "the-token-of-the-innocent" };
const handler = createHandler({
  sessions,
  ...sharedSessions,
  auth: Object.entries(tokens).map(([tenant, token]) => ({ tenant, token })),
  allow: ["output", "repair"],
  dialects: allDialects({ default: engine(fields) }),
});

async function ask(tenant: keyof typeof tokens, method: string, at: string, body?: object) {
  const headers = { authorization: `Bearer ${tokens[tenant]}`, "content-type": "application/json", prefer: "wait=20" };
  const init = { method, headers, ...(body === undefined ? {} : { body: JSON.stringify(body) }) };
  const response = await handler(new Request(`http://localhost${at}`, init));
  return { status: response.status, text: await response.text() };
}

const attack = (input: string, more: object = {}) => ask("attacker", "POST", "/sessions", { input, ...more });
const expectThat = (isTrue: boolean, problem: string) => void (isTrue || problems.push(problem));
/** Runs work `count` times, four at a time, as connections of one client would. */
async function repeated<T>(count: number, work: (index: number) => Promise<T>): Promise<T[]> {
  const results: T[] = [];
  const indexes = Array.from({ length: count }, (_, index) => index);
  const next = async () => {
    for (let index = indexes.shift(); index !== undefined; index = indexes.shift()) results.push(await work(index));
  };
  await Promise.all([next(), next(), next(), next()]);
  return results;
}

const items = (schema: object) => ({ type: "array", items: schema });
const hostileSchemas: readonly object[] = [
  items({ required: Array.from({ length: 3000 }, (_, n) => `name${n}`) }),
  items({ enum: Array.from({ length: 50_000 }, (_, n) => `name${n}`) }),
  items({ anyOf: Array.from({ length: 2400 }, (_, n) => ({ const: n })) }),
  items({ type: "string", pattern: "^(x+)+$" }),
  { contains: { anyOf: Array.from({ length: 50 }, () => ({ type: "number" })) } },
  { uniqueItems: true },
  { $defs: { a: { anyOf: [{ $ref: "#/$defs/a" }, { $ref: "#/$defs/a" }] } }, $ref: "#/$defs/a" },
  { minItems: 200_000_000, items: {} },
  // Accepted, and as costly as a schema may be.
  items({ anyOf: [...Array.from({ length: 55 }, () => ({ type: "number" })), { type: "string" }] }),
];

/**
 * Control characters that must not reach a terminal: C0 other than line ends, C1, bidirectional controls and invisible
 * tags.
 */
function isControl(character: string): boolean {
  const code = character.codePointAt(0) ?? 0;
  const isC0OrC1 = (code < 0x20 && character !== "\n") || (code >= 0x7f && code <= 0x9f);
  return isC0OrC1 || (code >= 0x202a && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069) || code === 0xe0041;
}

function command(...args: readonly string[]): string {
  const main = new URL("../../../apps/cli/src/main.ts", import.meta.url).pathname;
  const node = ["--import", "tsx", "--conditions=source", main, ...args];
  const env = { ...process.env, EVERTURN_DATABASE: path, FORCE_COLOR: "0", NO_COLOR: "1" };
  return execFileSync(process.execPath, node, { encoding: "utf8", env, cwd: new URL("../../..", import.meta.url) });
}

const attacks: { readonly [name: string]: () => Promise<void> } = {
  "no attack": () => new Promise((resolve) => setTimeout(resolve, 2000)),
  delays: async () => {
    const since = Date.now();
    for (const { text } of await repeated(16, () => attack("delays"))) expectThat(/"ended"/.test(text), "delays: open");
    expectThat(Date.now() - since < 20_000, "delays: a turn was delayed for longer than maxDelayMs");
  },
  usage: async () => {
    for (const input of ["absent", "negative"]) {
      counted = 0;
      await repeated(50, () => attack(input));
      expectThat(counted <= 50 * 2, `usage: ${counted} steps of 50 turns with ${input} usage under a budget`);
    }
  },
  calls: async () => {
    mostRunning = 0;
    for (const { text } of await repeated(3, () => attack("many")))
      expectThat(!/"completed"/.test(text), "calls: 100,000 calls");
    expectThat(mostRunning === 0, "calls: calls of a reply with 100,000 were run");
    await attack("slow");
    expectThat(mostRunning > 0 && mostRunning <= 16, `calls: ${mostRunning} calls ran at the same time`);
  },
  schemas: async () => {
    // Enough rounds for some dozen requests of the other tenant.
    const rounds = 40;
    const answers = await repeated(rounds * hostileSchemas.length, (n) =>
      attack("schemas", { options: { output: hostileSchemas[n % hostileSchemas.length], repair: 0 } }),
    );
    expectThat(
      answers.every(({ status }) => status < 500),
      "schemas: 5xx",
    );
    expectThat(
      answers.filter(({ status }) => status === 200).length === rounds,
      "schemas: a costly schema was accepted",
    );
  },
  exceptions: async () => {
    const texts = await repeated(50, async (n) => {
      const id = `e${n}`;
      const at = `/sessions/${id}`;
      const started = await attack("exceptions", { id, ...(n % 2 === 0 ? {} : { options: { engine: "hooked" } }) });
      const paths = [at, `${at}/messages`, `${at}/events?follow=false`, `/ui/chat/${id}`];
      const read = await Promise.all(paths.map((one) => ask("attacker", "GET", one)));
      return [started, ...read].map(({ text }) => text).join("\n");
    });
    const posted = { model: "default", messages: [{ role: "user", content: "exceptions" }] };
    texts.push((await ask("attacker", "POST", "/v1/chat/completions", posted)).text);
    expectThat(!texts.some((text) => text.includes(secret)), "exceptions: a caller reads the text of an exception");
  },
  deletion: async () => {
    await repeated(50, (n) => attack("secret", { id: `d${n}`, metadata: { secret } }));
    await repeated(50, (n) => ask("attacker", "DELETE", `/sessions/d${n}`));
    await repeated(50, (n) => ask("attacker", "DELETE", `/sessions/e${n}`));
    await sessions.sweep();
    const found = readdirSync(folder).filter((name) => readFileSync(join(folder, name)).includes(secret));
    expectThat(found.length === 0, `deletion: ${found.join(", ")} contain the text of a deleted session`);
  },
  terminals: async () => {
    const hostile = "\u001B[31m\u009B2J\u202Eid";
    await (
      await sessions.start("terminals", { id: hostile, metadata: { title: hostile } })
    ).result;
    for (const args of [["sessions"], ["sessions", "--json"], ["show", hostile], ["show", hostile, "--json"]]) {
      const text = command(...args);
      expectThat(
        text !== "" && ![...text].some(isControl),
        `terminals: ${args[0]} ${args.slice(2).join(" ")} prints a control character`,
      );
    }
    for (const name of readdirSync(folder))
      expectThat((statSync(join(folder, name)).mode & 0o077) === 0, `terminals: ${name} is readable by others`);
    const target = join(folder, "target");
    writeFileSync(target, "kept", { mode: 0o600 });
    symlinkSync(target, join(folder, "link.json"));
    try {
      command("show", hostile, "--export", join(folder, "link.json"));
    } catch {
      // Refused, or the command has no such option: the target is what matters.
    }
    expectThat(readFileSync(target, "utf8") === "kept", "terminals: a symbolic link was followed");
  },
};

const mb = (bytes: number) => Math.round(bytes / 1_000_000);
let calmP99 = 0;
await ask("innocent", "POST", "/sessions", { id: "own", input: "hello" });
console.log(
  `${"attack".padEnd(12)}${["time, ms", "RSS, MB", "peak, MB", "p50, ms", "p99, ms", "requests"].map((title) => title.padStart(10)).join("")}`,
);
for (const [name, work] of Object.entries(attacks)) {
  let measured = await underAttack(name, work);
  if (name === "no attack") calmP99 = measured.p99;
  // The commands of `terminals` are waited for without the event loop.
  const limit = name === "terminals" ? Infinity : Math.max(limits.p99Ms, limits.timesCalm * calmP99);
  // The slowest of some dozen requests: another process may have occupied the processors at that moment.
  if (measured.p99 > limit) {
    console.log(`${name}: p99 ${measured.p99.toFixed(0)} ms, limit ${limit.toFixed(0)} ms; measured once more`);
    measured = await underAttack(name, work);
  }
  if (measured.p99 > limits.p99Ms && name !== "terminals")
    missed.push(
      `goal missed: ${name}, p99 ${measured.p99.toFixed(0)} ms; limit ${limit.toFixed(0)} ms, without an attack ${calmP99.toFixed(0)} ms`,
    );
  expectThat(measured.p99 <= limit, `${name}: p99 of another tenant is ${measured.p99.toFixed(0)} ms, twice`);
}

/** Runs an attack while another tenant reads, and prints what was measured. */
async function underAttack(name: string, work: () => Promise<void>): Promise<{ readonly p99: number }> {
  globalThis.gc?.();
  const before = process.memoryUsage().rss;
  let peak = before;
  const sampling = setInterval(() => (peak = Math.max(peak, process.memoryUsage().rss)), 20);
  const times: number[] = [];
  const state = { isOver: false };
  const innocent = (async () => {
    while (!state.isOver) {
      const began = performance.now();
      const { status } = await ask("innocent", "GET", "/sessions/own");
      times.push(performance.now() - began);
      expectThat(status === 200, `${name}: another tenant got ${status}`);
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
  })();
  const began = performance.now();
  await work();
  const took = performance.now() - began;
  state.isOver = true;
  await innocent;
  clearInterval(sampling);
  const sorted = times.toSorted((left, right) => left - right);
  const at = (share: number) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0;
  expectThat(mb(peak - before) <= limits.growthMb, `${name}: the process grew by ${mb(peak - before)} MB`);
  const row = [took, mb(before), mb(peak), at(0.5), at(0.99), times.length];
  console.log(`${name.padEnd(12)}${row.map((value) => value.toFixed(0).padStart(10)).join("")}`);
  return { p99: at(0.99) };
}

await sessions.close({ graceMs: 1000 });
await host.close();
rmSync(folder, { recursive: true });
console.log(
  [`goal: p99 ${limits.p99Ms} ms on a machine that runs nothing else`, ...missed, ...new Set(problems)].join("\n"),
);
process.exit(problems.length === 0 ? 0 : 1);
