// What a newcomer sees: what Everturn is, buttons that a finger hits, and a session that is found by its id.

import type { Flow } from "../flow.ts";
import type { Page } from "playwright-core";

import { button, composer, seeEnd, seeText, startScenario, startSession, talk } from "../flow.ts";
import { check } from "../watched-page.ts";

/** The smallest height and width of a button on a phone, in CSS pixels. */
const fingerPx = 44;

export const firstStepFlows: readonly Flow[] = [
  {
    name: "the first page says what Everturn is",
    run: async ({ open }) => {
      const { page } = await open();
      await page.getByRole("main").getByText("Everturn runs LLM turns that survive crashes").waitFor();
    },
  },
  {
    name: "buttons are 44 px high on a phone",
    run: async ({ open }) => {
      const { page } = await open("", undefined, { width: 390, height: 844 });
      await page.locator("button.scenario").first().waitFor();
      await checkButtons(page);
      await startScenario(page, "Approval");
      await button(talk(page), /^Approve$/).waitFor();
      await checkButtons(page);
    },
  },
  {
    name: "search finds a session by a tool that it has called, by a tool that waits, and by its id",
    run: async ({ open, start }) => {
      const { page } = await open("", await start({ database: "by-tool.db" }));
      const id = await startScenario(page, "Approval");
      await button(talk(page), /^Approve$/).waitFor();
      for (const [text, group] of [
        ["find_order", "Messages"],
        ["issue_refund", "Sessions"],
        [id, "Sessions"],
      ] as const) {
        await page.keyboard.press("Control+k");
        await page.getByRole("combobox").fill(text);
        const found = page.locator(".palette-list > div", { hasText: group }).getByRole("option").first();
        await found.waitFor({ timeout: 5000 });
        await found.click();
        await page.waitForURL((url) => url.pathname.endsWith(`/s/${encodeURIComponent(id)}`));
      }
      const find = page.getByLabel(/^Find sessions/);
      for (const text of ["issue_refund", id]) {
        await find.fill(text);
        await page.locator(".list-row").first().waitFor();
        check((await page.locator(".list-row").count()) === 1, `the list does not find ${text}`);
      }
      await find.fill("no_such_tool");
      await page.locator(".list-row").waitFor({ state: "detached" });
    },
  },
  {
    name: "the palette finds a session that is not among the newest by its id",
    run: async ({ open, start }) => {
      const server = await start({ database: "by-id.db" });
      const { page } = await open("", server);
      const id = await startSession(page, "An old session");
      await seeText(page, "You said: An old session");
      await seeEnd(page);
      for (let index = 0; index < 100; index += 1) {
        const answer = await fetch(`${server.url}/sessions/${id}/fork`, {
          method: "POST",
          headers: { "content-type": "application/json" },
          body: JSON.stringify({ id: `copy-${index}` }),
        });
        check(answer.status === 201, `fork ${index} was answered with ${answer.status}`);
      }
      await page.goto(server.studio("overview"));
      await page.getByRole("heading", { name: "Overview" }).waitFor();
      await page.keyboard.press("Control+k");
      await page.getByRole("combobox").fill(id);
      await page.getByRole("option", { name: new RegExp(id) }).click();
      await page.waitForURL((url) => url.pathname.endsWith(encodeURIComponent(id)));
      await composer(page).waitFor();
    },
  },
];

async function checkButtons(page: Page): Promise<void> {
  const small = await page
    .locator(".btn:visible, .everturn-button:visible, .chip:visible, .icon-btn:visible, .select:visible")
    .evaluateAll(
      (elements, least) =>
        elements.flatMap((element) => {
          const { height } = element.getBoundingClientRect();
          return height > 0 && height < least
            ? [`${element.textContent || element.ariaLabel || ""}: ${height} px`]
            : [];
        }),
      fingerPx,
    );
  check(small.length === 0, `too small for a finger: ${small.join(", ")}`);
}
