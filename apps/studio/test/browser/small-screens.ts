// Telephones and small tablets: nothing covers a control or a label, the navigation is whole, the timeline leaves room for the conversation, and two fingers zoom it.

import type { View } from "./views.ts";
import type { Browser, CDPSession, Page } from "playwright-core";

import { sidewaysScroll } from "./looks.ts";
import { eachView, prepareViews } from "./views.ts";
import { check, until, WatchedPage } from "./watched-page.ts";

const widths = [360, 390, 420, 768];
const names = ["sessions", "approval", "parallel-tools", "waiting", "overview", "playground", "compare"];
/** The part of the height of the screen that the timeline may take below the width where panes are stacked. */
const timelineShare = 0.3;

/** Controls and labels whose middle is on the screen, but belongs to another element; and parts of the navigation that are cut. */
const covered = `(() => {
  const faults = [];
  const text = (element) => (element.textContent || element.getAttribute("aria-label") || element.tagName).trim().slice(0, 40);
  for (const element of document.querySelectorAll("button, label, summary, input, textarea, select, h1, h2, .tile, .chip")) {
    if (!element.checkVisibility({ visibilityProperty: true }) || element.closest(".visually-hidden, .skip") !== null) continue;
    const box = element.getBoundingClientRect();
    const [x, y] = [box.left + box.width / 2, box.top + box.height / 2];
    if (box.width < 2 || x < 0 || y < 0 || x >= innerWidth || y >= innerHeight) continue;
    const top = document.elementFromPoint(x, y);
    // What is scrolled out of its container is below another part of the page.
    const scroller = element.closest(".talk, .tl-body, .list-scroll, .dashboard, .scenarios, .filters");
    const frame = scroller === null ? null : scroller.getBoundingClientRect();
    if (frame !== null && (y < frame.top || y > frame.bottom || x < frame.left || x > frame.right)) continue;
    if (top !== null && top !== element && !element.contains(top) && !top.contains(element))
      faults.push(text(element) + " is covered by " + text(top));
  }
  for (const link of document.querySelectorAll("nav.views a")) {
    const box = link.getBoundingClientRect();
    const frame = link.parentElement.getBoundingClientRect();
    if (box.right > Math.min(innerWidth, frame.right) + 0.5) faults.push("the navigation cuts " + text(link));
  }
  return faults;
})()`;

export async function checkSmallScreens(browser: Browser, _shots: string, only: string): Promise<readonly string[]> {
  const prepared = await prepareViews();
  const views = prepared.views.filter(({ name }) => names.includes(name));
  const faults: string[] = [];
  try {
    for (const width of widths) {
      const found = await eachView(
        { ...prepared, views },
        (_, { url }) => WatchedPage.open(browser, url, { width, height: 780, reducedMotion: true }),
        async (view, page) => [
          ...(await page.evaluate<readonly string[]>(covered)).map((fault) => `${view.name}: ${fault}`),
          ...(await sidewaysScroll(page)),
          ...(await timelineFaults(view, page, width)),
        ],
        only,
      );
      console.log(`${width} px: ${found.length === 0 ? "no fault" : `${found.length} faults`}`);
      for (const fault of found) console.log(`       ${fault}`);
      faults.push(...found.map((fault) => `${width} px: ${fault}`));
    }
  } finally {
    await prepared.close();
  }
  return faults;
}

async function timelineFaults({ name }: View, page: Page, width: number): Promise<readonly string[]> {
  const pane = page.locator(".timeline-pane");
  // Not every view has one, and asking for its box would wait for it.
  const box = (await pane.count()) === 0 ? null : await pane.boundingBox();
  if (box === null) return [];
  const height = page.viewportSize()?.height ?? 0;
  const isHigh = width <= 760 && box.height > height * timelineShare;
  if (name === "parallel-tools") await zoomWithFingers(page);
  return isHigh ? [`${name}: the timeline is ${Math.round(box.height)} px high`] : [];
}

/** Where the bars are. */
async function bars(page: Page): Promise<string> {
  return page.evaluate<string>(
    `JSON.stringify([...document.querySelectorAll(".timeline-pane .tl-bar")].map(({ id, style }) => [id, style.transform, style.width]))`,
  );
}

/** Zooms the timeline with two fingers and pans it with one. Rejects if the bars do not move. */
async function zoomWithFingers(page: Page): Promise<void> {
  const box = await page.locator(".timeline-pane .tl-lanes").boundingBox();
  check(box !== null, "the timeline has no lanes");
  if (box === null) return;
  const cdp = await page.context().newCDPSession(page);
  await cdp.send("Emulation.setTouchEmulationEnabled", { enabled: true, maxTouchPoints: 2 });
  const middle = box.x + box.width / 2;
  const before = await bars(page);
  await drag(cdp, box.y + 20, [
    [middle - 20, middle - 90],
    [middle + 20, middle + 90],
  ]);
  const zoomed = await until(
    "two fingers zoom",
    async () => bars(page),
    (now) => now !== before,
    5000,
  );
  await drag(cdp, box.y + 20, [[middle + 60, middle - 60]]);
  await until(
    "one finger pans",
    async () => bars(page),
    (now) => now !== zoomed,
    5000,
  );
}

/** Moves fingers at a height from one place to another, in a few steps. */
async function drag(cdp: CDPSession, y: number, fingers: readonly (readonly [number, number])[]): Promise<void> {
  const steps = 6;
  const at = (share: number) => fingers.map(([from, to], id) => ({ x: from + (to - from) * share, y, id }));
  await cdp.send("Input.dispatchTouchEvent", { type: "touchStart", touchPoints: at(0) });
  for (let step = 1; step <= steps; step += 1)
    await cdp.send("Input.dispatchTouchEvent", { type: "touchMove", touchPoints: at(step / steps) });
  await cdp.send("Input.dispatchTouchEvent", { type: "touchEnd", touchPoints: [] });
}
