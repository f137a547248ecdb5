// What a flow is, how it runs, and the steps that flows share.

import type { ServerOptions } from "./server.ts";
import type { PageOptions } from "./watched-page.ts";
import type { Browser, Locator, Page } from "playwright-core";

import { join } from "node:path";

import { Server } from "./server.ts";
import { check, until, WatchedPage } from "./watched-page.ts";

export type Flow = { readonly name: string; readonly run: (tools: FlowTools) => Promise<void> };

/** Where the studio is served. */
type Address = Pick<Server, "url" | "studio">;

type FlowTools = {
  /** A server without authentication, which all flows share. */
  readonly server: Server;
  /** Starts another server, which is killed when the flow ends. */
  readonly start: (options: ServerOptions) => Promise<Server>;
  /** Opens a page of the studio in a browser context of its own. Its problems fail the flow. */
  readonly open: (path?: string, address?: Address, options?: PageOptions) => Promise<WatchedPage>;
  /** Runs `close` when the flow ends, after its pages were closed. */
  readonly atEnd: (close: () => Promise<void>) => void;
};

/** A server that does not answer, and what the browser logs about it. */
export const serverDown =
  /ERR_CONNECTION|ERR_INCOMPLETE_CHUNKED|ERR_NETWORK|ERR_EMPTY_RESPONSE|ERR_SOCKET|Failed to fetch/;
export const unauthorized = /\b401\b/;

/** Runs the flows whose name contains `only`. Returns the faults. */
export async function runFlows(
  flows: readonly Flow[],
  browser: Browser,
  shots: string,
  only: string,
): Promise<readonly string[]> {
  const faults: string[] = [];
  const chosen = flows.filter(({ name }) => name.includes(only));
  if (chosen.length === 0) return [];
  const server = await Server.start({ database: "flows.db" });
  for (const flow of chosen) faults.push(...(await runFlow(flow, server, browser, shots)));
  await server.kill();
  return faults;
}

async function runFlow(
  { name, run }: Flow,
  server: Server,
  browser: Browser,
  shots: string,
): Promise<readonly string[]> {
  const pages: WatchedPage[] = [];
  const closers: (() => Promise<void>)[] = [];
  const began = Date.now();
  const faults: string[] = [];
  try {
    await run({
      server,
      atEnd: (close) => void closers.push(close),
      start: async (options) => {
        const other = await Server.start(options);
        closers.push(async () => other.kill());
        return other;
      },
      open: async (path = "", address = server, options = {}) => {
        const watched = await WatchedPage.open(browser, address.url, options);
        pages.push(watched);
        await watched.page.goto(address.studio(path));
        return watched;
      },
    });
  } catch (error) {
    faults.push(error instanceof Error ? error.message : String(error));
    for (const [index, { page }] of pages.entries())
      await page
        .screenshot({ path: join(shots, `failed-${name.replaceAll(/\W+/g, "-")}-${index}.png`) })
        .catch(() => undefined);
  }
  for (const page of pages) faults.push(...(await page.close()));
  for (const close of closers.toReversed()) await close();
  console.log(`${faults.length === 0 ? "ok    " : "FAILED"} ${name} (${((Date.now() - began) / 1000).toFixed(1)} s)`);
  for (const fault of new Set(faults)) console.log(`       ${fault}`);
  return faults.map((fault) => `${name}: ${fault}`);
}

export const button = (page: Page | Locator, name: string | RegExp): Locator => page.getByRole("button", { name });
export const talk = (page: Page): Locator => page.getByRole("region", { name: "Conversation" });
export const composer = (page: Page): Locator => page.getByLabel("Message", { exact: true });
export const text = async (locator: Locator): Promise<string> => (await locator.innerText()).replaceAll(/\s+/g, " ");

/** Starts a scenario from the first page, as a newcomer does, and waits for its session. */
export async function startScenario(page: Page, title: string): Promise<string> {
  await page.locator("button.scenario", { hasText: title }).click();
  await page.waitForURL(/\/studio\/s\//);
  return sessionOf(page);
}

export function sessionOf(page: Page): string {
  return decodeURIComponent(new URL(page.url()).pathname.split("/").at(-1) ?? "");
}

/** Starts a session with a message from the first page. */
export async function startSession(page: Page, message: string): Promise<string> {
  await page.getByRole("main").getByRole("textbox").first().fill(message);
  await button(page, /^Start$/).click();
  await page.waitForURL(/\/studio\/s\//);
  return sessionOf(page);
}

export async function seeText(page: Page, part: string | RegExp, limitMs = 60_000): Promise<void> {
  const isIn = (whole: string): boolean => (typeof part === "string" ? whole.includes(part) : part.test(whole));
  await until(`the conversation shows ${String(part)}`, async () => text(talk(page)), isIn, limitMs);
}

/** Waits until no turn is open: there is nothing to stop. */
export async function seeEnd(page: Page): Promise<void> {
  await button(page, /^Stop$/).waitFor({ state: "detached", timeout: 60_000 });
}

/** Reads a resource of the server, as another client does. */
export async function read(server: Pick<Server, "url">, path: string): Promise<string> {
  const response = await fetch(`${server.url}/${path}`);
  check(response.ok, `GET /${path} answered ${response.status}`);
  return response.text();
}

export function occurrences(whole: string, part: string): number {
  return whole.split(part).length - 1;
}

/**
 * Whether two texts have the same words. Times may differ: a reload knows a duration that the live view did not show.
 */
export function sameWords(one: string, other: string): boolean {
  return wordsOf(one) === wordsOf(other);
}

function wordsOf(whole: string): string {
  return whole.replaceAll(/Thought for [\d.]+ (?:ms|s)|Reasoning|\W+/g, "");
}
