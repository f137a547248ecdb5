// The page under circumstances that readers have: a zoom of 200 %, two tabs of one browser, a slow network, and long texts
// in every field of every view while a reply streams.

import type { Flow } from "../flow.ts";
import type { Locator, Page } from "playwright-core";

import { button, composer, read, seeEnd, seeText, startScenario, startSession, talk } from "../flow.ts";
import { sidewaysScroll } from "../looks.ts";
import { overlaps } from "../small-screens.ts";
import { check, until } from "../watched-page.ts";

/** A window of 1,440 by 900 pixels at 200 %. */
const zoomed = { width: 720, height: 450 };

/** 200 characters, as a person types them. */
const longText = "The quick brown fox jumps over the lazy dog. ".repeat(5).slice(0, 199) + ".";

/** Fields that take any text. */
const textFields =
  "input[type='text']:visible, input[type='search']:visible, input:not([type]):visible, textarea:visible";

export const circumstanceFlows: readonly Flow[] = [
  {
    name: "200 % zoom: a session is started, followed, approved and inspected, and nothing is cut",
    run: async ({ open }) => {
      const { page } = await open("", undefined, zoomed);
      await page.locator("button.scenario").first().waitFor();
      await checkLayout(page, "the first page");
      await startScenario(page, "Approval");
      const approve = button(talk(page), /^Approve$/);
      await approve.waitFor();
      await checkLayout(page, "a call that waits");
      await seeReachable(approve, "the button Approve");
      await approve.click();
      await seeText(page, "The refund is paid: 189.00 EUR to the card.");
      await seeEnd(page);
      await composer(page).fill("Thank you");
      await seeReachable(composer(page), "the composer");
      const bar = page.locator(".timeline-pane [role='option']").first();
      await seeReachable(bar, "a bar of the timeline");
      await bar.click();
      await button(page, "Details").click();
      await page.locator(".insp-tabs").waitFor();
      // The inspector covers the other panes.
      const tooWide = await sidewaysScroll(page);
      check(tooWide.length === 0, `the inspector: ${tooWide.join(", ")}`);
      for (const view of ["overview", "waiting", "playground", "replay"]) {
        await page.goto(page.url().replace(/\/studio\/.*/, `/studio/${view}`));
        await page.locator("main h1, main .column, main input").first().waitFor();
        await checkLayout(page, view);
      }
    },
  },
  {
    name: "two tabs of one browser: both follow the turn, keep their own drafts, and decide once",
    run: async ({ open, server }) => {
      const { page: first } = await open();
      const id = await startScenario(first, "Approval");
      await button(talk(first), /^Approve$/).waitFor();
      const second = await first.context().newPage();
      await second.goto(server.studio(`s/${id}`));
      await button(talk(second), /^Approve$/).waitFor();
      await composer(first).fill("The draft of the first tab");
      await composer(second).fill("The draft of the second tab");
      // Both decide at the same time.
      await Promise.all(
        [first, second].map(async (page) => button(talk(page), /^Approve$/).evaluate((element) => element.click())),
      );
      for (const page of [first, second]) {
        await seeText(page, "The refund is paid: 189.00 EUR to the card.");
        await seeEnd(page);
      }
      const stored = await read(server, `sessions/${id}/messages`);
      check(stored.split("The refund is paid").length === 2, "the refund was paid twice");
      check(
        (await composer(first).inputValue()) === "The draft of the first tab",
        "the draft of the first tab is lost",
      );
      check(
        (await composer(second).inputValue()) === "The draft of the second tab",
        "the draft of the second tab is lost",
      );
      await composer(second).press("Enter");
      await seeText(first, "The draft of the second tab");
      await second.close();
    },
  },
  {
    name: "a slow network: the page says that it loads, a message is sent once, and the reply is followed",
    run: async ({ open, server }) => {
      const { page } = await open();
      const id = await startSession(page, "Sent over a fast network");
      await seeText(page, "You said: Sent over a fast network");
      await seeEnd(page);
      const cdp = await page.context().newCDPSession(page);
      await cdp.send("Network.enable");
      // As the preset "3G" of browsers: 2 s for a round trip, 50 kB a second.
      const slow = { offline: false, latency: 2000, downloadThroughput: 50_000, uploadThroughput: 50_000 };
      await cdp.send("Network.emulateNetworkConditions", slow);
      await page.goto(server.studio(`s/${id}`), { waitUntil: "commit" });
      await page.locator(".loading").first().waitFor({ timeout: 60_000 });
      await seeText(page, "You said: Sent over a fast network");
      await composer(page).fill("Sent over a slow network");
      await composer(page).press("Enter");
      // The message is shown before the server has it, and a second Enter does not send it again.
      await seeText(page, "Sent over a slow network", 1500);
      await composer(page).press("Enter");
      await seeText(page, "You said: Sent over a slow network");
      await seeEnd(page);
      await until(
        "the end is in view",
        async () =>
          page.locator(".talk").evaluate((talked) => talked.scrollHeight - talked.scrollTop - talked.clientHeight),
        (distance) => distance <= 2,
        5000,
      );
      const messages = await read(server, `sessions/${id}/messages`);
      check(messages.split("You said: Sent over a slow network").length === 2, "the message was answered twice");
    },
  },
  {
    name: "200 characters are typed into every text field of every view",
    run: async ({ open, start }) => {
      const server = await start({ database: "every-field.db", paceMs: 60 });
      const { page } = await open("", server);
      const id = await startScenario(page, "Approval");
      await button(talk(page), /^Approve$/).waitFor();
      const { page: streaming } = await open("", server);
      await startScenario(streaming, "Long answer");
      let fields = 0;
      for (const path of [
        "",
        `s/${id}`,
        "waiting",
        `waiting?session=${id}`,
        "overview",
        "playground",
        "audit",
        "replay",
      ]) {
        await page.goto(server.studio(path));
        await page.locator("main").waitFor();
        await page.waitForTimeout(500);
        fields += await typeIntoAll(page, path);
      }
      await page.goto(server.studio("overview"));
      await page.getByRole("heading", { name: "Overview" }).waitFor();
      await page.keyboard.press("Control+k");
      await page.getByRole("combobox").waitFor();
      fields += await typeIntoAll(page, "the palette");
      await page.keyboard.press("Escape");
      check(fields >= 8, `only ${fields} fields were found`);
      console.log(`       ${fields} fields`);
    },
  },
];

