// What the page of a session costs a reader and the server: requests and bytes of the first visit and of a minute in which
// nothing happens, the time of the first view, and the longest task of the main thread while the page is loaded. To
// compare two releases, each is measured over a database that it has written itself:
//
//   tsx --conditions=source apps/studio/test/browser/page-cost.ts [--program PATH/lib/bin/everturn.js] [--token file]
//
// Servers of November 16, 2026 and before know no `off` in place of a token: `--token file` sets none.
//
// It prints a row of a table. Bytes are those on the wire, compressed. Times depend on the machine: compare rows of one
// machine, of which the best of several rounds counts.

import type { Browser, CDPSession, Page } from "playwright-core";

import { parseArgs } from "node:util";

import { findChromium, startChromium } from "./chromium.ts";
import { longestOf } from "./performance.ts";
import { cleanUp, Server } from "./server.ts";
import { until, WatchedPage } from "./watched-page.ts";

const rounds = 5;
const sessions = 30;
/** The first seconds after a visit belong to the reader. */
const settleMs = 15_000;
const idleMs = 60_000;

/** Records when the first message was painted. */
const observer = `
  const messages = new MutationObserver(() => {
    if (document.querySelector("article.msg") === null) return;
    messages.disconnect();
    requestAnimationFrame(() => setTimeout(() => { window.firstMessage = performance.now(); }));
  });
  messages.observe(document, { childList: true, subtree: true });
`;

/** Requests and the bytes of their responses. */
type Traffic = { requests: number; bytes: number };

type Visit = { readonly traffic: Traffic; readonly firstMs: number; readonly taskMs: number };

const { values } = parseArgs({ options: { program: { type: "string" }, token: { type: "string", default: "off" } } });
const path = findChromium();
if (path === null) console.log("There is no Chromium, so nothing is measured.");
else {
  const browser = await startChromium(path);
  try {
    const { program, token } = values;
    const options = { database: "page-cost.db", token, ...(program === undefined ? {} : { program }) };
    const server = await Server.start(options);
    console.log(await measure(browser, server, await writeSessions(server)));
  } finally {
    await browser.close();
    await cleanUp();
  }
}

/** Writes sessions, the last of which has five tools. Returns its id. */
async function writeSessions(server: Server): Promise<string> {
  for (let index = 0; index < sessions; index += 1) await post(server, "sessions", { input: `Question ${index}` });
  const { sessionId = "" } = await post(server, "scenarios/parallel-tools", {});
  await until(
    "the turns have ended",
    async () => {
      const { items }: { readonly items: readonly { readonly turnStatus: string | null }[] } = JSON.parse(
        await (await fetch(`${server.url}/sessions?limit=100`)).text(),
      );
      return items.filter(({ turnStatus }) => turnStatus === null).length;
    },
    (ended) => ended === sessions + 1,
  );
  return sessionId;
}

async function post(server: Server, to: string, body: object): Promise<{ readonly sessionId?: string }> {
  const response = await fetch(`${server.url}/${to}`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  if (!response.ok) throw new Error(`POST /${to} answered ${response.status}`);
  const answer: { readonly sessionId?: string } = JSON.parse(await response.text());
  return answer;
}

async function measure(browser: Browser, server: Server, id: string): Promise<string> {
  const visits: Visit[] = [];
  for (let round = 0; round < rounds; round += 1) visits.push(await visit(browser, server, id));
  const idle = await idleMinute(browser, server, id);
  const least = (of: (visited: Visit) => number): string => Math.min(...visits.map(of)).toFixed(0);
  const [first] = visits;
  const cells = [
    `${first?.traffic.requests ?? 0}`,
    `${((first?.traffic.bytes ?? 0) / 1000).toFixed(0)} kB`,
    `${least(({ firstMs }) => firstMs)} ms`,
    `${least(({ taskMs }) => taskMs)} ms`,
    `${idle.requests}`,
    `${(idle.bytes / 1000).toFixed(1)} kB`,
  ];
  return [
    "| requests | bytes | first message | longest task | requests of an idle minute | bytes of an idle minute |",
    "| ---: | ---: | ---: | ---: | ---: | ---: |",
    `| ${cells.join(" | ")} |`,
  ].join("\n");
}

/** One visit of a browser that has seen nothing before. */
async function visit(browser: Browser, server: Server, id: string): Promise<Visit> {
  const watched = await WatchedPage.open(browser, server.url);
  const { page } = watched;
  await page.addInitScript(observer);
  const traffic = await count(page);
  await browser.startTracing(page, { categories: ["toplevel", "devtools.timeline"] });
  await open(page, server, id);
  const trace = await browser.stopTracing();
  const firstMs = Number(await page.evaluate("window.firstMessage"));
  const all = { ...traffic };
  await watched.close();
  return { traffic: all, firstMs, taskMs: longestOf(trace.toString("utf8")).ms };
}

async function idleMinute(browser: Browser, server: Server, id: string): Promise<Traffic> {
  const watched = await WatchedPage.open(browser, server.url);
  const { page } = watched;
  const traffic = await count(page);
  await open(page, server, id);
  await page.waitForTimeout(settleMs);
  const before = { ...traffic };
  await page.waitForTimeout(idleMs);
  const idle = { requests: traffic.requests - before.requests, bytes: traffic.bytes - before.bytes };
  await watched.close();
  return idle;
}

/** Opens the session and waits for the last bar of its turn. */
async function open(page: Page, server: Server, id: string): Promise<void> {
  await page.goto(server.studio(`s/${id}`));
  await page.locator("article.msg").first().waitFor();
  await page.locator(".timeline-pane [role='option']").last().waitFor();
  await page.waitForTimeout(1000);
}

/** Counts the requests of a page from now on, and the bytes of their responses as they are received. */
async function count(page: Page): Promise<Traffic> {
  const traffic: Traffic = { requests: 0, bytes: 0 };
  const cdp: CDPSession = await page.context().newCDPSession(page);
  await cdp.send("Network.enable");
  cdp.on("Network.requestWillBeSent", () => (traffic.requests += 1));
  cdp.on("Network.loadingFinished", ({ encodedDataLength }) => (traffic.bytes += encodedDataLength));
  return traffic;
}
