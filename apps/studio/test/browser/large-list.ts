// The list of 5,000 sessions: it is read in pages while the reader scrolls, filters find what is rare, news do not move
// what the reader looks at, and many sessions are deleted after a confirmation.

import type { Server } from "./server.ts";
import type { Browser, Page } from "playwright-core";

import { join } from "node:path";

import { check, until, WatchedPage } from "./watched-page.ts";

const list = ".list-scroll";

/** The number of sessions that are loaded: every row says how many there are. */
async function loadedCount(page: Page): Promise<number> {
  const count = await page.locator(".list-row").first().getAttribute("aria-setsize");
  return Number(count ?? 0);
}

async function post(server: Server, path: string, body: object): Promise<string> {
  const response = await fetch(`${server.url}/${path}`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  const answer = await response.text();
  check(response.ok, `POST /${path} answered ${response.status}: ${answer}`);
  return answer;
}

/** `total`: how many sessions the database has. Returns the faults. */
export async function checkLargeList(
  browser: Browser,
  server: Server,
  total: number,
  shots: string,
): Promise<readonly string[]> {
  const watched = await WatchedPage.open(browser, server.url);
  const { page } = watched;
  const faults: string[] = [];
  const began = Date.now();
  try {
    await page.goto(server.studio());
    await readToTheEnd(watched, total);
    await showNews(page, server);
    await filter(page, server);
    await deleteMany(page, server);
  } catch (error) {
    faults.push(error instanceof Error ? error.message : String(error));
    await page.screenshot({ path: join(shots, "failed-large-list.png") }).catch(() => undefined);
  }
  faults.push(...(await watched.close()));
  const result = faults.length === 0 ? "ok    " : "FAILED";
  console.log(
    `${result} the list of ${total} sessions: pages, news, filters, deletion (${((Date.now() - began) / 1000).toFixed(1)} s)`,
  );
  for (const fault of faults) console.log(`       ${fault}`);
  return faults.map((fault) => `the list of ${total} sessions: ${fault}`);
}

async function readToTheEnd({ page, requested }: WatchedPage, total: number): Promise<void> {
  await page.locator(".list-row").first().waitFor();
  check((await loadedCount(page)) <= 100, "the first view reads more than two pages");
  await until(
    "all sessions are loaded",
    async () => {
      await page.evaluate(`document.querySelector("${list}").scrollTop = 1e9`);
      return loadedCount(page);
    },
    (count) => count === total,
    300_000,
  );
  await page.locator(`.list-row[aria-posinset='${total}']`).waitFor();
  check((await page.locator(".list-row").count()) < 60, "rows that are not visible are in the document");
  const pages = requested.filter((url) => /\/sessions\?.*after=/.test(url));
  check(pages.length === new Set(pages).size, "a page of the list was read twice");
}

/** A session that changes while the reader is at the end of the list is offered, and does not move the rows. */
async function showNews(page: Page, server: Server): Promise<void> {
  const place = await page.evaluate<number>(`document.querySelector("${list}").scrollTop`);
  await post(server, "sessions", { input: "Please fail, rare failure" });
  const news = page.getByRole("button", { name: /session(?:s)? changed/ });
  await news.waitFor();
  const after = await page.evaluate<number>(`document.querySelector("${list}").scrollTop`);
  check(place === after, "news move the list");
  await news.click();
  await page.locator(".list-row", { hasText: "rare failure" }).waitFor();
}

async function filter(page: Page, server: Server): Promise<void> {
  await post(server, "scenarios/approval", {});
  const filters = page.getByRole("group", { name: "Filter" });
  const only = async (name: RegExp, title: RegExp): Promise<void> => {
    await filters.getByRole("button", { name }).click();
    await until(
      `${String(name)} shows one session`,
      async () => page.locator(".list-row").allInnerTexts(),
      (rows) => rows.length === 1 && title.test(rows[0] ?? ""),
    );
  };
  await only(/^Waiting/, /Order 1042/);
  await only(/^Failed/, /rare failure/);
  await filters.getByRole("button", { name: /^Parked/ }).click();
  await page.locator(".list-note").getByText("None").waitFor();
  await filters.getByRole("button", { name: /^All/ }).click();
  await page.locator(".list-row").nth(5).waitFor();
  // One of 5,000 sessions: pages with this filter may be empty and have further ones.
  await filters.getByLabel("Engine").selectOption("scenarios");
  await until(
    "the filter of the engine shows one session",
    async () => page.locator(".list-row").allInnerTexts(),
    (rows) => rows.length === 1 && /Order 1042/.test(rows[0] ?? ""),
  );
  await filters.getByLabel("Engine").selectOption("");
  await page.locator(".list-row").nth(5).waitFor();
}

async function deleteMany(page: Page, server: Server): Promise<void> {
  await page.getByRole("button", { name: "Select sessions" }).click();
  await page.getByRole("button", { name: "All loaded" }).click();
  const marked = Number(/(\d+) selected/.exec(await page.locator(".filters").innerText())?.[1] ?? 0);
  check(marked >= 50, `${marked} sessions are selected`);
  const ids = await page.locator(".list-row a").evaluateAll((links) => links.map((link) => link.getAttribute("href")));
  await page.getByRole("button", { name: "Delete…" }).click();
  const dialog = page.getByRole("dialog", { name: `Delete ${marked} sessions?` });
  await dialog.getByRole("button", { name: `Delete ${marked} sessions` }).click();
  await page.getByText(`${marked} sessions deleted`).waitFor({ timeout: 120_000 });
  for (const href of ids) {
    const id = (href ?? "").split("/").at(-1) ?? "";
    check((await fetch(`${server.url}/sessions/${id}`)).status === 404, `the session ${id} was not deleted`);
  }
  await page.locator(".list-row").first().waitFor();
}