/** Nothing is wider than the window, and no control covers another one. */
async function checkLayout(page: Page, what: string): Promise<void> {
  const faults = [...(await sidewaysScroll(page)), ...(await page.evaluate<readonly string[]>(overlaps))];
  check(faults.length === 0, `${what}: ${faults.join(", ")}`);
}

/** Waits until an element that is scrolled into the window is the one that a pointer hits there. */
async function seeReachable(element: Locator, what: string): Promise<void> {
  await until(
    `${what} can be reached`,
    async (): Promise<boolean> => {
      await element.scrollIntoViewIfNeeded();
      return element.evaluate((target) => {
        const { left, top, width, height } = target.getBoundingClientRect();
        const hit = target.ownerDocument.elementFromPoint(left + Math.min(width / 2, 20), top + height / 2);
        return hit !== null && (target.contains(hit) || hit.contains(target));
      });
    },
    (isHit) => isHit,
    5000,
  );
}

/** Types a long text into each text field of the page. Returns their number. */
async function typeIntoAll(page: Page, where: string): Promise<number> {
  const count = await page.locator(textFields).count();
  for (let index = 0; index < count; index += 1) {
    const field = page.locator(textFields).nth(index);
    if (!(await field.isEditable())) continue;
    const label = (await field.getAttribute("aria-label")) ?? (await field.getAttribute("placeholder")) ?? `${index}`;
    await field.fill("");
    await field.pressSequentially(longText, { delay: 2 });
    const value = await field.inputValue();
    check(value === longText, `${where}, ${label}: ${value.length} of ${longText.length} characters: ${value}`);
    const focused: string | null = await field.evaluate((element) => {
      const { activeElement } = element.ownerDocument;
      return element === activeElement ? null : String(activeElement?.outerHTML).slice(0, 120);
    });
    check(focused === null, `${where}, ${label}: the focus is on ${focused}`);
    await field.fill("");
  }
  return count;
}
