// The filters of the list of sessions and the period of the overview are in the address: a reload and a second tab keep
// them, and the back button undoes them.

import type { Flow } from "../flow.ts";
import type { Locator, Page } from "playwright-core";

import { join } from "node:path";

import { button, talk } from "../flow.ts";
import { check, until } from "../watched-page.ts";

const config = join(import.meta.dirname, "../tools.config.ts");

const rows = (page: Page): Locator => page.getByRole("complementary", { name: "Sessions" }).locator(".list-row");

async function seeTitles(page: Page, titles: readonly string[]): Promise<void> {
  await until(
    `the list shows ${titles.join(", ")}`,
    async () => (await rows(page).locator(".title").allInnerTexts()).toSorted(),
    (shown) => JSON.stringify(shown) === JSON.stringify(titles.toSorted()),
  );
}

async function seeFilter(page: Page, find: string, status: string, changed: string): Promise<void> {
  const filter = page.getByRole("group", { name: "Filter" });
  check((await filter.getByLabel(/^Find sessions/).inputValue()) === find, "the text of the filter differs");
  check((await filter.getByLabel("Changed in the last").inputValue()) === changed, "the period of the filter differs");
  const pressed = await filter.locator("[aria-pressed='true']").innerText();
  check(pressed.startsWith(status), `the status of the filter is ${pressed}`);
}

export const filterFlows: readonly Flow[] = [
  {
    name: "filters of the list are in the address: reload, a second tab, the back button",
    run: async ({ open, start }) => {
      const server = await start({ database: "filters.db", config });
      for (const input of ["Use pay one", "Use pay two", "Use scan_badge", "Hello"]) {
        const answer = await fetch(`${server.url}/sessions`, {
          method: "POST",
          headers: { "content-type": "application/json" },
          body: JSON.stringify({ input, ...(input === "Use pay two" ? { options: { engine: "long" } } : {}) }),
        });
        check(answer.ok, `POST /sessions answered ${answer.status}`);
      }
      const { page } = await open("", server);
      const all = ["Use pay one", "Use pay two", "Use scan_badge", "Hello"];
      await seeTitles(page, all);
      const filter = page.getByRole("group", { name: "Filter" });
      await button(filter, /^Waiting/).click();
      await seeTitles(page, ["Use pay one", "Use pay two", "Use scan_badge"]);
      await filter.getByLabel(/^Find sessions/).pressSequentially("PAY");
      await seeTitles(page, ["Use pay one", "Use pay two"]);
      await filter.getByLabel("Changed in the last").selectOption("1h");
      await filter.getByLabel("Engine").selectOption("long");
      await seeTitles(page, ["Use pay two"]);

      // Opening a session keeps the list as it is.
      await rows(page).first().click();
      await button(talk(page), /^Approve$/).waitFor();
      await seeTitles(page, ["Use pay two"]);
      await page.reload();
      await button(talk(page), /^Approve$/).waitFor();
      await seeTitles(page, ["Use pay two"]);
      await seeFilter(page, "PAY", "Waiting", "1h");
      const other = await page.context().newPage();
      await other.goto(page.url());
      await seeTitles(other, ["Use pay two"]);
      await seeFilter(other, "PAY", "Waiting", "1h");
      await other.close();

      // The back button undoes one choice after the other; a typed text is one.
      await page.goBack();
      await seeTitles(page, ["Use pay two"]);
      await page.goBack();
      await seeTitles(page, ["Use pay one", "Use pay two"]);
      await page.goBack();
      await seeFilter(page, "PAY", "Waiting", "");
      await page.goBack();
      await seeTitles(page, all);

      // Nothing found: the list says so, and shows all again.
      await filter.getByLabel(/^Find sessions/).fill("no such session");
      await seeTitles(page, []);
      await button(page, "Clear the filter").click();
      await seeTitles(page, all);

      await page.goto(server.studio("overview"));
      await button(page, "7 days").click();
      await page.reload();
      await page.locator("[aria-pressed='true']", { hasText: "7 days" }).waitFor();
      await page.goBack();
      await page.locator("[aria-pressed='true']", { hasText: "24 hours" }).waitFor();
    },
  },
];
