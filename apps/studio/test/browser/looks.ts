// Every view in both themes and two widths: a screenshot of each, which people look at, and what a program can check:
// axe finds no serious violation, the page does not scroll sideways, and it does nothing that it must not do.

import type { Views } from "./views.ts";
import type { Theme } from "./watched-page.ts";
import type { AxeResults } from "axe-core";
import type { Browser, Page } from "playwright-core";

import { join } from "node:path";

import axe from "axe-core";

import { treeFaults } from "./accessibility-tree.ts";
import { eachView, prepareViews } from "./views.ts";
import { WatchedPage } from "./watched-page.ts";

const themes: readonly Theme[] = ["light", "dark"];
const widths = [1440, 390];

export async function checkLooks(browser: Browser, shots: string, only: string): Promise<readonly string[]> {
  const prepared = await prepareViews("looks");
  try {
    // The themes are checked at the same time: most of the time of a view is waiting.
    const faults = await Promise.all(themes.map(async (theme) => checkTheme(theme, prepared, browser, shots, only)));
    return faults.flat();
  } finally {
    await prepared.close();
  }
}

async function checkTheme(
  theme: Theme,
  prepared: Views,
  browser: Browser,
  shots: string,
  only: string,
): Promise<readonly string[]> {
  const faults: string[] = [];
  for (const width of widths) {
    const found = await eachView(
      prepared,
      (_, { url }) => WatchedPage.open(browser, url, { theme, width, reducedMotion: true }),
      async ({ name }, page) => {
        await page.screenshot({ path: join(shots, `${name}-${theme}-${width}.png`) });
        return [...(await axeViolations(page)), ...(await treeFaults(page)), ...(await sidewaysScroll(page))].map(
          (fault) => `${name}: ${fault}`,
        );
      },
      only,
    );
    console.log(`${theme}, ${width} px: ${found.length === 0 ? "no fault" : `${found.length} faults`}`);
    for (const fault of found) console.log(`       ${fault}`);
    faults.push(...found.map((fault) => `${theme}, ${width} px: ${fault}`));
  }
  return faults;
}

/** Serious and critical violations that axe finds. */
async function axeViolations(page: Page): Promise<readonly string[]> {
  await page.evaluate(axe.source);
  const { violations } = await page.evaluate<AxeResults>("axe.run(document, { resultTypes: ['violations'] })");
  return violations
    .filter(({ impact }) => impact === "serious" || impact === "critical")
    .map(({ id, help, nodes }) => {
      const places = nodes.slice(0, 4).map(({ target, any }) => `${target.join(" ")} (${any[0]?.message ?? ""})`);
      return `axe ${id}: ${help}; ${nodes.length} times: ${places.join("; ")}`;
    });
}

/** A document that is wider than the window. */
export async function sidewaysScroll(page: Page): Promise<readonly string[]> {
  const [whole = 0, window = 0] = await page.evaluate<readonly number[]>(
    "[document.documentElement.scrollWidth, document.documentElement.clientWidth]",
  );
  return whole > window ? [`the page is ${whole} px wide in a window of ${window} px`] : [];
}
