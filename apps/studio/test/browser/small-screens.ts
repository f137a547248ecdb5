// Telephones and small tablets: no control, label or heading overlaps another, the navigation is whole, every control is
// high enough for a finger, the timeline leaves room for the conversation, and two fingers zoom it.

import type { View } from "./views.ts";
import type { Browser, CDPSession, Page } from "playwright-core";

import { sidewaysScroll } from "./looks.ts";
import { eachView, prepareViews } from "./views.ts";
import { check, until, WatchedPage } from "./watched-page.ts";

const widths = [360, 390, 420, 768];
const names = ["sessions", "approval", "parallel-tools", "waiting", "overview", "playground", "compare"];
/** The width at which every view is opened, and not only those of `names`. */
const everyViewWidth = 390;
/** The part of the height of the screen that the timeline may take below the width where panes are stacked. */
const timelineShare = 0.3;

/**
 * Controls that are lower than 44 px at the width of a telephone. Links in texts are exempt (WCAG 2.5.8), and so are the
 * bars of the timeline, whose rows are in a list, and controls that are inside of another one.
 */
const lowControls = `[...document.querySelectorAll("button, select, textarea, summary, [role='tab'], a.btn, nav a, input:not([type='checkbox'], [type='radio'], [type='file'])")]
  .filter((element) => element.checkVisibility({ visibilityProperty: true, opacityProperty: true }))
  .filter((element) => element.closest(".visually-hidden, .skip, .everturn-tl-plot, .md, [inert]") === null)
  .map((element) => [(element.getAttribute("aria-label") || element.textContent || element.className || element.tagName).trim().slice(0, 40), element.getBoundingClientRect().height])
  .filter(([, height]) => height > 0 && height < 43.9)
  .map(([text, height]) => text + " is " + Math.round(height) + " px high")`;

/** Controls, labels and headings that overlap on the screen, and parts of the navigation that are cut. */
export const overlaps = `(() => {
  const faults = [];
  const text = (element) => (element.getAttribute("aria-label") || element.textContent || element.tagName).trim().slice(0, 40);
  const shown = [];
  for (const element of document.querySelectorAll("button, label, summary, input, textarea, select, h1, h2")) {
    if (!element.checkVisibility({ visibilityProperty: true, opacityProperty: true })) continue;
    if (element.closest(".visually-hidden, .skip") !== null) continue;
    let { left, top, right, bottom } = element.getBoundingClientRect();
    // What is scrolled out of a container is not on the screen.
    for (let parent = element.parentElement; parent !== null; parent = parent.parentElement) {
      if (getComputedStyle(parent).overflow === "visible") continue;
      const frame = parent.getBoundingClientRect();
      [left, top] = [Math.max(left, frame.left), Math.max(top, frame.top)];
      [right, bottom] = [Math.min(right, frame.right), Math.min(bottom, frame.bottom)];
    }
    if (right - left > 2 && bottom - top > 2) shown.push({ element, left, top, right, bottom });
  }
  shown.forEach((one, index) => {
    for (const other of shown.slice(index + 1)) {
      if (one.element.contains(other.element) || other.element.contains(one.element)) continue;
      const width = Math.min(one.right, other.right) - Math.max(one.left, other.left);
      const height = Math.min(one.bottom, other.bottom) - Math.max(one.top, other.top);
      if (width > 2 && height > 2) faults.push(text(one.element) + " overlaps " + text(other.element));
    }
  });
  for (const link of document.querySelectorAll("nav.views a")) {
    const box = link.getBoundingClientRect();
    const frame = link.parentElement.getBoundingClientRect();
    if (box.right > Math.min(innerWidth, frame.right) + 0.5) faults.push("the navigation cuts " + text(link));
  }
  return faults;
})()`;

export async function checkSmallScreens(browser: Browser, _shots: string, only: string): Promise<readonly string[]> {
  const prepared = await prepareViews("small");
  const faults: string[] = [];
  try {
    for (const width of widths) {
      const found = await eachView(
        { ...prepared, views: prepared.views.filter(({ name }) => width === everyViewWidth || names.includes(name)) },
        (_, { url }) => WatchedPage.open(browser, url, { width, height: 780, reducedMotion: true }),
        async (view, page) => [
          ...(names.includes(view.name) ? await page.evaluate<readonly string[]>(overlaps) : []).map(
            (fault) => `${view.name}: ${fault}`,
          ),
          ...(await sidewaysScroll(page)),
          ...(width === everyViewWidth ? await page.evaluate<readonly string[]>(lowControls) : []).map(
            (fault) => `${view.name}: ${fault}`,
          ),
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
    `JSON.stringify([...document.querySelectorAll(".timeline-pane .everturn-tl-bar")].map(({ id, style }) => [id, style.transform, style.width]))`,
  );
}

/** Zooms the timeline with two fingers and pans it with one. Rejects if the bars do not move. */
async function zoomWithFingers(page: Page): Promise<void> {
  const box = await page.locator(".timeline-pane .everturn-tl-lanes").boundingBox();
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
