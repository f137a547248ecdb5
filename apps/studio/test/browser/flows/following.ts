// The conversation while text arrives: it follows its end, keeps the place of a reader who has scrolled away from it,
// loses nothing that is typed, and shows a message that steers a turn at once.

import type { Flow } from "../flow.ts";
import type { Locator, Page } from "playwright-core";

import { button, composer, seeEnd, seeText, startScenario, startSession, talk } from "../flow.ts";
import { check, until } from "../watched-page.ts";
import { testConfig } from "./waiting-calls.ts";

/** A reader at the end sees it to this many CSS pixels. */
const nearEnd = 2;

/** Scenarios of the first page, and a part of what each shows last. */
const scenarios = [
  ["Parallel tools", "The room Belém is free"],
  ["Approval", "Approve"],
  ["Long answer", "shows this with a real process that is killed."],
] as const;

/** 200 characters, as a person types them. */
const longText = "The quick brown fox jumps over the lazy dog. ".repeat(5).slice(0, 199) + ".";

export const followFlows: readonly Flow[] = [
  {
    name: "the conversation follows its end in every scenario",
    run: async ({ open }) => {
      for (const height of [900, 620]) {
        for (const [title, last] of scenarios) {
          const { page } = await open("", undefined, { height });
          await startScenario(page, title);
          await seeText(page, last);
          await followToEnd(page, `${title}, ${height} px high`);
          await page.close();
        }
      }
    },
  },
  {
    name: "a turn of 40 steps is followed to its end, also on a phone",
    run: async ({ open, start }) => {
      const server = await start({ database: "forty.db", config: testConfig });
      for (const size of [{}, { width: 390, height: 844 }]) {
        const { page } = await open("", server, size);
        await page.getByRole("main").getByLabel("Engine").selectOption("long");
        await startSession(page, "Please take 40 steps");
        await seeText(page, /All 40 steps are taken/);
        await followToEnd(page, JSON.stringify(size));
      }
    },
  },
  {
    name: "a reader who has scrolled up keeps the place while text arrives",
    run: async ({ open }) => {
      const { page } = await open("", undefined, { height: 600 });
      await startScenario(page, "Long answer");
      await seeText(page, "What a crash leaves behind");
      await talk(page).locator(".talk").hover();
      await page.mouse.wheel(0, -300);
      const heading = talk(page).getByText("The steps of a turn").first();
      const placeOf = async (): Promise<number> => Math.round((await heading.boundingBox())?.y ?? -1);
      const before = await until("the heading is in view", placeOf, (y) => y > 0);
      await seeEnd(page);
      check((await distanceToEnd(page)) > 100, "the page scrolled to the end");
      const after = await placeOf();
      check(Math.abs(after - before) <= nearEnd, `the text moved from ${before} to ${after} px`);
      await button(page, "To the end").click();
      await until("the end is shown", async () => distanceToEnd(page), isAtEnd);
    },
  },
  {
    name: "200 characters are typed into every field while text arrives",
    run: async ({ open, start }) => {
      const slow = await start({ database: "typing.db", paceMs: 60 });
      const { page } = await open("", slow);
      await typeInto(page.getByRole("main").getByRole("textbox").first(), "the first message");
      await page.getByRole("main").getByRole("textbox").first().fill("");
      await startScenario(page, "Long answer");
      await seeText(page, "The idea");
      await typeInto(composer(page), "the composer");
      const { page: waiting } = await open("", await start({ database: "typing-form.db", config: testConfig }));
      await startSession(waiting, "Use pay");
      await button(talk(waiting), /^Approve$/).waitFor();
      // Another turn streams on the same page of the server while the form is filled in.
      for (const label of ["to", "note"]) {
        await typeInto(
          talk(waiting)
            .getByLabel(new RegExp(`^${label}`))
            .first(),
          `the field ${label}`,
        );
      }
      await button(talk(waiting), /^Deny/).click();
      await typeInto(talk(waiting).getByRole("textbox", { name: /reason/i }), "the reason of a denial");
    },
  },
  {
    name: "what is typed while a message is sent is not lost, and a draft survives a visit elsewhere",
    run: async ({ open }) => {
      const { page } = await open();
      await startSession(page, "A first message");
      await seeEnd(page);
      const answers: (() => void)[] = [];
      const isAnswered = new Promise<void>((resolve) => void answers.push(resolve));
      await page.route("**/send", async (route) => {
        await isAnswered;
        await route.continue();
      });
      await composer(page).fill("The message that is sent");
      await composer(page).press("Enter");
      await composer(page).pressSequentially("Typed meanwhile");
      for (const answer of answers) answer();
      await seeText(page, "You said: The message that is sent");
      await seeEnd(page);
      check((await composer(page).inputValue()) === "Typed meanwhile", `left: ${await composer(page).inputValue()}`);
      await page.getByRole("link", { name: "Overview" }).click();
      await page.waitForURL(/overview/);
      await page.goBack();
      await composer(page).waitFor();
      check((await composer(page).inputValue()) === "Typed meanwhile", "the draft is lost after a visit elsewhere");
      await page.reload();
      await composer(page).waitFor();
      check((await composer(page).inputValue()) === "Typed meanwhile", "the draft is lost after a reload");
    },
  },
  {
    name: "a message that steers a turn is shown at once",
    run: async ({ open, start }) => {
      const server = await start({ database: "steered.db", config: testConfig });
      const { page } = await open("", server);
      await startSession(page, "Use hold");
      await seeText(page, "holding");
      await composer(page).fill("Steer to the left");
      await composer(page).press("Enter");
      await talk(page)
        .getByRole("article", { name: "Message that waits for the next step" })
        .waitFor({ timeout: 5000 });
      await seeText(page, /Steer to the left Sent\./);
      server.signal("let-go");
      await seeText(page, "I have read 2 messages");
      await seeEnd(page);
      check((await talk(page).getByText("Steer to the left").count()) === 1, "the message is shown twice");
    },
  },
];

/** Follows a turn to its end or its wait, and rejects if the end of the conversation is not in view then. */
async function followToEnd(page: Page, what: string): Promise<void> {
  await until(`${what}: the distance to the end`, async () => distanceToEnd(page), isAtEnd, 3000);
}

async function distanceToEnd(page: Page): Promise<number> {
  return page.locator(".talk").evaluate((element) => {
    const { scrollHeight, scrollTop, clientHeight } = element;
    return Math.round(scrollHeight - scrollTop - clientHeight);
  });
}

function isAtEnd(distance: number): boolean {
  return distance <= nearEnd;
}

async function typeInto(field: Locator, what: string): Promise<void> {
  await field.fill("");
  await field.pressSequentially(longText, { delay: 4 });
  const value = await field.inputValue();
  check(value === longText, `${what} has ${value.length} of ${longText.length} characters: ${value}`);
}
