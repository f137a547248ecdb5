// The library without Node: the package is built, bundled, and run in Chromium and in workerd, with scripted models and
// with a provider on the loopback. Prints the sizes of the bundles.
//
//   npm run test:edge
//
// It needs a Chromium (apt-get install chromium; EVERTURN_CHROMIUM names another one) and, the first time, a network to
// install miniflare from. EVERTURN_SKIP_BROWSER=1 and EVERTURN_SKIP_WORKERD=1 skip one of them. All files and processes
// are removed at the end, also after a failure.

import type { PageServer } from "./browser.ts";
import type { Provider } from "./provider.ts";
import type { SceneResults } from "./scenes.ts";
import type { RunningWorker } from "./workerd.ts";

import { execFile } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { isDeepStrictEqual, promisify } from "node:util";

import { openPage, visit } from "./browser.ts";
import { bundle, sizeOf } from "./bundle.ts";
import { expectedClient, expectedSandbox, expectedScenes, expectedVisits } from "./expected.ts";
import { openProvider, providerKey } from "./provider.ts";
import { chromium } from "./tools.ts";
import { visitWorker } from "./visitor.ts";
import { openWorker } from "./workerd.ts";

const here = import.meta.dirname;
const root = join(here, "../../..");
const token = "late-0123456789abcdef";
const earlyToken = "early-0123456789abcdef";
const longestMs = 180_000;

/** The bundles whose sizes are printed. */
const measured: { readonly [name: string]: string } = {
  "core and one adapter": `export { engine, openaiCompatible, stream, tool } from "everturn";`,
  "core and a scripted model": `export { engine, fake, stream, tool } from "everturn";`,
  "runtime in memory": `export { runtime } from "everturn/runtime"; export { memoryStorage } from "everturn/runtime";`,
  "http handler": `export { createHandler } from "everturn/http";`,
  client: `export * from "everturn/client";`,
};

const wrong: string[] = [];

function skips(name: string): boolean {
  return (process.env[name] ?? "") !== "";
}

function say(what: string, text: string): void {
  console.log(`${what.padEnd(28)} ${text}`);
}

async function timed<T>(what: string, work: () => Promise<T>): Promise<T> {
  const began = performance.now();
  const done = await work();
  say(what, `${((performance.now() - began) / 1000).toFixed(1)} s`);
  return done;
}

function compare(where: string, results: SceneResults, expected: SceneResults): void {
  for (const name of new Set([...Object.keys(expected), ...Object.keys(results)])) {
    if (isDeepStrictEqual(results[name], expected[name])) continue;
    const [is, has] = [results[name], expected[name]].map((one) =>
      typeof one === "string" ? one : JSON.stringify(one),
    );
    wrong.push(`${where}: ${name} is ${is}, and has to be ${has}`);
  }
}

/** Waits until the provider has seen that a client closed its stream. */
async function seen(provider: Provider, where: string, before: number): Promise<void> {
  for (const until = Date.now() + 5000; provider.left() === before && Date.now() < until;) {
    await new Promise<void>((resolve) => setTimeout(resolve, 20));
  }
  if (provider.left() === before) wrong.push(`${where}: the provider did not see that the stream was closed`);
}

async function playInWorkerd(where: string, worker: RunningWorker, provider: Provider): Promise<void> {
  const before = provider.left();
  const scenes = await fetch(`${worker.url}/scenes`);
  compare(where, JSON.parse(await scenes.text()), expectedScenes);
  await seen(provider, where, before);
  compare(where, await visitWorker(worker.url, token, earlyToken), expectedVisits);
}

async function playInBrowser(
  page: PageServer,
  browser: string,
  provider: Provider,
  expected: SceneResults,
): Promise<void> {
  const before = provider.left();
  compare("Chromium", await visit(page, browser, join(folder, "profile")), expected);
  await seen(provider, "Chromium", before);
}

async function main(): Promise<void> {
  // Checked first, because the rest takes time.
  const browser = skips("EVERTURN_SKIP_BROWSER") ? null : chromium();
  await timed("build", () => promisify(execFile)(process.execPath, build, { cwd: root }));
  for (const [name, source] of Object.entries(measured)) say(name, sizeOf(await bundle({ source })));
  const [pageFiles, workerFiles] = await Promise.all([
    bundle({ file: join(here, "page.ts") }),
    bundle({ source: `export { Keeper, worker as default } from ${JSON.stringify(join(here, "worker.ts"))};` }),
  ]);

  const provider = await openProvider();
  open.push(provider.close);
  const stage = { baseURL: provider.url, apiKey: providerKey };
  let workerUrl: string | null = null;
  const page = await openPage(() => ({ files: pageFiles, stage: { ...stage, worker: workerUrl, token } }));
  open.push(page.close);

  if (skips("EVERTURN_SKIP_WORKERD")) say("workerd", "skipped");
  else {
    // With `nodejs_compat`, and without it, which is the default.
    for (const flags of [["nodejs_compat"], []]) {
      const worker = await openWorker(workerFiles, { ...stage, pageOrigin: page.origin, token }, flags);
      open.push(worker.close);
      workerUrl = worker.url;
      const where = ["workerd", ...flags].join(", ");
      await timed(where, () => playInWorkerd(where, worker, provider));
    }
  }
  if (browser === null) say("Chromium", "skipped");
  else {
    const outside = workerUrl === null ? {} : { outside: expectedClient };
    const expected = { ...expectedScenes, inside: expectedClient, sandbox: expectedSandbox, ...outside };
    await timed("Chromium", () => playInBrowser(page, browser, provider, expected));
  }
}

const open: (() => Promise<void>)[] = [];
const build = [join(root, "node_modules/tsx/dist/cli.mjs"), join(root, "tools/package/build.ts"), "--code"];
// The folder holds everything that the browser and workerd write; it is deleted at the end.
const folder = mkdtempSync(join(tmpdir(), "everturn-edge-"));
process.env["TMPDIR"] = folder;
process.on("exit", () => rmSync(folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 }));
for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => process.exit(1));
setTimeout(() => {
  console.error(`it has taken more than ${longestMs} ms`);
  process.exit(1);
}, longestMs).unref();

try {
  await main();
} catch (error) {
  wrong.push(error instanceof Error ? messageOf(error) : String(error));
} finally {
  for (const close of open.toReversed()) await close();
}
for (const one of wrong) console.error(`WRONG: ${one}`);
process.exit(wrong.length === 0 ? 0 : 1);

/** The error with its causes; for a failed command, its output. */
function messageOf({ message, cause, ...more }: Error & { readonly stdout?: string }): string {
  const said = more.stdout ?? "";
  return [message, said, cause instanceof Error ? messageOf(cause) : ""].filter((text) => text !== "").join("\n");
}
