// Edit and run again: a step of a session with another message, prompt, tool set, argument or result, in a fork, side
// by side with the original.

import type { Flow } from "../flow.ts";
import type { Page } from "playwright-core";

import { button, read, seeEnd, seeText, startSession, talk, text } from "../flow.ts";
import { check, until } from "../watched-page.ts";
import { testConfig } from "./waiting-calls.ts";

export const runAgainFlows: readonly Flow[] = [
  {
    name: "run again with another message, and see both sides",
    run: async ({ open }) => {
      const { page } = await open();
      const original = await startSession(page, "The first wording");
      await seeText(page, "You said: The first wording");
      await seeEnd(page);
      await chooseAction(page, 1, "Edit and run again…");
      const dialog = page.getByRole("dialog", { name: "Edit the message and run again" });
      await dialog.getByLabel("Message").fill("The second wording");
      await dialog.getByRole("button", { name: "Run again" }).click();
      await seeCompared(page, original, ["You said: The first wording", "You said: The second wording"]);
    },
  },
  {
    name: "run a tool again with other arguments, and with another result",
    run: async ({ open, start }) => {
      const server = await start({ database: "again.db", config: testConfig });
      const { page } = await open("", server);
      const original = await startSession(page, "Please take 2 steps");
      await seeText(page, "All 2 steps are taken");
      await seeEnd(page);
      await page
        .getByRole("region", { name: "Timeline" })
        .getByRole("option", { name: /take_step/ })
        .first()
        .click();
      await page.waitForURL(/effect=\d+/);
      const address = page.url();
      await button(page, "Edit and run again…").click();
      const dialog = page.getByRole("dialog", { name: "Run take_step again" });
      await dialog.getByLabel("Arguments, as JSON").fill("not JSON");
      check(
        await dialog.getByRole("button", { name: "Run the tool again" }).isDisabled(),
        "a text that is no JSON runs",
      );
      await dialog.getByLabel("Arguments, as JSON").fill('{ "step": 41 }');
      await dialog.getByRole("button", { name: "Run the tool again" }).click();
      await seeCompared(page, original, ["41 of many steps"]);
      await page.goto(address);
      await button(page, "Edit and run again…").click();
      await dialog.getByRole("button", { name: "Another result" }).click();
      await dialog.getByLabel("Result that the model reads").fill("a result of my own");
      await dialog.getByRole("button", { name: "Continue with this result" }).click();
      await seeCompared(page, original, ["a result of my own"]);
      check(!(await read(server, `sessions/${original}/messages`)).includes("of my own"), "the original was changed");
    },
  },
  {
    name: "run a step again without its tools and with another prompt",
    run: async ({ open, start }) => {
      const server = await start({ database: "again-prompt.db", config: testConfig });
      const { page } = await open("", server);
      const original = await startSession(page, "Hello");
      await seeText(page, "I have read 1 messages");
      await seeEnd(page);
      await chooseAction(page, 2, "Run this step again…");
      const dialog = page.getByRole("dialog", { name: "Run this step again" });
      await dialog.getByLabel("Instructions").fill("Answer like a pirate.");
      await dialog.getByLabel("hold").uncheck();
      await dialog.getByRole("button", { name: "Run again" }).click();
      // The scripted model answers the same.
      const fork = await seeCompared(page, original, ["the first 2 messages are the same"]);
      const turns: { readonly items: readonly { readonly turnId: string }[] } = JSON.parse(
        await read(server, `sessions/${fork}/turns`),
      );
      const request = await read(server, `sessions/${fork}/turns/${turns.items[0]?.turnId ?? ""}/effects/1/request`);
      check(request.includes("Answer like a pirate."), "the fork ran with the old prompt");
      check(request.includes("scan_badge") && !request.includes('"hold"'), "the fork ran with the old tools");
    },
  },
];

async function chooseAction(page: Page, message: number, action: string): Promise<void> {
  await talk(page)
    .getByRole("article")
    .nth(message - 1)
    .hover();
  await button(page, `Actions on message ${message}`).click();
  await page.getByRole("menuitem", { name: action }).click();
}

/** Waits until both sides are shown with these texts. Returns the id of the fork. */
async function seeCompared(page: Page, original: string, parts: readonly string[]): Promise<string> {
  await page.waitForURL(/\/studio\/compare/);
  const query = new URL(page.url()).searchParams;
  check(query.get("left") === original, "the original is not on the left");
  await until(
    `both sides show ${parts.join(", ")}`,
    async () => text(page.getByRole("main")),
    (whole) => parts.every((part) => whole.includes(part)),
  );
  return query.get("right") ?? "";
}
