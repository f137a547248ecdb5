// Sessions that belong to others: forks, whose origin is stored and therefore known in every browser, and runs of the
// playground that were not kept, which the browser that started them remembers.

import type { Flow } from "../flow.ts";
import type { Server } from "../server.ts";
import type { Page } from "playwright-core";

import { button, composer, read, seeEnd, seeText, sessionOf, startSession, talk, text } from "../flow.ts";
import { check, until } from "../watched-page.ts";

export const forkFlows: readonly Flow[] = [
  {
    name: "another browser shows the origin of a fork, and offers it for a comparison",
    run: async ({ open }) => {
      const { page } = await open();
      const original = await startSession(page, "The original question");
      await seeText(page, "You said: The original question");
      await seeEnd(page);
      await talk(page).getByRole("article").nth(1).hover();
      await button(page, "Actions on message 2").click();
      await page.getByRole("menuitem", { name: "Fork from here" }).click();
      await page.waitForURL((url) => !url.pathname.includes(original));
      const fork = sessionOf(page);
      await composer(page).fill("A question to the fork");
      await composer(page).press("Enter");
      await seeText(page, "You said: A question to the fork");
      await seeEnd(page);
      const { page: other } = await open(`s/${encodeURIComponent(fork)}`);
      const origin = other.getByRole("link", { name: /^forked from .* at message 2$/ });
      await origin.click();
      await other.waitForURL((url) => url.pathname.includes(original) && url.searchParams.get("message") === "1");
      await other.locator("article.msg.assistant.sel").waitFor();
      // On a telephone the link is short, and has the same name.
      const { page: small } = await open(`s/${encodeURIComponent(fork)}`, undefined, { width: 390 });
      await small.getByRole("link", { name: /^forked from .* at message 2$/ }).waitFor();
      await small.close();
      const { page: third } = await open(`compare?left=${encodeURIComponent(fork)}`);
      const right = third.getByLabel("Right session");
      const related = right.locator("optgroup[label='Forks and their original'] option");
      await until(
        "the original is offered first",
        async () => related.evaluateAll((options) => options.map((option) => option.getAttribute("value") ?? "")),
        (values) => values.length === 1 && values[0] === original,
      );
      await right.selectOption(original);
      await until(
        "both sides are shown",
        async () => text(third.getByRole("main")),
        (whole) => whole.includes("the first 2 messages are the same") && whole.includes("A question to the fork"),
      );
    },
  },
  {
    name: "the playground lists earlier runs that were not kept, and deletes or keeps them",
    run: async ({ open, start }) => {
      const server = await start({ database: "earlier-runs.db" });
      const { page } = await open("playground", server);
      const [kept] = await runBoth(page, "A run that is kept");
      check(kept !== undefined, "there is no first column");
      if (kept !== undefined) await button(kept, /^Keep$/).click();
      await leaveAndReturn(page);
      await page.getByText("1 earlier run was not kept.").waitFor();
      await button(page, "Delete it").click();
      await page.getByText("earlier run was not kept").waitFor({ state: "detached" });
      check((await sessionCount(server)) === 1, "the run that was not kept is not deleted, or the other one is");
      await runBoth(page, "Runs that are kept later");
      await leaveAndReturn(page);
      await page.getByText("2 earlier runs were not kept.").waitFor();
      await button(page, "Keep them").click();
      await page.getByText("earlier runs were not kept").waitFor({ state: "detached" });
      await page.reload();
      await page.getByRole("region", { name: "column A" }).waitFor();
      check((await page.getByText("not kept").count()) === 0, "runs that were kept are listed again");
      check((await sessionCount(server)) === 3, "a run that was kept is deleted");
    },
  },
];

/** Runs a message in two columns, and waits for both ends. */
async function runBoth(page: Page, message: string) {
  await page.getByLabel("Message", { exact: true }).fill(message);
  await button(page, /Run 2 side by side/).click();
  const columns = ["column A", "column B"].map((name) => page.getByRole("region", { name }));
  for (const column of columns) {
    await until(
      "the column answers",
      async () => text(column),
      (whole) => whole.includes(`You said: ${message}`),
    );
    await button(column, /^Keep$/).waitFor();
  }
  return columns;
}

async function leaveAndReturn(page: Page): Promise<void> {
  await page.getByRole("link", { name: "Overview" }).click();
  await page.waitForURL(/\/studio\/overview/);
  await page.getByRole("link", { name: "Playground" }).click();
  await page.waitForURL(/\/studio\/playground/);
}

async function sessionCount(server: Server): Promise<number> {
  const list: { readonly items: readonly unknown[] } = JSON.parse(await read(server, "sessions"));
  return list.items.length;
}
